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
COLUMNS = (
    "panel",
    "curve",
    "parameter",
    "x",
    "simulated_mean",
    "simulated_low",
    "simulated_high",
    "replicates",
    "predicted",
    "residual_in_standard_errors",
)


class Series(NamedTuple):
    """One curve's numbers: its place, its values of x, and both kinds of error.

    Parameters
    ----------
    panel, curve, parameter : str
        Where it stands and what is swept.
    x : tuple of float
        Values of the swept parameter that are simulated.
    line : tuple of float
        Values that are predicted, those of ``x`` among them.
    simulated : ndarray, shape (replicates, len(x))
        Interpolation error of every draw.
    predicted : ndarray, shape (len(line),)
        Its prediction.
    """

    panel: str
    curve: str
    parameter: str
    x: tuple[float, ...]
    line: tuple[float, ...]
    simulated: Array
    predicted: Array


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
        mean minus prediction over the standard error of the mean. A row that only
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
    return pd.concat([_rows(one) for one in series], ignore_index=True)


def _rows(one: Series) -> pd.DataFrame:
    """Return the rows of one curve, in the order of its line."""
    shapes = one.simulated.shape[1:], one.predicted.shape
    if shapes != ((len(one.x),), (len(one.line),)) or not set(one.x) <= set(one.line):
        raise ValueError(
            f"{one.panel}/{one.curve}: {len(one.x)} simulated and {len(one.line)} "
            f"predicted values of {one.parameter}, but arrays of shape "
            f"{one.simulated.shape} and {one.predicted.shape}"
        )
    mean, low, high = mean_interval(one.simulated)
    simulated = pd.DataFrame(
        {
            "simulated_mean": mean,
            "simulated_low": low,
            "simulated_high": high,
            "standard_error": standard_error(one.simulated),
        },
        index=pd.Index(one.x),
    )
    rows = pd.DataFrame({"x": one.line, "predicted": one.predicted}).join(
        simulated, on="x"
    )
    residual = rows["simulated_mean"] - rows["predicted"]
    return rows.assign(
        panel=one.panel,
        curve=one.curve,
        parameter=one.parameter,
        replicates=len(one.simulated),
        residual_in_standard_errors=residual / rows["standard_error"],
    )[list(COLUMNS)]
