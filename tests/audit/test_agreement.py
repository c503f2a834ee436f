"""What counts as the same, and where two things first differ."""

import math

import numpy as np
import pandas as pd
import pytest

from interpolation_error.audit import agreement
from interpolation_error.figures.tables import COLUMNS
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import Setting


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        ([1.0, 0.0, math.nan], "identical"),
        ([1.0, -0.0, math.nan], "identical"),
        ([1.0 + 9e-7, 0.0, math.nan], "within rounding"),
        ([1.0 + 2e-6, 0.0, math.nan], "different"),
        ([1.0, 1e-300, math.nan], "different"),
        ([1.0, 0.0, 0.0], "different"),
        ([1.0, 0.0], "different"),
        ([math.inf, 0.0, math.nan], "different"),
        ([-math.inf, 0.0, math.nan], "different"),
    ],
)
def test_two_arrays_are_the_same_close_or_different(second, outcome):
    apart = agreement.difference(np.array([1.0, 0.0, math.nan]), np.array(second))
    assert apart.outcome == outcome
    assert str(apart).startswith(outcome)


def test_infinities_of_one_sign_are_the_same():
    one, other = np.array([math.inf, 1.0]), np.array([math.inf, 1.0 + 1e-9])
    assert agreement.difference(one, other).outcome == "within rounding"


def test_a_floor_counts_as_rounding():
    one, other = np.array([0.0, 1.0]), np.array([1e-9, 1.0])
    assert agreement.difference(one, other).outcome == "different"
    assert agreement.difference(one, other, floor=1e-9).outcome == "within rounding"


def test_one_eigenvalue_may_cross_the_edge_of_a_bin_and_two_may_not():
    setting = Setting("regression", tokens=100, dimension=50, snr=1.0, gamma=1.0)
    values = tuple(np.geomspace(0.1, 10, 21).tolist())
    curve = Curve(setting, "eigenvalue", values, measure="spectrum")
    one = 1 / (100 * math.log(values[1] / values[0]))
    unit = agreement.bin_unit(curve)
    assert one < unit < 2 * one
    gamma = Curve(setting, "gamma", (0.1, 1.0))
    assert agreement.bin_unit(gamma) == 0


@pytest.mark.parametrize(
    ("found", "tolerance", "fault"),
    [
        ("x,y\n1,2\n", 0, ""),
        ("x,y\n1,2.0000000001\n", 1e-9, ""),
        ("x,y\n1,2.1\n", 1e-9, "line 2, y: 2.1 stands where 2 follows"),
        ("x,y\n1,\n", 1e-9, "line 2, y: nothing stands where 2 follows"),
        ("x,y\n1,a\n", 1e-9, "line 2, y: a stands where 2 follows"),
        ("x,z\n1,2\n", 0, "its columns are not those of the arrays"),
        ("", 0, "its columns are not those of the arrays"),
        ("x,y\n1\n", 0, "line 2 has 1 cells and not 2"),
        ("x,y\n", 0, "it has 1 lines where 2 follow"),
        ("x,y\n1,2\n1,2\n", 0, "it has 3 lines where 2 follow"),
        ("x,y\n1,2.0\n", 0, "the same cells are written in another way"),
    ],
)
def test_a_table_is_held_against_what_it_should_be(found, tolerance, fault):
    made = "x,y\n1,2\n"
    said = "" if found == made else agreement.table_fault(found, made, tolerance)
    assert said.startswith(fault)
    assert bool(said) == bool(fault)


def reference(**columns):
    table = pd.DataFrame({name: [1.0, 2.0] for name in COLUMNS})
    for name in ("panel", "curve", "parameter"):
        table[name] = ["a", "b"]
    return table.assign(**columns)


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ({}, ""),
        ({"predicted": [1.0 + 5e-7, 2.0]}, ""),
        ({"predicted": [1.0 + 5e-6, 2.0]}, "line 2, predicted"),
        ({"predicted": [1.0, math.nan]}, "line 3, predicted"),
        ({"x": [1.0, 2.0 + 1e-6]}, "line 3, x"),
        ({"replicates": [1, 3]}, "line 3, replicates"),
        ({"residual_in_standard_errors": [1.0005, 2.0]}, ""),
        ({"residual_in_standard_errors": [1.01, 2.0]}, "line 2, residual"),
        ({"curve": ["a", "c"]}, "line 3, curve"),
    ],
)
def test_a_reference_differs_by_rounding_only(columns, fault):
    said = agreement.reference_fault(reference(**columns), reference())
    assert said.startswith(fault)
    assert bool(said) == bool(fault)


def test_a_reference_of_another_length_or_layout_is_refused():
    table = reference()
    for other in (table.iloc[:1], table.drop(columns="x")):
        said = agreement.reference_fault(other, table)
        assert "other columns or another number of rows" in said


def test_json_contents_agree_but_for_last_digits():
    one = {"a": [1.0, {"b": "c"}], "d": None, "e": math.nan}
    assert agreement.json_agree(one, {**one, "a": [1.0 + 1e-12, {"b": "c"}]})
    for other in ({**one, "a": [1.0001, {"b": "c"}]}, {**one, "d": 0}, {"a": 1}, None):
        assert not agreement.json_agree(one, other)


def test_the_first_line_that_differs_is_shown_short():
    said = agreement.first_line("same\n" + 90 * "x" + "y", "same\n" + 90 * "x" + "z")
    assert said == f"line 2 has …{20 * 'x'}y… where …{20 * 'x'}z… is right"
    assert agreement.first_line("a\n", "a\nb\n") == "it has more or fewer lines"


def test_a_difference_can_be_read():
    apart = agreement.difference(np.ones(2), np.ones(3))
    assert str(apart) == "different: another shape, or numbers missing or infinite"
