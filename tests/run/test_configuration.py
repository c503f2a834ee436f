"""Bad configuration is refused before anything runs: one line with file and key."""

import shutil
from pathlib import Path

import pytest
import yaml

from interpolation_error.figures import checked_yaml
from interpolation_error.figures.checked_yaml import ConfigurationError
from interpolation_error.run import configuration, plan

ROOT = Path(__file__).parents[2]
PRESETS = sorted(path.stem for path in (ROOT / "config/presets").glob("*.yaml"))


def run(**change):
    return {"preset": "smoke", "seed": 1, "results": "results", **change}


@pytest.fixture
def clone(tmp_path):
    """A folder with the project's config and figures, to be spoilt."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    return tmp_path


def edit(path, change):
    content = checked_yaml.read_yaml(path, path.parent)
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def refusal(root, **config):
    with pytest.raises(ConfigurationError) as error:
        configuration.load(run(**config), root, "config")
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_valid_and_every_array_named_once(preset):
    loaded = configuration.load(run(preset=preset), ROOT, "config")
    arrays = list(plan.Plan(loaded, "style").arrays())
    assert arrays
    assert len(arrays) == len(set(arrays))


def test_figures_share_the_curves_that_they_have_in_common():
    loaded = configuration.load(run(preset="paper"), ROOT, "config")
    plans = plan.Plan(loaded, "style").figures
    first, second = (
        {simulation.item.stem for simulation in plans[name].simulations}
        for name in ("linear_regression", "nonlinear_attention")
    )
    assert first < second


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"colour": 1}, "config: unknown key 'colour'; allowed: nonlinearities,"),
        ({"seed": "one"}, "config: seed: must be of type integer; got 'one'"),
        ({"seed": -1}, "config: seed: must be 0 or more; got -1"),
        ({"preset": "papr"}, "config: preset: there is no 'papr'; allowed: "),
        (
            {"nonlinearities": {"mine": {"file": "none.py", "name": "f"}}},
            "config: nonlinearities.mine: none.py: cannot be read",
        ),
        (
            {"nonlinearities": {"tanh": {"file": "none.py", "name": "f"}}},
            "config: nonlinearities.tanh: a registered nonlinearity has this name",
        ),
        (
            {"nonlinearities": {"mine": {"file": "none.py"}}},
            "config: nonlinearities.mine: lacks the key 'name'",
        ),
    ],
)
def test_bad_configuration(config, message):
    assert refusal(ROOT, **config).startswith(message)


def gamma_panel(definition):
    return definition["panels"]["gamma"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d.update(colour=1),
            "unknown key 'colour'; allowed: columns, curves, equa",
        ),
        (lambda d: d.pop("paper"), "lacks the key 'paper'"),
        (
            lambda d: d["curves"]["tanh"].update(lable="x"),
            "curves.tanh: unknown key 'lable'; allowed: centred, diagonal, estimator,",
        ),
        (
            lambda d: d["curves"]["tanh"].update(nonlinearity="tan"),
            "panels.gamma.curves.tanh: nonlinearity: there is no 'tan'; allowed: arct",
        ),
        (
            lambda d: d["curves"]["tanh"].pop("nonlinearity"),
            "panels.gamma.curves.tanh: attention needs a nonlinearity, one of",
        ),
        (
            lambda d: d["curves"]["tanh"].update(weights={"norm": 1}),
            "curves.tanh.weights: must be {norm, alignment} for one vector",
        ),
        (
            lambda d: d["curves"]["tanh"]["weights"].update(alignment=1.5),
            "curves.tanh.weights.alignment: must be 1 or less; got 1.5",
        ),
        (
            lambda d: d["panels"]["snr"]["setting"].update(gamma=0),
            "panels.snr.setting.gamma: must be more than 0; got 0",
        ),
        (
            lambda d: d["panels"]["snr"]["setting"].update(gamma="small"),
            "panels.snr.setting.gamma: must be of type number; got 'small'",
        ),
        (
            lambda d: d["panels"]["snr"]["setting"].update(tokens=2),
            "panels.snr.setting.tokens: must be 4 or more; got 2",
        ),
        (
            lambda d: gamma_panel(d).update(
                sweep={"parameter": "gamma", "values": [0.1, 0]}
            ),
            "panels.gamma.curves.tanh: gamma must be positive, got 0",
        ),
        (
            lambda d: gamma_panel(d)["sweep"].update(start=0),
            "panels.gamma.sweep: start and stop must be positive when spacing is log",
        ),
        (
            lambda d: gamma_panel(d).update(
                sweep={"parameter": "gamma", "values": [0.1, 0.1]}
            ),
            "panels.gamma.sweep: the same value of the sweep stands twice",
        ),
        (
            lambda d: gamma_panel(d).update(
                sweep={"parameter": "gamma", "values": [0.1, 1], "start": 0.1}
            ),
            "panels.gamma.sweep.start: must be left out where values are given; got",
        ),
        (
            lambda d: gamma_panel(d)["setting"].update(gamma=1.0),
            "panels.gamma.setting.gamma: is swept, so it cannot be set as well",
        ),
        (
            lambda d: gamma_panel(d)["setting"].pop("snr"),
            "panels.gamma.setting: lacks 'snr'",
        ),
        (
            lambda d: gamma_panel(d)["source"].pop("weights"),
            "panels.gamma.source: lacks 'weights'",
        ),
        (
            lambda d: gamma_panel(d)["source"].update(tokens="guess"),
            "panels.gamma.source.tokens: must be one of caption, summary, inferred,",
        ),
        (
            lambda d: gamma_panel(d).update(dataset={"dimension": 1024}),
            "panels.gamma.dataset.dimension: 1024 is smaller than 2048, which a curve",
        ),
        (
            lambda d: gamma_panel(d).update(replicates=1),
            "panels.gamma.replicates: must be 2 or more; got 1",
        ),
        (
            lambda d: gamma_panel(d).update(replicates=10**30),
            f"panels.gamma.replicates: must be 100000 or less; got {10**30}",
        ),
        (
            lambda d: gamma_panel(d)["sweep"].update(points=10**12),
            f"panels.gamma.sweep.points: must be 10000 or less; got {10**12}",
        ),
        (
            lambda d: gamma_panel(d)["sweep"].update(stop=1e300),
            "panels.gamma.sweep.stop: must be 1000000000000 or less; got 1e+300",
        ),
        (
            lambda d: gamma_panel(d)["setting"].update(tokens=10**7),
            f"panels.gamma.setting.tokens: must be 1000000 or less; got {10**7}",
        ),
        (
            lambda d: d["panels"]["dimension"]["sweep"].update(stop=1e7),
            "panels.dimension.sweep: must leave dimension at 1000000 or less; got 10",
        ),
        (lambda d: d.pop("curves"), "panels.gamma: has no curves, and the figure"),
        (
            lambda d: gamma_panel(d).update(quantity="size"),
            "panels.gamma.quantity: must be one of error, difference, ratio,",
        ),
        (
            lambda d: d["curves"]["tanh"].update(noise={"law": "cauchy"}),
            "curves.tanh.noise.law: must be one of gaussian, rademacher, uniform,",
        ),
        (
            lambda d: (
                d["curves"]["tanh"].update(
                    noise={"law": "student_t", "degrees_of_freedom": 2}
                ),
                [p["source"].update(noise="beyond") for p in d["panels"].values()],
            ),
            "panels.gamma.curves.tanh: degrees_of_freedom must be more than 2 for a "
            "finite variance, got 2",
        ),
        (
            lambda d: d["curves"]["tanh"].update(temperature=2),
            "panels.gamma.source: lacks 'temperature'",
        ),
        (
            lambda d: (
                gamma_panel(d).update(
                    sweep={"parameter": "eigenvalue", "values": [1, 2]},
                    quantity="density",
                ),
                gamma_panel(d)["setting"].update(gamma=1),
                gamma_panel(d)["source"].update(eigenvalue="beyond"),
            ),
            "panels.gamma.sweep: an eigenvalue is swept by start, stop and points",
        ),
        (
            lambda d: gamma_panel(d)["setting"].update(
                data={"file": "none.npy", "labels": "none.npy"}
            ),
            "panels.gamma.setting.dimension: is measured from the data",
        ),
    ],
)
def test_bad_figure_definition(clone, change, message):
    edit(clone / "figures/nonlinear_attention/figure.yaml", change)
    line = refusal(clone)
    assert line.startswith(f"figures/nonlinear_attention/figure.yaml: {message}")


def panel_of(definition, name):
    return definition["panels"][name]


def swept(definition, name, parameter, values, **setting):
    """Sweep a panel over something else, with its source."""
    panel = panel_of(definition, name)
    panel["sweep"] = {"parameter": parameter, "values": values}
    panel["setting"].update(setting)
    panel["source"][parameter] = "beyond"


def map_over_alignment(panel):
    """Let the rows of a map be the alignment of weights."""
    panel["rows"] = {"parameter": "alignment", "values": [-1, 0, 1]}
    panel["source"]["alignment"] = panel["source"].pop("aspect_ratio")
    for curve in panel["curves"].values():
        curve["weights"] = {"norm": 1, "alignment": 0}


DENSITY = "a density is drawn as a histogram, and nothing else is"
REMAINDER = "the remainder is of attention with one head and a zeroed diagonal"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "nonlinear_attention",
            lambda d: panel_of(d, "gamma")["sweep"].update(stop=float("inf")),
            "panels.gamma.sweep.stop: must be a finite number; got inf",
        ),
        (
            "nonlinear_attention",
            lambda d: panel_of(d, "gamma")["setting"].update(snr=float("nan")),
            "panels.gamma.setting.snr: must be a finite number; got nan",
        ),
        (
            "random_inputs",
            lambda d: panel_of(d, "map").pop("rows"),
            "panels.map.rows: a map needs two rows and two values or more",
        ),
        (
            "random_inputs",
            lambda d: panel_of(d, "map").update(quantity="difference"),
            "panels.map.quantity: a map shows the ratio; got 'difference'",
        ),
        (
            "random_inputs",
            lambda d: panel_of(d, "map")["rows"].update(
                parameter="gamma", start=1, stop=2
            ),
            "panels.map.rows.parameter: is swept already",
        ),
        (
            "random_inputs",
            lambda d: panel_of(d, "map")["rows"].update(start=-1, spacing="linear"),
            "panels.map.rows: aspect_ratio must be positive",
        ),
        (
            "random_inputs",
            lambda d: panel_of(d, "map")["rows"].update(stop=1e6),
            "panels.map.curves.tanh: tokens must be a whole number from 4, got 2",
        ),
        (
            "spectrum",
            lambda d: panel_of(d, "trace_two").update(kind="histogram"),
            f"panels.trace_two.kind: {DENSITY}",
        ),
        (
            "spectrum",
            lambda d: panel_of(d, "density_one").pop("kind"),
            f"panels.density_one.kind: {DENSITY}",
        ),
        (
            "strong_signal",
            lambda d: panel_of(d, "functions").update(overlay=True),
            "panels.functions.overlay: needs the rows of a sweep",
        ),
        (
            "finite_size",
            lambda d: panel_of(d, "strong_distance")["sweep"].update(values=[200]),
            "panels.strong_distance.fit: needs two values of the sweep or more",
        ),
        (
            "finite_size",
            lambda d: panel_of(d, "strong")["sweep"].update(values=[200.5, 400]),
            "panels.strong.sweep.values: must be whole numbers for size",
        ),
        (
            "linear_component",
            lambda d: [
                curve.update(nonlinearity="tanh")
                for curve in panel_of(d, "mix_few_tokens")["curves"].values()
                if curve["estimator"] == "attention"
            ],
            "panels.mix_few_tokens: no curve of the panel depends on linear_share",
        ),
        (
            "linearization",
            lambda d: d["curves"].update(r={"label": "r", "estimator": "regression"}),
            f"panels.remainder.curves.r: {REMAINDER}",
        ),
        (
            "linearization",
            lambda d: d["curves"]["tanh_aligned"].update(diagonal="keep"),
            f"panels.remainder.curves.tanh_aligned: {REMAINDER}",
        ),
        (
            "softmax",
            lambda d: d["curves"]["entry_wise"].update(diagonal="keep"),
            "panels.snr_many_tokens.curves.entry_wise: diagonal 'keep' needs f(t)/t",
        ),
        (
            "heads",
            lambda d: panel_of(d, "few_tokens").update(quantity="shortfall"),
            "panels.few_tokens.curves.shared: several heads have no limit",
        ),
        (
            "heads",
            lambda d: d["curves"]["shared"].pop("weights"),
            "panels.many_tokens.curves.shared: several heads need weights",
        ),
        (
            "nonlinear_attention",
            lambda d: (
                swept(d, "gamma", "alignment", [-1, 0, 1], gamma=1.0),
                panel_of(d, "gamma").pop("axes", None),
            ),
            "panels.gamma.axes.x: must be linear, since the sweep goes down to -1",
        ),
        (
            "random_inputs",
            lambda d: map_over_alignment(panel_of(d, "map")),
            "panels.map.axes.y: must be linear, since the sweep goes down to -1",
        ),
        (
            "heads",
            lambda d: swept(d, "few_tokens", "heads", [1, 799]),
            "panels.few_tokens.curves.shared: 799 heads need an embedding dimension "
            "of 801 or more, got 800",
        ),
        (
            "softmax",
            lambda d: swept(d, "snr_many_tokens", "temperature", [1, 0.02], snr=1),
            "panels.snr_many_tokens.curves.entry_wise: temperature 0.02: nonlinearity "
            "'exp of 50 t' must be finite, got inf",
        ),
        (
            "softmax",
            lambda d: swept(d, "snr_many_tokens", "temperature", [1, 0.1], snr=1),
            "panels.snr_many_tokens.curves.entry_wise: temperature 0.1: nonlinearity "
            "'exp of 10 t' must have a finite variance under the normal law",
        ),
        (
            "digits",
            lambda d: panel_of(d, "few_tokens")["setting"].update(tokens=5000),
            "panels.few_tokens.setting.data: figures/digits/digits.h5 has 1797 tokens",
        ),
        (
            "digits",
            lambda d: swept(d, "few_tokens", "size", [10, 20], gamma=1.0),
            "panels.few_tokens.sweep: size is given by the data",
        ),
        (
            "digits",
            lambda d: panel_of(d, "few_tokens")["setting"]["data"].update(file="a.h5"),
            "panels.few_tokens.setting.data: a.h5: cannot be read (No such file",
        ),
    ],
)
def test_what_cannot_be_shown_is_refused(clone, monkeypatch, name, change, message):
    monkeypatch.chdir(clone)  # tokens of the user's own are named from here
    edit(clone / f"figures/{name}/figure.yaml", change)
    edit(
        clone / "config/presets/smoke.yaml",
        lambda p: (p.update(figures=[name], size_divisor=1), p.pop("at_most")),
    )
    line = refusal(clone)
    assert line.startswith(f"figures/{name}/figure.yaml: {message}")
    assert "\n" not in line


def claim(document):
    return document["claims"]["random_inputs"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("claims"), "lacks the key 'claims'"),
        (
            lambda d: claim(d).update(colour=1),
            "claims.random_inputs: unknown key 'colour'; allowed: claimed, figure,",
        ),
        (
            lambda d: claim(d).update(figure="none"),
            "claims.random_inputs.figure: there is no 'none'",
        ),
        (
            lambda d: claim(d)["statistic"].update(kind="mean"),
            "claims.random_inputs.statistic.kind: must be one of log_ratio,",
        ),
        (
            lambda d: claim(d).update(share=2),
            "claims.random_inputs.share: must be 1 or less; got 2",
        ),
        (
            lambda d: claim(d)["regions"]["whole map"].update(panels=["none"]),
            "claims.random_inputs.regions.whole map: there is no panel 'none'; allow",
        ),
        (
            lambda d: claim(d)["regions"]["whole map"].update(curves=["none"]),
            "claims.random_inputs.regions.whole map: panel map has no curve 'none';",
        ),
        (
            lambda d: claim(d)["statistic"].pop("against"),
            "claims.random_inputs.statistic: log_ratio lacks 'against'",
        ),
        (
            lambda d: claim(d).update(claimed={"above": 1, "below": 0}),
            "claims.random_inputs.claimed: above must be less than below",
        ),
        (
            lambda d: claim(d)["regions"]["whole map"].update(where={"x": [0, 1]}),
            "claims.random_inputs.regions.whole map.where: there is no 'x'; allowed: a",
        ),
        (
            lambda d: claim(d)["regions"]["whole map"].update(where={"snr": [1, 0]}),
            "claims.random_inputs.regions.whole map.where.snr: must be the lowest and",
        ),
        (
            lambda d: claim(d)["statistic"].update(kind="distance"),
            "claims.random_inputs.regions.whole map: the statistic distance is of",
        ),
        (
            lambda d: claim(d)["regions"]["whole map"].update(
                where={"alignment": [0, 1]}
            ),
            "claims.random_inputs.regions.whole map.where.alignment: curve ",
        ),
        (
            lambda d: d["claims"]["approach_to_the_limit"]["statistic"].update(
                kind="gain"
            ),
            "claims.approach_to_the_limit.regions.aligned, strong signal: gain takes",
        ),
        (
            lambda d: claim(d)["statistic"].update(against="none"),
            "claims.random_inputs.regions.whole map: panel map has no curve 'none';",
        ),
    ],
)
def test_bad_claims(clone, change, message):
    edit(clone / "config/claims.yaml", change)
    assert refusal(clone).startswith(f"config/claims.yaml: {message}")


def test_two_curves_of_one_name(clone):
    path = clone / "figures/nonlinear_attention/figure.yaml"
    path.write_text(path.read_text().replace("\n  cos:\n", "\n  tanh:\n"))
    assert refusal(clone).endswith("the key 'tanh' stands twice")
    assert "figures/nonlinear_attention/figure.yaml: line" in refusal(clone)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a mapping of keys"),
        ("- a\n", "must be a mapping of keys"),
        ("title: [\n", "line 2: "),
        ("title: \x00\n", "unacceptable character"),
        ("a: 1\n[b, c]: 2\n", "line 2: a key must be text, not a list or a mapping"),
        ("a: 1\non: 2\n", "line 2: the key 'on' is text only in quotes"),
        ("a:\n  1.5: 2\n", "line 2: the key '1.5' is text only in quotes"),
        ("a: 1\nb: !!float abc\n", "line 2: 'abc' cannot be read as float"),
        ("a: !!int ''\n", "line 1: '' cannot be read as int"),
        ("a: !!bool b\n", "line 1: 'b' cannot be read as bool"),
        ("title: 2024-13-01\n", "line 1: '2024-13-01' is text only in quotes"),
        ("title: 2024-12-01\n", "line 1: '2024-12-01' is text only in quotes"),
        ("title: =\n", "line 1: '=' is text only in quotes"),
        ("title: '2024-13-01'\n", "lacks the key 'paper'"),
        ("a: !!map b\n", "line 1: expected a mapping node"),
        (f"a: {'1' * 5000}\n", "line 1: '1111"),
        (f"a: {'[' * 3000}{']' * 3000}\n", "is nested too deeply"),
    ],
)
def test_a_file_that_is_no_definition(clone, text, message):
    path = clone / "figures/nonlinear_attention/figure.yaml"
    path.write_text(text)
    line = refusal(clone)
    assert line.startswith(f"figures/nonlinear_attention/figure.yaml: {message}")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: p.update(figures=["fig"]), "figures: there is no 'fig'; allowed: a"),
        (lambda p: p.update(figures=[]), "figures: "),
        (lambda p: p.update(size_divisor=0), "size_divisor: must be 1 or more; got 0"),
        (
            lambda p: p.update(replicates_per_job=0),
            "replicates_per_job: must be 1 or more; got 0",
        ),
        (
            lambda p: p.update(at_least={"replicates": 10**6}),
            "at_least.replicates: must be 100000 or less; got 1000000",
        ),
        (
            lambda p: p["at_most"].update(points=0),
            "at_most.points: must be 1 or more; got 0",
        ),
        (
            lambda p: p.update(size_multiplier=1.5),
            "size_multiplier: must be of type integer; got 1.5",
        ),
        (
            lambda p: p.update(at_least={"replicates": 5}),
            "at_least.replicates: 5 is more than at_most.replicates, 4",
        ),
        (
            lambda p: p.update(at_least={"points": 5}),
            "at_least: unknown key 'points'; allowed: replicates",
        ),
    ],
)
def test_bad_preset(clone, change, message):
    edit(clone / "config/presets/smoke.yaml", change)
    assert refusal(clone).startswith(f"config/presets/smoke.yaml: {message}")


def test_a_divisor_that_leaves_too_few_tokens(clone):
    edit(clone / "config/presets/smoke.yaml", lambda p: p.update(size_divisor=256))
    line = refusal(clone)
    where = "figures/linear_regression/figure.yaml: panels.gamma: "
    assert line.startswith(f"{where}tokens must be")


def test_a_preset_that_leaves_no_point_of_a_panel(clone):
    edit(
        clone / "config/presets/smoke.yaml", lambda p: p["at_most"].update(dimension=9)
    )
    assert refusal(clone) == (
        "figures/linear_regression/figure.yaml: panels.gamma: tokens 64 and dimension "
        "256 are more than the preset has in at_most"
    )


@pytest.mark.parametrize(
    ("name", "change", "preset", "message"),
    [
        (
            "finite_size",
            lambda d: panel_of(d, "strong_distance")["sweep"].update(values=[200, 201]),
            {"size_divisor": 4},
            "panels.strong_distance.fit: needs two values of the sweep or more",
        ),
        (
            "random_inputs",
            lambda d: None,
            {"size_divisor": 1, "at_most": {"points": 1}},
            "panels.map.rows: a map needs two rows and two values or more",
        ),
        (
            "random_inputs",
            lambda d: None,
            {"size_divisor": 1, "at_most": {"panels": 1, "dimension": 200}},
            "panels.map.rows: a map needs two rows and two values or more",
        ),
        (
            "spectrum",
            lambda d: None,
            {"size_divisor": 1, "at_most": {"points": 1}},
            "panels.density_quarter.curves.tanh: a spectrum needs two eigenvalues or "
            "more, evenly spaced in their logarithm",
        ),
        (
            "heads",
            lambda d: panel_of(d, "few_tokens")["sweep"].update(values=[1, 99]),
            {"size_divisor": 8},
            "panels.few_tokens.curves.shared: 99 heads need an embedding dimension of "
            "101 or more, got 100",
        ),
    ],
)
def test_what_a_preset_leaves_too_small(clone, name, change, preset, message):
    edit(clone / f"figures/{name}/figure.yaml", change)
    base = {"figures": [name], "replicates_per_job": "all"}
    (clone / "config/presets/smoke.yaml").write_text(yaml.safe_dump({**base, **preset}))
    resized = "resized by config/presets/smoke.yaml"
    assert refusal(clone) == f"figures/{name}/figure.yaml: {resized}: {message}"


def test_scientific_notation_is_a_number(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("a: 1e-5\nb: 1E3\nc: -2.5e+1\nd: 1e\n")
    assert checked_yaml.read_yaml(path, tmp_path) == {
        "a": 1e-5,
        "b": 1e3,
        "c": -25.0,
        "d": "1e",
    }


def test_every_schema_key_is_documented():
    described = (ROOT / "config/README.md").read_text()
    for path in (ROOT / "config/schemas").glob("*.yaml"):
        for key in keys_of(yaml.safe_load(path.read_text())):
            assert f"`{key}`" in described, f"config/README.md lacks {key}"


def keys_of(schema):
    if isinstance(schema, dict):
        for name, value in schema.items():
            if name == "properties":
                yield from value
            yield from keys_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from keys_of(value)
