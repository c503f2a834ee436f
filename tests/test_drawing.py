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
    (text,) = picture.axes[0].texts
    assert text.get_text().startswith("at 0: ")


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
    words = {text.get_text() for text in picture.axes[0].texts}
    assert words == {"\N{MINUS SIGN}0.50 ± 0.10"}
    unknown = table.assign(slope=-0.5, slope_low=-1.6, slope_high=0.6)
    assert not drawing.draw(unknown, figure.drawing()).axes[0].texts


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
