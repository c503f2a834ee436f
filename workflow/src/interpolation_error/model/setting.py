"""Settings: all that one simulated or predicted number depends on but the draw."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from math import inf, sqrt
from pathlib import Path
from typing import Any

from interpolation_error.model import nonlinearity as nonlinearities
from interpolation_error.model.nonlinearity import Nonlinearity

ESTIMATORS = ("regression", "attention", "softmax")
DIAGONALS = ("zero", "keep")
NOISE_LAWS = ("gaussian", "rademacher", "uniform", "student_t")
SIGNAL_NORM = "signal"
"""Stands for the norm of the signal where the norm of a weight vector is asked for."""


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
class HermiteMix:
    r"""A nonlinearity that mixes the linear with one higher Hermite polynomial.

    :math:`f = \sqrt s \, h_1 + \sqrt{1 - s} \, h_k`, so that :math:`\nu = 1` and
    :math:`a_1^2 / \nu = s`.

    Parameters
    ----------
    degree : int
        :math:`k`, from 2 to 6.
    linear_share : float
        :math:`s`, from 0 to 1.
    """

    degree: int
    linear_share: float

    def load(self) -> Nonlinearity:
        """Return the function.

        Raises
        ------
        ValueError
            If the degree or the share is out of range.
        """
        return nonlinearities.hermite_mix(self.degree, self.linear_share)


@dataclass(frozen=True)
class Direction:
    r"""A weight vector by its norm and its alignment with the signal.

    :math:`w = \|w\| (\cos\theta \, \mu/\|\mu\| + \sin\theta \, d)` with a unit
    vector :math:`d` orthogonal to :math:`\mu`.

    Parameters
    ----------
    norm : float or "signal"
        :math:`\|w\| \ge 0`, or the norm of the signal, whatever that is.
    alignment : float
        The cosine, from -1 to 1.
    """

    norm: float | str
    alignment: float

    def __post_init__(self) -> None:
        if self.norm != SIGNAL_NORM and not (
            isinstance(self.norm, (int, float)) and 0 <= self.norm < inf
        ):
            raise ValueError(
                f"norm must be a number from 0 or {SIGNAL_NORM!r}, got {self.norm!r}"
            )
        if not -1 <= self.alignment <= 1:
            raise ValueError(
                f"alignment is a cosine, from -1 to 1, got {self.alignment!r}"
            )

    def length(self, snr: float) -> float:
        r"""Return :math:`\|w\|` at a signal-to-noise ratio."""
        return sqrt(snr) if self.norm == SIGNAL_NORM else float(self.norm)


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

    def aligned(self, cosine: float) -> Weights:
        """Return the weights with key and query at another alignment."""
        query = self.query
        if query is not None:
            query = dataclasses.replace(query, alignment=cosine)
        return Weights(dataclasses.replace(self.key, alignment=cosine), query)


@dataclass(frozen=True)
class Heads:
    r"""Several attention heads whose outputs are stacked before one probe.

    Head h has :math:`w_K = w_Q` with the norm and alignment of the weights and an own
    direction orthogonal to the signal; the own directions of two heads have
    ``overlap`` as their cosine.

    Parameters
    ----------
    number : int
        How many, positive.
    overlap : float
        From 0, different directions, to 1, one direction for all.
    """

    number: int
    overlap: float = 0.0

    def __post_init__(self) -> None:
        if not (isinstance(self.number, int) and self.number >= 1):
            raise ValueError(
                f"number of heads must be a whole number from 1, got {self.number!r}"
            )
        if not 0 <= self.overlap <= 1:
            raise ValueError(f"overlap must be from 0 to 1, got {self.overlap!r}")


@dataclass(frozen=True)
class Noise:
    r"""The law of the noise, with zero mean and unit variance.

    Parameters
    ----------
    law : {"gaussian", "rademacher", "uniform", "student_t"}
        Of every entry.
    degrees_of_freedom : float, optional
        Of Student's t, more than 2 so that its variance is finite.
    correlation : float
        Of neighbouring dimensions, :math:`E z_i z_j = r^{|i - j|}`, from 0 to below 1.
    """

    law: str = "gaussian"
    degrees_of_freedom: float | None = None
    correlation: float = 0.0

    def __post_init__(self) -> None:
        if self.law not in NOISE_LAWS:
            raise ValueError(
                f"noise law must be one of {', '.join(NOISE_LAWS)}, got {self.law!r}"
            )
        if (self.law == "student_t") != (self.degrees_of_freedom is not None):
            raise ValueError(
                "degrees_of_freedom belongs to the noise law student_t, and only to it"
            )
        if self.degrees_of_freedom is not None and not self.degrees_of_freedom > 2:
            raise ValueError(
                "degrees_of_freedom must be more than 2 for a finite variance, "
                f"got {self.degrees_of_freedom!r}"
            )
        if not 0 <= self.correlation < 1:
            raise ValueError(
                f"correlation must be from 0 to below 1, got {self.correlation!r}"
            )


@dataclass(frozen=True)
class Labels:
    """How tokens are labelled.

    Parameters
    ----------
    positive_share : float
        Share of the label +1, spread evenly, between 0 and 1.
    random : bool
        Whether each label is drawn by itself instead.
    """

    positive_share: float = 0.5
    random: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.positive_share < 1:
            raise ValueError(
                "positive_share must be between 0 and 1, both excluded, "
                f"got {self.positive_share!r}"
            )


@dataclass(frozen=True)
class TokensFile:
    """Tokens and labels of the user's own instead of drawn ones.

    Parameters
    ----------
    file : str
        A ``.npy`` or ``.h5`` file of tokens.
    tokens : str or None
        Name of the tokens in an HDF5 file, of shape (dimension, tokens).
    labels : str
        Name of the labels in the same HDF5 file, or a ``.npy`` file of labels; two
        values.
    standardize : {"none", "centre", "scale"}
        Whether every dimension is centred, and also scaled to unit variance within
        the classes.
    sha256 : str
        Digest of the bytes of the files, so that changed data is other data.
    """

    file: str
    tokens: str | None
    labels: str
    standardize: str
    sha256: str


@dataclass(frozen=True)
class Setting:
    """One point: all that an interpolation error depends on but the draw.

    Parameters
    ----------
    estimator : {"regression", "attention", "softmax"}
        What is probed: the tokens, or the output of attention with entries
        transformed one by one or normalized by a softmax over keys.
    tokens, dimension : int
        Number of tokens n and embedding dimension p, both at least 4.
    snr : float
        Signal-to-noise ratio, the squared norm of the signal, not negative.
    gamma : float
        Ridge penalty, positive.
    nonlinearity : str, UserFunction or HermiteMix, optional
        For attention: a registered name, a function of the user's, or a mix.
    weights : Weights, optional
        For attention and softmax: the low-rank part, none if absent.
    diagonal : {"zero", "keep"}, optional
        What becomes of the diagonal of the attention matrix; for softmax, "zero" masks
        it before normalizing.
    centred : bool, optional
        Whether the mean of the nonlinearity is subtracted, as the model has it.
    temperature : float, optional
        What scores are divided by, positive.
    heads : Heads, optional
        How many heads are stacked.
    noise : Noise, optional
        Law of the noise.
    labels : Labels, optional
        How tokens are labelled.
    data : TokensFile, optional
        The user's own tokens; then ``tokens`` are taken from it at random, and
        ``dimension`` and ``snr`` are as measured.

    Raises
    ------
    ValueError
        If a value is outside the ranges above, or belongs to another estimator.

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
    nonlinearity: str | UserFunction | HermiteMix | None = None
    weights: Weights | None = None
    diagonal: str = "zero"
    centred: bool = True
    temperature: float = 1.0
    heads: Heads = Heads(1)
    noise: Noise = Noise()
    labels: Labels = Labels()
    data: TokensFile | None = None

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
        if not 0 <= self.snr < inf:
            raise ValueError(f"snr must not be negative, got {self.snr!r}")
        for name in ("gamma", "temperature"):
            value = getattr(self, name)
            if not 0 < value < inf:
                raise ValueError(f"{name} must be positive, got {value!r}")
        if self.diagonal not in DIAGONALS:
            raise ValueError(
                f"diagonal must be one of {', '.join(DIAGONALS)}, got {self.diagonal!r}"
            )
        self._check_estimator()

    def _check_estimator(self) -> None:
        """Refuse what does not belong to the estimator."""
        if self.estimator == "regression":
            # Of attention alone; at their defaults they are not there.
            for name in ("weights", "heads", "temperature", "centred"):
                if getattr(self, name) != _DEFAULTS[name]:
                    raise ValueError(f"regression takes no {name}")
        if self.estimator != "attention":
            if self.nonlinearity is not None:
                raise ValueError(f"{self.estimator} takes no nonlinearity")
        elif self.nonlinearity is None:
            raise ValueError(
                "attention needs a nonlinearity, one of "
                f"{', '.join(nonlinearities.names())} or one of your own"
            )
        elif isinstance(self.nonlinearity, str):
            nonlinearities.get(self.nonlinearity)
        elif isinstance(self.nonlinearity, HermiteMix):
            self.nonlinearity.load()
        if self.heads.number > 1:
            if self.weights is None or self.weights.query is not None:
                raise ValueError("several heads need weights with one norm, alignment")
            if self.estimator == "softmax":
                raise ValueError("several heads are of entry-wise attention only")

    def function(self) -> Nonlinearity:
        """Return the nonlinearity of a score, temperature included.

        For softmax it is the exponential, whose entry-wise form it normalizes.

        Raises
        ------
        ValueError
            If the setting has none, or its file changed.
        """
        if self.estimator == "softmax":
            plain = nonlinearities.get("exp")
        elif self.nonlinearity is None:
            raise ValueError("regression has no nonlinearity")
        elif isinstance(self.nonlinearity, str):
            plain = nonlinearities.get(self.nonlinearity)
        else:
            plain = self.nonlinearity.load()
        if self.temperature == 1:
            return plain
        return nonlinearities.rescaled(plain, 1 / self.temperature)

    def spec(self) -> dict[str, Any]:
        """Return the setting as plain JSON types; what has its default is left out."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != field.default
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Setting:
        """Return the setting that :meth:`spec` wrote down."""
        plain = dict(spec)
        function = plain.get("nonlinearity")
        if isinstance(function, dict):
            if "degree" in function:
                plain["nonlinearity"] = HermiteMix(**function)
            else:
                kinks = tuple(function["kinks"])
                plain["nonlinearity"] = UserFunction(**{**function, "kinks": kinks})
        if "weights" in plain:
            key, query = plain["weights"]["key"], plain["weights"]["query"]
            plain["weights"] = Weights(
                Direction(**key), None if query is None else Direction(**query)
            )
        nested = {"heads": Heads, "noise": Noise, "labels": Labels, "data": TokensFile}
        for name, kind in nested.items():
            if name in plain:
                plain[name] = kind(**plain[name])
        return cls(**plain)


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Setting)}


def _plain(value: Any) -> Any:
    if not dataclasses.is_dataclass(value):
        return value
    content = dataclasses.asdict(value)  # type: ignore[arg-type]
    return {k: list(v) if isinstance(v, tuple) else v for k, v in content.items()}
