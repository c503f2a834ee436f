"""Draw a figure from its table: theory as lines, simulation as markers."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import (
    FormatStrFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)
from numpy.typing import NDArray

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
    "temperature": r"temperature $T$",
    "alignment": r"cosine of weights and $\mu$",
    "linear_share": r"linear share $a_1^2/\nu$",
    "size": r"embedding dimension $p$",
    "aspect_ratio": r"aspect ratio $p/n$",
    "heads": r"number of heads $H$",
    "eigenvalue": r"eigenvalue $\lambda$ of $A^T A/n$",
    "signal_share": "signal's share of a score,\n"
    r"$(\|\mu\|^2 + \mu^T w_K\, \mu^T w_Q)/\sqrt{p}$",
}
QUANTITY_LABELS = {
    "error": r"interpolation error $E$",
    "difference": r"$E_{\mathrm{attention}} - E_{\mathrm{regression}}$",
    "ratio": r"$E_{\mathrm{attention}} / E_{\mathrm{regression}}$",
    "shortfall": r"limit of $E$ minus simulation",
    "over_limit": r"$E$ over its limit",
    "trace": r"resolvent trace $\gamma\,\mathrm{tr}\,Q/n$",
    "density": r"density of $\ln \lambda$",
    "remainder": r"$\|K - \tilde{K}\|$",
    "relative_remainder": r"$\|K - \tilde{K}\| / \|K\|$",
}
PLAIN_BASES = {"dimension": 4, "tokens": 4, "size": 4, "heads": 2, "temperature": 2}
"""Parameters whose logarithmic axis has plain numbers, at powers of a base."""
PANEL_WIDTH, PANEL_HEIGHT = 2.75, 2.5
"""Size of one axis with its labels, in inches."""
LEAST_WIDTH = 4.2
"""Width that title and legend need, in inches."""
NOTE_LETTERS = 36
"""How many letters a line above a panel can have."""
TITLE_HEIGHT, ENTRY_HEIGHT = 0.3, 0.15
"""Height of the title and of a line of the legend, in inches."""
MAP_LEVELS = (0.2, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 5.0)
"""Ratios whose lines a map has beside that of 1; the ends bound its colours."""
FEW_DECADES = 150
"""A logarithmic axis whose ends are less than this apart has plain numbers."""
SUBS = (1, 2, 5)
LONE_SIZE = 9
"""Length in points of the dash for a theory that has one value."""
PALE = 0.35
"""How strongly the limit is drawn beside the theory at finite size."""
LEAST_DENSITY = 1e-6
"""Below this a density is drawn as none where its axis is logarithmic."""
ROOM = 0.035
"""What a number on a line of a map keeps from markers and edges, of an axis."""


class Cell(NamedTuple):
    """What one axis shows: a panel, and its row, or its curve of a map."""

    panel: Mapping[str, Any]
    row: float | None = None
    curve: Mapping[str, Any] | None = None


def draw(table: pd.DataFrame, drawing: Mapping[str, Any]) -> Figure:
    """Return the picture of a figure.

    Parameters
    ----------
    table : DataFrame
        As :func:`interpolation_error.figures.tables.tabulate` makes it.
    drawing : mapping
        As :meth:`interpolation_error.figures.figure.Figure.drawing` describes it.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the table lacks a curve that the drawing names.
    """
    shown = [cell for panel in drawing["panels"] for cell in cells(panel)]
    columns = min(len(shown), drawing["columns"])
    rows = -(-len(shown) // columns)
    width = max(PANEL_WIDTH * columns, LEAST_WIDTH)
    entries = _legend(drawing["panels"], table)
    # An entry takes up to half of the least width.
    entry_columns = min(len(entries), int(2 * width / LEAST_WIDTH))
    height = PANEL_HEIGHT * rows + TITLE_HEIGHT
    height += ENTRY_HEIGHT * -(-len(entries) // entry_columns)
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, cell in zip(axes, shown, strict=False):
        # Before anything is drawn: numbers on lines are placed by the scale.
        _scale(axis, cell.panel)
        note = {"sweep": _sweep, "map": _map, "histogram": _histogram}[
            cell.panel["kind"]
        ](axis, table, cell)
        _label(axis, cell, note)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    maps = [axis for axis, cell in zip(axes, shown, strict=False) if cell.curve]
    if maps:
        _colour_bar(figure, maps)
    figure.suptitle(drawing["title"], fontsize="large")
    figure.legend(handles=entries, loc="outside lower center", ncols=entry_columns)
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


def cells(panel: Mapping[str, Any]) -> list[Cell]:
    """Return the axes of a panel: one for each row, or for each curve of a map.

    Parameters
    ----------
    panel : mapping
        One of ``panels`` of :meth:`interpolation_error.figures.figure.Figure.drawing`.

    Returns
    -------
    list of Cell

    Examples
    --------
    >>> [cell.row for cell in cells({"kind": "sweep", "rows": [0.1, 1.0]})]
    [0.1, 1.0]
    """
    if panel["kind"] == "map":
        return [Cell(panel, curve=curve) for curve in panel["curves"]]
    return [Cell(panel, row) for row in panel["rows"] or [None]]


def of_curve(table: pd.DataFrame, cell: Cell, curve: Mapping[str, Any]) -> pd.DataFrame:
    """Return the rows of a table that one curve shows on one axis.

    Parameters
    ----------
    table : DataFrame
        Of the whole figure.
    cell : Cell
        The axis.
    curve : mapping
        One of the panel's ``curves``, or one row of it if it has a ``row``.

    Returns
    -------
    DataFrame

    Raises
    ------
    ValueError
        If there are none.

    Examples
    --------
    >>> table = pd.DataFrame({"panel": "a", "curve": ["b", "c"], "x": [1.0, 2.0]})
    >>> cell = Cell({"name": "a", "x_as": None})
    >>> of_curve(table, cell, {"name": "c"})["x"].tolist()
    [2.0]
    """
    name = cell.panel["name"]
    mine = (table["panel"] == name) & (table["curve"] == curve["name"])
    rows: pd.DataFrame = table[mine]
    row = curve.get("row", cell.row)
    if row is not None:
        rows = rows[np.isclose(rows["row"], row, rtol=1e-9, atol=0)]
    if cell.panel["x_as"]:
        rows = rows.dropna(subset=cell.panel["x_as"])
    if rows.empty:
        raise ValueError(f"the table lacks {name}/{curve['name']}")
    return rows


def _scale(axis: Axes, panel: Mapping[str, Any]) -> None:
    base = PLAIN_BASES.get(panel["parameter"], 10)
    axis.set_xscale(
        panel["x_scale"], **({"base": base} if panel["x_scale"] == "log" else {})
    )
    axis.set_yscale(panel["y_scale"])


def _label(axis: Axes, cell: Cell, note: str) -> None:
    """Set ticks, labels and title, whose last line is the note if there is one."""
    panel = cell.panel
    base = PLAIN_BASES.get(panel["parameter"])
    if panel["x_scale"] == "log" and base:
        # They span few decades and read better as plain numbers.
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    for scale, part, limits in (
        (None if base else panel["x_scale"], axis.xaxis, axis.get_xlim()),
        (panel["y_scale"], axis.yaxis, axis.get_ylim()),
    ):
        if scale == "log" and limits[1] < FEW_DECADES * limits[0]:
            close = limits[1] < 4 * limits[0]
            part.set_major_locator(MaxNLocator(5) if close else LogLocator(subs=SUBS))
            part.set_major_formatter(FormatStrFormatter("%g"))
            part.set_minor_formatter(NullFormatter())
    axis.set_xlabel(AXIS_LABELS[panel["x_as"] or panel["parameter"]])
    title, fixed = panel["title"], panel["fixed"]
    if cell.curve:
        axis.set_ylabel(AXIS_LABELS[panel["row_parameter"]])
        title = f"{title}: {cell.curve['label']}"
    else:
        axis.set_ylabel(QUANTITY_LABELS[panel["quantity"]])
    if cell.row is not None:
        fixed = f"{fixed}, {panel['row_symbol']} = {cell.row:g}"
    axis.set_title("\n".join(filter(None, (title, fixed, note))))


def _sweep(axis: Axes, table: pd.DataFrame, cell: Cell) -> str:
    """Draw simulated points and predicted lines of one swept parameter.

    Returns what the picture cannot show, for the title.
    """
    panel = cell.panel
    along = panel["x_as"] or "x"
    fitted, hidden = [], False
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        rows = of_curve(table, cell, curve)
        points = rows.dropna(subset="simulated_mean")
        mean = points["simulated_mean"]
        hidden |= panel["y_scale"] == "log" and bool((mean <= 0).any())
        axis.errorbar(
            points[along],
            mean,
            yerr=(mean - points["simulated_low"], points["simulated_high"] - mean),
            elinewidth=0.8,
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markerfacecolor="none",
            zorder=3,
        )
        finite_size = points["predicted_at_finite_size"]
        # The limit steps back where there is a theory for the size.
        alpha = PALE if finite_size.notna().any() else 1.0
        _theory(axis, rows[along], rows["predicted"], style, alpha)
        _theory(axis, points[along], finite_size, style)
        if panel["fit"]:
            fitted += _fitted(axis, points, style)
    if panel["quantity"] == "over_limit":
        axis.axhline(1, color="0.4", alpha=PALE, zorder=1)
    if panel["quantity"] == "shortfall" and panel["y_scale"] == "linear":
        axis.axhline(0, color="0.4", alpha=PALE, zorder=1)
    if panel["quantity"] == "difference":
        axis.axhline(0, color="0.4", linewidth=0.8, zorder=1)
    if panel["quantity"] == "ratio":
        axis.axhline(1, color="0.4", linewidth=0.8, zorder=1)
    if fitted:
        # Beside the axis and in the order of the lines' ends, where none hides another.
        fitted.sort(key=lambda entry: entry[0], reverse=True)
        axis.legend(
            handles=[line for _, line in fitted],
            title="exponent",
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            borderaxespad=0,
            handlelength=1,
            title_fontsize="small",
        )
    return "bar without marker: mean not above 0" if hidden else ""


def _theory(
    axis: Axes,
    x: pd.Series[float],
    predicted: pd.Series[float],
    style: Mapping[str, Any],
    alpha: float = 1.0,
) -> None:
    """Draw a predicted line; a value that stands alone is a dash."""
    known = int(predicted.notna().sum())
    if known == 0:
        return
    axis.plot(
        x,
        predicted,
        linestyle=style["line"],
        marker="_" if known == 1 else "",
        markersize=LONE_SIZE,
        color=style["theory_color"],
        alpha=alpha,
        zorder=2,
    )


def _fitted(
    axis: Axes, points: pd.DataFrame, style: Mapping[str, Any]
) -> list[tuple[float, Line2D]]:
    """Draw a fitted power law and return its end and entry, if known to within 1."""
    slope, low, high = points[["slope", "slope_low", "slope_high"]].iloc[0]
    x, mean = points["x"].to_numpy(), points["simulated_mean"]
    if not (high - low < 2 and mean.min() > 0):
        return []
    fitted = np.exp(np.log(mean).mean() + slope * (np.log(x) - np.log(x).mean()))
    axis.plot(x, fitted, ":", color=style["color"], linewidth=0.9)
    entry = _line(style["color"], "none", style["marker"])
    text = f"{slope:.2f} ± {(high - low) / 2:.2f}"
    entry.set_label(text.replace("-", "\N{MINUS SIGN}"))
    return [(float(fitted[-1]), entry)]


def _histogram(axis: Axes, table: pd.DataFrame, cell: Cell) -> str:
    """Draw a spectrum: bars of simulation below the predicted density.

    Returns the share of eigenvalues at 0, which the axis does not have.
    """
    panel = cell.panel
    at_zero: dict[str, list[str]] = {}
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        rows = of_curve(table, cell, curve)
        atom, rows = rows[rows["x"] == 0].iloc[0], rows[rows["x"] > 0]
        share = f"{atom['simulated_mean']:.3f} (theory {atom['predicted']:.3f})"
        at_zero.setdefault(share, []).append(curve["label"])
        points = rows.dropna(subset="simulated_mean")
        x = points["x"].to_numpy()
        half = np.sqrt(x[1] / x[0])
        edges = np.append(x / half, x[-1] * half)
        mean = points["simulated_mean"]
        axis.stairs(mean, edges, fill=True, color=style["color"], alpha=0.2, zorder=2)
        axis.stairs(mean, edges, color=style["color"], linewidth=0.5, zorder=2)
        # Outside its support the density is zero but for rounding.
        predicted = rows["predicted"].where(rows["predicted"] > LEAST_DENSITY)
        axis.plot(
            rows["x"],
            predicted if panel["y_scale"] == "log" else rows["predicted"],
            linestyle=style["line"],
            color=style["theory_color"],
            zorder=3,
        )
    if len(at_zero) == 1:
        return f"share at 0: {next(iter(at_zero))}"
    return "\n".join(
        textwrap.fill(f"{', '.join(labels)} at 0: {share}", NOTE_LETTERS)
        for share, labels in at_zero.items()
    )


def _map(axis: Axes, table: pd.DataFrame, cell: Cell) -> str:
    """Draw a predicted ratio over two parameters, and simulated points in its colours.

    The lines of equal ratio make it readable without colours.
    """
    if cell.curve is None:
        raise ValueError(f"{cell.panel['name']}: a map shows one curve an axis")
    rows = of_curve(table, cell, cell.curve)
    # Theory at finite size takes the place of the limit where it is asked for.
    finite_size = rows["predicted_at_finite_size"].notna().any()
    shown = "predicted_at_finite_size" if finite_size else "predicted"
    grid = rows.pivot_table(index="row", columns="x", values=shown)
    x, y, z = grid.columns, grid.index, grid.to_numpy()
    norm: Normalize = LogNorm(MAP_LEVELS[0], MAP_LEVELS[-1])
    axis.pcolormesh(x, y, z, norm=norm, cmap="cividis", shading="gouraud", zorder=0)
    lines = axis.contour(
        x, y, z, MAP_LEVELS, colors="black", linewidths=0.7, linestyles="--"
    )
    lines.set_path_effects([withStroke(linewidth=2, foreground="white")])
    axis.contour(x, y, z, [1.0], colors="black", linewidths=1.8)
    points = rows.dropna(subset="simulated_mean")
    # What a simulation says of the line of ones is seen by the shape, without colour.
    worse, better = points["simulated_low"] > 1, points["simulated_high"] < 1
    for chosen, marker in zip((worse, better, ~(worse | better)), "^vo", strict=True):
        mean = points.loc[chosen, "simulated_mean"].to_numpy()
        axis.scatter(
            points.loc[chosen, "x"],
            points.loc[chosen, "row"],
            c=ScalarMappable(norm, "cividis").to_rgba(mean),
            marker=marker,
            edgecolors="black",
            s=18,
            linewidths=0.7,
            zorder=3,
            clip_on=False,
        )
    axis.grid(visible=False)
    _number_lines(axis, lines, points[["x", "row"]].to_numpy())
    return ""


def _number_lines(axis: Axes, lines: ContourSet, points: NDArray[np.float64]) -> None:
    """Write each level on its line, as far from points, edges and others as it can."""
    axis.autoscale_view()
    to_axis = axis.transData + axis.transAxes.inverted()
    taken = to_axis.transform(points)
    for level, segments in zip(lines.levels, lines.allsegs, strict=True):
        drawn = [_denser(to_axis.transform(one)) for one in segments if len(one)]
        if not drawn:  # no such ratio on this map
            continue
        places = np.concatenate(drawn)
        apart = np.linalg.norm(places[:, None] - taken[None], axis=2).min(axis=1)
        room = np.minimum(np.minimum(places, 1 - places).min(axis=1), apart)
        best = int(room.argmax())
        if room[best] < ROOM:
            continue
        taken = np.vstack([taken, places[best]])
        axis.text(
            float(places[best, 0]),
            float(places[best, 1]),
            f"{level:g}",
            transform=axis.transAxes,
            fontsize=6,
            horizontalalignment="center",
            verticalalignment="center",
            path_effects=[withStroke(linewidth=2, foreground="white")],
            zorder=4,
        )


def _denser(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a broken line with more points between its corners."""
    number = np.arange(len(corners))
    finer = np.linspace(0, number[-1], 10 * len(corners))
    return np.column_stack([np.interp(finer, number, part) for part in corners.T])


def _colour_bar(figure: Figure, maps: Sequence[Axes]) -> None:
    """Draw the one colour bar of all maps, open where values leave its range."""
    values = np.concatenate(
        [np.ravel(np.asarray(axis.collections[0].get_array())) for axis in maps]
    )
    below, above = values.min() < MAP_LEVELS[0], values.max() > MAP_LEVELS[-1]
    bar = figure.colorbar(
        maps[0].collections[0],
        ax=list(maps),
        aspect=40,
        shrink=0.8,
        extend={(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[
            int(below), int(above)
        ],
    )
    bar.set_label(QUANTITY_LABELS["ratio"])
    ticks = (0.2, 0.5, 1.0, 2.0, 5.0)
    bar.set_ticks(ticks, labels=[f"{x:g}" for x in ticks])
    bar.minorticks_off()


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


def _legend(
    panels: Sequence[Mapping[str, Any]], table: pd.DataFrame
) -> list[Line2D | Patch]:
    """Return one entry a curve, and what tells theory from simulation.

    An entry has a line only if the curve has one in some panel, and likewise a marker.
    """
    curves: dict[str, Line2D | Patch] = {}
    general: dict[str, Line2D | Patch] = {}
    for panel in panels:
        if panel["kind"] == "map":
            general |= _map_entries()
            continue
        for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
            if style["color"] != style["theory_color"]:
                for label, look in _both_kinds(style).items():
                    curves[f"{curve['label']}, {label}"] = look
                continue
            (cell, *_) = cells(panel)
            rows = of_curve(table, cell, curve)
            limit, finite_size = (
                int(rows[name].notna().sum())
                for name in ("predicted", "predicted_at_finite_size")
            )
            entry = curves.setdefault(
                curve["label"], _line(style["color"], "none", "none")
            )
            if max(limit, finite_size) > 1:
                entry.set(linestyle=style["line"])
            elif limit:
                general["theory, where it has one value"] = _lone()
            if panel["kind"] == "histogram":
                general["simulation: histogram over draws"] = Patch(
                    facecolor="0.4", alpha=0.25
                )
                general.setdefault("theory", _line("0.4", "-"))
                continue
            entry.set(marker=style["marker"])
            grey = {"color": "0.4", "theory_color": "0.4", "marker": "o", "line": "-"}
            simulation, theory = _both_kinds(grey).items()
            general.update([simulation])
            if finite_size:
                general |= _both_theories(theory[1])
            elif limit > 1 and "theory: limit" not in general:
                general.update([theory])
        if panel["fit"]:
            general["fitted power law, exponent ± 95 %"] = _line("0.4", ":")
    if "theory: limit" in general:
        general.pop("theory", None)  # of a curve that has its limit alone
    for label, entry in (curves | general).items():
        entry.set_label(label)
    return list((curves | general).values())


def _lone() -> Line2D:
    dash = _line("0.4", "none", "_")
    dash.set_markersize(LONE_SIZE)
    return dash


def _line(color: str, line: str, marker: str = "") -> Line2D:
    look = {"color": color, "linestyle": line, "marker": marker}
    entry = Line2D([], [], markerfacecolor="none")
    entry.set(**look)
    return entry


def _map_entries() -> dict[str, Line2D | Patch]:
    return {
        "theory: both errors equal": _line("black", "-"),
        "simulation: attention worse (95 %)": _line("black", "none", "^"),
        "simulation: attention better (95 %)": _line("black", "none", "v"),
        "simulation: undecided": _line("black", "none", "o"),
    }


def _both_theories(line: Line2D | Patch) -> dict[str, Line2D | Patch]:
    """Return entries for the limit and the theory at finite size."""
    pale = _line("0.4", "-")
    pale.set_alpha(PALE)
    return {"theory: finite size": line, "theory: limit": pale}


def _both_kinds(style: Mapping[str, Any]) -> dict[str, Line2D | Patch]:
    """Return the marker of simulation and the line of theory in one style."""
    return {
        "simulation (mean, 95 % interval)": _line(
            style["color"], "none", style["marker"]
        ),
        "theory": _line(style["theory_color"], style["line"]),
    }
