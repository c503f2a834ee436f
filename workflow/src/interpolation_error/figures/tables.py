"""Tables: every number that a figure shows, simulation beside prediction."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]

CONFIDENCE = 0.95
DIGITS = 12
"""Significant digits of a number in a table."""
COLUMNS = (
    "panel",
    "curve",
    "parameter",
    "x",
    "row_parameter",
    "row",
    "signal_share",
    "simulated_mean",
    "simulated_low",
    "simulated_high",
    "replicates",
    "predicted",
    "residual_in_standard_errors",
    "predicted_at_finite_size",
    "residual_at_finite_size",
    "slope",
    "slope_low",
    "slope_high",
)


class Series(NamedTuple):
    """One curve's numbers: its place, its values of x, simulation and prediction.

    Parameters
    ----------
    panel, curve, parameter : str
        Where it stands and what is swept.
    x : tuple of float
        Values of the swept parameter that are simulated.
    line : tuple of float
        Values that are predicted, those of ``x`` among them.
    simulated : ndarray, shape (replicates, len(rows) * len(x))
        The quantity on every draw, row by row.
    predicted : ndarray, shape (len(line_rows) * len(line),)
        Its prediction, NaN where there is none.
    row_parameter : str or None
        A second swept parameter.
    rows, line_rows : tuple of float
        Its values that are simulated, and those that are predicted; NaN alone where
        there is no second parameter.
    fit : bool
        Whether a power law is fitted to each row.
    finite_size : ndarray, shape (len(rows) * len(x),), optional
        Its prediction at finite size.
    signal_share : ndarray, shape (len(rows) * len(x),), optional
        The signal's share of a score at each point.
    """

    panel: str
    curve: str
    parameter: str
    x: tuple[float, ...]
    line: tuple[float, ...]
    simulated: Array
    predicted: Array
    row_parameter: str | None = None
    rows: tuple[float, ...] = (float("nan"),)
    line_rows: tuple[float, ...] = (float("nan"),)
    fit: bool = False
    finite_size: Array | None = None
    signal_share: Array | None = None


def combine(quantity: str, own: Array, other: Array | None = None) -> Array:
    """Return what a panel shows, from the arrays of its curves on the same draws.

    Parameters
    ----------
    quantity : str
        ``"difference"`` is the curve minus the other, ``"ratio"`` and ``"over_limit"``
        the curve over the other, ``"shortfall"`` the other minus the curve; anything
        else is the curve.
    own : ndarray
        Numbers of the curve.
    other : ndarray, optional
        Of what it is compared with: regression, or for the last two the limit.

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If there is nothing to compare with.

    Examples
    --------
    >>> combine("ratio", np.array([1.0, 3.0]), np.array([2.0, 2.0]))
    array([0.5, 1.5])
    """
    if quantity not in ("difference", "ratio", "shortfall", "over_limit"):
        return own
    if other is None:
        raise ValueError(f"a {quantity} needs something to compare with")
    if quantity in ("ratio", "over_limit"):
        return own / other
    return own - other if quantity == "difference" else other - own


def mean_interval(draws: Array) -> tuple[Array, Array, Array]:
    r"""Return mean, lower and upper end of the 95 % interval over independent draws.

    The interval is :math:`\bar e \pm t_{0.975, R - 1} s / \sqrt R`, Student's for
    R draws.

    Parameters
    ----------
    draws : ndarray, shape (replicates, points)
        At least two replicates.

    Returns
    -------
    mean, low, high : ndarray, shape (points,)

    Raises
    ------
    ValueError
        If there are fewer than two draws.

    Examples
    --------
    >>> mean, low, high = mean_interval(np.array([[1.0], [3.0]]))
    >>> float(mean[0]), round(float(high[0]), 3)
    (2.0, 14.706)
    """
    replicates = len(draws)
    if replicates < 2:
        raise ValueError(f"an interval needs two draws or more, got {replicates}")
    mean = draws.mean(axis=0)
    half = stats.t.ppf((1 + CONFIDENCE) / 2, replicates - 1) * standard_error(draws)
    return mean, mean - half, mean + half


def standard_error(draws: Array) -> Array:
    """Return the standard error of the mean over draws, the first axis."""
    spread: Array = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
    return spread


def expected_share(replicates: int, standard_errors: float = 3.0) -> float:
    """Return how often a mean lies within some standard errors of the truth.

    The probability that Student's t with ``replicates - 1`` degrees of freedom stays
    within ``standard_errors``: what a perfect theory would reach.

    Parameters
    ----------
    replicates : int
        Number of draws, two or more.
    standard_errors : float
        Half width of the band.

    Returns
    -------
    float

    Examples
    --------
    >>> round(expected_share(5), 3), round(expected_share(30), 3)
    (0.96, 0.995)
    """
    return float(1 - 2 * stats.t.sf(standard_errors, replicates - 1))


def power_law(x: Array, draws: Array) -> tuple[float, float, float]:
    r"""Return the exponent of a power law and its 95 % interval.

    Least squares of :math:`\log \bar q` on :math:`\log x`, where :math:`\bar q` is
    the mean over draws; the interval is Student's t of the jackknife over draws, which
    share their noise from one x to the next.

    Parameters
    ----------
    x : ndarray, shape (points,)
        Positive.
    draws : ndarray, shape (replicates, points)
        At least two replicates.

    Returns
    -------
    slope, low, high : float
        NaN as :func:`jackknife_slopes`.

    Raises
    ------
    ValueError
        If there are fewer than two draws or points.

    Examples
    --------
    >>> x = np.array([1.0, 2.0, 4.0])
    >>> [round(s, 6) for s in power_law(x, np.outer([1.0, 1.1, 0.9], x**-0.5))]
    [-0.5, -0.5, -0.5]
    """
    slope, low, high = mean_interval(jackknife_slopes(x, draws)[:, None])
    return float(slope[0]), float(low[0]), float(high[0])


def jackknife_slopes(x: Array, draws: Array) -> Array:
    """Return the jackknife's pseudo-values of the exponent of a power law.

    Their mean is the exponent, less its bias, and their spread that of the exponent.

    Parameters
    ----------
    x : ndarray, shape (points,)
        Positive.
    draws : ndarray, shape (replicates, points)
        At least two replicates.

    Returns
    -------
    ndarray, shape (replicates,)
        NaN where a mean, with or without one of the draws, is not positive: such
        numbers follow no power law that could be seen.

    Raises
    ------
    ValueError
        If there are fewer than two draws or points.

    Examples
    --------
    >>> jackknife_slopes(np.array([1.0, 4.0]), np.array([[1.0, 2.0], [2.0, 4.0]]))
    array([0.5, 0.5])
    """
    replicates = len(draws)
    if replicates < 2 or len(x) < 2:
        raise ValueError(
            "a power law needs two draws and two points or more, "
            f"got {replicates} and {len(x)}"
        )
    others = (draws.sum(axis=0) - draws) / (replicates - 1)
    means = np.vstack([draws.mean(axis=0), others])
    if means.min() <= 0:
        return np.full(replicates, np.nan)
    centred = np.log(x) - np.log(x).mean()
    slopes = np.log(means) @ centred / (centred @ centred)
    pseudo: Array = replicates * slopes[0] - (replicates - 1) * slopes[1:]
    return pseudo


def tabulate(series: Iterable[Series]) -> pd.DataFrame:
    """Return the table of a figure, a row for every plotted number.

    Parameters
    ----------
    series : iterable of Series
        The figure's curves.

    Returns
    -------
    DataFrame
        With the columns :data:`COLUMNS`. ``residual_in_standard_errors`` is simulated
        mean minus prediction over the standard error of the mean, and
        ``residual_at_finite_size`` the same for that prediction. A row that only
        carries the predicted line from one simulated point to the next has no
        simulated numbers.

    Raises
    ------
    ValueError
        If a curve has fewer than two draws, or lengths that do not match.

    Examples
    --------
    >>> draws = np.array([[0.5], [0.7]])
    >>> one = Series("a", "b", "snr", (1.0,), (1.0, 2.0), draws, np.array([0.6, 0.5]))
    >>> tabulate([one])[["x", "simulated_mean", "predicted"]]
         x  simulated_mean  predicted
    0  1.0             0.6        0.6
    1  2.0             NaN        0.5
    """
    return pd.concat([_table(one) for one in series], ignore_index=True)


def _table(one: Series) -> pd.DataFrame:
    """Return the rows of one curve, in the order of its line."""
    wanted = len(one.rows) * len(one.x), len(one.line_rows) * len(one.line)
    shapes = one.simulated.shape[1:] + one.predicted.shape
    if shapes != wanted or not set(one.x) <= set(one.line):
        raise ValueError(
            f"{one.panel}/{one.curve}: {wanted[0]} simulated and {wanted[1]} predicted "
            f"values, but arrays of shape {one.simulated.shape} and "
            f"{one.predicted.shape}"
        )
    mean, low, high = mean_interval(one.simulated)
    places = pd.MultiIndex.from_product([one.rows, one.x], names=["row", "x"])
    simulated = pd.DataFrame(
        {
            "simulated_mean": mean,
            "simulated_low": low,
            "simulated_high": high,
            "standard_error": standard_error(one.simulated),
            "predicted_at_finite_size": _or_nan(one.finite_size),
            "signal_share": _or_nan(one.signal_share),
            **_fits(one),
        },
        index=places,
    )
    lines = pd.MultiIndex.from_product([one.line_rows, one.line], names=["row", "x"])
    predicted = pd.DataFrame({"predicted": one.predicted}, index=lines)
    # By place, since no join takes NaN for a row that is not there.
    rows = predicted.reset_index().merge(simulated.reset_index(), "left", ["row", "x"])
    errors = rows["standard_error"]
    finite_size = rows["predicted_at_finite_size"]
    return rows.assign(
        panel=one.panel,
        curve=one.curve,
        parameter=one.parameter,
        row_parameter=one.row_parameter,
        replicates=len(one.simulated),
        residual_in_standard_errors=(rows["simulated_mean"] - rows["predicted"])
        / errors,
        residual_at_finite_size=(rows["simulated_mean"] - finite_size) / errors,
    )[list(COLUMNS)]


def _or_nan(values: Array | None) -> Array | float:
    return np.nan if values is None else values


def _fits(one: Series) -> dict[str, Array]:
    """Return the exponent of each row, at every point of it; NaN without a fit."""
    shape = len(one.rows), len(one.x)
    fits = np.full((3, *shape), np.nan)
    if one.fit:
        draws = one.simulated.reshape(-1, *shape)
        for row in range(shape[0]):
            slope = power_law(np.array(one.x), draws[:, row])
            fits[:, row] = np.array(slope)[:, None]
    names = ("slope", "slope_low", "slope_high")
    return {name: fit.ravel() for name, fit in zip(names, fits, strict=True)}


def text(table: pd.DataFrame, digits: int = DIGITS) -> str:
    r"""Return a table as the text of its CSV file.

    Parameters
    ----------
    table : DataFrame
        Of a figure, a study or the verdicts.
    digits : int, optional
        Significant digits of a number.

    Returns
    -------
    str
        A line a row, after that of the names; nothing where there is no number.

    Examples
    --------
    >>> text(pd.DataFrame({"x": [1 / 3, np.nan], "curve": ["a", "b"]}), digits=3)
    'x,curve\n0.333,a\n,b\n'
    """
    return table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")
