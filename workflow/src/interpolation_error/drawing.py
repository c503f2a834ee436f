"""Draw a figure from its table: theory as lines, simulation as markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import ScalarFormatter

FORMATS = ("pdf", "png", "svg")
METADATA: Mapping[str, Mapping[str, None]] = {
    "pdf": {"CreationDate": None},
    "png": {},
    "svg": {"Date": None},
}
"""What keeps a clock out of each format, so that redrawing gives the same bytes."""
AXIS_LABELS = {
    "gamma": r"ridge penalty $\gamma$",
    "dimension": r"embedding dimension $p$",
    "tokens": r"number of tokens $n$",
    "snr": r"signal-to-noise ratio $\|\mu\|^2$",
}
ERROR_LABEL = r"interpolation error $E$"
PANEL_WIDTH, PANEL_HEIGHT = 2.6, 2.5
"""Size of one panel, in inches."""
LEAST_WIDTH = 4.0
"""Width that title and legend need, in inches."""


def draw(table: pd.DataFrame, drawing: Mapping[str, Any]) -> Figure:
    """Return the picture of a figure.

    Parameters
    ----------
    table : DataFrame
        As :func:`interpolation_error.tables.tabulate` makes it.
    drawing : mapping
        As :meth:`interpolation_error.figure.Figure.drawing` describes it.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the table lacks a curve that the drawing names.
    """
    panels = drawing["panels"]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    width = max(PANEL_WIDTH * columns, LEAST_WIDTH)
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows + 0.7), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, panel in zip(axes, panels, strict=False):
        _sweep(axis, table[table["panel"] == panel["name"]], panel)
    for axis in axes[len(panels) :]:
        axis.set_visible(False)
    figure.suptitle(drawing["title"], fontsize="large")
    entries = _legend(panels)
    figure.legend(
        handles=entries,
        loc="outside lower center",
        # An entry takes up to half of the least width.
        ncols=min(len(entries), int(2 * width / LEAST_WIDTH)),
    )
    return figure


def save(figure: Figure, path: Path) -> None:
    """Save a picture in the format of the path's ending, free of clocks."""
    figure.savefig(path, metadata=dict(METADATA[path.suffix.removeprefix(".")]))


def use_style(path: Path) -> None:
    """Draw everything from now on in one style, matplotlib's default below it.

    Raises
    ------
    ValueError
        If the style sheet cannot be read.
    """
    mpl.rcdefaults()
    try:
        mpl.rcParams.update(mpl.rc_params_from_file(path, use_default_template=False))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None


def _sweep(axis: Axes, table: pd.DataFrame, panel: Mapping[str, Any]) -> None:
    """Draw the curves of one swept parameter."""
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        rows = table[table["curve"] == curve["name"]]
        if rows.empty:
            raise ValueError(f"the table lacks {panel['name']}/{curve['name']}")
        points = rows.dropna(subset="simulated_mean")
        mean = points["simulated_mean"]
        axis.errorbar(
            points["x"],
            mean,
            yerr=(mean - points["simulated_low"], points["simulated_high"] - mean),
            elinewidth=0.8,
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markerfacecolor="none",
            zorder=3,
        )
        axis.plot(
            rows["x"],
            rows["predicted"],
            linestyle=style["line"],
            color=style["theory_color"],
            zorder=2,
        )
    axis.set_xscale(panel["x_scale"])
    if panel["x_scale"] == "log" and panel["parameter"] in ("dimension", "tokens"):
        # Sizes come in powers of two and read better as plain numbers.
        axis.set_xscale("log", base=4)
        axis.xaxis.set_major_formatter(ScalarFormatter())
    axis.set_yscale(panel["y_scale"])
    axis.set_xlabel(AXIS_LABELS[panel["parameter"]])
    axis.set_ylabel(ERROR_LABEL)
    axis.set_title(f"{panel['title']}\n{panel['fixed']}")


def _styles(curves: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return each curve's style, filled in from the style sheet's cycle."""
    cycle = mpl.rcParams["axes.prop_cycle"].by_key()["color"]
    styles = []
    for index, curve in enumerate(curves):
        color = curve["color"] or cycle[index % len(cycle)]
        styles.append(
            {
                "color": color,
                "theory_color": curve["theory_color"] or color,
                "marker": curve["marker"] or "o",
                "line": curve["line"] or "-",
            }
        )
    return styles


def _legend(panels: Sequence[Mapping[str, Any]]) -> list[Line2D]:
    """Return one entry a curve, and two that tell theory from simulation."""
    entries: dict[str, Line2D] = {}
    for panel in panels:
        styles = _styles(panel["curves"])
        for curve, style in zip(panel["curves"], styles, strict=True):
            if style["color"] != style["theory_color"]:
                for label, look in _both_kinds(style).items():
                    entries[f"{curve['label']}, {label}"] = look
                continue
            entries[curve["label"]] = Line2D(
                [],
                [],
                color=style["color"],
                linestyle=style["line"],
                marker=style["marker"],
                markerfacecolor="none",
            )
    if any(
        look.get_marker() != "None" and look.get_linestyle() != "None"
        for look in entries.values()
    ):
        grey = {"color": "0.4", "theory_color": "0.4", "marker": "o", "line": "-"}
        entries |= _both_kinds(grey)
    for label, entry in entries.items():
        entry.set_label(label)
    return list(entries.values())


def _both_kinds(style: Mapping[str, Any]) -> dict[str, Line2D]:
    """Return the marker of simulation and the line of theory in one style."""
    return {
        "simulation (mean, 95 % interval)": Line2D(
            [],
            [],
            color=style["color"],
            linestyle="none",
            marker=style["marker"],
            markerfacecolor="none",
        ),
        "theory": Line2D([], [], color=style["theory_color"], linestyle=style["line"]),
    }
