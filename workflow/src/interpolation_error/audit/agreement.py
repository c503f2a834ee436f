r"""When two numbers, tables or texts count as the same, and where they first differ.

Two numbers *agree within rounding* if :math:`|a - b| \le 10^{-6} \max(|a|, |b|)`, see
docs/audit.md for what another processor type really does to them. In a histogram an
eigenvalue may in addition cross the edge between two bins.
"""

from __future__ import annotations

import csv
import io
import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from interpolation_error.model.curve import Curve, log_width

Array = NDArray[np.float64]

ROUNDING = 1e-6
"""Relative difference up to which two numbers agree within rounding."""
LAST_DIGITS = 1e-9
"""The same for what two processor types make of the same arrays: means, intervals."""
NO_DENSITY = 1e-9
"""Where a spectrum has no eigenvalues its predicted density is of this order."""
SAME, CLOSE, OTHER = "identical", "within rounding", "different"


class Difference(NamedTuple):
    """How far two arrays are apart.

    Parameters
    ----------
    outcome : {"identical", "within rounding", "different"}
        Bit by bit the same, by the module's rule, or not.
    absolute, relative : float
        The largest differences; infinite between shapes, or a number and none.
    """

    outcome: str
    absolute: float = 0.0
    relative: float = 0.0

    def __str__(self) -> str:
        if self.outcome == SAME:
            return SAME
        if math.isinf(self.absolute):
            return f"{self.outcome}: another shape, or numbers missing or infinite"
        apart = f"by up to {self.absolute:.2g}, relative {self.relative:.2g}"
        return f"{self.outcome}: {apart}"


def difference(first: Array, second: Array, floor: float = 0.0) -> Difference:
    """Return how far two arrays are apart.

    Parameters
    ----------
    first, second : ndarray
        Of any shape; NaN agrees with NaN.
    floor : float, optional
        A difference that counts as rounding beside that, such as one eigenvalue more
        in a bin of a histogram.

    Returns
    -------
    Difference

    Examples
    --------
    >>> str(difference(np.array([1.0, np.nan]), np.array([1.0, np.nan])))
    'identical'
    >>> str(difference(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 2e-9])))
    'within rounding: by up to 2e-09, relative 1e-09'
    >>> difference(np.array([1.0]), np.array([1.1])).outcome
    'different'
    """
    first, second = np.asarray(first, float), np.asarray(second, float)
    if first.shape != second.shape:
        return Difference(OTHER, math.inf, math.inf)
    if first.tobytes() == second.tobytes():
        return Difference(SAME)
    missing = np.isnan(first)
    if np.any(missing != np.isnan(second)):
        return Difference(OTHER, math.inf, math.inf)
    first, second = first[~missing], second[~missing]
    endless = np.isinf(first) | np.isinf(second)
    if np.any(first[endless] != second[endless]):
        return Difference(OTHER, math.inf, math.inf)
    first, second = first[~endless], second[~endless]
    apart = np.abs(first - second)
    size = np.maximum(np.abs(first), np.abs(second))
    relative = np.divide(apart, size, out=np.zeros_like(apart), where=size > 0)
    if not apart.any():  # zeros of two signs, or NaN of two kinds
        return Difference(SAME)
    agree = np.all(apart <= ROUNDING * size + floor)
    return Difference(
        CLOSE if agree else OTHER, float(apart.max()), float(relative.max())
    )


def bin_unit(curve: Curve) -> float:
    """Return a little more than one eigenvalue adds to a bin of a histogram, else 0.

    Parameters
    ----------
    curve : Curve
        Of a spectrum, or of anything else.

    Returns
    -------
    float
    """
    if curve.measure != "spectrum":
        return 0.0
    return 1.01 / (curve.setting.tokens * math.log(log_width(curve.values)))


def table_fault(found: str, made: str, tolerance: float) -> str:
    r"""Return the first place where a table differs from what it should be.

    Parameters
    ----------
    found, made : str
        Comma-separated values: those of the file, and those that are right.
    tolerance : float
        Relative difference of two numbers that is none.

    Returns
    -------
    str
        Empty if there is no such place.

    Examples
    --------
    >>> table_fault("x,y\n1,2\n", "x,y\n1,3\n", 0)
    'line 2, y: 2 stands where 3 follows from the arrays'
    """
    rows, right = (list(csv.reader(io.StringIO(text))) for text in (found, made))
    if not rows or rows[0] != right[0]:
        return "its columns are not those of the arrays"
    for number, (one, other) in enumerate(zip(rows, right, strict=False), 1):
        if len(one) != len(other):
            return f"line {number} has {len(one)} cells and not {len(other)}"
        for name, cell, wanted in zip(right[0], one, other, strict=True):
            if cell != wanted and not _close(cell, wanted, tolerance):
                return (
                    f"line {number}, {name}: {cell or 'nothing'} stands where "
                    f"{wanted or 'nothing'} follows from the arrays"
                )
    if len(rows) != len(right):
        return f"it has {len(rows)} lines where {len(right)} follow from the arrays"
    return "" if tolerance else "the same cells are written in another way"


def reference_fault(reference: pd.DataFrame, table: pd.DataFrame) -> str:
    """Return where a committed table differs from a run's by more than rounding.

    Values may differ by 1e-6 of the largest in their row, since intervals and
    differences are small numbers made of large ones, residuals in standard errors and
    exponents by 1e-3.

    Parameters
    ----------
    reference, table : DataFrame
        With the columns :data:`interpolation_error.figures.tables.COLUMNS`.

    Returns
    -------
    str
        Empty if they agree.
    """
    if list(reference.columns) != list(table.columns) or len(reference) != len(table):
        return "has other columns or another number of rows than the run's table"
    values = ["simulated_mean", "simulated_low", "simulated_high", "predicted"]
    scale = table[values].abs().max(axis=1).fillna(0).to_numpy() * ROUNDING + 1e-9
    for name in table.columns:
        first, second = reference[name], table[name]
        if first.dtype.kind not in "fiu":
            same = (first == second) | (first.isna() & second.isna())
            agree = same.to_numpy(bool)
        elif name.startswith(("residual", "slope")):
            agree = np.isclose(first, second, rtol=1e-3, atol=1e-3, equal_nan=True)
        elif name in ("x", "row", "signal_share", "replicates"):
            agree = np.isclose(first, second, rtol=1e-9, atol=0, equal_nan=True)
        else:
            agree = np.asarray(np.abs(first - second)) <= scale
            agree |= np.asarray(first.isna() & second.isna())
        if not agree.all():
            row = int(np.flatnonzero(~agree)[0])
            return (
                f"line {row + 2}, {name}: {first.iloc[row]} is committed, "
                f"{second.iloc[row]} is the run's ({(~agree).sum()} such places)"
            )
    return ""


def _close(first: str, second: str, tolerance: float) -> bool:
    try:
        return math.isclose(
            float(first), float(second), rel_tol=tolerance, abs_tol=tolerance
        )
    except ValueError:
        return False


def json_agree(first: Any, second: Any) -> bool:
    """Return whether two JSON contents agree but for last digits."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(
            json_agree(first[key], second[key]) for key in first
        )
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(json_agree, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(
            first, second, rel_tol=LAST_DIGITS, abs_tol=LAST_DIGITS
        ) or (math.isnan(first) and math.isnan(second))
    return bool(first == second)


def in_order_of(made: Any, said: Any) -> Any:
    """Return a JSON content with its keys in the order of one that it agrees with.

    Examples
    --------
    >>> in_order_of({"b": 1.0, "a": [2.0]}, {"a": [2.1], "b": 1.1})
    {'b': 1.1, 'a': [2.1]}
    """
    if isinstance(made, dict):
        return {key: in_order_of(made[key], said[key]) for key in made}
    if isinstance(made, list):
        return [in_order_of(*pair) for pair in zip(made, said, strict=True)]
    return said


def first_line(found: str, made: str) -> str:
    """Return the first line that differs, short."""
    pairs = zip(found.splitlines(), made.splitlines(), strict=False)
    for number, (one, other) in enumerate(pairs, 1):
        if one != other:
            start = next(
                (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
                min(len(one), len(other)),
            )
            first = max(0, start - 20)
            return (
                f"line {number} has …{one[first : start + 20].strip()}… where "
                f"…{other[first : start + 20].strip()}… is right"
            )
    return "it has more or fewer lines"
