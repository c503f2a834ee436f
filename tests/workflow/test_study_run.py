"""The study of a transformer runs, from weights in a file to picture and verdicts."""

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
from conftest import copy_project
from safetensors.numpy import save_file

from interpolation_error import download, study_parts, verification
from interpolation_error.pretrained import LAYOUTS
from interpolation_error.store import file_digest

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


@pytest.mark.parametrize("lost", ["missing", "another"])
def test_recomputing_says_that_the_weights_are_not_there(finished, monkeypatch, lost):
    monkeypatch.chdir(finished.folder)
    plan = finished.plan()
    path = finished.folder / "weights.safetensors"
    before = path.read_bytes()
    path.unlink()
    if lost == "another":
        path.write_bytes(before[:-1] + b"?")
    try:
        report = verification.verify(plan, finished.folder, recompute=0.05)
    finally:
        path.write_bytes(before)
    assert not report.faults
    parts = len(plan.studies["pretrained_weights"].parts)
    assert report.counts["parts of studies, recomputed"].unchecked == parts
    (note,) = (note for note in report.notes if "not computed again" in note)
    assert re.match(
        rf"{parts} of {parts} parts of pretrained_weights were not computed again: "
        "weights.safetensors",
        note,
    )
    assert "fetch it" not in note  # it is the user's own


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
    count = report.counts["parts of studies, recomputed"]
    assert count.hold == count.named > 0


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
