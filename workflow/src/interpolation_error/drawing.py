"""Draw a figure from its table: theory as lines, simulation as markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import (
    FormatStrFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

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
    "alignment": r"cosine between weights and signal",
    "linear_share": r"linear share $a_1^2/\nu$",
    "size": r"embedding dimension $p$",
    "aspect_ratio": r"aspect ratio $p/n$",
    "heads": r"number of heads $H$",
    "eigenvalue": r"eigenvalue $\lambda$ of $A^T A/n$",
    "signal_share": r"share of a score, $(\|\mu\|^2 + \mu^T w_K\, \mu^T w_Q)/\sqrt{p}$",
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
PANEL_WIDTH, PANEL_HEIGHT = 2.6, 2.5
"""Size of one axis with its labels, in inches."""
LEAST_WIDTH = 4.0
"""Width that title and legend need, in inches."""
MAP_LEVELS = (0.2, 0.5, 0.8, 0.9, 1.1, 1.25, 2.0, 5.0)
"""Ratios whose lines a map has beside that of 1; the ends bound its colours."""
FEW_DECADES = 150
"""A logarithmic axis whose ends are less than this apart has plain numbers."""
SUBS = (1, 2, 5)
PALE = 0.35
"""How strongly the limit is drawn beside the theory at finite size."""
NO_DENSITY = 1e-6
"""Below this a density is drawn as none where its axis is logarithmic."""


class _Cell(NamedTuple):
    """What one axis shows: a panel, and its row, or its curve of a map."""

    panel: Mapping[str, Any]
    row: float | None = None
    curve: Mapping[str, Any] | None = None


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
    cells = [cell for panel in drawing["panels"] for cell in _cells(panel)]
    columns = min(len(cells), drawing["columns"])
    rows = -(-len(cells) // columns)
    width = max(PANEL_WIDTH * columns, LEAST_WIDTH)
    figure = Figure(figsize=(width, PANEL_HEIGHT * rows + 0.7), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, cell in zip(axes, cells, strict=False):
        mine = table[table["panel"] == cell.panel["name"]]
        {"sweep": _sweep, "map": _map, "histogram": _histogram}[cell.panel["kind"]](
            axis, mine, cell
        )
        _label(axis, cell)
    for axis in axes[len(cells) :]:
        axis.set_visible(False)
    maps = [axis for axis, cell in zip(axes, cells, strict=False) if cell.curve]
    if maps:
        shown = maps[0].collections[0]
        bar = figure.colorbar(shown, ax=maps, aspect=40, shrink=0.8)
        bar.set_label(QUANTITY_LABELS["ratio"])
        ticks = (0.2, 0.5, 1.0, 2.0, 5.0)
        bar.set_ticks(ticks, labels=[f"{x:g}" for x in ticks])
        bar.minorticks_off()
    figure.suptitle(drawing["title"], fontsize="large")
    entries = _legend(drawing["panels"], table)
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


def _cells(panel: Mapping[str, Any]) -> list[_Cell]:
    """Return the axes of a panel: one for each row, or for each curve of a map."""
    if panel["kind"] == "map":
        return [_Cell(panel, curve=curve) for curve in panel["curves"]]
    return [_Cell(panel, row) for row in panel["rows"] or [None]]


def _label(axis: Axes, cell: _Cell) -> None:
    """Set scales, labels and title."""
    panel = cell.panel
    axis.set_xscale(panel["x_scale"])
    base = PLAIN_BASES.get(panel["parameter"])
    if panel["x_scale"] == "log" and base:
        # They span few decades and read better as plain numbers.
        axis.set_xscale("log", base=base)
        axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_yscale(panel["y_scale"])
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
    fixed = panel["fixed"]
    if cell.curve:
        axis.set_ylabel(AXIS_LABELS[panel["row_parameter"]])
        axis.set_title(f"{panel['title']}: {cell.curve['label']}\n{fixed}")
        return
    if cell.row is not None:
        fixed = f"{fixed}, {panel['row_symbol']} = {cell.row:g}"
    axis.set_ylabel(QUANTITY_LABELS[panel["quantity"]])
    axis.set_title(f"{panel['title']}\n{fixed}")


def _of_curve(
    table: pd.DataFrame, cell: _Cell, curve: Mapping[str, Any]
) -> pd.DataFrame:
    """Return what one curve shows, of one row of it where cell or curve has one."""
    rows: pd.DataFrame = table[table["curve"] == curve["name"]]
    row = curve.get("row", cell.row)
    if row is not None:
        rows = rows[np.isclose(rows["row"], row, rtol=1e-9, atol=0)]
    if cell.panel["x_as"]:
        rows = rows.dropna(subset=cell.panel["x_as"])
        rows = rows.assign(x=rows[cell.panel["x_as"]].to_numpy())
    if rows.empty:
        raise ValueError(f"the table lacks {cell.panel['name']}/{curve['name']}")
    return rows


def _sweep(axis: Axes, table: pd.DataFrame, cell: _Cell) -> None:
    """Draw simulated points and predicted lines of one swept parameter."""
    panel = cell.panel
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        rows = _of_curve(table, cell, curve)
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
        finite_size = points["predicted_at_finite_size"]
        axis.plot(
            rows["x"],
            rows["predicted"],
            linestyle=style["line"],
            color=style["theory_color"],
            # The limit steps back where there is a theory for the size.
            alpha=PALE if finite_size.notna().any() else 1.0,
            zorder=2,
        )
        if finite_size.notna().any():
            axis.plot(
                points["x"],
                finite_size,
                linestyle=style["line"],
                color=style["theory_color"],
                zorder=2,
            )
        if panel["fit"]:
            _fitted(axis, points, style["color"])
    if panel["quantity"] == "difference":
        axis.axhline(0, color="0.4", linewidth=0.8, zorder=1)
    if panel["quantity"] in ("ratio", "over_limit"):
        axis.axhline(1, color="0.4", linewidth=0.8, zorder=1)


def _fitted(axis: Axes, points: pd.DataFrame, color: str) -> None:
    """Draw a fitted power law with its exponent, if that is known to within 1."""
    slope, low, high = points[["slope", "slope_low", "slope_high"]].iloc[0]
    x, mean = points["x"].to_numpy(), points["simulated_mean"]
    if not (high - low < 2 and mean.min() > 0):
        return
    fitted = np.exp(np.log(mean).mean() + slope * (np.log(x) - np.log(x).mean()))
    axis.plot(x, fitted, ":", color=color, linewidth=0.9)
    axis.annotate(
        f"{slope:.2f} ± {(high - low) / 2:.2f}".replace("-", "\N{MINUS SIGN}"),
        *((x[-1], fitted[-1]), (3, 0)),
        textcoords="offset points",
        color=color,
        fontsize="small",
        verticalalignment="center",
        annotation_clip=False,
    )


def _histogram(axis: Axes, table: pd.DataFrame, cell: _Cell) -> None:
    """Draw a spectrum: bars of simulation below the predicted density."""
    panel = cell.panel
    for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
        rows = _of_curve(table, cell, curve)
        atom, rows = rows[rows["x"] == 0].iloc[0], rows[rows["x"] > 0]
        points = rows.dropna(subset="simulated_mean")
        x = points["x"].to_numpy()
        half = np.sqrt(x[1] / x[0])
        edges = np.append(x / half, x[-1] * half)
        mean = points["simulated_mean"]
        axis.stairs(mean, edges, fill=True, color=style["color"], alpha=0.25, zorder=2)
        axis.stairs(mean, edges, color=style["color"], linewidth=0.5, zorder=2)
        # Outside its support the density is zero but for rounding.
        predicted = rows["predicted"].where(rows["predicted"] > NO_DENSITY)
        axis.plot(
            rows["x"],
            predicted if panel["y_scale"] == "log" else rows["predicted"],
            linestyle=style["line"],
            color=style["theory_color"],
            zorder=3,
        )
    axis.text(
        *(0.03, 0.97),
        f"at 0: {atom['simulated_mean']:.3f}\n(theory {atom['predicted']:.3f})",
        transform=axis.transAxes,
        verticalalignment="top",
        fontsize="small",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1},
    )


def _map(axis: Axes, table: pd.DataFrame, cell: _Cell) -> None:
    """Draw a predicted ratio over two parameters, and simulated points in its colours.

    The lines of equal ratio make it readable without colours.
    """
    if cell.curve is None:
        raise ValueError(f"{cell.panel['name']}: a map shows one curve an axis")
    rows = _of_curve(table, cell, cell.curve)
    # Theory at finite size takes the place of the limit where it is asked for.
    finite_size = rows["predicted_at_finite_size"].notna().any()
    shown = "predicted_at_finite_size" if finite_size else "predicted"
    grid = rows.pivot_table(index="row", columns="x", values=shown)
    x, y, z = grid.columns, grid.index, grid.to_numpy()
    norm: Normalize = LogNorm(MAP_LEVELS[0], MAP_LEVELS[-1])
    axis.pcolormesh(x, y, z, norm=norm, cmap="cividis", shading="gouraud", zorder=0)
    lines = axis.contour(
        x, y, z, MAP_LEVELS, colors="white", linewidths=0.7, linestyles="--"
    )
    axis.clabel(lines, fontsize=6, fmt="%g")
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
    """Return one entry a curve, and what tells theory from simulation."""
    entries: dict[str, Line2D | Patch] = {}
    general: dict[str, Line2D | Patch] = {}
    for panel in panels:
        if panel["kind"] == "map":
            general |= _map_entries()
            continue
        for curve, style in zip(panel["curves"], _styles(panel["curves"]), strict=True):
            if panel["kind"] == "histogram":
                entries[curve["label"]] = Patch(
                    facecolor=style["color"], edgecolor=style["color"], alpha=0.4
                )
                general["theory: limiting density"] = _line("0.4", "-")
                general["simulation: histogram over draws"] = Patch(
                    facecolor="0.4", alpha=0.25
                )
            elif style["color"] != style["theory_color"]:
                for label, look in _both_kinds(style).items():
                    entries[f"{curve['label']}, {label}"] = look
            else:
                mine = table[table["panel"] == panel["name"]]
                grey = {"color": "0.4", "theory_color": "0.4", "marker": "o"}
                both = _both_kinds({**grey, "line": "-"})
                if mine["predicted_at_finite_size"].notna().any():
                    both |= _both_theories(both.pop("theory"))
                elif not mine["predicted"].notna().any():
                    del both["theory"]
                    style["line"] = "none"
                general |= both
                entries.setdefault(
                    curve["label"],
                    _line(style["color"], style["line"], style["marker"]),
                )
        if panel["fit"]:
            general["fitted power law, exponent ± 95 %"] = _line("0.4", ":")
    for label, entry in (entries | general).items():
        entry.set_label(label)
    return list((entries | general).values())


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
