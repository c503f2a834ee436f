"""Pictures show what the table says: theory as lines, simulation as markers."""

import dataclasses
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from interpolation_error import drawing
from interpolation_error.figure_configuration import read_figure
from interpolation_error.gather import signal_share
from interpolation_error.lines import line
from interpolation_error.tables import Series, tabulate

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "figures/paper.mplstyle"
FIGURES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def described(name):
    return read_figure(ROOT / f"figures/{name}/figure.yaml", ROOT, {})


def invented(panel, labelled, rng):
    """Return a curve's numbers, where theory has something to say of the quantity."""
    curve = labelled.curve
    asked = panel.line(curve)
    finer = line(curve, asked["x_scale"], asked["row_scale"])
    predicted = rng.uniform(0.1, 0.9, np.prod(finer.shape))
    if curve.measure == "linearization" or panel.quantity in (
        "shortfall",
        "over_limit",
    ):
        predicted[:] = np.nan
    return Series(
        panel.name,
        labelled.name,
        curve.parameter,
        curve.values,
        finer.values,
        rng.uniform(0.1, 0.9, (3, np.prod(curve.shape))),
        predicted,
        curve.row_parameter,
        curve.rows or (np.nan,),
        finer.rows or (np.nan,),
        panel.fit,
        rng.uniform(0.1, 0.9, np.prod(curve.shape)) if asked["finite_size"] else None,
        np.array([signal_share(setting) for setting in curve]),
    )


def invented_table(figure):
    rng = np.random.default_rng(0)
    return tabulate(
        invented(panel, curve, rng) for panel in figure.panels for curve in panel.curves
    )


def cells(figure):
    """Return panel and row of every axis, in order; a map has one for each curve."""
    found = []
    for panel in figure.panels:
        if panel.kind == "map":
            found += [(panel, None)] * len(panel.curves)
        elif panel.overlay:
            found.append((panel, None))
        else:
            found += [(panel, row) for row in panel.curves[0].curve.rows or (None,)]
    return found


@pytest.fixture(params=FIGURES)
def figure(request):
    mpl.use("Agg")
    drawing.use_style(STYLE)
    return described(request.param)


def test_every_number_of_the_table_is_in_the_picture(figure):
    table = invented_table(figure)
    picture = drawing.draw(table, figure.drawing())
    for axis, (panel, row) in zip(picture.axes, cells(figure), strict=False):
        if panel.kind != "sweep":
            continue
        drawn = [np.asarray(line.get_ydata(), float) for line in axis.lines]
        for curve in panel.looks():
            rows = table[(table.panel == panel.name) & (table.curve == curve["name"])]
            if curve.get("row", row) is not None:
                rows = rows[rows["row"] == curve.get("row", row)]
            for column in ("simulated_mean", "predicted", "predicted_at_finite_size"):
                values = rows[column].dropna().to_numpy()
                assert not values.size or any(
                    line.shape == values.shape and np.array_equal(line, values)
                    for line in drawn
                ), (panel.name, curve["name"], column)


def test_axes_have_symbols_and_the_panel_its_parameters(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    for axis, (panel, row) in zip(picture.axes, cells(figure), strict=False):
        assert axis.get_xlabel() == drawing.AXIS_LABELS[panel.x_as or panel.parameter]
        if panel.kind == "map":
            rows = panel.curves[0].curve.row_parameter
            assert axis.get_ylabel() == drawing.AXIS_LABELS[rows]
        else:
            assert axis.get_ylabel() == drawing.QUANTITY_LABELS[panel.quantity]
        assert panel.fixed() in axis.get_title()
        assert row is None or f" = {row:g}" in axis.get_title()


def bars(axis):
    """Return the heights of an axis's histograms that are filled."""
    return [patch.get_data().values for patch in axis.patches if patch.get_fill()]


def test_a_histogram_shows_every_bin_and_the_share_at_zero():
    drawing.use_style(STYLE)
    figure = described("spectrum")
    table = invented_table(figure)
    picture = drawing.draw(table, figure.drawing())
    panel = figure.panels[0]
    for curve, heights in zip(panel.curves, bars(picture.axes[0]), strict=True):
        rows = table[(table.panel == panel.name) & (table.curve == curve.name)]
        rows = rows[rows["x"] > 0].dropna(subset="simulated_mean")
        assert np.array_equal(heights, rows["simulated_mean"])


def test_a_share_at_zero_is_named_with_its_curves_where_they_differ():
    drawing.use_style(STYLE)
    figure = described("spectrum")
    table = invented_table(figure)
    at_zero = (table.panel == "density_quarter") & (table["x"] == 0)
    columns = ["simulated_mean", "predicted"]
    table.loc[at_zero, columns] = 0.75
    same = drawing.draw(table, figure.drawing()).axes[0].get_title()
    assert same.endswith("\nshare at 0: 0.750 (theory 0.750)")
    table.loc[at_zero & (table.curve == "cos"), columns] = 0.5, 0.25
    title = drawing.draw(table, figure.drawing()).axes[0].get_title()
    assert title.splitlines()[2:] == [
        "tanh, sign, truncated exp at 0:",
        "0.750 (theory 0.750)",
        "cos at 0: 0.500 (theory 0.250)",
    ]


def test_a_map_marks_what_each_simulated_point_says_of_the_line_of_ones():
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    figure = dataclasses.replace(figure, panels=figure.panels[:1])
    table = invented_table(figure)
    rows = table[table.curve == "tanh"].dropna(subset="simulated_mean")
    picture = drawing.draw(table, figure.drawing())
    marked = sum(len(c.get_offsets()) for c in picture.axes[0].collections[-3:])
    assert marked == len(rows)


def test_a_fitted_exponent_is_written_where_it_is_known():
    drawing.use_style(STYLE)
    figure = described("linearization")
    table = invented_table(figure)
    known = table.assign(slope=-0.5, slope_low=-0.6, slope_high=-0.4)
    picture = drawing.draw(known, figure.drawing())
    # One a curve, in a list, so that none is printed over another.
    words = [text.get_text() for text in picture.axes[0].get_legend().get_texts()]
    assert words == ["\N{MINUS SIGN}0.50 ± 0.10"] * len(figure.panels[0].curves)
    unknown = table.assign(slope=-0.5, slope_low=-1.6, slope_high=0.6)
    picture = drawing.draw(unknown, figure.drawing())
    assert picture.axes[0].get_legend() is None


def test_the_legend_names_every_curve_and_tells_theory_from_simulation(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    words = " ".join(text.get_text() for text in picture.legends[0].get_texts())
    for panel in figure.panels:
        for curve in panel.curves:
            assert panel.kind == "map" or curve.label in words
    assert "theory" in words or figure.name == "linearization"
    assert "simulation" in words


def test_curves_of_a_panel_differ_in_more_than_colour(figure):
    for panel in figure.drawing()["panels"]:
        looks = [(c["marker"], c["line"]) for c in panel["curves"]]
        if panel["kind"] == "histogram":
            looks = [c["line"] for c in panel["curves"]]
        assert len(set(looks)) == len(looks)


def legend(picture):
    """Return colour and strength, marker and line of what the legend has of curves."""
    return {
        line.get_label(): (
            (line.get_color(), line.get_alpha()),
            line.get_marker(),
            line.get_linestyle(),
        )
        for line in picture.legends[0].legend_handles
        if isinstance(line, mpl.lines.Line2D)
    }


def test_no_look_in_the_legend_stands_for_two_curves(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    shown = legend(picture)
    assert len(set(shown.values())) == len(shown)
    looks = {}
    for panel in figure.drawing()["panels"]:
        for curve in panel["curves"]:
            look = tuple(curve[key] for key in ("color", "marker", "line"))
            if panel["kind"] != "map":
                assert looks.setdefault(curve["label"], look) == look
    # Without colours too.
    grey = [look[1:] for label, look in shown.items() if label in looks]
    assert len(set(grey)) == len(grey)


def test_the_legend_shows_no_line_where_there_is_none():
    drawing.use_style(STYLE)
    figure = described("heads")
    table = invented_table(figure)
    several = table.curve.ne("regression") & table.x.gt(1)
    table.loc[several, "predicted"] = np.nan
    picture = drawing.draw(table, figure.drawing())
    lines = {label: line for label, (_, _, line) in legend(picture).items()}
    for curve in figure.panels[0].curves:
        assert lines[curve.label] == (":" if curve.name == "regression" else "None")
    # What theory says of one head is a dash.
    assert "theory, where it has one value" in lines
    sizes = [line.get_markersize() for line in picture.axes[0].lines]
    assert sizes.count(drawing.LONE_SIZE) >= 3


def test_nothing_sticks_out(figure):
    table = invented_table(figure)
    # Shares at 0 that agree, as those of a spectrum do.
    table.loc[table["x"] == 0, ["simulated_mean", "predicted"]] = 0.5
    picture = drawing.draw(table, figure.drawing())
    picture.draw_without_rendering()
    page = picture.bbox.padded(1)
    parts = [picture.legends[0], *(axis.title for axis in picture.axes)]
    for part in parts:
        box = part.get_window_extent()
        assert page.x0 <= box.x0 <= box.x1 <= page.x1, part
    for axis, (panel, _) in zip(picture.axes, cells(figure), strict=False):
        label = axis.yaxis.label.get_window_extent()
        assert label.height <= axis.bbox.height, panel.name


def test_the_numbers_of_a_map_are_whole_and_on_its_lines():
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    table = smooth(invented_table(figure))
    picture = drawing.draw(table, figure.drawing())
    picture.draw_without_rendering()
    axis = picture.axes[0]
    assert {text.get_text() for text in axis.texts} >= {"0.5", "0.8", "2"}
    for text in axis.texts:
        box = text.get_window_extent()
        assert axis.bbox.containsx(box.x0)
        assert axis.bbox.containsx(box.x1)
        # A ratio of 10^(4 h - 2) at height h.
        height = text.get_position()[1]
        assert 10 ** (4 * height - 2) == pytest.approx(float(text.get_text()), rel=0.02)


def smooth(table):
    """Return a table whose ratios go from 0.01 to 100 with the row alone."""
    height = np.log(table["row"])
    height = (height - height.min()) / (height.max() - height.min())
    return table.assign(predicted=10 ** (4 * height - 2))


@pytest.mark.parametrize(
    ("ratios", "extend"),
    [
        ((1.0, 2.0), "neither"),
        ((1.0, 9.0), "max"),
        ((0.1, 2), "min"),
        ((0.1, 9), "both"),
    ],
)
def test_the_colour_bar_is_open_where_ratios_leave_it(ratios, extend):
    drawing.use_style(STYLE)
    figure = described("random_inputs")
    table = invented_table(figure)
    table["predicted"] = np.where(table["row"] > 1, *ratios)
    picture = drawing.draw(table, figure.drawing())
    assert picture.axes[0].collections[0].colorbar.extend == extend


def test_what_a_logarithmic_axis_cannot_show_is_said():
    drawing.use_style(STYLE)
    figure = described("finite_size")
    table = invented_table(figure)
    place = [panel.name for panel in figure.panels].index("strong_distance")
    axis = drawing.draw(table, figure.drawing()).axes[place]
    assert "without marker" not in axis.get_title()
    mean = ["simulated_low", "simulated_mean", "simulated_high"]
    table.loc[table.panel == "strong_distance", mean] -= 1
    axis = drawing.draw(table, figure.drawing()).axes[place]
    assert axis.get_title().endswith("\nbar without marker: mean not above 0")


@pytest.mark.parametrize("kind", drawing.FORMATS)
def test_drawing_twice_gives_the_same_bytes(tmp_path, kind):
    drawing.use_style(STYLE)
    figure = described("linear_regression")
    figure = dataclasses.replace(figure, panels=figure.panels[:1])
    table = invented_table(figure)
    for name in ("a", "b"):
        drawing.save(drawing.draw(table, figure.drawing()), tmp_path / f"{name}.{kind}")
    one, other = (tmp_path / f"{name}.{kind}" for name in ("a", "b"))
    assert one.read_bytes() == other.read_bytes()


def test_a_curve_without_rows_is_named():
    figure = described("nonlinear_attention")
    table = invented_table(figure)
    table = table[table.curve != "cos"]
    with pytest.raises(ValueError, match="the table lacks gamma/cos"):
        drawing.draw(table, figure.drawing())


def test_a_missing_style_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.mplstyle: cannot be read"):
        drawing.use_style(tmp_path / "none.mplstyle")
