"""The picture of a study shows its tables: each point, bar and line in its place."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from interpolation_error.figures import drawing, study_drawing
from interpolation_error.figures.drawing import AXIS_LABELS, QUANTITY_LABELS
from interpolation_error.model.study import DIRECTIONS, WEIGHTS

STYLE = Path(__file__).parents[2] / "figures/paper.mplstyle"
LAYERS, HEADS, ROWS, RANKS = 2, 3, 5, (1, 2, 4)
CHOSEN = 1, 2
"""Layer and number of the median head."""
AT = {"aspect_ratio": 0.5, "snr": 2.0, "gamma": 0.1}
SWEEPS = ("gamma", "singular"), ("snr", "singular"), ("snr", "random")
"""What the last three axes show: the swept parameter and the signal."""


def invented_errors(rng):
    heads = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    shared = {"model": "made up", "dimension": 64}
    rows = [
        {"part": "heads", "weights": "real", "signal": signal, "tokens": 128} | AT
        for signal in DIRECTIONS
        for _ in heads
    ]
    for words, fill in (("real words", 0), ("shuffled words", 1)):
        for tokens in (64, 128):
            for weights in ("regression", *["real"] * (len(heads) + fill)):
                rows.append(
                    {"part": "words", "weights": weights, "signal": words}
                    | {"tokens": tokens, "snr": 3.0, "gamma": 0.2}
                )
    for tokens in (128, 32):  # the second is of another aspect ratio, not shown
        for swept in ("gamma", "snr"):
            for weights in WEIGHTS:
                for signal in DIRECTIONS:
                    for x in (0.1, 0.3, 1.0, 3.0):
                        rows.append(
                            {"part": "sweep", "weights": weights, "signal": signal}
                            | {"tokens": tokens, "swept": swept}
                            | {**AT, swept: x}
                        )
    table = pd.DataFrame([{**row, **shared} for row in rows])
    for name in ("simulated_mean", "predicted", "theorem_1_with_fit"):
        table[name] = rng.uniform(0.1, 0.9, len(table))
    table["simulated_low"] = 0.9 * table["simulated_mean"]
    table["simulated_high"] = 1.2 * table["simulated_mean"]
    # A line has more points than are simulated.
    finer = (table["part"] == "sweep") & table.index.to_series().mod(4).eq(0)
    simulated = ["simulated_mean", "simulated_low", "simulated_high"]
    table.loc[finer, simulated] = np.nan
    return table


def invented_fits(rng):
    rows = []
    for layer in range(LAYERS):
        for head in [*range(HEADS), "all"]:
            row = {"layer": layer, "head": head}
            row["representative"] = int((layer, head) == CHOSEN)
            for rank in RANKS:
                for name in ("tau_rank_{}", "left_rank_{}", "left_by_rank_{}_alone"):
                    row[name.format(rank)] = rng.uniform(0.1, 0.9)
            rows.append(row)
    fits = pd.DataFrame(rows)
    return fits.assign(head=fits["head"].astype(str))  # as they are read from a file


def invented_spectra(rng):
    places = [
        (a, b, c) for a in range(LAYERS) for b in range(HEADS) for c in range(1, 6)
    ]
    spectra = pd.DataFrame(places, columns=["layer", "head", "number"])
    for name in ("singular_value", "eigenvalue"):
        spectra[name] = rng.uniform(0.01, 0.9, len(spectra))
    return spectra


@pytest.fixture(scope="module")
def drawn():
    """The tables and the picture's axes."""
    mpl.use("Agg")
    drawing.use_style(STYLE)
    rng = np.random.default_rng(0)
    tables = invented_errors(rng), invented_fits(rng), invented_spectra(rng)
    picture = study_drawing.draw(
        *tables, {"title": "A study", "model": "made up", "heads": AT}
    )
    return (*tables, picture)


def colour(artist):
    return mpl.colors.to_hex(artist.get_color())


def assert_line(line, x, y, color):
    np.testing.assert_array_equal(np.asarray(line.get_xdata(), float), x)
    np.testing.assert_array_equal(np.asarray(line.get_ydata(), float), y)
    assert colour(line) == color.lower()


def assert_points(container, rows, along, color, marker, fill="none"):
    """Hold markers and intervals of a curve against rows of the table."""
    markers, _, (bars,) = container.lines
    assert_line(markers, rows[along], rows["simulated_mean"], color)
    assert (markers.get_marker(), markers.get_linestyle()) == (marker, "None")
    assert markers.get_fillstyle() == fill
    columns = [along, "simulated_low", "simulated_high"]
    ends = [[(x, low), (x, high)] for x, low, high in rows[columns].to_numpy()]
    np.testing.assert_allclose(bars.get_segments(), ends, rtol=1e-12)
    assert {mpl.colors.to_hex(one) for one in bars.get_edgecolor()} == {color.lower()}


def assert_band(band, x, low, high):
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    for wanted in (zip(x, low, strict=True), zip(x, high, strict=True)):
        assert set(wanted) <= corners


def words(legend):
    return [text.get_text() for text in legend.get_texts()]


def test_the_map_shows_what_rank_one_leaves_of_each_head(drawn):
    _, fits, _, picture = drawn
    axis = picture.axes[0]
    left = fits[fits["head"] != "all"]["left_rank_1"].to_numpy()
    (image,) = axis.images
    np.testing.assert_array_equal(image.get_array(), left.reshape(LAYERS, HEADS))
    (square,) = axis.lines
    assert (square.get_xdata()[0], square.get_ydata()[0]) == CHOSEN[::-1]
    assert (axis.get_xlabel(), axis.get_ylabel()) == ("head", "layer")


def test_fits_are_shown_by_rank_with_their_range(drawn):
    _, fits, _, picture = drawn
    axis = picture.axes[1]
    heads, layers = fits[fits["head"] != "all"], fits[fits["head"] == "all"]
    looks = (heads, "left_rank_{}"), (layers, "left_rank_{}")
    looks += ((heads, "left_by_rank_{}_alone"),)
    for line, (rows, name) in zip(axis.lines, looks, strict=True):
        values = rows[[name.format(rank) for rank in RANKS]]
        np.testing.assert_array_equal(line.get_xdata(), RANKS)
        np.testing.assert_array_equal(line.get_ydata(), values.median())
    for band, rows in zip(axis.collections, (heads, layers), strict=True):
        left = rows[[f"left_rank_{rank}" for rank in RANKS]]
        assert_band(band, RANKS, left.min(), left.max())
    labels = ["a head", "a layer's heads together", "a head, without τI"]
    assert words(axis.get_legend()) == labels == [x.get_label() for x in axis.lines]
    assert axis.get_xscale() == "log"


def test_the_spectrum_is_of_the_median_head_within_the_range_of_all(drawn):
    _, _, spectra, picture = drawn
    axis = picture.axes[2]
    layer, head = CHOSEN
    own = spectra[(spectra["layer"] == layer) & (spectra["head"] == head)]
    names = {"singular_value": "singular values", "eigenvalue": "eigenvalues, absolute"}
    for line, band, (name, label) in zip(
        axis.lines, axis.collections, names.items(), strict=True
    ):
        np.testing.assert_array_equal(line.get_xdata(), own["number"])
        np.testing.assert_array_equal(line.get_ydata(), own[name])
        assert line.get_label() == label
        values = spectra.groupby("number")[name]
        assert_band(band, range(1, ROWS + 1), values.min(), values.max())
    assert axis.get_yscale() == "log"


def assert_diagonal(axis, line, rows, theory):
    """Hold the line of agreement and its band against what a scatter spans."""
    x, y = line.get_xdata(), line.get_ydata()
    np.testing.assert_array_equal(x, y)
    both = rows[[theory, "simulated_mean"]].to_numpy()
    assert x[0] < both.min()
    assert x[-1] >= min(1, both.max())
    margin = study_drawing.MARGIN
    assert_band(axis.collections[-1], x, x * (1 - margin), x * (1 + margin))
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert axis.get_xlabel().startswith("predicted error")
    assert axis.get_ylabel().startswith("simulated error")


@pytest.mark.parametrize(
    ("place", "theory", "said"),
    [(3, "predicted", "its own weights"), (4, "theorem_1_with_fit", "Theorem 1 with")],
)
def test_every_head_is_at_its_prediction_and_its_simulation(drawn, place, theory, said):
    errors, *_, picture = drawn
    axis = picture.axes[place]
    heads = errors[errors["part"] == "heads"]
    signals = study_drawing.SIGNALS
    assert set(signals) == set(DIRECTIONS)
    for container, (signal, (_, color, marker)) in zip(
        axis.containers, signals.items(), strict=True
    ):
        mine = heads[heads["signal"] == signal]
        assert_points(container, mine, theory, color, marker)
    labels = [label for label, *_ in signals.values()]
    assert words(axis.get_legend()) == labels
    assert [one.get_label() for one in axis.containers] == labels
    assert_diagonal(axis, axis.lines[-1], heads, theory)
    assert said in axis.get_title()
    assert r"$p/n$ = 0.5, $\|\mu\|^2$ = 2, $\gamma$ = 0.1" in axis.get_title()


def test_words_are_told_by_aspect_ratio_and_kind(drawn):
    errors, *_, picture = drawn
    axis = picture.axes[5]
    both = errors[errors["part"] == "words"]
    containers = iter(axis.containers)
    stars = iter([line for line in axis.lines if line.get_marker() == "*"])
    for (color, marker), tokens in zip(study_drawing.RATIOS, (128, 64), strict=False):
        for signal, fill in (("real words", "none"), ("shuffled words", "full")):
            mine = both[(both["tokens"] == tokens) & (both["signal"] == signal)]
            heads = mine[mine["weights"] == "real"]
            assert_points(next(containers), heads, "predicted", color, marker, fill)
            alone, star = mine[mine["weights"] == "regression"], next(stars)
            assert_line(star, alone["predicted"], alone["simulated_mean"], color)
            assert star.get_fillstyle() == fill
    assert next(containers, None) is None
    assert [one.get_label() for one in axis.containers[::2]] == [
        "$p/n$ = 0.5",
        "$p/n$ = 1",
    ]
    assert next(stars).get_label() == "linear regression"
    assert_diagonal(axis, axis.lines[-1], both, "predicted")
    assert r"$\|\mu\|^2$ = 3.0, $\gamma$ = 0.2" in axis.get_title()


@pytest.mark.parametrize(
    ("place", "swept", "signal"),
    [(6 + place, *one) for place, one in enumerate(SWEEPS)],
)
def test_a_sweep_has_markers_and_a_line_for_each_of_the_weights(
    drawn, place, swept, signal
):
    errors, *_, picture = drawn
    axis = picture.axes[place]
    mine = errors[(errors["part"] == "sweep") & (errors["tokens"] == 128)]
    mine = mine[(mine["swept"] == swept) & (mine["signal"] == signal)]
    looks = study_drawing.WEIGHTS
    assert set(looks) == set(WEIGHTS)
    markers = {id(container.lines[0]) for container in axis.containers}
    lines = [line for line in axis.lines if id(line) not in markers]
    lines = [line for line in lines if line.get_linestyle() != "None"]  # caps of bars
    for container, line, (name, (_, color, marker, dashes)) in zip(
        axis.containers, lines, looks.items(), strict=True
    ):
        rows = mine[mine["weights"] == name]
        assert_line(line, rows[swept], rows["predicted"], color)
        assert line.get_linestyle() == dashes
        assert_points(container, rows.dropna(), swept, color, marker)
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    assert axis.get_xlabel() == AXIS_LABELS[swept]
    assert axis.get_ylabel() == QUANTITY_LABELS["error"]
    assert study_drawing.SIGNALS[signal][0] in axis.get_title()
    fixed = r"$\|\mu\|^2$ = 2" if swept == "gamma" else r"$\gamma$ = 0.1"
    assert axis.get_title().endswith(f"$p/n$ = 0.5, {fixed}")


def test_the_legend_has_the_look_of_each_of_the_weights(drawn):
    *_, picture = drawn
    (legend,) = picture.legends
    handles = dict(zip(words(legend), legend.legend_handles, strict=True))
    for label, color, marker, line in study_drawing.WEIGHTS.values():
        handle = handles[label]
        found = colour(handle), handle.get_marker(), handle.get_linestyle()
        assert found == (color.lower(), marker, line)
    assert picture.get_suptitle() == "A study: made up"
