"""Pictures show what the table says: theory as lines, simulation as markers."""

import dataclasses
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from interpolation_error import drawing
from interpolation_error.configuration import read_figure
from interpolation_error.tables import Series, tabulate

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "figures/paper.mplstyle"
FIGURES = ["linear_regression", "nonlinear_attention"]


def described(name):
    return read_figure(ROOT / f"figures/{name}/figure.yaml", ROOT, {})


def invented_table(figure):
    rng = np.random.default_rng(0)
    return tabulate(
        Series(
            panel.name,
            curve.name,
            panel.parameter,
            curve.curve.values,
            panel.line(curve.curve).values,
            rng.uniform(0.1, 0.9, (3, len(curve.curve.values))),
            rng.uniform(0.1, 0.9, len(panel.line(curve.curve).values)),
        )
        for panel in figure.panels
        for curve in panel.curves
    )


@pytest.fixture(params=FIGURES)
def figure(request):
    mpl.use("Agg")
    drawing.use_style(STYLE)
    return described(request.param)


def test_every_number_of_the_table_is_in_the_picture(figure):
    table = invented_table(figure)
    picture = drawing.draw(table, figure.drawing())
    for axis, panel in zip(picture.axes, figure.panels, strict=False):
        drawn = [np.asarray(line.get_ydata(), float) for line in axis.lines]
        for curve in panel.curves:
            rows = table[(table.panel == panel.name) & (table.curve == curve.name)]
            for column in ("simulated_mean", "predicted"):
                values = rows[column].dropna().to_numpy()
                assert any(
                    line.shape == values.shape and np.array_equal(line, values)
                    for line in drawn
                ), (panel.name, curve.name, column)


def test_axes_have_symbols_and_the_panel_its_parameters(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    for axis, panel in zip(picture.axes, figure.panels, strict=False):
        assert axis.get_xlabel() == drawing.AXIS_LABELS[panel.parameter]
        assert axis.get_ylabel() == drawing.ERROR_LABEL
        assert panel.fixed() in axis.get_title()


def test_the_legend_names_every_curve_and_tells_theory_from_simulation(figure):
    picture = drawing.draw(invented_table(figure), figure.drawing())
    words = " ".join(text.get_text() for text in picture.legends[0].get_texts())
    for panel in figure.panels:
        for curve in panel.curves:
            assert curve.label in words
    assert "theory" in words
    assert "simulation" in words


def test_curves_of_a_panel_differ_in_more_than_colour(figure):
    for panel in figure.drawing()["panels"]:
        looks = [(c["marker"], c["line"]) for c in panel["curves"]]
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
