"""Audit pages, Snakemake's report and the crate of a finished run."""

import getpass
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter
from pathlib import Path

import h5py
import pandas as pd
import pytest

from interpolation_error.audit import crate
from interpolation_error.audit.pages import site
from interpolation_error.audit.report import covered
from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, identity, plan, store
from tests.workflow.conftest import ROOT, Clone

pytestmark = pytest.mark.workflow

FIGURE = "nonlinear_attention"


def script(clone, name, *arguments):
    """Run a script of a clone and return the finished process, output as text."""
    command = [sys.executable, f"workflow/scripts/{name}.py", *arguments]
    return subprocess.run(command, cwd=clone.folder, capture_output=True, text=True)


def page(clone, name=FIGURE):
    return (clone.run_folder / f"audit/{name}.html").read_text()


def build(clone):
    return site.build(load(clone), clone.folder)


def refused(clone, name, *arguments):
    """Return the one line that a script said when it refused."""
    done = script(clone, name, *arguments)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def load(clone):
    config = checked_yaml.read_yaml(clone.folder / "config/config.yaml", clone.folder)
    config |= {"preset": "miniature", "results": str(clone.results)}
    loaded = configuration.load(config, clone.folder, "config")
    style = store.file_digest(clone.folder / "figures/paper.mplstyle")
    return plan.Plan(loaded, style)


@pytest.fixture(scope="session")
def audited(pristine, tmp_path_factory):
    """A finished run with audit pages and a crate; no test may change it."""
    folder = tmp_path_factory.mktemp("audited") / "clone"
    shutil.copytree(pristine.folder, folder, symlinks=True)
    clone = Clone(folder)
    for name, said in (
        ("audit", "Audit: results/miniature/audit/index.html"),
        ("crate", "Crate: results/miniature/crate.zip ("),
    ):
        done = script(clone, name, "--preset", "miniature")
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(said)
    return clone


def test_a_figure_page_has_every_array_with_checksum_seed_and_cost(audited):
    said = page(audited)
    for name in load(audited).arrays():
        path = audited.results / name
        with h5py.File(path) as file:
            assert file.attrs["checksum"] in said
        job = json.loads(path.with_suffix(".json").read_text())
        row = re.search(rf"<tr>.*{re.escape(name)}.*</tr>", said)[0]
        for value in (path.stat().st_size, job["seconds"], job["peak_memory_mb"]):
            assert f">{value}</td>" in row
    assert f"Root seed <code>{load(audited).configuration.seed}</code>" in said


def test_a_figure_page_names_equations_code_sources_and_the_commands(audited):
    said = page(audited)
    assert "theory.attention_error_finite_size" in said
    module = "workflow/src/interpolation_error/simulation/attention.py"
    assert re.search(module + r":\d+–\d+", said)
    assert "summary, a published summary or review" in said
    assert "make PRESET=miniature FIGURE=nonlinear_attention" in said
    assert (
        "<strong>Nonlinear attention against the limit of Theorem 1.</strong>" in said
    )


def test_tips_are_where_the_picture_has_its_markers(audited):
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', page(audited))
    picture = ET.parse(audited.run_folder / f"figures/{FIGURE}.svg").getroot()
    _, _, width, _ = map(float, picture.get("viewBox").split())
    markers = [
        (float(use.get("x")) * 1000 / width, float(use.get("y")) * 1000 / width)
        for use in picture.iter("{http://www.w3.org/2000/svg}use")
        if use.get("x")
    ]
    table = pd.read_csv(audited.run_folder / f"tables/{FIGURE}.csv")
    assert len(circles) == table["simulated_mean"].notna().sum() == 6
    for x, y in circles:
        assert min(abs(float(x) - a) + abs(float(y) - b) for a, b in markers) < 0.2


def test_the_first_page_has_figures_verdicts_and_environment(audited):
    said = page(audited, "index")
    assert f'href="{FIGURE}.html"' in said
    verdicts = json.loads((audited.run_folder / "claims.json").read_text())["claims"]
    counts = Counter(
        re.findall(r'<span class="verdict [a-z-]+">([a-z ]+)</span>', said)
    )
    assert counts == Counter(one["verdict"] for one in verdicts)
    assert "Nothing was verified yet" in said
    assert re.search(r"<th[^>]*>numpy</th><td>[\d.]+</td><td>[\d.]+</td>", said)
    assert "openblas" in said


def test_pages_ask_nothing_of_a_network_and_name_neither_people_nor_places(audited):
    for path in (audited.run_folder / "audit").iterdir():
        text = path.read_text()
        assert not re.search(r'(src|href)="(https?:)?//', text), path.name
        assert "@import" not in text
        assert not private(text), path.name


def private(text):
    """Return what of this machine a text gives away."""
    words = [str(ROOT), str(Path.home()), "/tmp/", "/home/"]
    if len(socket.gethostname()) > 4:
        words.append(socket.gethostname())
    if getpass.getuser() != "root":  # which every machine has
        words.append(f"{getpass.getuser()}@")
    return [word for word in words if word in text]


@pytest.mark.parametrize("current", [True, False])
def test_a_verification_is_shown_with_its_faults_and_whether_it_still_counts(
    clone, current
):
    record = {
        "time": "2025-01-02T03:04:05Z",
        "covers": covered(load(clone)) if current else "another",
        "checked": [["tables", 4, 2, 1, 1]],
        "faults": ["results/miniature/tables/x.csv: is <wrong>; mend it: make"],
        "notes": [],
        "recomputed": {"share": 0.05, "seed": 7, "exact": True},
        "git": {"commit": "0123456789abcdef", "changed": True},
    }
    (clone.run_folder / "verification.json").write_text(json.dumps(record))
    build(clone)
    said = page(clone, "index")
    assert "1 fault</strong> on" in said
    assert "2025-01-02 03:04:05 UTC" in said
    assert "x.csv: is &lt;wrong&gt;; mend it: make" in said
    assert "5 % of the curves were computed again" in said
    assert "with changes that are not committed" in said
    assert ("another state of code" in said) != current


@pytest.mark.parametrize("write", [site.build, crate.write])
@pytest.mark.parametrize(
    "missing",
    [
        f"miniature/tables/{FIGURE}.csv",
        f"miniature/figures/{FIGURE}.svg",
        "miniature/manifests/nonlinear_attention-table-*.json",
        "miniature/claims.json",
        "cache/simulation/regression-*.h5",
        "cache/theory/*.h5",
    ],
)
def test_an_unfinished_run_is_refused_and_nothing_is_written(clone, write, missing):
    (path,) = clone.results.glob(missing)
    path.unlink()
    with pytest.raises(ValueError, match="so the run miniature is not") as refusal:
        write(load(clone), clone.folder)
    assert str(refusal.value).startswith(f"{path}: is missing")
    assert not (clone.run_folder / "audit").exists()
    assert not list(clone.run_folder.glob("*.zip"))


def test_the_command_that_finishes_a_run_is_given(clone):
    (clone.run_folder / "claims.md").unlink()
    line = refused(clone, "audit", "--preset", "miniature")
    assert line.startswith("error: results/miniature/claims.md: is missing, so")
    assert line.endswith("finish it: make PRESET=miniature")
    line = refused(clone, "crate", "--preset", "miniature", "--results", "no place")
    assert line.endswith("--config preset=miniature results='no place'")


@pytest.mark.parametrize("name", ["audit", "crate"])
def test_an_unknown_preset_is_refused_in_one_line(pristine, name):
    line = refused(pristine, name, "--preset", "no-such-preset")
    assert "there is no 'no-such-preset'; allowed: large, miniature, paper" in line


def test_a_damaged_array_is_named(clone):
    (path,) = clone.results.glob("cache/theory/*.h5")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(store.StoreError, match="is no whole array") as refusal:
        build(clone)
    assert str(refusal.value).startswith(f"{path}: ")


def test_removed_draws_and_job_records_are_not_needed(clone):
    shutil.rmtree(clone.results / "cache/data")
    for path in clone.results.glob("cache/*/*.json"):
        path.unlink()
    build(clone)
    assert "not kept" in page(clone)


def test_the_page_of_a_figure_that_is_gone_is_removed(clone):
    (clone.run_folder / "audit").mkdir()
    (clone.run_folder / "audit/another.html").write_text("old")
    build(clone)
    assert {path.name for path in (clone.run_folder / "audit").glob("*.html")} == {
        "index.html",
        f"{FIGURE}.html",
    }


def test_the_rule_needs_nothing_but_a_finished_run(clone):
    assert clone.planned("audit") == {"audit": 1}


def test_a_report_is_written_offline_with_captions_categories_and_labels(
    clone, monkeypatch
):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    clone.build("--report", "report.html")
    report = (clone.folder / "report.html").read_text()
    for words in (
        "Nonlinear attention against the limit of Theorem 1.",
        "Verdicts on every statement.",
        "Interpolation error of nonlinear attention",
        '"Verdicts"',
        '"figure": "nonlinear_attention"',
        '"shows": "picture"',
        '"shows": "numbers"',
        '"shows": "verdicts on every statement"',
    ):
        assert words in report, words


@pytest.fixture(scope="session")
def packed(audited):
    with zipfile.ZipFile(audited.run_folder / "crate.zip") as archive:
        assert archive.testzip() is None
        yield archive


@pytest.fixture(scope="session")
def metadata(packed):
    return json.loads(packed.read("ro-crate-metadata.json"))


@pytest.fixture(scope="session")
def entities(metadata):
    found = {one["@id"]: one for one in metadata["@graph"]}
    assert len(found) == len(metadata["@graph"])
    return found


def of_type(entities, wanted):
    return [one for one in entities.values() if wanted in listed(one["@type"])]


def listed(value):
    return value if isinstance(value, list) else [value]


def named(entity, key):
    """Return the identifiers that a property of an entity points to."""
    return [one["@id"] for one in listed(entity.get(key, []))]


def test_a_crate_uses_only_terms_of_its_context(metadata, entities):
    address, own = metadata["@context"]
    assert address == "https://w3id.org/ro/crate/1.1/context"
    kept = json.loads(Path(__file__).with_name("ro-crate-1.1-context.json").read_text())
    known = kept["@context"] | own
    for entity in entities.values():
        used = {key for key in entity if not key.startswith("@")}
        assert used | set(listed(entity["@type"])) <= set(known), entity["@id"]


def test_a_crate_says_what_it_conforms_to(entities):
    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert descriptor["about"] == {"@id": "./"}
    assert "https://w3id.org/ro/crate/1.1" in named(descriptor, "conformsTo")
    assert named(root, "conformsTo") == list(crate.PROFILES)
    assert all(name in entities for name in crate.PROFILES)
    for key in ("name", "description", "datePublished", "license", "author"):
        assert root[key]
    main = entities[root["mainEntity"]["@id"]]
    assert main["@id"] == "Snakefile"
    assert {"ComputationalWorkflow", "HowTo"} <= set(main["@type"])


def test_everything_that_a_crate_points_to_is_in_it(entities):
    for entity in entities.values():
        for key, value in entity.items():
            for one in listed(value):
                if isinstance(one, dict) and not one["@id"].startswith("https://"):
                    assert one["@id"] in entities, (entity["@id"], key)


def test_every_file_of_a_crate_is_described_and_holds_what_is_said(packed, entities):
    files = {one["@id"] for one in of_type(entities, "File")}
    assert files == set(packed.namelist()) - {"ro-crate-metadata.json"}
    assert files == set(named(entities["./"], "hasPart"))
    for name in files:
        with packed.open(name) as file:
            digest = store.hashlib.file_digest(file, "sha256").hexdigest()
        assert entities[name]["sha256"] == digest, name


def test_every_array_table_and_picture_of_a_crate_has_the_one_job_that_made_it(
    audited, entities
):
    jobs = Counter(
        made
        for action in of_type(entities, "CreateAction")
        if action["@id"] != "#run"
        for made in named(action, "result")
    )
    arrays = [name for name in load(audited).arrays() if "/data/" not in name]
    for file in [
        *arrays,
        f"miniature/tables/{FIGURE}.csv",
        *(f"miniature/figures/{FIGURE}.{kind}" for kind in ("pdf", "png", "svg")),
        *(f"miniature/claims.{kind}" for kind in ("csv", "json", "md")),
    ]:
        assert jobs[f"results/{file}"] == 1, file
    assert set(jobs.values()) == {1}
    drawn = [name for name in jobs if name.startswith("#cache/data/")]
    used = [
        action
        for action in of_type(entities, "CreateAction")
        if drawn[0] in named(action, "object")
    ]
    assert len(drawn) == 1
    assert len(used) == 2


def test_steps_tools_and_the_engine_are_joined_as_the_profiles_ask(entities):
    workflow = entities["Snakefile"]
    steps = of_type(entities, "HowToStep")
    assert named(workflow, "step") == [step["@id"] for step in steps]
    assert [*named(workflow, "hasPart")] == [
        name for step in steps for name in named(step, "workExample")
    ]
    controls = of_type(entities, "ControlAction")
    assert [c["instrument"]["@id"] for c in controls] == named(workflow, "step")
    (organize,) = of_type(entities, "OrganizeAction")
    assert named(organize, "object") == [one["@id"] for one in controls]
    assert entities[organize["result"]["@id"]]["instrument"] == {"@id": "Snakefile"}
    jobs = [name for control in controls for name in named(control, "object")]
    assert {*jobs, "#run"} == set(named(entities["./"], "mentions"))


def test_a_crate_names_neither_people_nor_places(packed):
    for name in packed.namelist():
        if name.startswith("results/") or name == "ro-crate-metadata.json":
            text = packed.read(name).decode("utf-8", errors="replace")
            assert not private(text), name
        assert not name.startswith("/")
        assert "__pycache__" not in name


def test_every_kind_of_thing_that_a_run_makes_has_its_step():
    assert sorted(identity.KINDS) == sorted(
        k for kinds in crate.STEPS.values() for k in kinds
    )


def test_an_unpacked_crate_is_a_project_with_nothing_left_to_do(audited, tmp_path):
    with zipfile.ZipFile(audited.run_folder / "crate.zip") as archive:
        archive.extractall(tmp_path)
    unpacked = Clone(tmp_path)
    # As after any copy: what is newer than what does not matter.
    for path in sorted(unpacked.results.rglob("*")):
        os.utime(path)
    assert unpacked.planned("--rerun-triggers", "params") == {}
