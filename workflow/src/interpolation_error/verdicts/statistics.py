"""Statistics of statements, at the points of a region of a figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.figures.gather import Line, Reader, arrays
from interpolation_error.figures.study_table import all_heads
from interpolation_error.figures.tables import combine, jackknife_slopes
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting
from interpolation_error.model.study import DIRECTIONS, THEORIES

Array = NDArray[np.float64]


class Measured(NamedTuple):
    """One curve of a panel: its points, its draws and its prediction.

    Parameters
    ----------
    panel, curve, parameter : str
        Where it stands and what is swept.
    settings : list of Setting
        Its points, row by row.
    shape : tuple of int
        Number of rows (1 if there are none) and of values.
    draws : ndarray, shape (replicates, points)
    predicted : ndarray, shape (points,)
        The limit, NaN where there is none.
    finite_size : ndarray, shape (points,)
        The prediction at finite size, NaN where there is none.
    x : tuple of float
        Values of the swept parameter.
    files : tuple of str
        The arrays that the draws come from.
    """

    panel: str
    curve: str
    parameter: str
    settings: list[Setting]
    shape: tuple[int, int]
    draws: Array
    predicted: Array
    finite_size: Array
    x: tuple[float, ...]
    files: tuple[str, ...]

    def where(self, place: int) -> tuple[int, float]:
        """Return the row of a point and the value that is swept."""
        row, column = divmod(place, self.shape[1])
        return row, self.x[column]


class Point(NamedTuple):
    """A statistic at one point: its draws, and what theory makes of it.

    Parameters
    ----------
    panel, curve : str
        Where it stands.
    settings : list of Setting
        What it depends on; the last of them is where it counts.
    draws : ndarray, shape (replicates,)
    predicted : float
        Theory's value, NaN where it has none.
    x : float
        Value of the swept parameter.
    """

    panel: str
    curve: str
    settings: list[Setting]
    draws: Array
    predicted: float
    x: float


class Found(NamedTuple):
    """A statistic by the places of the points that it is made of, the last its own."""

    places: Sequence[int]
    draws: Array
    predicted: float


class Question(NamedTuple):
    """What a statistic is asked for: a curve, its panel, the figure, and how."""

    mine: Measured
    panel: Mapping[str, Measured]
    figure: Mapping[str, Mapping[str, Measured]]
    how: Mapping[str, Any]

    @property
    def other(self) -> Measured:
        """The curve that this one is held against."""
        return self.panel[self.how["against"]]


def measured(spec: Mapping[str, Any], read: Reader) -> dict[str, dict[str, Measured]]:
    """Return the curves of a figure by panel and name.

    Where a panel shows a curve against regression on the same draws, that regression
    is there too, under the name ``regression``. Its draws are errors, but for a panel
    of shortfalls, which holds those.

    Parameters
    ----------
    spec : mapping
        Specification of the figure's table.
    read : callable
        Gives the arrays of a cached file by its path.

    Returns
    -------
    dict of str to dict of str to Measured
    """
    if "study" in spec:
        return _study(spec, read)
    predicted = read(spec["theory"])
    panels: dict[str, dict[str, Measured]] = {}
    for one in spec["series"]:
        found = arrays(one, read, predicted)
        panel = panels.setdefault(one["panel"], {})
        own = found.own
        if one["quantity"] == "shortfall":  # of itself, and not an error
            own = combine("shortfall", own, found.line.at_points(found.curve))
        panel[one["curve"]] = _measured(
            *(one, one["curve"], found.curve, own, found.line),
            one["simulation"],
        )
        if found.other is not None and found.line_other is not None:
            panel["regression"] = _measured(
                *(one, "regression", found.curve, found.other, found.line_other),
                one["other_simulation"],
            )
    return panels


def _study(spec: Mapping[str, Any], read: Reader) -> dict[str, dict[str, Measured]]:
    """Return a study's heads: a panel for each signal, a curve for each theory."""
    found = all_heads(spec, read)
    n, p, at = found.tokens, found.dimension, spec["heads"]
    setting = Setting("attention", n, p, at["snr"], at["gamma"], spec["nonlinearity"])
    heads = found.draws.shape[1]
    return {
        direction: {
            theory: Measured(
                *(direction, theory, "head", [setting] * heads),
                shape=(1, heads),
                draws=found.draws[:, :, number],
                predicted=found.predicted[theory][:, number],
                finite_size=np.full(heads, np.nan),
                x=tuple(range(heads)),
                files=found.files,
            )
            for theory in THEORIES
        }
        for number, direction in enumerate(DIRECTIONS)
    }


def _measured(
    one: Mapping[str, Any],
    name: str,
    curve: Curve,
    draws: Array,
    line: Line,
    files: Sequence[str],
) -> Measured:
    return Measured(
        *(one["panel"], name, curve.parameter, list(curve)),
        shape=(math.prod(curve.shape[:-1]), curve.shape[-1]),
        draws=draws,
        predicted=line.at_points(curve),
        finite_size=np.full(draws.shape[1], np.nan)
        if line.finite_size is None
        else line.finite_size,
        x=curve.values,
        files=tuple(files),
    )


def _log_ratio(asked: Question) -> Iterator[Found]:
    """Yield ln(E / E_other) on the same draws, 0.1 being about 10 % more."""
    draws = np.log(asked.mine.draws / asked.other.draws)
    predicted = np.log(asked.mine.predicted / asked.other.predicted)
    for place, limit in enumerate(predicted):
        yield Found([place], draws[:, place], limit)


def _gain(asked: Question) -> Iterator[Found]:
    """Yield ln(E at the first value / E here), less that of another curve if named."""
    gains, predicted = _fallen(asked.mine.draws, asked.mine.predicted, asked.mine.shape)
    if "against" in asked.how:
        other = asked.other
        more = _fallen(other.draws, other.predicted, other.shape)
        gains, predicted = gains - more[0], predicted - more[1]
    return _after_first(gains, predicted, asked.mine.shape)


def _gap_change(asked: Question) -> Iterator[Found]:
    """Yield how much ln(E / E_other) has fallen since the first value of a sweep."""
    mine, other = asked.mine, asked.other
    gains, predicted = _fallen(
        mine.draws / other.draws, mine.predicted / other.predicted, mine.shape
    )
    return _after_first(gains, predicted, mine.shape)


def _between_panels(asked: Question) -> Iterator[Found]:
    """Yield ln(E / E_other) in another panel less that here, point by point."""
    there = asked.figure[asked.how["other_panel"]]
    far = asked._replace(mine=there[asked.mine.curve], panel=there)
    # A preset may leave other points of the one panel than of the other.
    others = {far.mine.where(one.places[0]): one for one in _log_ratio(far)}
    for here in _log_ratio(asked):
        if (other := others.get(asked.mine.where(here.places[0]))) is None:
            continue
        common = min(len(here.draws), len(other.draws))
        difference = other.draws[:common] - here.draws[:common]
        yield Found(here.places, difference, other.predicted - here.predicted)


def _residual(asked: Question) -> Iterator[Found]:
    """Yield simulation over prediction, the limit or that at finite size, less one."""
    theory = asked.how.get("theory", "limit")
    predicted = (
        asked.mine.finite_size if theory == "finite_size" else asked.mine.predicted
    )
    draws = asked.mine.draws / predicted - 1
    for place in np.flatnonzero(np.isfinite(predicted)):
        yield Found([int(place)], draws[:, place], math.nan)


def _distance(asked: Question) -> Iterator[Found]:
    """Yield the largest distance of the two distributions of eigenvalues."""
    mine = asked.mine
    ratio = math.log(mine.x[-1] / mine.x[-2])
    width = np.where(np.array(mine.x) == 0, 1.0, ratio)
    gap = np.cumsum((mine.draws - mine.predicted) * width, axis=1)
    yield Found([0], np.abs(gap).max(axis=1), math.nan)


def _slope(asked: Question) -> Iterator[Found]:
    """Yield the exponent of a power law in the swept parameter."""
    mine = asked.mine
    rows, values = mine.shape
    draws = mine.draws.reshape(-1, rows, values)
    for row in range(rows):
        places = range(row * values, (row + 1) * values)
        slopes = jackknife_slopes(np.array(mine.x), draws[:, row])
        if np.isfinite(slopes).all():
            yield Found(places, slopes, math.nan)


STATISTICS: Mapping[str, Callable[[Question], Iterator[Found]]] = {
    "log_ratio": _log_ratio,
    "gain": _gain,
    "gap_change": _gap_change,
    "between_panels": _between_panels,
    "residual": _residual,
    "distance": _distance,
    "slope": _slope,
}
"""By name; the docstring of each says what it is."""


def _fallen(
    draws: Array, predicted: Array, shape: tuple[int, int]
) -> tuple[Array, ...]:
    """Return how much the logarithms fell since the first x of each row."""

    def fallen(values: Array) -> Array:
        rows = np.log(values).reshape(-1, *shape)
        return (rows[:, :, :1] - rows).reshape(-1, shape[0] * shape[1])

    return fallen(draws), fallen(predicted)[0]


def _after_first(
    gains: Array, predicted: Array, shape: tuple[int, int]
) -> Iterator[Found]:
    """Yield what has fallen at every x of a row but the first."""
    for place, limit in enumerate(predicted):
        first = place - place % shape[1]
        if place > first:
            yield Found([first, place], gains[:, place], limit)


def points(
    claim: Mapping[str, Any],
    region: Mapping[str, Any],
    panels: Mapping[str, Mapping[str, Measured]],
) -> list[Point]:
    """Return a claim's statistic at the points of a region.

    Parameters
    ----------
    claim : mapping
        As config/claims.yaml has it.
    region : mapping
        ``panels``, ``curves`` and ``where``: for a parameter the lowest and the
        highest value.
    panels : mapping
        The figure, as :func:`measured` returns it.

    Returns
    -------
    list of Point
        Empty where the figure lacks the region.
    """
    how = claim["statistic"]
    found = []
    for name in region["panels"]:
        panel = panels.get(name, {})
        other_panel = panels.get(how.get("other_panel", name), {})
        against = {how["against"]} if "against" in how else set()
        for curve in region["curves"]:
            # A preset may have cut any of them.
            needed = {curve} | against
            if not (needed <= set(panel) and needed <= set(other_panel)):
                continue
            mine = panel[curve]
            for one in STATISTICS[how["kind"]](Question(mine, panel, panels, how)):
                settings = [mine.settings[place] for place in one.places]
                _, x = mine.where(one.places[-1])
                point = Point(
                    *(name, curve, settings, one.draws, float(one.predicted), x)
                )
                if _inside(point, mine.parameter, region.get("where") or {}):
                    found.append(point)
    return found


def _inside(point: Point, parameter: str, where: Mapping[str, Sequence[float]]) -> bool:
    setting = point.settings[-1]
    values = {
        "gamma": setting.gamma,
        "snr": setting.snr,
        "tokens": setting.tokens,
        "dimension": setting.dimension,
        "aspect_ratio": setting.dimension / setting.tokens,
    }
    if setting.weights is not None:
        values["alignment"] = setting.weights.key.alignment
    values[parameter] = point.x
    return all(
        name in values and _between(low, values[name], high)
        for name, (low, high) in where.items()
    )


def _between(low: float, value: float, high: float) -> bool:
    """Return whether a value lies between two others, up to rounding."""
    return low <= value <= high or any(
        math.isclose(value, edge, rel_tol=1e-9) for edge in (low, high)
    )
