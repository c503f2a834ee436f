"""Every parameter of every figure in words, and no place where a user's file lies."""

import dataclasses
import shutil
from pathlib import Path

import pytest

from interpolation_error.audit.pages.parameters import WHO_SAYS, parameters, value
from interpolation_error.figures.definition import read_figure
from interpolation_error.figures.figure import Limits, resize
from interpolation_error.run.configuration import load

ROOT = Path(__file__).parents[2]
FIGURES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def figure(name):
    return read_figure(ROOT / f"figures/{name}/figure.yaml", ROOT, {})


@pytest.mark.parametrize("name", FIGURES)
def test_every_parameter_is_said_and_its_source_explained(name):
    defined = figure(name)
    rows = parameters(defined, defined)
    assert len(rows) == sum(len(panel.source) for panel in defined.panels)
    for row in rows:
        assert row["defined"] == row["here"]
        assert row["defined"] or row["parameter"] == "data", row
        assert row["source"] in WHO_SAYS


def test_a_smaller_run_is_told_from_the_definition():
    defined = figure("nonlinear_attention")
    shrunk = resize(defined, Limits(size_divisor=4, points=7))
    rows = {
        (row["panel"][:3], row["parameter"]): row for row in parameters(shrunk, defined)
    }
    penalty, tokens = rows["(a)", "gamma"], rows["(a)", "tokens"]
    assert penalty["defined"] == "1e-06 … 100, 25 values"
    assert penalty["here"] == "1e-06 … 100, 7 values"
    assert (tokens["defined"], tokens["here"]) == ("512", "128")
    assert tokens["symbol"] == "n"


@pytest.mark.parametrize("curves", [2, 3])
def test_a_function_of_the_users_is_said_by_whatever_name_and_when_cut(
    tmp_path, curves
):
    for folder in ("config", "figures"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    file = tmp_path / "functions.py"
    file.write_text("def cube(t):\n    return t**3\n")
    path = tmp_path / "figures/nonlinear_attention/figure.yaml"
    text = path.read_text()
    assert text.count("nonlinearity: sigmoid") == 1  # of the third curve
    path.write_text(text.replace("nonlinearity: sigmoid", "nonlinearity: mine"))
    path = tmp_path / "config/presets/smoke.yaml"
    path.write_text(path.read_text().replace("curves: 2", f"curves: {curves}"))
    config = {"preset": "smoke", "seed": 1, "results": "results"}
    config["nonlinearities"] = {"mine": {"file": str(file), "name": "cube"}}
    loaded = load(config, tmp_path, "config")
    shrunk = next(one for one in loaded.figures if one.name == "nonlinear_attention")
    rows = parameters(shrunk, loaded.defined["nonlinear_attention"])
    (row,) = (row for row in rows if row["parameter"] == "nonlinearity")
    assert "sigmoid: cube" in row["defined"]
    assert ("sigmoid: cube" in row["here"]) == (curves == 3)


def test_what_curves_differ_in_is_said_curve_by_curve():
    (panel, *_) = figure("alignment").panels
    said = value(panel, "weights")
    same = "w_K = w_Q, norm 1, cosine"
    assert f"aligned weights: {same} 1 with the signal" in said
    assert f"orthogonal weights: {same} 0 with the signal" in said
    assert "no low-rank part: none" in said
    assert "regression" not in said


def test_the_folder_of_a_users_file_is_not_told():
    (panel, *_) = figure("digits").panels
    (first, *others) = panel.curves
    setting = first.curve.setting
    data = dataclasses.replace(setting.data, file="/home/someone/private/digits.h5")
    curve = dataclasses.replace(
        first.curve, setting=dataclasses.replace(setting, data=data)
    )
    first = dataclasses.replace(first, curve=curve)
    said = value(dataclasses.replace(panel, curves=(first,)), "data")
    assert "digits.h5" in said
    assert "someone" not in said
