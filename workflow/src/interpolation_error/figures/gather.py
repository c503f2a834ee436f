"""Gather a figure's arrays: what its table and the claims are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.figures.tables import Series, combine
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting

Array = NDArray[np.float64]
Reader = Callable[[str], Mapping[str, Array]]
"""Gives the arrays of a cached file by its path below the results folder."""


class Line(NamedTuple):
    """A prediction along a line: the values of x, of the rows, and the numbers.

    ``finite_size`` is at the curve's own points, None where it was not asked for.
    """

    x: tuple[float, ...]
    rows: tuple[float, ...]
    predicted: Array
    finite_size: Array | None

    def at_points(self, curve: Curve) -> Array:
        """Return the predictions at the points of a curve, in their order."""
        grid = self.predicted.reshape(-1, len(self.x))
        rows = [self.rows.index(row) for row in curve.rows] or [0]
        return grid[np.ix_(rows, [self.x.index(x) for x in curve.values])].ravel()


class Arrays(NamedTuple):
    """Arrays of a curve, and of the regression that it is shown against, if any."""

    curve: Curve
    own: Array
    line: Line
    other: Array | None
    line_other: Line | None


def arrays(
    one: Mapping[str, Any], read: Reader, predicted: Mapping[str, Array]
) -> Arrays:
    """Return the draws and predictions of one curve of a table's specification.

    Parameters
    ----------
    one : mapping
        A curve of a table's specification.
    read : callable
        Gives the arrays of a cached file by its path.
    predicted : mapping
        All predictions of the figure.

    Returns
    -------
    Arrays
    """
    own = _simulated(one["simulation"], one["array"], read)
    other = line_other = None
    if "other_simulation" in one:
        other = _simulated(one["other_simulation"], one["array"], read)
        line_other = _line(one["other_prediction"], predicted)
    line = _line(one["prediction"], predicted)
    return Arrays(Curve.from_spec(one["curve_spec"]), own, line, other, line_other)


def gather(spec: Mapping[str, Any], read: Reader) -> Iterator[Series]:
    """Yield the curves of a figure, simulation beside prediction.

    Parameters
    ----------
    spec : mapping
        Specification of the figure's table, as the plan writes it.
    read : callable
        Gives the arrays of a cached file by its path below the results folder.

    Yields
    ------
    Series
    """
    predicted = read(spec["theory"])
    for one in spec["series"]:
        curve, own, line, other, line_other = arrays(one, read, predicted)
        shown = line_other.predicted if line_other else None
        limit = line_other.at_points(curve) if line_other else None
        if one["quantity"] in ("shortfall", "over_limit"):
            other = limit = line.at_points(curve)
            shown = np.full_like(line.predicted, np.nan)
        finite_size = line.finite_size
        if finite_size is not None:
            finite_size = combine(one["quantity"], finite_size, limit)
        yield Series(
            panel=one["panel"],
            curve=one["curve"],
            parameter=curve.parameter,
            x=curve.values,
            line=line.x,
            simulated=combine(one["quantity"], own, other),
            predicted=combine(one["quantity"], line.predicted, shown),
            row_parameter=curve.row_parameter,
            rows=curve.rows or (np.nan,),
            line_rows=line.rows or (np.nan,),
            fit=one["fit"],
            finite_size=finite_size,
            signal_share=np.array([signal_share(setting) for setting in curve]),
        )


def signal_share(setting: Setting) -> float:
    r"""Return the signal's share of a score of two tokens of one label.

    :math:`(\|\mu\|^2 + \mu^T w_K \, \mu^T w_Q) / \sqrt p`, what a limit neglects
    beyond its first order (docs/theory.md, section 7).

    Parameters
    ----------
    setting : Setting
        Of attention; for regression there are no scores.

    Returns
    -------
    float

    Examples
    --------
    >>> from interpolation_error.model.setting import Direction, Weights
    >>> weights = Weights(Direction(norm=1.0, alignment=1.0))
    >>> signal_share(Setting("attention", 64, 64, 2.0, 1.0, "tanh", weights))
    0.5
    """
    if setting.estimator == "regression":
        return math.nan
    aligned = 0.0
    if setting.weights is not None:
        key = setting.weights.key
        query = setting.weights.query or key
        aligned = key.length(setting.snr) * key.alignment
        aligned *= query.length(setting.snr) * query.alignment
    return setting.snr * (1 + aligned) / math.sqrt(setting.dimension)


def _line(name: str, predicted: Mapping[str, Array]) -> Line:
    rows = predicted.get(f"{name}/rows", np.empty(0))
    x = tuple(predicted[f"{name}/x"].tolist())
    return Line(
        *(x, tuple(rows.tolist()), predicted[f"{name}/predicted"]),
        predicted.get(f"{name}/finite_size"),
    )


def _simulated(paths: Sequence[str], array: str, read: Reader) -> Array:
    """Return the draws of all of a curve's blocks."""
    return np.concatenate([read(path)[array] for path in paths])
