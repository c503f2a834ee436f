"""Two runs are compared: what differs, by how much, and whether within rounding."""

import json
import shutil

import numpy as np
import pytest

from interpolation_error.audit import comparison
from interpolation_error.run import store
from tests.workflow.conftest import Clone

pytestmark = pytest.mark.workflow

CURVE = "nonlinear_attention/gamma/tanh"


@pytest.fixture
def other(pristine, tmp_path):
    """A copy of the results alone, as they come from another machine."""
    shutil.copytree(pristine.results, tmp_path / "other")
    return tmp_path / "other"


def compare(pristine, other):
    return comparison.compare(pristine.results, other, "miniature")


def apart(report):
    """Return what differs: kind, name and outcome."""
    return [
        (row.kind, row.name, row.outcome)
        for row in report.rows
        if row.outcome not in comparison.AGREE
    ]


def scale(folder, factor):
    """Multiply the errors of the simulated tanh."""
    path = next(folder.glob("cache/simulation/*tanh*.h5"))
    arrays = store.read(path)
    arrays["error"] = arrays["error"] * factor
    store.write(path, arrays, store.read_identity(path))


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def table_manifest(folder):
    return next(folder.glob("miniature/manifests/*-table-*.json"))


def test_a_copy_is_identical(pristine, other):
    report = compare(pristine, other)
    assert report.agrees
    assert report.conclusion() == "All numbers are identical, bit by bit."
    assert [(kind, same) for kind, same, *rest in report.counts()] == [
        ("simulated curves", 2),
        ("predicted curves", 2),
        (
            "verdicts",
            len(json.loads((other / "miniature/claims.json").read_text())["claims"]),
        ),
    ]
    (origin,) = report.origins["A"]
    assert report.origins["B"] == [origin]
    assert f"numpy {np.__version__}" in origin
    assert "1 thread" in origin


def test_rounding_is_told_from_a_difference(pristine, other):
    scale(other, 1 + 1e-9)
    report = compare(pristine, other)
    assert report.agrees
    assert "All agree within rounding: the largest difference is 1e-09" in (
        report.conclusion()
    )
    scale(other, 1 + 1e-3)
    report = compare(pristine, other)
    assert apart(report) == [("simulated curves", CURVE, "different")]
    assert report.conclusion().startswith("1 of ")
    (row,) = [row for row in report.rows if row.outcome == "different"]
    assert row.relative == pytest.approx(1e-3, rel=0.01)


def test_a_curve_of_other_parameters_is_not_compared(pristine, other):
    edit(
        table_manifest(other),
        lambda table: table["series"][0]["curve_spec"].update(values=[1.0]),
    )
    assert apart(compare(pristine, other)) == [
        ("simulated curves", CURVE, "defined otherwise")
    ]


def test_what_only_one_has_is_named(pristine, other):
    edit(table_manifest(other), lambda table: table["series"].pop(0))
    edit(other / "miniature/claims.json", lambda found: found["claims"].pop(0))
    found = compare(pristine, other)
    assert [(kind, outcome) for kind, name, outcome in apart(found)] == [
        ("simulated curves", "only in A"),
        ("verdicts", "only in A"),
    ]
    back = comparison.compare(other, pristine.results, "miniature")
    assert {outcome for kind, name, outcome in apart(back)} == {"only in B"}


def test_a_figure_that_only_one_has_is_named(pristine, other):
    table_manifest(other).unlink()
    found = apart(compare(pristine, other))
    assert ("simulated curves", CURVE, "only in A") in found
    assert len(found) == 2


def test_another_verdict_is_named(pristine, other):
    edit(
        other / "miniature/claims.json",
        lambda found: found["claims"][0].update(verdict="proven"),
    )
    report = compare(pristine, other)
    ((kind, _, outcome),) = apart(report)
    assert (kind, outcome) == ("verdicts", "different")
    assert any("in A, proven in B" in row.what for row in report.rows)


def test_draws_of_another_number_are_a_difference(pristine, other):
    path = next(other.glob("cache/simulation/*tanh*.h5"))
    arrays = {"error": store.read(path)["error"][:1]}
    store.write(path, arrays, store.read_identity(path))
    report = compare(pristine, other)
    assert apart(report) == [("simulated curves", CURVE, "different")]
    assert any("another shape" in row.what for row in report.rows)


def test_a_damaged_file_is_named_and_not_compared(pristine, other):
    path = next(other.glob("cache/simulation/*tanh*.h5"))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(store.StoreError, match="cannot be read as HDF5"):
        compare(pristine, other)
    table_manifest(other).write_text("{")
    with pytest.raises(ValueError, match="cannot be read as JSON"):
        compare(pristine, other)


def test_folders_without_a_run_in_common_are_refused(pristine, tmp_path):
    with pytest.raises(ValueError, match="is no results folder"):
        compare(pristine, tmp_path)
    (tmp_path / "cache").mkdir()
    with pytest.raises(ValueError, match="no run of the preset 'miniature'; it has no"):
        compare(pristine, tmp_path)


def test_the_command_says_what_differs_and_its_status(pristine, other):
    clone = Clone(pristine.folder)
    done = clone.script("compare", str(pristine.results), str(other))
    assert done.returncode == 0
    assert done.stdout.endswith("All numbers are identical, bit by bit.\n")
    scale(other, 1 + 1e-3)
    done = clone.script("compare", "results", str(other))
    assert done.returncode == 1
    assert f"simulated curves: {CURVE}: different: by up to" in done.stdout


def test_a_folder_that_is_not_named_is_asked_for_in_one_line(pristine):
    done = pristine.script("compare", "results", "")
    assert done.returncode == 1
    assert done.stdout == (
        "error: name two results folders: make compare A=results B=other/results\n"
    )
