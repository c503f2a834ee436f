"""What a change makes anew: exactly the arrays, tables and pictures that depend on it.

tests/workflow holds a few of these changes against Snakemake itself.
"""

import ast
import dataclasses
import functools
import shutil
from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from interpolation_error.audit import crate
from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, identity, plan

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "workflow/scripts"
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
        ("model/data", {"data": 1, "simulation": 2, **RETABULATED}),
        ("simulation/attention", {"simulation": 2, **RETABULATED}),
        ("simulation/probe", {"simulation": 2, **RETABULATED}),
        ("simulation/__init__", {}),
        ("simulation/general_weights", {}),
        ("simulation/experiment", {"simulation": 2, **RETABULATED}),
        ("theory/limit", {"theory": 1, **RETABULATED}),
        ("figures/prediction", {"theory": 1, **RETABULATED}),
        ("model/nonlinearity", {"simulation": 2, "theory": 1, **RETABULATED}),
        ("model/hermite", {"simulation": 2, "theory": 1, **RETABULATED}),
        ("model/curve", {"simulation": 2, "theory": 1, **RETABULATED}),
        ("figures/tables", RETABULATED),
        ("figures/gather", RETABULATED),
        ("verdicts/statistics", {"claims": 1}),
        ("verdicts/claims", {"claims": 1}),
        ("verdicts/claims_table", {"claims": 1}),
        ("simulation/linearization", {"simulation": 2, **RETABULATED}),
        ("simulation/softmax", {"simulation": 2, **RETABULATED}),
        ("figures/lines", {"theory": 1, **RETABULATED}),
        ("figures/drawing", REDRAWN),
        ("run/store", {}),
        ("run/configuration", {}),
        ("run/plan", {}),
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
    for path in package.rglob("*.py"):
        path.write_text("# a thought\n" + path.read_text())
    identity.code_digest.cache_clear()
    assert keys(ROOT) == before


ALL = {"data": 1, "simulation": 2, "theory": 1, **RETABULATED}


@pytest.mark.parametrize(
    ("library", "expected"),
    [
        *((name, ALL) for name in ("numpy", "scipy", "h5py")),
        ("pandas", RETABULATED),
        ("tabulate", {"claims": 1}),
        ("matplotlib", REDRAWN),
        ("pillow", REDRAWN),
    ],
)
def test_another_library_makes_anew_what_it_makes(monkeypatch, library, expected):
    before = keys(ROOT)
    real = identity.metadata.version
    monkeypatch.setattr(
        identity.metadata,
        "version",
        lambda name: "0.0" if name == library else real(name),
    )
    identity.versions.cache_clear()
    try:
        assert new(before, keys(ROOT)) == expected
    finally:
        identity.versions.cache_clear()


def test_nodes_must_agree_in_every_library_of_a_key():
    chosen = {"preset": "smoke", "seed": 1, "results": "results"}
    made = plan.Plan(configuration.load(chosen, ROOT, "config"), "style")
    libraries = {n for kind in identity.KINDS.values() for n in kind.libraries}
    assert set(made.identity()) == {*identity.NUMERICAL, *libraries, "code"}
    assert {"pandas", "matplotlib"} <= libraries


def test_no_script_writes_a_table_in_a_form_of_its_own():
    # The text of a table is made where the key sees it.
    for path in (*SCRIPTS.glob("*.py"), ROOT / SOURCES / "audit/verification.py"):
        assert "to_csv" not in path.read_text("utf-8"), path.name


def test_simulations_of_a_users_tokens_depend_on_what_reads_them():
    chosen = {"preset": "quick", "seed": 1, "results": "results"}
    made = plan.Plan(configuration.load(chosen, ROOT, "config"), "style")
    simulations = made.figures["digits"].simulations
    assert simulations
    for simulation in simulations:
        assert simulation.item.spec["tokens"] == simulation.dataset.identity.key


def parts(root):
    """Return the stems of the study's arrays in the quick preset, by part and kind."""
    chosen = {"preset": "quick", "seed": 1, "results": "results"}
    made = plan.Plan(configuration.load(chosen, root, "config"), "style")
    return {
        (part.theory.spec["part"], item.kind): item.stem
        for part in made.studies["pretrained_weights"].parts
        for item in (part.simulation, part.theory)
        if item is not None
    }


@pytest.mark.parametrize(
    ("module", "before", "after", "predicted"),
    [
        ("model/data", "within.std(axis=1)", "within.std(axis=1, ddof=2)", True),
        ("model/word_tokens", "scale=True", "scale=False", True),
        (
            "simulation/study_simulation",
            "generator.permutation(row",
            "generator.choice(row",
            False,
        ),
    ],
    ids=["scaled", "read", "mixed"],
)
def test_words_made_otherwise_are_simulated_and_predicted_again(
    package, module, before, after, predicted
):
    made = parts(ROOT)
    path = package / f"{module}.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    identity.code_digest.cache_clear()
    other = parts(ROOT)
    anew = {part for part in made if made[part] != other[part]}
    assert ("words", "study_simulation") in anew
    assert (("words", "study_theory") in anew) == predicted
    if module == "model/word_tokens":
        assert {part for part, _ in anew} == {"words"}


NO_RESULT = {
    "run.store": "writes what it is given; the layout version in keys stands for it",
    "run.identity": "makes the keys themselves",
    "run.lease": "says whether a job may run at all",
    "run.provenance": "tells what is volatile, which goes beside an array, not into it",
    "run.download": "compares a file with the hash that is in the specification",
    "run.study_parts": "hands what these modules read to the function for a part",
}
"""Modules of no key, and why they cannot change what a job makes."""
NOT_CALLED = {
    "predict_study": {"simulation.study_simulation"},
    "simulate_study": {"figures.study_prediction"},
}
"""What a script imports and never calls: study_parts serves two scripts."""


def imported(script):
    """Return all modules of the package that a script imports, however far."""
    found = set()
    waiting = [SCRIPTS / f"{script}.py"]
    while waiting:
        source = waiting.pop().read_text("utf-8")
        nodes = ast.walk(ast.parse(source))
        beside = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
        waiting += [p for p in SCRIPTS.glob("_*.py") if p.stem in beside]
        anew = identity.imports(source) - found - NOT_CALLED.get(script, set())
        found |= anew
        waiting += [identity.source_file(name) for name in anew]
    return found


SOURCES = "workflow/src/interpolation_error"
JOBS = sorted(crate.STEPS)


@pytest.fixture(scope="module")
def reached(tmp_path_factory):
    """Of every module, the kinds of thing that are made anew when it is edited."""
    chosen = {"preset": "quick", "seed": 1, "results": "results"}
    loaded = configuration.load(chosen, ROOT, "config")
    # One figure with noise and one with tokens of a file are enough.
    few = ("nonlinear_attention", "digits")
    kept = tuple(figure for figure in loaded.figures if figure.name in few)
    loaded = dataclasses.replace(loaded, figures=kept, claims={})

    def stems():
        identity.code_digest.cache_clear()
        made = plan.Plan(loaded, "style")
        items = [item for one in made.shown().values() for item in one.items()]
        items += [o for p in made.shown().values() for o in (p.table, p.picture)]
        return {(item.kind, item.stem) for item in (*items, made.claims)}

    copy = tmp_path_factory.mktemp("package") / identity.PACKAGE.name
    shutil.copytree(identity.PACKAGE, copy)
    changed = defaultdict(set)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(identity, "PACKAGE", copy)
        # Modules that are not edited need not be read anew each time.
        patch.setattr(identity, "_tokens", functools.cache(identity._tokens))
        patch.setattr(ast, "parse", functools.cache(ast.parse))
        before = stems()
        for name in sorted(set().union(*map(imported, JOBS))):
            path = identity.source_file(name)
            text = path.read_text("utf-8")
            path.write_text(f"{text}\n_EDITED = True\n", "utf-8")
            changed[name] = {kind for kind, _ in stems() - before}
            path.write_text(text, "utf-8")
    identity.code_digest.cache_clear()
    return changed


@pytest.mark.parametrize("script", JOBS)
def test_what_a_job_imports_is_in_its_key(reached, script):
    kinds = set(crate.STEPS[script])
    missing = {name for name in imported(script) if not kinds & reached[name]}
    assert missing <= set(NO_RESULT)


def test_modules_without_a_key_are_really_imported_and_in_none(reached):
    assert {name for name, kinds in reached.items() if not kinds} == set(NO_RESULT)
