"""A verdict comes out any way, by the numbers alone, and one draw decides nothing."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from interpolation_error.figures import checked_yaml
from interpolation_error.figures.definition import read_figure
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting
from interpolation_error.verdicts.claims import judge, verdicts
from interpolation_error.verdicts.claims_table import markdown, rows
from interpolation_error.verdicts.statistics import (
    STATISTICS,
    Measured,
    Point,
    _between,
    measured,
    points,
)

ROOT = Path(__file__).parents[2]
VALUES = (0.5, 1.0, 2.0, 4.0)
DRAWS = 12


def figure(
    curves,
    measure="error",
    values=VALUES,
    parameter="snr",
    rows=(),
    quantity="error",
    row_parameter="gamma",
):
    """Return a figure's specification and the arrays that it names.

    ``curves`` holds (draws, predicted) for every panel and curve.
    """
    setting = Setting("regression", tokens=60, dimension=30, snr=1.0, gamma=0.1)
    row = (row_parameter, rows) if rows else (None, ())
    curve = Curve(setting, parameter, values, *row, measure)
    predicted, files, series = {}, {}, []
    for (panel, name), (draws, limit) in curves.items():
        place = f"{panel}/{name}"
        files[f"{place}.h5"] = {"number": np.array(draws, float)}
        predicted[f"{place}/x"] = np.array(values)
        predicted[f"{place}/predicted"] = np.array(limit, float)
        if rows:
            predicted[f"{place}/rows"] = np.array(rows)
        series.append(
            {
                "panel": panel,
                "curve": name,
                "quantity": quantity,
                "array": "number",
                "curve_spec": curve.spec(),
                "simulation": [f"{place}.h5"],
                "prediction": place,
            }
        )
    files["theory.h5"] = predicted
    return {"theory": "theory.h5", "series": series}, files


def judged(
    spec_and_files, how, claimed, share=1.0, curve="mine", panels=("a",), **region
):
    spec, files = spec_and_files
    claim = {
        "id": "claim",
        "statement": "It is so.",
        "paper": "beyond",
        "figure": "invented",
        "statistic": how,
        "claimed": claimed,
        "share": share,
        "regions": [
            {"name": "all", "panels": list(panels), "curves": [curve], **region}
        ],
    }
    (found,) = verdicts([claim], {"invented": spec}, files.__getitem__)
    return found


def noisy(level, spread=0.01, draws=DRAWS, seed=0):
    """Return draws around a level at every value, of a spread in their logarithm."""
    rng = np.random.default_rng(seed)
    return np.exp(spread * rng.standard_normal((draws, len(VALUES)))) * np.array(level)


def pair(ratio, spread=0.01, draws=DRAWS):
    """Return a curve and another that it is so many times as large as."""
    other = noisy([0.8, 0.6, 0.4, 0.2], draws=draws)
    mine = other * noisy(ratio, spread, draws, seed=1)
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    return figure(
        {("a", "mine"): (mine, limit * ratio), ("a", "other"): (other, limit)}
    )


BELOW = {"kind": "log_ratio", "against": "other"}


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.9, "supported"), (1.1, "contradicted"), (1.0, "undecided")],
)
def test_a_ratio_comes_out_three_ways(ratio, verdict):
    found = judged(pair(np.full(4, ratio)), BELOW, {"below": 0.0})
    assert found["verdict"] == verdict
    assert found["estimate"] == pytest.approx(math.log(ratio), abs=0.01)
    assert found["low"] < found["estimate"] < found["high"]
    assert (found["points"], found["draws"]) == (4, DRAWS)
    assert found["arrays"] == ["a/mine.h5"]


def test_too_few_draws_decide_nothing():
    few = pair(np.full(4, 0.9), spread=0.05, draws=2)
    found = judged(few, BELOW, {"below": 0.0})
    assert found["verdict"] == "undecided"
    assert found["open"] == 1
    many = pair(np.full(4, 0.9), spread=0.05, draws=40)
    assert judged(many, BELOW, {"below": 0.0})["verdict"] == "supported"
    one = judged(pair(np.full(4, 0.9), draws=1), BELOW, {"below": 0.0})
    assert one["verdict"] == "undecided"


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.5, "supported"), (0.75, "contradicted")]
)
def test_the_share_of_a_region_decides(share, verdict):
    mixed = pair(np.array([0.9, 0.9, 1.1, 1.1]))
    found = judged(mixed, BELOW, {"below": 0.0}, share)
    assert found["verdict"] == verdict
    assert (found["holds"], found["fails"], found["theory"]) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("share", [0.75, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("points", [5, 10, 20, 40, 100])
def test_what_the_share_leaves_may_fail(share, points):
    setting = Setting("regression", tokens=64, dimension=16, snr=1.0, gamma=1.0)

    def verdict(holds, fails):
        levels = [1.0] * holds + [-1.0] * fails + [0.0] * (points - holds - fails)
        draws = 0.01 * np.random.default_rng(0).standard_normal(40)
        found = [
            Point("a", "b", [setting], x + draws - draws.mean(), math.nan, 1.0)
            for x in levels
        ]
        return judge({"claimed": {"above": 0.0}, "share": share}, found)["verdict"]

    percent = round(100 * share)
    needed = -(-percent * points // 100)
    allowed = (100 - percent) * points // 100
    assert verdict(needed, points - needed) == "supported"
    assert verdict(0, allowed) == "undecided"
    assert verdict(points - allowed - 1, allowed + 1) == "contradicted"


def test_edges_of_a_region_are_inside_whatever_their_sign():
    for low, value, high, inside in (
        (-1, -1, 1, True),
        (-1, -0.5, -0.5, True),
        (-1, -0.4, -0.5, False),
        (0, 0, 1, True),
        (0.1, 0.1 * (1 - 1e-12), 1, True),
        (0.1, 0.0999, 1, False),
    ):
        assert _between(low, value, high) is inside


def test_a_curve_without_weights_has_no_alignment():
    found = judged(
        pair(np.full(4, 0.9)), BELOW, {"below": 0.0}, where={"alignment": [-1, 1]}
    )
    assert (found["verdict"], found["points"]) == ("not tested", 0)


def test_a_region_is_where_it_says():
    mixed = pair(np.array([0.9, 0.9, 1.1, 1.1]))
    for where, verdict in (([0.1, 1], "supported"), ([2, 9], "contradicted")):
        found = judged(mixed, BELOW, {"below": 0.0}, where={"snr": where})
        assert (found["verdict"], found["points"]) == (verdict, 2)
    nowhere = judged(mixed, BELOW, {"below": 0.0}, where={"snr": [90, 99]})
    assert (nowhere["verdict"], nowhere["points"]) == ("not tested", 0)


@pytest.mark.parametrize(
    ("bounds", "ratios"),
    [
        ([0, 0.99], [0.25, 0.5]),
        ([1.01, 8], [2.0, 4.0]),
        ([1, 1], [1.0]),
        ([0.5, 2], [0.5, 1.0, 2.0]),
        ([0.3, 3], [0.5, 1.0, 2.0]),
        ([5, 9], []),
    ],
)
@pytest.mark.parametrize("swept", ["rows", "values", "tokens", "dimension"])
def test_a_region_by_aspect_ratio_has_dimensions_over_tokens(bounds, ratios, swept):
    places = {
        "rows": ("gamma", VALUES, "aspect_ratio", (0.25, 0.5, 1.0, 2.0, 4.0)),
        "values": ("aspect_ratio", (0.25, 0.5, 1.0, 2.0, 4.0), "gamma", VALUES),
        # Of 30 dimensions, and of 60 tokens.
        "tokens": ("tokens", (120, 60, 30, 15), "gamma", VALUES),
        "dimension": ("dimension", (15, 30, 60, 120), "gamma", VALUES),
    }
    parameter, values, row_parameter, rows = places[swept]
    limit = np.ones(len(values) * len(rows))
    spec = figure(
        {("a", "mine"): (np.ones((2, len(limit))), limit)},
        values=values,
        parameter=parameter,
        rows=rows,
        row_parameter=row_parameter,
    )
    panels = measured(spec[0], spec[1].__getitem__)
    region = {"panels": ["a"], "curves": ["mine"], "where": {"aspect_ratio": bounds}}
    inside = points({"statistic": {"kind": "residual"}}, region, panels)
    found = [one.settings[-1] for one in inside]
    there = {
        setting.dimension / setting.tokens for setting in panels["a"]["mine"].settings
    }
    # To within the rounding of sizes.
    wanted = [ratio for ratio in ratios if any(abs(ratio - x) < 0.1 for x in there)]
    chosen = sorted({setting.dimension / setting.tokens for setting in found})
    assert chosen == pytest.approx(wanted, rel=0.1)
    assert len(found) == len(VALUES) * len(wanted)


def test_a_gain_counts_where_it_is_reached_and_not_where_it_starts():
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    sizes = {"parameter": "tokens", "values": (120, 60, 30, 15)}
    spec = figure({("a", "mine"): (noisy(limit), limit)}, **sizes)
    few = judged(spec, {"kind": "gain"}, {"above": 0.0}, where={"aspect_ratio": [1, 9]})
    assert [one["x"] for one in few["details"]] == [30, 15]


MORE = {
    "fewer tokens than dimensions": lambda s: s.tokens < s.dimension,
    "more tokens, penalty up to 0.1": lambda s: (
        s.tokens > s.dimension and s.gamma <= 0.1000001
    ),
    "more tokens, penalty of 1 and more": lambda s: (
        s.tokens > s.dimension and s.gamma >= 0.9999999
    ),
    "whole map": lambda s: True,
}
"""Regions of config/claims.yaml by aspect ratio: what their names say."""


def test_the_regions_of_the_maps_are_what_their_names_say():
    claim = checked_yaml.read_yaml(ROOT / "config/claims.yaml", ROOT)["claims"]
    claim = claim["random_inputs"]
    shown = read_figure(ROOT / "figures/random_inputs/figure.yaml", ROOT, {})
    (panel,) = [one for one in shown.panels if one.name == "map"]

    def made(name, curve):
        settings = list(curve)
        ones = np.ones(len(settings))
        return Measured(
            *("map", name, curve.parameter, settings),
            shape=(len(curve.rows), len(curve.values)),
            draws=ones[None],
            predicted=ones,
            finite_size=ones,
            x=curve.values,
            files=(),
        )

    curves = {one.name: made(one.name, one.curve) for one in panel.curves}
    curves["regression"] = made("regression", panel.curves[0].regression())
    assert set(claim["regions"]) == set(MORE)
    for name, region in claim["regions"].items():
        found = points(claim, region, {"map": curves})
        inside = [(one.curve, one.settings[-1]) for one in found]
        wanted = [
            (curve, setting)
            for curve in region["curves"]
            for setting in curves[curve].settings
            if MORE[name](setting)
        ]
        assert inside == wanted, name


def test_intervals_are_widened_for_the_number_of_points():
    found = judged(pair(np.full(4, 0.9)), BELOW, {"below": 0.0})
    point = found["details"][0]
    spec, files = pair(np.full(4, 0.9))
    logs = np.log(files["a/mine.h5"]["number"] / files["a/other.h5"]["number"])[:, 0]
    half = stats.t.ppf(1 - 0.05 / 2 / 4, DRAWS - 1) * logs.std(ddof=1) / DRAWS**0.5
    assert point["high"] - point["estimate"] == pytest.approx(half)


def test_about_one_region_in_twenty_is_wrongly_decided():
    """With the truth on the edge of the claim no region should be decided by chance."""
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(400):
        noise = np.exp(0.1 * rng.standard_normal((8, 4)))
        spec = figure(
            {
                ("a", "mine"): (noise, np.ones(4)),
                ("a", "other"): ([[1] * 4] * 8, np.ones(4)),
            }
        )
        found = judged(spec, BELOW, {"below": 0.0}, share=1.0)
        wrong += any(one["outcome"] == "fails" for one in found["details"])
    assert wrong / 400 < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.parametrize(
    ("level", "verdict"),
    [(1.0, "supported"), (1.3, "contradicted"), (1.05, "undecided")],
)
def test_a_residual_comes_out_three_ways(level, verdict):
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    spec = figure({("a", "mine"): (noisy(limit * level), limit)})
    found = judged(spec, {"kind": "residual"}, {"above": -0.05, "below": 0.05})
    assert found["verdict"] == verdict
    assert found["theory"] is None


@pytest.mark.parametrize(
    ("last", "verdict"), [(0.4, "supported"), (1.2, "contradicted"), (0.8, "undecided")]
)
def test_a_gain_is_since_the_first_value(last, verdict):
    limit = np.array([0.8, last, last, last])
    spec = figure({("a", "mine"): (noisy(limit, 0.02), limit)})
    found = judged(spec, {"kind": "gain"}, {"above": 0.0})
    assert (found["verdict"], found["points"]) == (verdict, 3)
    assert found["theory_estimate"] == pytest.approx(math.log(0.8 / last))


def test_a_gain_less_that_of_another_curve():
    mine, other = np.array([0.8, 0.4, 0.2, 0.1]), np.array([0.8, 0.6, 0.5, 0.4])
    spec = figure(
        {("a", "mine"): (noisy(mine), mine), ("a", "other"): (noisy(other), other)}
    )
    how = {"kind": "gain", "against": "other"}
    assert judged(spec, how, {"above": 0.0})["verdict"] == "supported"
    assert judged(spec, how, {"below": 0.0})["verdict"] == "contradicted"
    found = judged(spec, how, {"above": 0.0})["theory_estimate"]
    assert found == pytest.approx(np.mean(np.log(other[1:] / mine[1:])))


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.5, 1.2, 1.1, 1.0], "supported"),
        ([1.0, 1.2, 1.3, 1.4], "contradicted"),
        ([1.2, 1.2, 1.2, 1.2], "undecided"),
    ],
)
def test_a_gap_changes_three_ways(ratios, verdict):
    how = {"kind": "gap_change", "against": "other"}
    assert judged(pair(np.array(ratios)), how, {"above": 0.0})["verdict"] == verdict


def test_rows_start_anew():
    limit = np.array([0.8, 0.4, 0.4, 0.4, 0.2, 0.1, 0.1, 0.1])
    draws = np.exp(0.01 * np.random.default_rng(0).standard_normal((9, 8))) * limit
    spec = figure({("a", "mine"): (draws, limit)}, rows=(0.1, 1.0))
    found = judged(spec, {"kind": "gain"}, {"above": 0.0})
    assert found["points"] == 6
    assert found["estimate"] == pytest.approx(math.log(2), abs=0.02)


@pytest.mark.parametrize(
    ("there", "verdict"),
    [(1.2, "supported"), (0.5, "contradicted"), (0.8, "undecided")],
)
def test_a_difference_between_panels(there, verdict):
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    curves = {}
    for panel, ratio, seed in (("a", 0.8, 3), ("b", there, 4)):
        other = noisy(limit, seed=seed)
        mine = other * noisy(np.full(4, ratio), seed=seed + 9)
        curves[panel, "mine"] = mine, ratio * limit
        curves[panel, "other"] = other, limit
    how = {"kind": "between_panels", "against": "other", "other_panel": "b"}
    assert judged(figure(curves), how, {"above": 0.0})["verdict"] == verdict


def test_panels_are_compared_where_both_have_points():
    spec, files = pair(np.array([0.9, 0.8, 0.7, 0.6]))
    there, more = pair(np.array([0.9, 0.8, 0.9, 0.8]))
    for one in there["series"]:
        one["panel"] = "b"
        one["curve_spec"] = {**one["curve_spec"], "sweep": [["snr", [0.5, 2.0, 4.0]]]}
        one["prediction"] = one["prediction"].replace("a/", "b/")
        one["simulation"] = [path.replace("a/", "b/") for path in one["simulation"]]
    for path, arrays in more.items():
        if path == "theory.h5":
            for name, values in arrays.items():
                files[path][name.replace("a/", "b/")] = values[[0, 2, 3]]
        else:
            files[path.replace("a/", "b/")] = {"number": arrays["number"][:, [0, 2, 3]]}
    spec["series"] += there["series"]
    how = {"kind": "between_panels", "against": "other", "other_panel": "b"}
    found = judged((spec, files), how, {"above": 0.0})
    assert [one["x"] for one in found["details"]] == [0.5, 2.0, 4.0]
    assert found["details"][1]["estimate"] == pytest.approx(math.log(9 / 7), abs=0.02)
    # A preset may have cut the other panel's curve.
    spec["series"] = [one for one in spec["series"] if one != there["series"][0]]
    assert judged((spec, files), how, {"above": 0.0})["verdict"] == "not tested"


@pytest.mark.parametrize(
    ("exponent", "spread", "verdict"),
    [(-0.5, 0.05, "supported"), (0.5, 0.05, "contradicted"), (0.0, 0.3, "undecided")],
)
def test_a_slope_comes_out_three_ways(exponent, spread, verdict):
    draws = noisy(np.array(VALUES) ** exponent, spread, seed=5)
    spec = figure(
        {("a", "mine"): (draws, np.full(4, np.nan))},
        parameter="size",
        values=(30, 60, 120, 240),
    )
    found = judged(spec, {"kind": "slope"}, {"below": 0.0})
    assert found["verdict"] == verdict
    assert found["estimate"] == pytest.approx(exponent, abs=0.2)
    assert found["dimension"] == [30, 240]


def test_a_shortfall_is_of_the_limit():
    sizes = np.array([30.0, 60.0, 120.0, 240.0])
    limit = np.full(4, 0.5)
    draws = limit - 0.1 * noisy(sizes**-0.5, 0.02)
    spec = figure(
        {("a", "mine"): (draws, limit)},
        parameter="size",
        values=(30, 60, 120, 240),
        quantity="shortfall",
    )
    found = judged(spec, {"kind": "slope"}, {"below": 0.0})
    assert found["verdict"] == "supported"
    assert found["estimate"] == pytest.approx(-0.5, abs=0.05)


def test_a_shortfall_that_changes_sign_has_no_exponent():
    limit = np.full(4, 0.5)
    draws = limit - noisy(np.ones(4)) * np.array([-0.1, 0.1, 0.05, 0.02])
    spec = figure({("a", "mine"): (draws, limit)}, quantity="shortfall")
    found = judged(spec, {"kind": "slope"}, {"below": 0.0})
    assert found["verdict"] == "not tested"


def test_a_residual_may_be_of_the_theory_at_finite_size():
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    spec, files = figure({("a", "mine"): (noisy(0.9 * limit), limit)})
    files["theory.h5"]["a/mine/finite_size"] = np.append(0.9 * limit[:3], np.nan)
    within = {"above": -0.05, "below": 0.05}
    assert judged((spec, files), {"kind": "residual"}, within)["verdict"] == (
        "contradicted"
    )
    how = {"kind": "residual", "theory": "finite_size"}
    found = judged((spec, files), how, within)
    assert (found["verdict"], found["points"]) == ("supported", 3)


@pytest.mark.parametrize(
    ("shift", "verdict"),
    [(0.0, "supported"), (0.1, "contradicted"), (0.02, "undecided")],
)
def test_a_distance_of_distributions(shift, verdict):
    values = (0.0, 1.0, 2.0, 4.0)
    limit = np.array([0.5, 0.2, 0.3, 0.2])
    rng = np.random.default_rng(0)
    draws = limit + 0.002 * rng.standard_normal((DRAWS, 4))
    draws[:, 0] += shift
    spec = figure({("a", "mine"): (draws, limit)}, "spectrum", values, "eigenvalue")
    found = judged(spec, {"kind": "distance"}, {"below": 0.02})
    assert found["verdict"] == verdict


def test_a_figure_or_a_curve_that_is_not_there_is_not_tested():
    spec, files = pair(np.full(4, 0.9))
    assert judged((spec, files), BELOW, {"below": 0}, curve="none")["verdict"] == (
        "not tested"
    )
    against = {**BELOW, "against": "none"}
    assert judged((spec, files), against, {"below": 0})["verdict"] == "not tested"
    assert judged((spec, files), BELOW, {"below": 0}, panels=["none"])["verdict"] == (
        "not tested"
    )
    claim = {"id": "c", "statement": "", "paper": "", "figure": "other", "share": 1}
    claim |= {"statistic": BELOW, "claimed": {"below": 0}}
    claim["regions"] = [{"name": "all", "panels": ["a"], "curves": ["mine"]}]
    (found,) = verdicts([claim], {"invented": spec}, files.__getitem__)
    assert found["verdict"] == "not tested"


def test_regression_that_a_panel_shows_a_curve_against_is_there():
    spec, files = pair(np.full(4, 0.9))
    (mine, other) = spec["series"]
    mine |= {
        "other_simulation": other["simulation"],
        "other_prediction": other["prediction"],
    }
    spec["series"] = [mine]
    how = {"kind": "log_ratio", "against": "regression"}
    assert judged((spec, files), how, {"below": 0})["verdict"] == "supported"


def test_every_statistic_is_in_the_words_of_the_table():
    found = [
        {
            **judged(pair(np.full(4, 0.9)), BELOW, {"below": 0}),
            "statistic": {"kind": kind, "against": "other"},
        }
        for kind in STATISTICS
    ]
    found.append(judged(pair(np.full(4, 0.9)), BELOW, {"below": 0}, panels=["none"]))
    page = markdown(found, "figures/{figure}.png")
    assert page.count("| **supported**") == len(STATISTICS)
    assert page.count("**not tested**") == 1
    assert "[invented](figures/invented.png)" in page
    table = rows(found)
    assert len(table) == len(found)
    assert {"claim", "region", "verdict", "estimate", "tokens_largest"} <= set(table)


def test_the_table_tells_the_paper_from_what_is_beyond():
    found = [
        {**judged(pair(np.full(4, ratio)), BELOW, {"below": 0}), "paper": paper}
        for ratio, paper in ((0.9, "beyond"), (0.9, "Theorem 1"), (1.1, "Lemma 1"))
    ]
    page = markdown(found, "figures/{figure}.png")
    first, second = page.split("### ")[1:]
    assert first.startswith("Statements of the paper: 1 supported, 1 contradicted\n")
    assert first.count("| **") == 2
    assert second.startswith("Statements beyond the paper: 1 supported\n")
    assert "Statements of" not in markdown(found[:1], "figures/{figure}.png")


def test_theory_says_nothing_where_both_sides_have_one_limit():
    limit = np.array([0.8, 0.6, 0.4, 0.2])
    curves = {("a", "mine"): (noisy(limit * 1.2), limit)}
    curves["a", "other"] = noisy(limit, seed=1), limit
    for claimed in ({"below": 0.05}, {"above": -0.05, "below": 0.05}):
        page = markdown([judged(figure(curves), BELOW, claimed)], "{figure}")
        cells = [cell.strip() for cell in page.splitlines()[-1].split("|")]
        assert "100%" not in cells
    other = markdown([judged(pair(np.full(4, 0.9)), BELOW, {"below": 0})], "{figure}")
    assert "100%" in [cell.strip() for cell in other.splitlines()[-1].split("|")]
