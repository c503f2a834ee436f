"""Settings and curves: what one simulated or predicted number is a function of."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpolation_error import nonlinearity as nonlinearities
from interpolation_error.nonlinearity import Nonlinearity

ESTIMATORS = ("regression", "attention")
DIAGONALS = ("zero", "keep")
SWEPT = ("gamma", "dimension", "tokens", "snr")


@dataclass(frozen=True)
class UserFunction:
    """A nonlinearity that a configuration takes from a Python file.

    Parameters
    ----------
    file : str
        Path of the file, relative to the working directory.
    name : str
        The function's name in it.
    kinks : tuple of float
        Where the function or its derivative jumps.
    sha256 : str
        Digest of the file's bytes, so that an edited function is another one.
    """

    file: str
    name: str
    kinks: tuple[float, ...]
    sha256: str

    @classmethod
    def from_file(
        cls, file: str, name: str, kinks: tuple[float, ...] = ()
    ) -> UserFunction:
        """Return the function with the digest that its file has now.

        Raises
        ------
        ValueError
            If the file cannot be read.
        """
        try:
            digest = hashlib.sha256(Path(file).read_bytes()).hexdigest()
        except OSError as error:
            raise ValueError(f"{file}: cannot be read ({error.strerror})") from None
        return cls(file, name, tuple(float(kink) for kink in kinks), digest)

    def load(self) -> Nonlinearity:
        """Return the function, refusing a file that changed since it was named.

        Raises
        ------
        ValueError
            If the file is missing, has changed, or holds no such function.
        """
        if UserFunction.from_file(self.file, self.name, self.kinks) != self:
            raise ValueError(f"{self.file}: changed while the run went on; start again")
        return nonlinearities.from_file(self.file, self.name, self.kinks)


@dataclass(frozen=True)
class Direction:
    r"""A weight vector by its norm and its alignment with the signal.

    :math:`w = \|w\| (\cos\theta \, \mu/\|\mu\| + \sin\theta \, d)` with a unit
    vector :math:`d` orthogonal to :math:`\mu`.

    Parameters
    ----------
    norm : float
        :math:`\|w\| \ge 0`.
    alignment : float
        The cosine, from -1 to 1.
    """

    norm: float
    alignment: float

    def __post_init__(self) -> None:
        if not self.norm >= 0:
            raise ValueError(f"norm must not be negative, got {self.norm!r}")
        if not -1 <= self.alignment <= 1:
            raise ValueError(
                f"alignment is a cosine, from -1 to 1, got {self.alignment!r}"
            )


@dataclass(frozen=True)
class Weights:
    r"""The low-rank part of the attention weights, :math:`W = I + w_K w_Q^T`.

    Parameters
    ----------
    key : Direction
        :math:`w_K`.
    query : Direction or None
        :math:`w_Q`; None takes the very vector of the key.
    """

    key: Direction
    query: Direction | None = None


@dataclass(frozen=True)
class Setting:
    """One point: all that an interpolation error depends on but the draw.

    Parameters
    ----------
    estimator : {"regression", "attention"}
        What is probed, the tokens or the attention output.
    tokens, dimension : int
        Number of tokens n and embedding dimension p, both positive.
    snr : float
        Signal-to-noise ratio, the squared norm of the signal, not negative.
    gamma : float
        Ridge penalty, positive.
    nonlinearity : str or UserFunction, optional
        For attention: a registered name or a function of the user's.
    weights : Weights, optional
        For attention: the low-rank part, none if absent.
    diagonal : {"zero", "keep"}, optional
        For attention: what becomes of the diagonal of the attention matrix.

    Raises
    ------
    ValueError
        If a value is outside the ranges above, or attention lacks its function.

    Examples
    --------
    >>> Setting("regression", tokens=512, dimension=2048, snr=1.0, gamma=0.1).tokens
    512
    """

    estimator: str
    tokens: int
    dimension: int
    snr: float
    gamma: float
    nonlinearity: str | UserFunction | None = None
    weights: Weights | None = None
    diagonal: str = "zero"

    def __post_init__(self) -> None:
        if self.estimator not in ESTIMATORS:
            raise ValueError(
                f"estimator must be one of {', '.join(ESTIMATORS)}, "
                f"got {self.estimator!r}"
            )
        for name in ("tokens", "dimension"):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= 4):
                raise ValueError(f"{name} must be a whole number from 4, got {value!r}")
        if not 0 <= self.snr < float("inf"):
            raise ValueError(f"snr must not be negative, got {self.snr!r}")
        if not 0 < self.gamma < float("inf"):
            raise ValueError(f"gamma must be positive, got {self.gamma!r}")
        if self.diagonal not in DIAGONALS:
            raise ValueError(
                f"diagonal must be one of {', '.join(DIAGONALS)}, got {self.diagonal!r}"
            )
        if self.estimator == "regression":
            if self.nonlinearity is not None or self.weights is not None:
                raise ValueError("regression takes no nonlinearity and no weights")
        elif self.nonlinearity is None:
            raise ValueError(
                "attention needs a nonlinearity, one of "
                f"{', '.join(nonlinearities.names())} or one of your own"
            )
        elif isinstance(self.nonlinearity, str):
            nonlinearities.get(self.nonlinearity)

    def function(self) -> Nonlinearity:
        """Return the nonlinearity itself.

        Raises
        ------
        ValueError
            If the setting has none, or its file changed.
        """
        if self.nonlinearity is None:
            raise ValueError("regression has no nonlinearity")
        if isinstance(self.nonlinearity, UserFunction):
            return self.nonlinearity.load()
        return nonlinearities.get(self.nonlinearity)


@dataclass(frozen=True)
class Curve:
    """A setting with one swept parameter.

    Parameters
    ----------
    setting : Setting
        Holds everything but the swept parameter, of which it has the first value.
    parameter : {"gamma", "dimension", "tokens", "snr"}
        What is swept.
    values : tuple of float or int
        The values it takes, at least one.

    Examples
    --------
    >>> base = Setting("regression", tokens=64, dimension=16, snr=0.5, gamma=0.1)
    >>> curve = Curve(base, "snr", (0.5, 2.0))
    >>> [setting.snr for setting in curve]
    [0.5, 2.0]
    >>> Curve.from_spec(curve.spec()) == curve
    True
    """

    setting: Setting
    parameter: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.parameter not in SWEPT:
            raise ValueError(
                f"a curve sweeps one of {', '.join(SWEPT)}, got {self.parameter!r}"
            )
        if not self.values:
            raise ValueError(f"a curve needs at least one value of {self.parameter}")
        for _ in self:  # every setting checks itself
            pass

    def __iter__(self) -> Iterator[Setting]:
        """Yield the curve's settings in the order of its values."""
        for value in self.values:
            point: dict[str, Any] = {self.parameter: value}
            yield dataclasses.replace(self.setting, **point)

    def spec(self) -> dict[str, Any]:
        """Return the curve as plain JSON types, without the value that is swept."""
        spec = dataclasses.asdict(self.setting)
        del spec[self.parameter]
        if isinstance(self.setting.nonlinearity, UserFunction):
            spec["nonlinearity"]["kinks"] = list(self.setting.nonlinearity.kinks)
        if self.setting.estimator == "regression":
            for name in ("nonlinearity", "weights", "diagonal"):
                del spec[name]
        spec["sweep"] = {"parameter": self.parameter, "values": list(self.values)}
        return spec

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Curve:
        """Return the curve that :meth:`spec` wrote down."""
        plain = dict(spec)
        sweep = plain.pop("sweep")
        plain[sweep["parameter"]] = sweep["values"][0]
        if isinstance(plain.get("nonlinearity"), dict):
            function = dict(plain["nonlinearity"])
            function["kinks"] = tuple(function["kinks"])
            plain["nonlinearity"] = UserFunction(**function)
        if plain.get("weights") is not None:
            key, query = plain["weights"]["key"], plain["weights"]["query"]
            plain["weights"] = Weights(
                Direction(**key), None if query is None else Direction(**query)
            )
        return cls(Setting(**plain), sweep["parameter"], tuple(sweep["values"]))
