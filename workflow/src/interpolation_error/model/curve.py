"""Curves: a setting with one swept parameter, or with two."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from interpolation_error.model.setting import HermiteMix, Setting

FIELDS = ("gamma", "dimension", "tokens", "snr")
"""Swept parameters that are fields of every setting."""
SWEPT = (
    *FIELDS,
    "temperature",
    "alignment",
    "linear_share",
    "size",
    "aspect_ratio",
    "heads",
    "eigenvalue",
)
WHOLE = ("tokens", "dimension", "size", "heads")
"""Swept parameters that are whole numbers."""
MEASURES = ("error", "trace", "spectrum", "linearization")
"""What is simulated at every point of a curve."""


@dataclass(frozen=True)
class Curve:
    r"""A setting with one swept parameter, or a grid over two.

    Parameters
    ----------
    setting : Setting
        Holds everything but the swept parameters, whose value in it does not count.
    parameter : str
        What is swept: a field of the setting (gamma, dimension, tokens, snr);
        ``temperature``; ``alignment``, the cosine between the weights and the signal;
        ``linear_share``, :math:`a_1^2/\nu` of a Hermite mix; ``size``, the embedding
        dimension at the setting's p/n; ``aspect_ratio``, p/n at the setting's np;
        ``heads``, their number; or ``eigenvalue``, the axis of a spectrum, of which
        zero stands for the atom there. What a setting lacks, such as the alignment of
        regression, does not change it.
    values : tuple of float or int
        The values it takes, at least one.
    row_parameter : str, optional
        A second swept parameter.
    rows : tuple of float or int, optional
        The values that takes; the curve is repeated for each.
    measure : {"error", "trace", "spectrum", "linearization"}
        What is measured.

    Raises
    ------
    ValueError
        If a parameter is unknown or has no values, or a point is no valid setting.

    Examples
    --------
    >>> base = Setting("regression", tokens=64, dimension=16, snr=0.5, gamma=0.1)
    >>> curve = Curve(base, "snr", (0.5, 2.0), "gamma", (0.1, 1.0))
    >>> [(setting.gamma, setting.snr) for setting in curve]
    [(0.1, 0.5), (0.1, 2.0), (1.0, 0.5), (1.0, 2.0)]
    >>> Curve.from_spec(curve.spec()) == curve
    True
    """

    setting: Setting
    parameter: str
    values: tuple[float, ...]
    row_parameter: str | None = None
    rows: tuple[float, ...] = ()
    measure: str = "error"

    def __post_init__(self) -> None:
        for parameter, values in self.swept.items():
            if parameter not in SWEPT:
                raise ValueError(
                    f"a curve sweeps one of {', '.join(SWEPT)}, got {parameter!r}"
                )
            if not values:
                raise ValueError(f"a curve needs at least one value of {parameter}")
        if self.measure not in MEASURES:
            raise ValueError(
                f"measure must be one of {', '.join(MEASURES)}, got {self.measure!r}"
            )
        if (self.measure == "spectrum") != (self.parameter == "eigenvalue"):
            raise ValueError("a spectrum sweeps the eigenvalue, and nothing else does")
        for _ in self:  # every setting checks itself
            pass

    @property
    def swept(self) -> dict[str, tuple[float, ...]]:
        """The values of each swept parameter, rows first."""
        first = {} if self.row_parameter is None else {self.row_parameter: self.rows}
        return {**first, self.parameter: self.values}

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, where there are any, and of values."""
        return tuple(len(values) for values in self.swept.values())

    def __iter__(self) -> Iterator[Setting]:
        """Yield the curve's settings, row by row in the order of its values."""
        for point in itertools.product(*self.swept.values()):
            setting = self.setting
            for parameter, value in zip(self.swept, point, strict=True):
                setting = at(setting, parameter, value)
            yield setting

    def spec(self) -> dict[str, Any]:
        """Return the curve as plain JSON types, without the values that are swept."""
        spec = self.setting.spec()
        for parameter in self.swept:
            if parameter in FIELDS:
                spec.pop(parameter, None)
        sweep = [[name, list(values)] for name, values in self.swept.items()]
        return {**spec, "sweep": sweep, "measure": self.measure}

    @classmethod
    def from_spec(cls, spec: dict[str, Any]) -> Curve:
        """Return the curve that :meth:`spec` wrote down."""
        plain = dict(spec)
        *rows, (parameter, values) = plain.pop("sweep")
        measure = plain.pop("measure")
        for name, first in [*rows, (parameter, values)]:
            if name in FIELDS:
                plain[name] = first[0]
        row_parameter, row_values = rows[0] if rows else (None, ())
        setting = Setting.from_spec(plain)
        return cls(
            *(setting, parameter, tuple(values)),
            *(row_parameter, tuple(row_values), measure),
        )


def at(setting: Setting, parameter: str, value: float) -> Setting:
    """Return a setting with one swept parameter at a value.

    Examples
    --------
    >>> base = Setting("regression", tokens=64, dimension=16, snr=0.5, gamma=0.1)
    >>> at(base, "size", 32).tokens, at(base, "aspect_ratio", 1.0).tokens
    (128, 32)
    """
    replaced: dict[str, Any] = {}
    n, p = setting.tokens, setting.dimension
    of_attention = setting.estimator != "regression"
    if parameter in FIELDS or (parameter == "temperature" and of_attention):
        replaced = {parameter: value}
    elif parameter == "alignment":
        if setting.weights is not None:
            replaced = {"weights": setting.weights.aligned(value)}
    elif parameter == "linear_share":
        if isinstance(setting.nonlinearity, HermiteMix):
            mix = dataclasses.replace(setting.nonlinearity, linear_share=value)
            replaced = {"nonlinearity": mix}
    elif parameter == "size":
        replaced = {"dimension": int(value), "tokens": round(value * n / p)}
    elif parameter == "aspect_ratio":
        area = n * p
        replaced = {
            "dimension": round(sqrt(area * value)),
            "tokens": round(sqrt(area / value)),
        }
    elif parameter == "heads" and of_attention:
        replaced = {"heads": dataclasses.replace(setting.heads, number=int(value))}
    return dataclasses.replace(setting, **replaced)


def log_width(values: Sequence[float]) -> float:
    """Return the ratio of neighbouring bins of a spectrum, zero apart.

    Parameters
    ----------
    values : sequence of float
        Geometric centres of the bins, and perhaps zero.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the values above zero are fewer than two or not evenly spaced in their
        logarithm.

    Examples
    --------
    >>> log_width((0.0, 1.0, 2.0, 4.0))
    2.0
    """
    inner = np.array([value for value in values if value > 0])
    ratios = inner[1:] / inner[:-1]
    if not (ratios.size and np.allclose(ratios, ratios[0], rtol=1e-6)):
        raise ValueError(
            "a spectrum needs two eigenvalues or more, evenly spaced in their logarithm"
        )
    return float(ratios[0])
