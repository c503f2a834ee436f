"""Where the points of a picture are, and what each of them says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.backends.backend_svg import FigureCanvasSVG

from interpolation_error.figures import drawing


class Tip(NamedTuple):
    """A simulated point: its place from 0 to 1, from the upper left, and its text."""

    x: float
    y: float
    text: str


class Tips(NamedTuple):
    """The tips of a picture, and its width and height in inches."""

    width: float
    height: float
    points: list[Tip]


def tips(table: pd.DataFrame, described: Mapping[str, Any]) -> Tips:
    """Return a tip for each simulated point of a picture that lies within its axis.

    Parameters
    ----------
    table : DataFrame
        As :func:`interpolation_error.figures.tables.tabulate` makes it.
    described : mapping
        As :meth:`interpolation_error.figures.figure.Figure.drawing` describes the
        picture.

    Returns
    -------
    Tips
    """
    picture = drawing.draw(table, described)
    # Laid out as it is for SVG, without writing one.
    FigureCanvasSVG(picture)
    picture.set_dpi(72)
    picture.draw_without_rendering()
    whole = picture.transFigure.inverted()
    found = []
    cells = [cell for panel in described["panels"] for cell in drawing.cells(panel)]
    for axis, cell in zip(picture.axes, cells, strict=False):
        box = axis.get_position().padded(0.01)
        for curve in [cell.curve] if cell.curve else cell.panel["curves"]:
            points = drawing.of_curve(table, cell, curve)
            points = points.dropna(subset="simulated_mean")
            if cell.panel["kind"] == "histogram":
                points = points[points["x"] > 0]
            along, height = _coordinates(cell.panel, points)
            places = whole.transform(axis.transData.transform(np.c_[along, height]))
            for (x, y), point in zip(places, points.itertuples(), strict=True):
                if box.contains(x, y):
                    found.append(Tip(x, 1 - y, _text(cell.panel, curve, point)))
    width, height = picture.get_size_inches()
    return Tips(float(width), float(height), found)


def _coordinates(
    panel: Mapping[str, Any], rows: pd.DataFrame
) -> tuple[pd.Series[float], pd.Series[float]]:
    height = "row" if panel["kind"] == "map" else "simulated_mean"
    return rows[panel["x_as"] or "x"], rows[height]


def _text(panel: Mapping[str, Any], curve: Mapping[str, Any], point: Any) -> str:
    """Return what a point says: where it is, what is simulated there and predicted."""
    words = [f"{curve['label']}, {panel['parameter'].replace('_', ' ')} {point.x:.4g}"]
    if not np.isnan(point.row) and panel["row_parameter"]:
        words[0] += f", {panel['row_parameter'].replace('_', ' ')} {point.row:.4g}"
    words.append(
        f"simulated {point.simulated_mean:.4g} "
        f"({point.simulated_low:.4g} … {point.simulated_high:.4g})"
    )
    for name, predicted, residual in (
        ("limit", point.predicted, point.residual_in_standard_errors),
        (
            "finite size",
            point.predicted_at_finite_size,
            point.residual_at_finite_size,
        ),
    ):
        if not np.isnan(predicted):
            words.append(f"{name} {predicted:.4g}, {residual:+.2f} standard errors off")
    return "; ".join(words)
