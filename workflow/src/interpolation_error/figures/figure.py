"""Figures and panels: curves on one axis, and axes on one page."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting

SIZES = ("tokens", "dimension", "size")
SYMBOLS = {
    "gamma": "γ",
    "dimension": "p",
    "tokens": "n",
    "snr": "‖μ‖²",
    "temperature": "T",
    "alignment": "cosine",
    "linear_share": "a₁²/ν",
    "size": "p",
    "aspect_ratio": "p/n",
    "heads": "H",
}
"""How the text of a figure writes the parameters of a setting."""
MARKERS = ("o", "s", "^", "D", "v")
"""What tells rows apart that share an axis."""


class Quantity(NamedTuple):
    """What a panel shows: a measure, its array, and whether regression joins in."""

    measure: str
    array: str
    against_regression: bool = False


QUANTITIES = {
    "error": Quantity("error", "error"),
    "difference": Quantity("error", "error", against_regression=True),
    "ratio": Quantity("error", "error", against_regression=True),
    "shortfall": Quantity("error", "error"),
    "over_limit": Quantity("error", "error"),
    "trace": Quantity("trace", "trace"),
    "density": Quantity("spectrum", "density"),
    "remainder": Quantity("linearization", "remainder"),
    "relative_remainder": Quantity("linearization", "relative_remainder"),
}
"""By name; ``tables.quantity`` says how each is made of the arrays."""


@dataclass(frozen=True)
class Style:
    """How a curve is drawn; what is left out comes from the style sheet's cycle.

    Parameters
    ----------
    color : str, optional
        Of the simulated points, and of the predicted line if it has none.
    theory_color : str, optional
        Of the predicted line.
    marker, line : str, optional
        As matplotlib writes them.
    """

    color: str | None = None
    theory_color: str | None = None
    marker: str | None = None
    line: str | None = None


@dataclass(frozen=True)
class LabelledCurve:
    """A curve with its name in tables and its label in the legend."""

    name: str
    label: str
    curve: Curve
    style: Style = Style()

    def regression(self) -> Curve:
        """Return linear regression on the same draws at the same points."""
        kept = {
            name: getattr(self.curve.setting, name)
            for name in ("tokens", "dimension", "snr", "gamma")
            + ("noise", "labels", "data")
        }
        return dataclasses.replace(self.curve, setting=Setting("regression", **kept))


@dataclass(frozen=True)
class Panel:
    """Curves that share an axis and the draws they are simulated on.

    Parameters
    ----------
    name, title : str
        Its name in tables and the words above it.
    kind : {"sweep", "map", "histogram"}
        How it is drawn: one axis for each row of a sweep, or for each curve of a map.
    quantity : str
        What it shows, of :data:`QUANTITIES`.
    curves : tuple of LabelledCurve
        All sweep the same parameters.
    replicates : int
        Number of draws.
    largest : tuple of int
        Tokens and embedding dimension of the dataset, of which every point takes
        the leading block.
    x_scale, y_scale : {"linear", "log"}
        Scales of the axes.
    fit : bool
        Whether a power law is fitted to the simulated means.
    overlay : bool
        Whether the rows of a sweep share one axis.
    x_as : str or None
        What stands along the axis instead of the swept parameter: ``signal_share``.
    finite_size : bool
        Whether the theory at finite size is shown beside the limit.
    source : tuple of (str, str)
        Who says so, parameter by parameter.
    """

    name: str
    title: str
    kind: str
    quantity: str
    curves: tuple[LabelledCurve, ...]
    replicates: int
    largest: tuple[int, int]
    x_scale: str
    y_scale: str
    fit: bool
    overlay: bool
    x_as: str | None
    finite_size: bool
    source: tuple[tuple[str, str], ...]

    def line(self, curve: Curve) -> dict[str, Any]:
        """Return what the prediction of a curve is asked for, as plain JSON.

        A line has more points than are simulated, and so have the rows of a map.
        """
        attention = curve.setting.estimator == "attention"
        return {
            "curve": curve.spec(),
            "x_scale": self.x_scale,
            "row_scale": self.y_scale if self.kind == "map" else None,
            "finite_size": self.finite_size and attention,
        }

    def looks(self) -> list[dict[str, Any]]:
        """Return name, label and style of what is drawn: curves, or their rows too."""
        looks = [
            {"name": one.name, "label": one.label, **dataclasses.asdict(one.style)}
            for one in self.curves
        ]
        if not self.overlay:
            return looks
        curve = self.curves[0].curve
        symbol = SYMBOLS[curve.row_parameter or ""]
        return [
            {
                **look,
                "label": f"{look['label']}, {symbol} = {row:g}",
                "row": row,
                "marker": MARKERS[place % len(MARKERS)],
            }
            for look in looks
            for place, row in enumerate(curve.rows)
        ]

    @property
    def swept(self) -> dict[str, tuple[float, ...]]:
        """The parameters that the panel's curves sweep, with their values."""
        return self.curves[0].curve.swept

    @property
    def parameter(self) -> str:
        """The parameter along the panel's axis."""
        return self.curves[0].curve.parameter

    def fixed(self) -> str:
        """Return the parameters that the panel holds fixed, for its text."""
        setting = self.curves[0].curve.setting
        values: dict[str, float] = {"gamma": setting.gamma, "snr": setting.snr}
        if self.curves[0].curve.measure in ("spectrum", "linearization"):
            del values["gamma"]
        words = []
        if "size" in self.swept:
            words = [f"p/n = {setting.dimension / setting.tokens:.3g}"]
        elif "aspect_ratio" in self.swept:
            words = [f"np = {setting.tokens * setting.dimension}"]
        else:
            values |= {"dimension": setting.dimension, "tokens": setting.tokens}
        words += [
            f"{symbol} = {values[name]:g}"
            for name, symbol in SYMBOLS.items()
            if name in values and name not in self.swept
        ]
        return ", ".join(words)


@dataclass(frozen=True)
class Figure:
    """Panels that are drawn together.

    Parameters
    ----------
    name, title : str
        Name of its folder and the words above it.
    paper : str
        Where the paper has it, or "beyond".
    equation : str
        What predicts its lines.
    panels : tuple of Panel
        From left to right, line by line.
    columns : int
        How many axes stand beside each other.
    """

    name: str
    title: str
    paper: str
    equation: str
    panels: tuple[Panel, ...]
    columns: int = 3

    def drawing(self) -> dict[str, Any]:
        """Return what a picture of the figure needs beside its table, as plain JSON."""
        return {
            "title": self.title,
            "columns": self.columns,
            "panels": [
                {
                    "name": panel.name,
                    "title": panel.title,
                    "kind": panel.kind,
                    "quantity": panel.quantity,
                    "parameter": panel.parameter,
                    "row_parameter": panel.curves[0].curve.row_parameter,
                    "row_symbol": SYMBOLS.get(
                        panel.curves[0].curve.row_parameter or "", ""
                    ),
                    "rows": [] if panel.overlay else list(panel.curves[0].curve.rows),
                    "x_as": panel.x_as,
                    "fixed": panel.fixed(),
                    "x_scale": panel.x_scale,
                    "y_scale": panel.y_scale,
                    "fit": panel.fit,
                    "curves": panel.looks(),
                }
                for panel in self.panels
            ],
        }


@dataclass(frozen=True)
class Limits:
    """How a preset makes figures smaller or larger; None leaves as it is defined.

    Parameters
    ----------
    size_divisor, size_multiplier : int
        Divide and multiply tokens and embedding dimension, which keeps their ratio.
    panels, curves, points, replicates : int, optional
        At most so many panels a figure, curves a panel, points along a curve and as
        many rows, draws.
    tokens, dimension : int, optional
        Points of a sweep that have more are left out.
    least_replicates : int
        At least so many draws.
    """

    size_divisor: int = 1
    size_multiplier: int = 1
    panels: int | None = None
    curves: int | None = None
    points: int | None = None
    replicates: int | None = None
    tokens: int | None = None
    dimension: int | None = None
    least_replicates: int = 0

    def admit(self, setting: Setting) -> bool:
        """Return whether a setting has no more tokens and dimensions than allowed."""
        allowed = (setting.tokens, self.tokens), (setting.dimension, self.dimension)
        return all(most is None or size <= most for size, most in allowed)


def resize(figure: Figure, limits: Limits) -> Figure:
    """Return a figure within a preset's limits.

    Raises
    ------
    ValueError
        If a size falls below what a setting allows, or no point of a curve is within
        the limits.
    """
    return dataclasses.replace(
        figure,
        panels=tuple(
            _resize_panel(panel, limits) for panel in figure.panels[: limits.panels]
        ),
    )


def _resize_panel(panel: Panel, limits: Limits) -> Panel:
    replicates = max(panel.replicates, limits.least_replicates)
    if limits.replicates is not None:
        replicates = min(replicates, limits.replicates)
    if panel.curves[0].curve.setting.data is not None:
        # A user's own tokens have the size they have.
        limits = Limits(points=limits.points, curves=limits.curves)
    try:
        curves = tuple(
            dataclasses.replace(one, curve=_resize_curve(one.curve, limits))
            for one in panel.curves[: limits.curves]
        )
    except ValueError as error:
        raise ValueError(f"panels.{panel.name}: {error}") from None
    settings = [setting for one in curves for setting in one.curve]
    tokens = max(setting.tokens for setting in settings)
    dimension = max(setting.dimension for setting in settings)
    if limits.tokens is None and limits.dimension is None:
        # Sizes that follow from others are rounded twice, and may come out larger.
        tokens = max(tokens, _resized(panel.largest[0], limits))
        dimension = max(dimension, _resized(panel.largest[1], limits))
    return dataclasses.replace(
        panel, replicates=replicates, largest=(tokens, dimension), curves=curves
    )


def _resize_curve(curve: Curve, limits: Limits) -> Curve:
    values = _fewer(curve.values, curve.parameter, limits)
    rows = curve.rows
    if curve.row_parameter is not None:
        rows = _fewer(rows, curve.row_parameter, limits)
    setting = dataclasses.replace(
        curve.setting,
        tokens=_resized(curve.setting.tokens, limits),
        dimension=_resized(curve.setting.dimension, limits),
    )
    resized = dataclasses.replace(curve, setting=setting, values=values, rows=rows)
    return _admitted(resized, limits)


def _admitted(curve: Curve, limits: Limits) -> Curve:
    """Return a curve without the rows and values that are too large."""
    if all(map(limits.admit, curve)):
        return curve

    def admitted(part: Curve) -> bool:
        return any(map(limits.admit, part))

    rows = tuple(
        row for row in curve.rows if admitted(dataclasses.replace(curve, rows=(row,)))
    )
    values = tuple(
        value
        for value in curve.values
        if admitted(dataclasses.replace(curve, values=(value,)))
    )
    if values and bool(rows) == bool(curve.rows):
        curve = dataclasses.replace(curve, values=values, rows=rows)
        if all(map(limits.admit, curve)):
            return curve
    smallest = min(curve, key=lambda setting: setting.tokens * setting.dimension)
    raise ValueError(
        f"tokens {smallest.tokens} and dimension {smallest.dimension} are more than "
        "the preset has in at_most"
    )


def _fewer(
    values: tuple[float, ...], parameter: str, limits: Limits
) -> tuple[float, ...]:
    """Return the values of a sweep within a preset's limits."""
    if limits.points is not None and len(values) > limits.points:
        if parameter == "eigenvalue":
            values = _wider_bins(values, limits.points)
        else:
            values = thinned(values, limits.points)
    if parameter in SIZES:
        # Neighbouring sizes may become one.
        resized = (_resized(int(value), limits) for value in values)
        values = tuple(dict.fromkeys(resized))
    return values


def thinned(values: tuple[float, ...], points: int) -> tuple[float, ...]:
    """Return some of the values, evenly spaced in the list, first and last among them.

    Examples
    --------
    >>> thinned((1.0, 2.0, 4.0, 8.0, 16.0), 3)
    (1.0, 4.0, 16.0)
    """
    kept = np.linspace(0, len(values) - 1, points).round().astype(int)
    return tuple(values[place] for place in kept)


def _wider_bins(values: tuple[float, ...], bins: int) -> tuple[float, ...]:
    """Return a spectrum's values with fewer bins over the same range."""
    inner = [value for value in values if value > 0]
    half = (inner[1] / inner[0]) ** 0.5
    return (0.0, *log_bins(inner[0] / half, inner[-1] * half, bins))


def log_bins(start: float, stop: float, bins: int) -> tuple[float, ...]:
    """Return the geometric centres of bins that fill a range evenly in its logarithm.

    Examples
    --------
    >>> [round(centre, 3) for centre in log_bins(1.0, 16.0, 2)]
    [2.0, 8.0]
    """
    edges = np.geomspace(start, stop, bins + 1)
    return tuple(float(x) for x in np.sqrt(edges[1:] * edges[:-1]))


def _resized(size: int, limits: Limits) -> int:
    return round(size * limits.size_multiplier / limits.size_divisor)
