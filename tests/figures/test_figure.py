"""A preset makes figures smaller or larger and changes nothing else about them."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpolation_error.figures.definition import read_figure
from interpolation_error.figures.figure import (
    Figure,
    LabelledCurve,
    Limits,
    Panel,
    resize,
)
from interpolation_error.figures.lines import line
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting

ROOT = Path(__file__).parents[2]


@pytest.fixture
def figure():
    path = ROOT / "figures/nonlinear_attention/figure.yaml"
    return read_figure(path, ROOT, {})


def test_no_limits_leave_a_figure_as_it_is(figure):
    assert resize(figure, Limits()) == figure


def test_a_divisor_keeps_the_ratio_of_dimension_and_tokens(figure):
    for panel, small in zip(
        figure.panels, resize(figure, Limits(size_divisor=8)).panels, strict=True
    ):
        for one, other in zip(panel.curves, small.curves, strict=True):
            for before, after in zip(one.curve, other.curve, strict=True):
                ratio = before.dimension / before.tokens
                assert after.dimension / after.tokens == pytest.approx(ratio, rel=0.04)
                assert after.tokens == before.tokens // 8
                assert after.gamma == before.gamma


def test_fewer_points_keep_both_ends(figure):
    small = resize(figure, Limits(points=4))
    for panel, other in zip(figure.panels, small.panels, strict=True):
        before, after = panel.curves[0].curve.values, other.curves[0].curve.values
        assert len(after) == 4
        assert (after[0], after[-1]) == (before[0], before[-1])
        assert set(after) <= set(before)


def test_counts_are_at_most_what_a_preset_says(figure):
    small = resize(figure, Limits(panels=1, curves=2, replicates=3))
    (panel,) = small.panels
    assert [curve.name for curve in panel.curves] == ["tanh", "regression"]
    assert panel.replicates == 3
    assert resize(figure, Limits(replicates=1000)) == figure


def test_panels_say_what_they_hold_fixed(figure):
    gamma, dimension, snr, _ = figure.panels
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
        finer = line(curve, panel.x_scale).values
        assert set(curve.values) < set(finer)
        assert list(finer) == sorted(set(finer))
        assert len(finer) == 1 + 4 * (len(curve.values) - 1)
        assert all(isinstance(value, type(curve.values[0])) for value in finer)


def test_a_line_between_neighbouring_sizes_has_nothing_to_add(figure):
    setting = figure.panels[1].curves[0].curve.setting
    curve = Curve(setting, "dimension", (8, 9, 12))
    assert line(curve, "log").values == (8, 9, 10, 11, 12)


def test_rows_are_finer_on_a_map_alone(figure):
    setting = figure.panels[0].curves[0].curve.setting
    curve = Curve(setting, "gamma", (0.1, 1.0), "aspect_ratio", (0.5, 2.0))
    assert line(curve, "log").rows == (0.5, 2.0)
    assert len(line(curve, "log", "log").rows) == 5


def test_heads_come_one_by_one(figure):
    setting = figure.panels[0].curves[0].curve.setting
    assert line(Curve(setting, "heads", (1, 4)), "log").values == (1, 4)


def test_fewer_bins_cover_the_same_range():
    figure = read_figure(ROOT / "figures/spectrum/figure.yaml", ROOT, {})
    before = figure.panels[0].curves[0].curve.values
    after = resize(figure, Limits(points=7)).panels[0].curves[0].curve.values
    assert after[0] == before[0] == 0
    assert len(after) == 8
    ends = [
        (x[1] / (x[2] / x[1]) ** 0.5, x[-1] * (x[2] / x[1]) ** 0.5)
        for x in (before, after)
    ]
    assert ends[0] == pytest.approx(ends[1])


def test_sizes_of_a_sweep_shrink_and_a_users_tokens_do_not():
    figure = read_figure(ROOT / "figures/finite_size/figure.yaml", ROOT, {})
    small = resize(figure, Limits(size_divisor=4)).panels[0]
    assert small.curves[0].curve.values == (50, 100, 200, 400)
    assert small.largest == (1200, 400)
    digits = read_figure(ROOT / "figures/digits/figure.yaml", ROOT, {})
    assert resize(digits, Limits(size_divisor=4)) == digits


def test_a_multiplier_keeps_the_ratio_and_shares_the_draws():
    figure = read_figure(ROOT / "figures/finite_size/figure.yaml", ROOT, {})
    panel = resize(figure, Limits(size_multiplier=8)).panels[0]
    assert panel.curves[0].curve.values == (1600, 3200, 6400, 12800)
    sizes = [(s.tokens, s.dimension) for s in panel.curves[0].curve]
    assert all(n == 3 * p for n, p in sizes)
    assert panel.largest == (38400, 12800)
    same = resize(figure, Limits(size_multiplier=8, size_divisor=8))
    assert same == figure


def swept(parameter, values, tokens, dimension):
    """Return a figure of linear regression, swept, with draws that just suffice."""
    setting = Setting("regression", tokens, dimension, snr=1.0, gamma=0.1)
    curve = Curve(setting, parameter, values)
    panel = Panel(
        *("a", "title", "sweep", "error", (LabelledCurve("b", "label", curve),)),
        *(2, (max(s.tokens for s in curve), max(s.dimension for s in curve))),
        *("log", "log", False, False, None, False, ()),
    )
    return Figure("figure", "title", "beyond", "equation", (panel,))


def needed(panel):
    points = [setting for one in panel.curves for setting in one.curve]
    return max(s.tokens for s in points), max(s.dimension for s in points)


@given(
    tokens=st.integers(64, 2048),
    dimension=st.integers(64, 2048),
    divisor=st.integers(1, 8),
    multiplier=st.integers(1, 3),
    most=st.floats(1 / 8, 8),
    parameter=st.sampled_from(["size", "aspect_ratio", "tokens", "dimension"]),
)
@settings(max_examples=200, deadline=None)
def test_draws_are_no_smaller_than_the_curves_of_a_preset(
    tokens, dimension, divisor, multiplier, most, parameter
):
    values = (1.0, most) if parameter == "aspect_ratio" else (256, round(256 * most))
    limits = Limits(size_divisor=divisor, size_multiplier=multiplier)
    try:
        before = swept(parameter, values, tokens, dimension)
        (panel,) = resize(before, limits).panels
    except ValueError:  # a size below 4
        return
    assert all(
        one >= two for one, two in zip(panel.largest, needed(panel), strict=True)
    )


def test_draws_follow_a_size_that_is_rounded_twice():
    (panel,) = resize(swept("size", (100, 400), 150, 100), Limits(8)).panels
    assert panel.largest == needed(panel) == (79, 50)


def test_sizes_that_become_one_are_one_point():
    sizes = {"tokens": (64, 66, 128), "dimension": (64, 66, 128), "size": (64, 66, 128)}
    for parameter, values in sizes.items():
        (panel,) = resize(swept(parameter, values, 512, 512), Limits(8)).panels
        assert panel.curves[0].curve.values == (8, 16)
    setting = Setting("regression", 512, 512, snr=1.0, gamma=0.1)
    curve = Curve(setting, "gamma", (0.1, 1.0), "size", (64, 66, 128))
    figure = swept("gamma", (0.1, 1.0), 512, 512)
    (panel,) = figure.panels
    panel = dataclasses.replace(panel, curves=(LabelledCurve("b", "label", curve),))
    (panel,) = resize(dataclasses.replace(figure, panels=(panel,)), Limits(8)).panels
    assert panel.curves[0].curve.rows == (8, 16)


def test_points_that_are_too_large_are_left_out_and_draws_are_no_larger():
    figure = read_figure(ROOT / "figures/finite_size/figure.yaml", ROOT, {})
    for panel in resize(figure, Limits(size_multiplier=8, tokens=32768)).panels:
        for one in panel.curves:
            assert one.curve.values == (1600, 3200, 6400)
        assert panel.largest == (19200, 6400)
    maps = read_figure(ROOT / "figures/random_inputs/figure.yaml", ROOT, {})
    before, after = maps.panels[0], resize(maps, Limits(dimension=600)).panels[0]
    curve = after.curves[0].curve
    assert curve.values == before.curves[0].curve.values
    assert curve.rows == before.curves[0].curve.rows[:4]  # p/n of 1 and less
    assert after.largest == (1448, 512)


def test_a_panel_without_a_point_that_is_small_enough_is_refused(figure):
    with pytest.raises(
        ValueError, match=r"panels\.gamma: tokens 512 and dimension 2048 are more than"
    ):
        resize(figure, Limits(dimension=1024))
    sizes = read_figure(ROOT / "figures/finite_size/figure.yaml", ROOT, {})
    with pytest.raises(ValueError, match=r"panels\.weak: tokens 600 and dimension 200"):
        resize(sizes, Limits(tokens=599))


def test_draws_are_at_least_what_a_preset_says(figure):
    panels = resize(figure, Limits(least_replicates=20)).panels
    assert [panel.replicates for panel in panels] == [30, 20, 20, 20]
    panels = resize(figure, Limits(least_replicates=20, replicates=20)).panels
    assert [panel.replicates for panel in panels] == [20, 20, 20, 20]


def test_a_users_tokens_are_no_more_and_no_fewer():
    digits = read_figure(ROOT / "figures/digits/figure.yaml", ROOT, {})
    assert resize(digits, Limits(size_multiplier=8, tokens=10)) == digits


def test_figures_are_frozen(figure):
    with pytest.raises(dataclasses.FrozenInstanceError):
        figure.title = "other"
