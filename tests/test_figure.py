"""A preset makes figures smaller and changes nothing else about them."""

import dataclasses
from pathlib import Path

import pytest

from interpolation_error.configuration import read_figure
from interpolation_error.figure import Limits, shrink

ROOT = Path(__file__).parents[1]


@pytest.fixture
def figure():
    path = ROOT / "figures/nonlinear_attention/figure.yaml"
    return read_figure(path, ROOT, {})


def test_no_limits_leave_a_figure_as_it_is(figure):
    assert shrink(figure, Limits()) == figure


def test_a_divisor_keeps_the_ratio_of_dimension_and_tokens(figure):
    for panel, small in zip(
        figure.panels, shrink(figure, Limits(size_divisor=8)).panels, strict=True
    ):
        for one, other in zip(panel.curves, small.curves, strict=True):
            for before, after in zip(one.curve, other.curve, strict=True):
                ratio = before.dimension / before.tokens
                assert after.dimension / after.tokens == pytest.approx(ratio, rel=0.04)
                assert after.tokens == before.tokens // 8
                assert after.gamma == before.gamma


def test_fewer_points_keep_both_ends(figure):
    small = shrink(figure, Limits(points=4))
    for panel, other in zip(figure.panels, small.panels, strict=True):
        before, after = panel.curves[0].curve.values, other.curves[0].curve.values
        assert len(after) == 4
        assert (after[0], after[-1]) == (before[0], before[-1])
        assert set(after) <= set(before)


def test_counts_are_at_most_what_a_preset_says(figure):
    small = shrink(figure, Limits(panels=1, curves=2, replicates=3))
    (panel,) = small.panels
    assert [curve.name for curve in panel.curves] == ["tanh", "regression"]
    assert panel.replicates == 3
    assert shrink(figure, Limits(replicates=1000)) == figure


def test_panels_say_what_they_hold_fixed(figure):
    gamma, dimension, snr = figure.panels
    assert gamma.fixed() == "p = 2048, n = 512, ‖μ‖² = 1"
    assert dimension.fixed() == "γ = 1e-05, n = 4096, ‖μ‖² = 1"
    assert snr.fixed() == "γ = 1e-05, p = 512, n = 2048"


def test_every_parameter_has_a_source(figure):
    for panel in figure.panels:
        assert {"tokens", "dimension", "snr", "gamma", "weights", "diagonal"} <= set(
            dict(panel.source)
        )


def test_a_line_has_the_points_of_its_curve_and_more_between(figure):
    for panel in figure.panels:
        curve = panel.curves[0].curve
        line = panel.line(curve)
        assert set(curve.values) < set(line.values)
        assert list(line.values) == sorted(set(line.values))
        assert len(line.values) == 1 + 4 * (len(curve.values) - 1)
        assert all(isinstance(value, type(curve.values[0])) for value in line.values)


def test_a_line_between_neighbouring_sizes_has_nothing_to_add(figure):
    from interpolation_error.curve import Curve

    panel = figure.panels[1]
    setting = dataclasses.replace(panel.curves[0].curve.setting, dimension=8)
    curve = Curve(setting, "dimension", (8, 9, 12))
    assert panel.line(curve).values == (8, 9, 10, 11, 12)


def test_figures_are_frozen(figure):
    with pytest.raises(dataclasses.FrozenInstanceError):
        figure.title = "other"
