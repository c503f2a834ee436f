"""Statements tested on cached arrays: supported, contradicted or undecided.

A claim says of a statistic, at every point of a region, in which interval it lies.
Each point is judged by Student's t interval over draws, at 95 % for all points of the
region together (Bonferroni): the statement *holds* there if the interval lies within
the claimed one, *fails* if it lies outside, and is *open* otherwise. The region
*supports* the statement if it holds at the claimed share of its points, *contradicts*
it if it fails at more points than that share leaves, and is *undecided* otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from interpolation_error.figures.gather import Reader
from interpolation_error.figures.tables import CONFIDENCE
from interpolation_error.verdicts.statistics import Measured, Point, measured, points

Array = NDArray[np.float64]

Verdict = Mapping[str, Any]
"""What :func:`verdicts` says of one region of one claim."""


def judge(claim: Mapping[str, Any], found: Sequence[Point]) -> dict[str, Any]:
    """Return the verdict on a claim in a region.

    Parameters
    ----------
    claim : mapping
        ``claimed``, with ``above`` and/or ``below``, and ``share``.
    found : sequence of Point
        The region.

    Returns
    -------
    dict
        ``verdict``; ``estimate``, ``low``, ``high``: mean over points and its 95 %
        interval; ``points``, ``draws``; ``holds``, ``fails``, ``open``: shares of the
        points; ``theory``: the share at which theory's own value lies as claimed, None
        where it has none; ``tokens``, ``dimension``: smallest and largest; and
        ``details``, a row a point.

    Examples
    --------
    >>> from interpolation_error.model.setting import Setting
    >>> setting = Setting("regression", tokens=64, dimension=16, snr=1.0, gamma=1.0)
    >>> draws = np.array([0.9, 1.0, 1.1, 1.0])
    >>> point = Point("a", "b", [setting], draws, 1.0, 1.0)
    >>> judge({"claimed": {"above": 0.0}, "share": 1.0}, [point])["verdict"]
    'supported'
    >>> judge({"claimed": {"below": 0.0}, "share": 1.0}, [point])["verdict"]
    'contradicted'
    >>> judge({"claimed": {"above": 1.0}, "share": 1.0}, [point])["verdict"]
    'undecided'
    """
    if not found:
        return {"verdict": "not tested", "points": 0}
    low = claim["claimed"].get("above", -math.inf)
    high = claim["claimed"].get("below", math.inf)
    details = [_point(point, len(found), low, high) for point in found]
    outcomes = [one["outcome"] for one in details]
    holds, fails = outcomes.count("holds"), outcomes.count("fails")
    # In points, and rounded: 1 - 0.9 is less than 0.1 in binary.
    needed = round(claim["share"] * len(found), 9)
    if holds >= needed:
        verdict = "supported"
    elif fails > round(len(found) - needed, 9):
        verdict = "contradicted"
    else:
        verdict = "undecided"
    draws = min(len(point.draws) for point in found)
    mean = np.mean([point.draws[:draws] for point in found], axis=0)
    center, half = _interval(mean, 1)
    limits = [p.predicted for p in found if math.isfinite(p.predicted)]
    settings = [setting for point in found for setting in point.settings]
    tokens = [setting.tokens for setting in settings]
    dimensions = [setting.dimension for setting in settings]
    return {
        "verdict": verdict,
        "estimate": center,
        "low": center - half,
        "high": center + half,
        "points": len(found),
        "draws": draws,
        "holds": holds / len(found),
        "fails": fails / len(found),
        "open": outcomes.count("open") / len(found),
        "theory": sum(low < x < high for x in limits) / len(limits) if limits else None,
        "theory_estimate": float(np.mean(limits)) if limits else None,
        "tokens": [min(tokens), max(tokens)],
        "dimension": [min(dimensions), max(dimensions)],
        "details": details,
    }


def _point(point: Point, number: int, low: float, high: float) -> dict[str, Any]:
    """Return the outcome at one of so many points."""
    center, half = _interval(point.draws, number)
    if low < center - half and center + half < high:
        outcome = "holds"
    elif center + half < low or high < center - half:
        outcome = "fails"
    else:
        outcome = "open"
    setting = point.settings[-1]
    return {
        "panel": point.panel,
        "curve": point.curve,
        "x": point.x,
        "tokens": setting.tokens,
        "dimension": setting.dimension,
        "snr": setting.snr,
        "gamma": setting.gamma,
        "estimate": center,
        "low": center - half,
        "high": center + half,
        "theory": point.predicted if math.isfinite(point.predicted) else None,
        "outcome": outcome,
    }


def _interval(draws: Array, number: int) -> tuple[float, float]:
    """Return mean and half width of the interval, for so many points at once."""
    replicates = len(draws)
    if replicates < 2:
        return float(np.mean(draws)), math.inf
    quantile = stats.t.ppf(1 - (1 - CONFIDENCE) / (2 * number), replicates - 1)
    spread = np.std(draws, ddof=1) / math.sqrt(replicates)
    return float(np.mean(draws)), float(quantile * spread)


def verdicts(
    claims: Sequence[Mapping[str, Any]],
    figures: Mapping[str, Mapping[str, Any]],
    read: Reader,
) -> list[dict[str, Any]]:
    """Return the verdict on every claim in each of its regions.

    Parameters
    ----------
    claims : sequence of mapping
        As config/claims.yaml has them, in its order, each with its ``id``, and each of
        its regions with its ``name``.
    figures : mapping
        Specification of each figure's table, by name, as its manifest holds it; claims
        on others are not tested.
    read : callable
        Gives the arrays of a cached file by its path.

    Returns
    -------
    list of dict
        As :func:`judge`, with ``claim``, ``region``, ``statement``, ``figure`` and
        ``arrays``.
    """
    loaded: dict[str, dict[str, dict[str, Measured]]] = {}
    found = []
    for claim in claims:
        figure = claim["figure"]
        if figure in figures and figure not in loaded:
            loaded[figure] = measured(figures[figure], read)
        panels = loaded.get(figure, {})
        for region in claim["regions"]:
            inside = points(claim, region, panels)
            files = {
                path
                for point in inside
                for path in panels[point.panel][point.curve].files
            }
            found.append(
                {
                    "claim": claim["id"],
                    "region": region["name"],
                    "statement": claim["statement"],
                    "paper": claim["paper"],
                    "statistic": claim["statistic"],
                    "claimed": claim["claimed"],
                    "share": claim["share"],
                    "figure": figure,
                    **judge(claim, inside),
                    "arrays": sorted(files),
                }
            )
    return found
