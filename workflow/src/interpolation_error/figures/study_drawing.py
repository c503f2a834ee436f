"""Draw the study of a pretrained transformer from its tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FormatStrFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

from interpolation_error.figures.drawing import (
    AXIS_LABELS,
    FEW_DECADES,
    QUANTITY_LABELS,
    SUBS,
)

SIGNALS = {
    "singular": ("along singular vector", "#0072B2", "o"),
    "random": ("random", "#D55E00", "^"),
    "unseen": ("not seen by the head", "#000000", "x"),
}
"""Label, colour and marker of each direction of the signal."""
WEIGHTS = {
    "real": ("the head", "#0072B2", "o", "-"),
    "fit": ("its fit, τI + rank 1", "#D55E00", "s", "--"),
    "low_rank": (r"$I + w_K w_Q^T$", "#009E73", "^", "-."),
    "regression": ("linear regression", "#000000", "x", ":"),
}
"""Label, colour, marker and line of the weights that a sweep compares."""
RATIOS = (("#0072B2", "o"), ("#009E73", "s"), ("#E69F00", "^"), ("#CC79A7", "D"))
"""Colour and marker of each aspect ratio of words; the schema allows no more."""
WORDS = {"real words": "none", "shuffled words": "full"}
"""How the markers of each kind of words are filled."""
MARGIN = 0.1
"""What the claims allow theory to be off by, shown as a band.

A picture is drawn without config/claims.yaml, so the number stands here again, and a
test holds the two together.
"""


def draw(
    errors: pd.DataFrame,
    fits: pd.DataFrame,
    spectra: pd.DataFrame,
    drawing: Mapping[str, Any],
) -> Figure:
    """Return the picture of the study.

    Parameters
    ----------
    errors : DataFrame
        As :func:`interpolation_error.figures.study_table.tabulate` makes it.
    fits, spectra : DataFrame
        As :func:`interpolation_error.figures.study_table.describe` makes them.
    drawing : mapping
        ``title``, ``model`` and ``heads``, the setting of the scatters.

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure = Figure(figsize=(8.6, 8.4), layout="constrained")
    axes = figure.subplots(3, 3).ravel()
    _map_of_fits(figure, axes[0], fits)
    _fits_by_rank(axes[1], fits)
    _spectrum(axes[2], spectra, fits)
    at = drawing["heads"]
    heads = errors[errors["part"] == "heads"]
    where = rf"$p/n$ = {at['aspect_ratio']:g}, $\|\mu\|^2$ = {at['snr']:g}, "
    where += rf"$\gamma$ = {at['gamma']:g}"
    _scatter(axes[3], heads, "predicted", f"every head, its own weights\n{where}")
    _scatter(
        axes[4], heads, "theorem_1_with_fit", f"every head, Theorem 1 with fit\n{where}"
    )
    _words(axes[5], errors[errors["part"] == "words"])
    sweeps = errors[errors["part"] == "sweep"]
    ratios = sweeps["dimension"] / sweeps["tokens"]
    nearest = (np.log(ratios / at["aspect_ratio"])).abs()
    sweeps = sweeps[nearest <= nearest.min() + 1e-9]
    for axis, swept, signal in (
        (axes[6], "gamma", "singular"),
        (axes[7], "snr", "singular"),
        (axes[8], "snr", "random"),
    ):
        chosen = (sweeps["swept"] == swept) & (sweeps["signal"] == signal)
        _sweep(axis, sweeps[chosen], swept, signal)
    figure.suptitle(f"{drawing['title']}: {drawing['model']}", fontsize="large")
    figure.legend(
        handles=_sweep_entries(), loc="outside lower center", ncols=len(WEIGHTS) + 2
    )
    return figure


def _map_of_fits(figure: Figure, axis: Axes, fits: pd.DataFrame) -> None:
    """Draw the share that a fit of rank one leaves, over layers and heads."""
    heads = fits[fits["head"] != "all"]
    grid = heads.assign(head=heads["head"].astype(int)).pivot(
        index="layer", columns="head", values="left_rank_1"
    )
    shown = axis.imshow(grid, cmap="cividis", vmin=0, vmax=1, aspect="auto")
    figure.colorbar(shown, ax=axis, label=r"share of $\|W\|_F^2$ left")
    chosen = fits[fits["representative"] == 1].iloc[0]
    axis.plot(
        int(chosen["head"]), chosen["layer"], "s", color="#D55E00", fillstyle="none"
    )
    axis.grid(visible=False)
    for part in (axis.xaxis, axis.yaxis):
        part.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("head")
    axis.set_ylabel("layer")
    axis.set_title("left by the best τI + rank 1\n(square: the median head)")


def _fits_by_rank(axis: Axes, fits: pd.DataFrame) -> None:
    """Draw the share that fits leave against their rank: median and range."""
    taus = [name for name in map(str, fits.columns) if name.startswith("tau_rank_")]
    ranks = [int(name.removeprefix("tau_rank_")) for name in taus]
    heads, layers = fits[fits["head"] != "all"], fits[fits["head"] == "all"]
    for rows, label, color, marker, line in (
        (heads, "a head", "#0072B2", "o", "-"),
        (layers, "a layer's heads together", "#D55E00", "s", "--"),
    ):
        left = rows[[f"left_rank_{rank}" for rank in ranks]]
        axis.plot(ranks, left.median(), line, marker=marker, color=color, label=label)
        axis.fill_between(ranks, left.min(), left.max(), color=color, alpha=0.15)
    alone = heads[[f"left_by_rank_{rank}_alone" for rank in ranks]].median()
    axis.plot(ranks, alone, ":", color="#000000", label="a head, without τI")
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    # Room for the legend above the ranges.
    axis.set_ylim(-0.03, 1.45)
    axis.set_yticks(np.linspace(0, 1, 6))
    axis.set_xlabel("rank")
    axis.set_ylabel(r"share of $\|W\|_F^2$ left")
    axis.set_title("left by the best τI + low rank\n(median, and range over heads)")
    axis.legend(loc="upper right")


def _spectrum(axis: Axes, spectra: pd.DataFrame, fits: pd.DataFrame) -> None:
    """Draw singular values and eigenvalues: of the median head, and their range."""
    chosen = fits[fits["representative"] == 1].iloc[0]
    own = spectra[
        (spectra["layer"] == chosen["layer"]) & (spectra["head"] == int(chosen["head"]))
    ]
    for name, label, color, line in (
        ("singular_value", "singular values", "#0072B2", "-"),
        ("eigenvalue", "eigenvalues, absolute", "#D55E00", "--"),
    ):
        values = spectra.groupby("number")[name]
        low, high = values.min(), values.max()
        axis.fill_between(low.index, low, high, color=color, alpha=0.15)
        axis.plot(own["number"], own[name], line, color=color, label=label)
    axis.set_yscale("log")
    axis.set_ylim(bottom=1e-3)
    axis.set_xlabel("number")
    axis.set_ylabel(r"value over $\|W\|_F$")
    axis.set_title("spectrum of the median head\n(shaded: range over heads)")
    axis.legend()


def _scatter(axis: Axes, heads: pd.DataFrame, theory: str, title: str) -> None:
    """Draw predicted against simulated errors, a point for each head and signal."""
    for signal, (label, color, marker) in SIGNALS.items():
        rows = heads[heads["signal"] == signal]
        _points(axis, rows, theory, color, marker, label)
    _diagonal(axis, heads, theory)
    axis.set_title(title)
    # Few simulations are far below their prediction, so that there is room.
    axis.legend(
        title="signal", title_fontsize="small", loc="lower right", handlelength=1
    )


def _words(axis: Axes, words: pd.DataFrame) -> None:
    """Draw predicted against simulated errors of real words, by aspect ratio."""
    if words.empty:
        axis.set_axis_off()
        return
    sizes = sorted(words["tokens"].unique(), reverse=True)
    for (color, marker), tokens in zip(RATIOS, sizes, strict=False):
        mine = words[words["tokens"] == tokens]
        ratio = mine["dimension"].iloc[0] / tokens
        for signal, fill in WORDS.items():
            rows = mine[mine["signal"] == signal]
            attention = rows[rows["weights"] == "real"]
            label = f"$p/n$ = {ratio:.2g}" if fill == "none" else ""
            _points(axis, attention, "predicted", color, marker, label, fill)
            regression = rows[rows["weights"] == "regression"]
            axis.plot(
                *(regression["predicted"], regression["simulated_mean"], "*"),
                color=color,
                markersize=6,
                fillstyle=fill,
            )
    label = "linear regression"
    axis.plot([], [], "*", color="0.4", markersize=6, fillstyle="none", label=label)
    _diagonal(axis, words, "predicted")
    snr, gamma = words[["snr", "gamma"]].iloc[0]
    axis.set_title(
        f"real words, heads of {words['model'].iloc[0]}\n"
        rf"$\|\mu\|^2$ = {snr:.1f}, $\gamma$ = {gamma:g}"
    )
    axis.legend(
        title="open: real words\nfilled: shuffled words",
        title_fontsize="small",
        loc="upper left",
        handlelength=1,
    )


def _points(
    axis: Axes,
    rows: pd.DataFrame,
    theory: str,
    color: str,
    marker: str,
    label: str,
    fill: str = "none",
) -> None:
    mean = rows["simulated_mean"]
    axis.errorbar(
        rows[theory],
        mean,
        yerr=(mean - rows["simulated_low"], rows["simulated_high"] - mean),
        elinewidth=0.5,
        capsize=0,
        linestyle="none",
        marker=marker,
        markersize=2.5,
        fillstyle=fill,
        markeredgewidth=0.6,
        color=color,
        label=label,
    )


def _diagonal(axis: Axes, rows: pd.DataFrame, theory: str) -> None:
    """Draw where both agree, and within the margin of the claims."""
    both = rows[[theory, "simulated_mean"]].to_numpy()
    ends = np.array([both.min() * 0.85, min(1.0, both.max() * 1.15)])
    axis.fill_between(
        *(ends, ends * (1 - MARGIN), ends * (1 + MARGIN)), color="0.85", zorder=0
    )
    axis.plot(ends, ends, color="0.4", linewidth=0.8, zorder=1)
    axis.set_xscale("log")
    axis.set_yscale("log")
    _plain(axis.xaxis, *ends)
    _plain(axis.yaxis, *ends)
    axis.set_xlabel("predicted error (band: ± 10 %)")
    axis.set_ylabel(r"simulated error $E$")


def _plain(part: Axis, low: float, high: float) -> None:
    """Write plain numbers along a logarithmic axis that spans few decades."""
    if high < FEW_DECADES * low:
        part.set_major_locator(LogLocator(subs=SUBS))
        part.set_major_formatter(FormatStrFormatter("%g"))
        part.set_minor_formatter(NullFormatter())


def _sweep_entries() -> list[Line2D]:
    """Return the legend of the last row, which three axes share."""
    looks = [
        *WEIGHTS.values(),
        ("last row: simulation (mean, 95 % interval)", "0.4", "o", "none"),
        ("theory", "0.4", "", "-"),
    ]
    entries = []
    for label, color, marker, line in looks:
        entry = Line2D([], [], color=color, marker=marker, label=label)
        entry.set(linestyle=line, fillstyle="none")
        entries.append(entry)
    return entries


def _sweep(axis: Axes, rows: pd.DataFrame, swept: str, signal: str) -> None:
    """Draw the median head and its stand-ins against a swept parameter."""
    for name, (_, color, marker, line) in WEIGHTS.items():
        mine = rows[rows["weights"] == name].sort_values(swept)
        axis.plot(mine[swept], mine["predicted"], line, color=color, zorder=2)
        points = mine.dropna(subset="simulated_mean")
        mean = points["simulated_mean"]
        axis.errorbar(
            points[swept],
            mean,
            yerr=(mean - points["simulated_low"], points["simulated_high"] - mean),
            elinewidth=0.8,
            linestyle="none",
            marker=marker,
            fillstyle="none",
            color=color,
            zorder=3,
        )
    axis.set_xscale("log")
    axis.set_yscale("log")
    _plain(axis.xaxis, *axis.get_xlim())
    _plain(axis.yaxis, *axis.get_ylim())
    fixed, symbol = ("snr", r"\|\mu\|^2") if swept == "gamma" else ("gamma", r"\gamma")
    value = rows[fixed].dropna().iloc[0]
    ratio = f"$p/n$ = {rows['dimension'].iloc[0] / rows['tokens'].iloc[0]:.2g}"
    axis.set_xlabel(AXIS_LABELS[swept])
    axis.set_ylabel(QUANTITY_LABELS["error"])
    axis.set_title(
        f"median head, signal {SIGNALS[signal][0]}\n{ratio}, ${symbol}$ = {value:g}"
    )
