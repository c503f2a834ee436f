"""Figures and panels: curves on one axis, and axes on one page."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from interpolation_error.curve import Curve

BETWEEN = 3
"""How many predictions a line has between two simulated points."""
SYMBOLS = {"gamma": "γ", "dimension": "p", "tokens": "n", "snr": "‖μ‖²"}
"""How the text of a figure writes the parameters of a setting."""


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


@dataclass(frozen=True)
class Panel:
    """Curves that share an axis and the draws they are simulated on.

    Parameters
    ----------
    name, title : str
        Its name in tables and the words above it.
    curves : tuple of LabelledCurve
        All sweep the same parameter.
    replicates : int
        Number of draws.
    largest : tuple of int
        Tokens and embedding dimension of the dataset, of which every point takes
        the leading block.
    x_scale, y_scale : {"linear", "log"}
        Scales of the axes.
    source : tuple of (str, str)
        Who says so, parameter by parameter.
    """

    name: str
    title: str
    curves: tuple[LabelledCurve, ...]
    replicates: int
    largest: tuple[int, int]
    x_scale: str
    y_scale: str
    source: tuple[tuple[str, str], ...]

    def line(self, curve: Curve) -> Curve:
        """Return a curve at more values, so that its prediction is drawn as a line.

        The values of the sweep are among them, with :data:`BETWEEN` more between
        neighbours, evenly on the panel's axis.
        """
        spaced = np.geomspace if self.x_scale == "log" else np.linspace
        points = sorted(curve.values)
        values = points[:1]
        for left, right in itertools.pairwise(points):
            between = [float(x) for x in spaced(left, right, BETWEEN + 2)[1:-1]]
            if curve.parameter in ("tokens", "dimension"):
                between = [round(x) for x in between if left < round(x) < right]
            values += [*dict.fromkeys(between), right]
        first: dict[str, Any] = {curve.parameter: values[0]}
        setting = dataclasses.replace(curve.setting, **first)
        return Curve(setting, curve.parameter, tuple(values))

    @property
    def parameter(self) -> str:
        """What the panel's curves sweep."""
        return self.curves[0].curve.parameter

    def fixed(self) -> str:
        """Return the parameters that the panel holds fixed, for its text."""
        setting = self.curves[0].curve.setting
        return ", ".join(
            f"{symbol} = {getattr(setting, name):g}"
            for name, symbol in SYMBOLS.items()
            if name != self.parameter
        )


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
        From left to right.
    """

    name: str
    title: str
    paper: str
    equation: str
    panels: tuple[Panel, ...]

    def drawing(self) -> dict[str, Any]:
        """Return what a picture of the figure needs beside its table, as plain JSON."""
        return {
            "title": self.title,
            "panels": [
                {
                    "name": panel.name,
                    "title": panel.title,
                    "parameter": panel.parameter,
                    "fixed": panel.fixed(),
                    "x_scale": panel.x_scale,
                    "y_scale": panel.y_scale,
                    "curves": [
                        {
                            "name": curve.name,
                            "label": curve.label,
                            **dataclasses.asdict(curve.style),
                        }
                        for curve in panel.curves
                    ],
                }
                for panel in self.panels
            ],
        }


@dataclass(frozen=True)
class Limits:
    """How a preset makes figures smaller; nothing is left out where it is None.

    Parameters
    ----------
    size_divisor : int
        Divides tokens and embedding dimension, which keeps their ratio.
    panels, curves, points, replicates : int, optional
        At most so many panels a figure, curves a panel, points a curve, draws.
    """

    size_divisor: int = 1
    panels: int | None = None
    curves: int | None = None
    points: int | None = None
    replicates: int | None = None


def shrink(figure: Figure, limits: Limits) -> Figure:
    """Return a figure within a preset's limits.

    Raises
    ------
    ValueError
        If a size falls below what a setting allows.
    """
    return dataclasses.replace(
        figure,
        panels=tuple(
            _shrink_panel(panel, limits) for panel in figure.panels[: limits.panels]
        ),
    )


def _shrink_panel(panel: Panel, limits: Limits) -> Panel:
    replicates = panel.replicates
    if limits.replicates is not None:
        replicates = min(replicates, limits.replicates)
    return dataclasses.replace(
        panel,
        replicates=replicates,
        largest=(
            _divided(panel.largest[0], limits),
            _divided(panel.largest[1], limits),
        ),
        curves=tuple(
            dataclasses.replace(curve, curve=_shrink_curve(curve.curve, limits))
            for curve in panel.curves[: limits.curves]
        ),
    )


def _shrink_curve(curve: Curve, limits: Limits) -> Curve:
    values = curve.values
    if limits.points is not None and len(values) > limits.points:
        # Evenly spaced in the list, first and last among them.
        kept = np.linspace(0, len(values) - 1, limits.points).round().astype(int)
        values = tuple(values[index] for index in kept)
    if curve.parameter in ("tokens", "dimension"):
        values = tuple(_divided(int(value), limits) for value in values)
    setting = dataclasses.replace(
        curve.setting,
        tokens=_divided(curve.setting.tokens, limits),
        dimension=_divided(curve.setting.dimension, limits),
    )
    first: dict[str, Any] = {curve.parameter: values[0]}
    setting = dataclasses.replace(setting, **first)
    return Curve(setting, curve.parameter, values)


def _divided(size: int, limits: Limits) -> int:
    return round(size / limits.size_divisor)
