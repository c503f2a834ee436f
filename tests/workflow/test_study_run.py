"""The study of a transformer runs, from weights in a file to picture and verdicts."""

import argparse
import importlib
import json
import re
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
import yaml
from safetensors.numpy import save_file
from threadpoolctl import threadpool_limits

from interpolation_error.audit import comparison, recomputation, verification
from interpolation_error.model.pretrained import LAYOUTS
from interpolation_error.run import download, store, study_parts
from interpolation_error.run.store import file_digest
from tests.workflow.conftest import ROOT, copy_project

# All on one worker, so that they share the run.
pytestmark = pytest.mark.xdist_group("study")

P, HEADS = 24, 2


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run on made-up weights of one layer."""
    clone = copy_project(tmp_path_factory.mktemp("study") / "clone")
    generator = np.random.default_rng(1)
    names = LAYOUTS["bert"]
    tensors = {
        name.format(layer=0): generator.standard_normal((P // 2, P), dtype=np.float32)
        for name in (names.query, names.key)
    }
    save_file(tensors, clone.folder / "weights.safetensors")
    (clone.folder / "config/presets/miniature.yaml").write_text(
        yaml.safe_dump(
            {
                "figures": ["pretrained_weights"],
                "replicates_per_job": "all",
                "size_divisor": 1,
                "at_most": {"points": 1, "replicates": 3},
            }
        )
    )
    clone.edit("config/config.yaml", use_the_file)
    clone.said = clone.build()
    return clone


def use_the_file(config):
    file = {"file": "weights.safetensors", "layout": "bert", "heads": HEADS}
    config["pretrained"] = {"source": "path", **file, "name": "mine", "words": False}


def test_it_makes_picture_tables_and_verdicts(finished):
    run = finished.run_folder
    for kind in ("pdf", "png", "svg"):
        assert (run / f"figures/pretrained_weights.{kind}").stat().st_size > 10_000
    table = pd.read_csv(run / "tables/pretrained_weights.csv")
    assert set(table["model"]) == {"mine"}
    assert set(table["part"]) == {"heads", "sweep"}
    claims = json.loads((run / "claims.json").read_text())["claims"]
    mine = [one for one in claims if one["figure"] == "pretrained_weights"]
    assert {one["claim"] for one in mine} == {
        "real_heads",
        "assumption_1_of_real_heads",
    }
    assert all(one["points"] == HEADS and one["draws"] == 3 for one in mine)
    assert all(one["arrays"] for one in mine)


def test_a_second_run_does_nothing(finished):
    assert "Nothing to be done" in finished.build()


def test_a_vocabulary_that_is_gone_is_fetched_again(finished):
    config = finished.folder / "config/config.yaml"
    before = config.read_text()
    finished.edit("config/config.yaml", lambda c: c["pretrained"].pop("words"))
    model = finished.results / "cache/weights/minilm/model.safetensors"
    model.parent.mkdir(parents=True)
    model.touch()
    try:
        assert finished.planned()["fetch_minilm"] == 1
        model.with_name("vocab.txt").touch()
        assert "fetch_minilm" not in finished.planned()
    finally:
        config.write_text(before)
        shutil.rmtree(model.parents[1])


def job(finished, script):
    """Return the command of a job that was run, as Snakemake keeps it."""
    said = finished.build("--dry-run", "--forceall", "--printshellcmds")
    found = re.search(rf"python workflow/scripts/{script}.*", said)
    assert found, said
    return found[0].partition(" > ")[0]


def test_weights_that_changed_since_the_run_was_planned_are_refused(finished):
    command = job(finished, "simulate_study.py")
    path = finished.folder / "weights.safetensors"
    before = path.read_bytes()
    path.write_bytes(before[:-1] + b"?")
    try:
        done = subprocess.run(
            command.replace("python", sys.executable, 1),
            shell=True,
            cwd=finished.folder,
            capture_output=True,
            text=True,
        )
    finally:
        path.write_bytes(before)
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert re.match(r"error: \S*weights.safetensors has the wrong sha256", line)


def test_a_part_without_its_noise_is_refused_in_one_line(finished):
    command, _, _ = job(finished, "simulate_study.py").partition(" --dataset ")
    output = re.search(r"--output \S+", job(finished, "simulate_study.py"))
    done = subprocess.run(
        f"{command.replace('python', sys.executable, 1)} {output[0]}",
        shell=True,
        cwd=finished.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: the part \w+ was given no draws of noise\n", done.stderr
    )


STUDIES = "parts of studies, recomputed"


@pytest.mark.parametrize("lost", ["missing", "another"])
def test_recomputing_without_the_weights_is_a_fault(finished, monkeypatch, lost):
    monkeypatch.chdir(finished.folder)
    plan = finished.plan()
    path = finished.folder / "weights.safetensors"
    before = path.read_bytes()
    path.unlink()
    if lost == "another":
        path.write_bytes(before[:-1] + b"?")
    try:
        report = verification.verify(plan, finished.folder, recompute=0.05)
        assert not verification.verify(plan, finished.folder).faults
    finally:
        path.write_bytes(before)
    parts = len(plan.studies["pretrained_weights"].parts)
    count = report.counts[STUDIES]
    assert (count.named, count.hold, count.unchecked) == (parts, 0, parts - 1)
    (fault,) = report.faults
    line = report.line(fault)
    assert line.startswith(
        f"weights.safetensors: {parts} of {parts} parts of pretrained_weights were "
        "not computed again: weights.safetensors"
    )
    # It is the user's own, and not to be fetched.
    assert line.endswith("; mend it: put back the file that config/config.yaml names")


def test_the_command_fails_and_says_what_fetches_weights(finished, monkeypatch, capsys):
    """As of a transformer that a run fetches, whose weights are below the results."""
    monkeypatch.chdir(finished.folder)
    monkeypatch.syspath_prepend(str(ROOT / "workflow/scripts"))
    script = importlib.import_module("verify")
    monkeypatch.setattr(script, "ROOT", finished.folder)
    path = finished.results / "cache/weights/own/model.safetensors"
    path.parent.mkdir(parents=True)
    shutil.copy(finished.folder / "weights.safetensors", path)
    config = finished.folder / "config/config.yaml"
    before = config.read_text()
    try:
        finished.edit(
            "config/config.yaml", lambda c: c["pretrained"].update(file=str(path))
        )
        plan = finished.plan()
        monkeypatch.setattr(script, "load_plan", lambda arguments: plan)
        arguments = argparse.Namespace(
            figure=["pretrained_weights"], redraw=False, recompute="1%", sample="0"
        )
        shutil.rmtree(path.parent)
        with pytest.raises(SystemExit) as ended:
            script.main(arguments)
        said = capsys.readouterr().out
        arguments.recompute = None
        script.main(arguments)
    finally:
        config.write_text(before)
        shutil.rmtree(path.parents[1])
    assert ended.value.code == 1
    (line,) = [line for line in said.splitlines() if line.startswith("fault: ")]
    assert line.startswith(f"fault: {path}: ")
    assert "not computed again: model.safetensors: cannot be read (No such" in line
    assert f"; mend it: rm -f {path} && snakemake {path} --cores all" in line


def test_recomputing_all_of_it_gives_the_same(finished, monkeypatch):
    monkeypatch.chdir(finished.folder)
    hashed = []
    monkeypatch.setattr(
        download, "file_digest", lambda path: hashed.append(path) or file_digest(path)
    )
    study_parts._fault.cache_clear()
    report = verification.verify(finished.plan(), finished.folder, recompute=1.0)
    # The weights are hashed once and not for every part and draw.
    assert [path.name for path in hashed] == ["weights.safetensors"]
    assert not report.faults
    count = report.counts[STUDIES]
    assert count.hold == count.named > 0


def with_one_number_changed(values):
    """Return an array whose last number is another one, and its shape the same."""
    changed = np.array(values)
    changed[(-1,) * changed.ndim] += 1e-3
    return changed


def test_one_changed_number_of_a_study_is_found_by_recomputing(finished, monkeypatch):
    monkeypatch.chdir(finished.folder)
    study = finished.plan().studies["pretrained_weights"]
    # The first of each kind; those of sweeps take longest, and are compared alike.
    units = {
        unit.array.rpartition("-")[0]: unit
        for unit in recomputation.units([study])[STUDIES]
        if "sweeps" not in unit.array
    }
    assert len(units) == 3  # what weights are like, heads predicted and simulated
    for unit in units.values():
        with threadpool_limits(limits=1):
            again = dict(unit.compute())
        stored = store.read(finished.results / unit.array)
        assert set(again) == set(stored)
        unit = unit._replace(compute=again.copy)
        assert recomputation.fault(unit, stored, exact=True) == ""
        for name in again:
            spoilt = {**stored, name: with_one_number_changed(stored[name])}
            for exact in (True, False):
                said = recomputation.fault(unit, spoilt, exact)
                assert f"computed again from its seed gives another {name} (" in said


def test_one_changed_number_of_a_study_is_a_difference_of_two_runs(finished, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(finished.results, other)
    same = comparison.compare(finished.results, other, "miniature")
    assert same.agrees
    for kind in ("study_simulation", "study_theory"):
        for path in (other / "cache").glob(f"{kind}/**/*.h5"):
            arrays = {
                k: with_one_number_changed(v) for k, v in store.read(path).items()
            }
            store.write(path, arrays, store.read_identity(path))
    found = comparison.compare(finished.results, other, "miniature")
    parts = [row for row in found.rows if row.kind == "parts of studies"]
    assert len(parts) > 10
    assert {row.outcome for row in parts} == {"different"}


def test_it_has_an_audit_page_of_its_own_kind_and_can_be_packed(finished):
    for script in ("audit", "crate"):
        done = subprocess.run(
            [sys.executable, f"workflow/scripts/{script}.py", "--preset", "miniature"],
            cwd=finished.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
    page = (finished.run_folder / "audit/pretrained_weights.html").read_text()
    for part in ("verdicts", "parameters", "code", "arrays", "numbers"):
        assert f'id="{part}"' in page
    assert 'id="residuals"' not in page
    assert "theory.attention_error_general_weights" in page
    with zipfile.ZipFile(finished.run_folder / "crate.zip") as packed:
        names = set(packed.namelist())
    tables = "results/miniature/tables/pretrained_weights"
    assert {f"{tables}.csv", f"{tables}_fits.csv", f"{tables}_spectra.csv"} <= names
