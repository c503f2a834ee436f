"""What a change makes anew: exactly the arrays, tables and pictures that depend on it.

tests/workflow holds a few of these changes against Snakemake itself.
"""

import shutil
from pathlib import Path

import pytest
import yaml

from interpolation_error import checked_yaml, configuration, identity, plan

ROOT = Path(__file__).parents[1]
FIGURE = "figures/nonlinear_attention/figure.yaml"
PRESET = "config/presets/smoke.yaml"


@pytest.fixture
def clone(tmp_path):
    for folder in ("config", "figures"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def keys(root, style="style", **config):
    """Return all that a smoke run makes, by kind."""
    chosen = {"preset": "smoke", "seed": 1, "results": "results", **config}
    made = plan.Plan(configuration.load(chosen, root, "config"), style)
    figure = made.figures["nonlinear_attention"]
    return {
        "data": {simulation.dataset.stem for simulation in figure.simulations},
        "simulation": {simulation.item.stem for simulation in figure.simulations},
        "theory": {figure.theory.stem},
        "table": {figure.table.stem},
        "claims": {made.claims.stem},
        "picture": {figure.picture.stem},
    }


def new(before, after):
    """Return how many things of each kind are new, kinds without any left out."""
    counts = {kind: len(after[kind] - before[kind]) for kind in before}
    return {kind: count for kind, count in counts.items() if count}


def edit(path, change):
    content = checked_yaml.read_yaml(path, path.parent)
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def panel(definition):
    return definition["panels"]["gamma"]


REDRAWN = {"picture": 1}
RETABULATED = {"table": 1, "claims": 1, **REDRAWN}


def swap_sizes(definition):
    setting = panel(definition)["setting"]
    sizes = setting["tokens"], setting["dimension"]
    setting["dimension"], setting["tokens"] = sizes


@pytest.mark.parametrize(
    ("file", "change", "expected"),
    [
        (
            FIGURE,
            lambda d: panel(d)["setting"].update(snr=2),
            {"simulation": 2, "theory": 1, **RETABULATED},
        ),
        (
            FIGURE,
            lambda d: panel(d)["sweep"].update(stop=10),
            {"simulation": 2, "theory": 1, **RETABULATED},
        ),
        (
            FIGURE,
            lambda d: d["curves"]["tanh"]["weights"].update(norm=0.5),
            {"simulation": 1, "theory": 1, **RETABULATED},
        ),
        (
            FIGURE,
            lambda d: d["curves"]["tanh"].update(diagonal="keep"),
            {"simulation": 1, "theory": 1, **RETABULATED},
        ),
        (
            FIGURE,
            swap_sizes,
            {"data": 1, "simulation": 2, "theory": 1, **RETABULATED},
        ),
        (FIGURE, lambda d: d["curves"]["tanh"].update(label="Tanh"), REDRAWN),
        (FIGURE, lambda d: panel(d).update(title="other"), REDRAWN),
        (FIGURE, lambda d: panel(d)["source"].update(snr="inferred"), {}),
        (
            FIGURE,
            lambda d: panel(d).update(dataset={"tokens": 1024}),
            {"data": 1},
        ),
        (
            PRESET,
            lambda p: p["at_most"].update(curves=3),
            {"simulation": 1, "theory": 1, **RETABULATED},
        ),
        (
            PRESET,
            lambda p: p["at_most"].update(replicates=5),
            {"data": 1, "simulation": 2, **RETABULATED},
        ),
    ],
)
def test_a_change_makes_anew_what_depends_on_it(clone, file, change, expected):
    before = keys(clone)
    edit(clone / file, change)
    assert new(before, keys(clone)) == expected


def test_more_draws_reuse_the_old_ones(clone):
    edit(clone / PRESET, lambda p: p.update(replicates_per_job=1))
    before = keys(clone)
    edit(clone / PRESET, lambda p: p["at_most"].update(replicates=6))
    after = keys(clone)
    assert before["simulation"] < after["simulation"]
    assert new(before, after) == {"data": 2, "simulation": 4, **RETABULATED}


def test_another_seed_is_another_draw_and_the_same_theory(clone):
    anew = new(keys(clone), keys(clone, seed=2))
    assert anew == {"data": 1, "simulation": 2, **RETABULATED}


def test_another_style_is_another_picture(clone):
    assert new(keys(clone), keys(clone, style="other")) == REDRAWN


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A copy of the package's sources, which the keys are taken from."""
    copy = tmp_path / "package" / identity.PACKAGE.name
    shutil.copytree(identity.PACKAGE, copy)
    monkeypatch.setattr(identity, "PACKAGE", copy)
    identity.code_digest.cache_clear()
    yield copy
    identity.code_digest.cache_clear()


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("data", {"data": 1, "simulation": 2, **RETABULATED}),
        ("simulation", {"simulation": 2, **RETABULATED}),
        ("experiment", {"simulation": 2, **RETABULATED}),
        ("theory", {"theory": 1, **RETABULATED}),
        ("prediction", {"theory": 1, **RETABULATED}),
        ("nonlinearity", {"simulation": 2, "theory": 1, **RETABULATED}),
        ("curve", {"simulation": 2, "theory": 1, **RETABULATED}),
        ("tables", RETABULATED),
        ("gather", RETABULATED),
        ("claims", {"claims": 1}),
        ("claims_table", {"claims": 1}),
        ("linearization", {"simulation": 2, **RETABULATED}),
        ("softmax", {"simulation": 2, **RETABULATED}),
        ("lines", {"theory": 1, **RETABULATED}),
        ("drawing", REDRAWN),
        ("store", {}),
        ("configuration", {}),
        ("plan", {}),
    ],
)
def test_an_edited_module_makes_anew_what_it_computed(package, module, expected):
    before = keys(ROOT)
    path = package / f"{module}.py"
    path.write_text(path.read_text() + "\n_EDITED = True\n")
    identity.code_digest.cache_clear()
    assert new(before, keys(ROOT)) == expected


def test_an_edited_comment_makes_nothing_anew(package):
    before = keys(ROOT)
    for path in package.glob("*.py"):
        path.write_text("# a thought\n" + path.read_text())
    identity.code_digest.cache_clear()
    assert keys(ROOT) == before


def test_another_numpy_makes_every_array_anew(monkeypatch):
    before = keys(ROOT)
    monkeypatch.setattr(identity, "versions", lambda: '{"numpy":"0.0"}')
    anew = new(before, keys(ROOT))
    assert anew == {"data": 1, "simulation": 2, "theory": 1, **RETABULATED}


def test_simulations_of_a_users_tokens_depend_on_what_reads_them():
    chosen = {"preset": "quick", "seed": 1, "results": "results"}
    made = plan.Plan(configuration.load(chosen, ROOT, "config"), "style")
    simulations = made.figures["digits"].simulations
    assert simulations
    for simulation in simulations:
        assert simulation.item.spec["tokens"] == simulation.dataset.identity.key
