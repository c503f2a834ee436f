"""A finished run is verified: what holds, what does not, and what mends it."""

import json
import re
import shutil
import socket

import h5py
import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from interpolation_error.audit import array_check, recomputation, verification
from interpolation_error.audit import report as reports
from interpolation_error.figures import checked_yaml, tables
from interpolation_error.run import configuration, store
from interpolation_error.run.identity import KEY_LENGTH, Identity
from tests.workflow.conftest import MINIATURE, Clone

pytestmark = pytest.mark.workflow

NAME = "nonlinear_attention"
TABLE = f"tables/{NAME}.csv"


def verify(clone, preset="miniature", **options):
    return verification.verify(clone.plan(preset), clone.folder, **options)


def lines(report):
    return [line for line in reports.summary(report) if "fault: " in line]


def simulated(clone):
    """Return the path of a simulated curve."""
    return next((clone.results / "cache/simulation").glob("*tanh*.h5"))


def forget_job(path):
    path.with_suffix(".json").unlink()


def rewrite(path, change):
    """Replace the arrays of a file by others, with a checksum that is right."""
    arrays = store.read(path)
    with threadpool_limits(limits=1):  # which the file says, too
        store.write(path, change(arrays), store.read_identity(path))
    forget_job(path)


def edit_bytes(path, old, new):
    content = path.read_bytes()
    assert content.count(old) >= 1
    path.write_bytes(content.replace(old, new, 1))


def edit_json(path, **entries):
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def manifest(clone, item):
    return clone.run_folder / f"manifests/{item.stem}.json"


def test_a_finished_run_holds(pristine):
    report = verify(pristine)
    assert report.faults == []
    counts = {kind: (count.named, count.hold) for kind, count in report.counts.items()}
    assert counts == {
        "draws": (1, 1),
        "simulated curves": (2, 2),
        "predicted figures": (1, 1),
        "tables": (1, 1),
        "manifests": (3, 3),
        "pictures": (3, 3),
        "verdicts": (3, 3),
    }
    *_, last = reports.summary(report)
    assert last == "All that was checked holds: 14 things."


def test_the_command_needs_none_of_snakemakes_records(clone):
    shutil.rmtree(clone.folder / ".snakemake")
    done = clone.verify()
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "All that was checked holds: 14 things."


def test_the_rule_says_what_the_command_says(clone):
    edit_bytes(clone.run_folder / TABLE, b"gamma,tanh,", b"gamma,tan,")
    done = clone.snakemake("verify")
    assert done.returncode != 0
    said = f"fault: results/miniature/{TABLE}: line"
    assert said in done.stdout
    assert said in (clone.run_folder / "logs/verify.log").read_text()


def spoil_values(clone):
    path = simulated(clone)
    edit_bytes(path, store.read(path)["error"].tobytes()[:8], b"\0" * 8)
    forget_job(path)
    return path


def spoil_bytes(clone):
    path = simulated(clone)
    edit_bytes(path, b"openblas", b"openblaz")
    return path


def spoil_shape(clone):
    path = simulated(clone)
    rewrite(path, lambda arrays: {"error": arrays["error"][:1]})
    return path


def spoil_name_of_array(clone):
    path = simulated(clone)
    rewrite(path, lambda arrays: {"errors": arrays["error"]})
    return path


def spoil_with_nan(clone):
    path = simulated(clone)
    rewrite(path, lambda arrays: {"error": np.full_like(arrays["error"], np.nan)})
    return path


def spoil_attribute(name, value):
    def spoil(clone):
        path = simulated(clone)
        with h5py.File(path, "a") as file:
            file.attrs[name] = value
        forget_job(path)
        return path

    return spoil


def spoil_name(clone):
    one, other = sorted((clone.results / "cache/simulation").glob("*.h5"))
    shutil.copy(other, one)
    forget_job(one)
    return one


ARRAY_FAULTS = {
    spoil_values: "its arrays do not match their checksum",
    spoil_bytes: "its bytes are not those that its job wrote",
    spoil_shape: "error is float64 of shape (1, 3), where its specification has",
    spoil_name_of_array: "its arrays are not those of its specification: error, errors",
    spoil_with_nan: "error holds a NaN or an infinity",
    spoil_attribute("clock", "noon"): "it has the attribute 'clock', which the store",
    spoil_attribute("blas", "fast"): "its attribute 'blas' is not what the store",
    spoil_attribute("spec", "{}"): "its attributes do not match its key",
    spoil_name: "it holds something else than its name says",
}


@pytest.mark.parametrize("spoil", ARRAY_FAULTS, ids=ARRAY_FAULTS.values())
def test_a_spoilt_array_is_named_with_what_mends_it(clone, spoil):
    path = spoil(clone)
    report = verify(clone)
    (line,) = lines(report)
    assert line.startswith(f"fault: {path}: {ARRAY_FAULTS[spoil]}")
    assert f"; mend it: rm {path} && snakemake {path} --cores all" in line
    # Nothing is said of what cannot be made again from a spoilt array.
    assert report.counts["tables"].unchecked == 1
    assert report.counts["verdicts"].unchecked == 3


def test_a_missing_array_is_made_again_by_a_run(clone):
    path = simulated(clone)
    path.unlink()
    (line,) = lines(verify(clone))
    assert line.startswith(
        f"fault: {path}: is missing; mend it: snakemake {path} --cores"
    )


def test_an_array_of_other_code_is_not_taken_for_the_missing_one(clone):
    path = simulated(clone)
    identity = store.read_identity(path)
    older = Identity(identity.spec, "0" * 64, '{"numpy":"1.0"}', 1)
    stem = path.stem[:-KEY_LENGTH]
    store.write(
        path.with_name(f"{stem}{older.key[:KEY_LENGTH]}.h5"), store.read(path), older
    )
    path.unlink()
    (line,) = lines(verify(clone))
    assert (
        "has its specification, but was made by other code (0000000000000000)" in line
    )
    assert "other versions (h5py None, numpy 1.0, scipy None)" in line


def test_numbers_altered_with_their_checksum_do_not_give_the_table(clone):
    path = simulated(clone)
    rewrite(path, lambda arrays: {"error": arrays["error"] * 1.001})
    said = lines(verify(clone))
    assert any(
        re.search(
            rf"{TABLE}: line 2, simulated_mean: \S+ stands where \S+ follows", one
        )
        for one in said
    )
    assert any("claims.csv: judging the arrays again gives" in one for one in said)


def test_numbers_altered_with_all_that_follows_are_found_by_recomputing(clone):
    path = simulated(clone)
    rewrite(path, lambda arrays: {"error": np.nextafter(arrays["error"], 1)})
    report = verify(clone, recompute=1.0)
    said = [line for line in lines(report) if "computed again" in line]
    assert len(said) == 2
    assert f"{path}: draw 0 computed again from its seed gives another error" in said[0]
    assert "within rounding: by up to" in said[0]


def test_all_of_a_run_comes_again_from_its_seeds(pristine):
    report = verify(pristine, recompute=1.0)
    assert report.faults == []
    assert report.counts["curves on a draw, recomputed"].hold == 4
    assert report.counts["predictions, recomputed"].hold == 2


def test_the_seed_chooses_what_is_recomputed(pristine):
    figures = list(pristine.plan().figures.values())
    found = recomputation.units(figures)["curves on a draw, recomputed"]
    chosen = [
        [unit.title + unit.array for unit in recomputation.sample(found, 0.5, seed)]
        for seed in (*range(8), *range(8))
    ]
    assert chosen[:8] == chosen[8:]
    assert {len(one) for one in chosen} == {2}
    assert len({tuple(one) for one in chosen}) > 1
    assert len(recomputation.sample(found, 0.001, 0)) == 1


def test_a_prediction_altered_with_its_checksum_is_found_by_recomputing(clone):
    path = next((clone.results / "cache/theory").glob("*.h5"))
    rewrite(
        path,
        lambda arrays: {
            name: values + 1e-3 * name.endswith("tanh/predicted")
            for name, values in arrays.items()
        },
    )
    said = "\n".join(lines(verify(clone, recompute=1.0)))
    assert "the prediction gamma/tanh computed again from its seed gives" in said
    assert "another predicted (different: by up to 0.001" in said


TABLE_FAULTS = {
    "another value": (lambda t: t.replace("1e-05", "2e-05", 1), "x: 2e-05 stands"),
    "a line less": (lambda t: t[: t.rindex("\n", 0, -1) + 1], "lines where"),
    "a column less": (lambda t: t.replace("panel,", "", 1), "its columns are not"),
    "a cell less": (lambda t: t[: t.rindex(",")] + "\n", "cells and not"),
    "other writing": (
        lambda t: t.replace("1e-05", "1.0e-05", 1),
        "written in another way",
    ),
}


@pytest.mark.parametrize("name", TABLE_FAULTS)
def test_an_edited_table_is_named_with_the_line(clone, name):
    change, words = TABLE_FAULTS[name]
    path = clone.run_folder / TABLE
    text = path.read_text()
    path.write_text(change(text))
    assert path.read_text() != text
    (line,) = lines(verify(clone))
    assert line.startswith(f"fault: {path}: ")
    assert words in line
    assert f"rm {path} && snakemake {NAME} --cores all" in line


@pytest.mark.parametrize(
    "file", [TABLE, f"figures/{NAME}.svg", "claims.csv", "claims.json", "claims.md"]
)
def test_a_missing_file_of_the_run_is_named(clone, file):
    (clone.run_folder / file).unlink()
    (line,) = lines(verify(clone))
    assert f"{file}: is missing; mend it: snakemake" in line


@pytest.mark.parametrize("ending", ["csv", "json", "md"])
def test_an_edited_verdict_is_named(clone, ending):
    path = clone.run_folder / f"claims.{ending}"
    text = path.read_text()
    verdict = re.search("undecided|supported|contradicted", text)[0]
    path.write_text(text.replace(verdict, "proven", 1))
    (line,) = lines(verify(clone))
    assert f"claims.{ending}: judging the arrays again gives something else" in line
    assert "proven" in line


def test_a_manifest_must_say_what_holds(clone):
    plan = clone.plan()
    edit_json(manifest(clone, plan.figures[NAME].table), code="0" * 64)
    manifest(clone, plan.figures[NAME].picture).unlink()
    manifest(clone, plan.claims).write_text("{")
    table, picture, claims = lines(verify(clone))
    assert "its entries code are not what holds" in table
    assert "is missing; mend it: snakemake" in picture
    assert "its entries code, files, key are not what holds" in claims


def test_the_manifest_of_another_state_is_named(clone):
    path = manifest(clone, clone.plan().figures[NAME].table)
    other = path.rename(path.with_name(f"{NAME}-table-{'0' * 16}.json"))
    (line,) = lines(verify(clone))
    assert f"{other.name} is of other parameters, code or versions" in line


def test_an_edited_picture_is_named(clone):
    edit_bytes(clone.run_folder / f"figures/{NAME}.svg", b"<svg ", b"<svg  ")
    (line,) = lines(verify(clone))
    assert f"{NAME}.svg: is not the picture that its manifest vouches for" in line


def test_a_picture_edited_with_its_manifest_is_found_by_drawing_again(clone):
    path = clone.run_folder / f"figures/{NAME}.svg"
    edit_bytes(path, b"<svg ", b"<svg  ")
    vouching = manifest(clone, clone.plan().figures[NAME].picture)
    pictures = json.loads(vouching.read_text())["pictures"]
    pictures[path.name] = store.file_digest(path)
    edit_json(vouching, pictures=pictures)
    assert verify(clone).faults == []
    entries, picture = lines(verify(clone, redraw=True))
    assert "is not what drawing its table again gives" in picture
    assert "its entries pictures are not what holds" in entries


def test_drawing_a_finished_run_again_gives_its_pictures(pristine):
    report = verify(pristine, redraw=True)
    assert report.faults == []
    assert report.counts["pictures"].hold == 3


def test_draws_that_are_not_kept_are_no_fault(clone):
    (path,) = (clone.results / "cache/data").glob("*.h5")
    path.unlink()
    report = verify(clone)
    assert report.faults == []
    assert report.counts["draws"].unchecked == 1
    assert any(f"{path.name}: not kept; draws come again" in n for n in report.notes)


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_lost_record_of_a_job_is_noted_with_what_it_costs(clone, content):
    path = simulated(clone)
    forget_job(path)
    if content is not None:
        path.with_suffix(".json").write_text(content)
    report = verify(clone)
    assert report.faults == []
    (note,) = [note for note in report.notes if path.name in note]
    assert (
        "the record of its job (.json beside it) is missing or cannot be read" in note
    )
    assert "what its job took is not known any more" in note


def test_a_few_of_many_files_are_named_in_notes(clone):
    for place in range(9):
        (clone.run_folder / f".x.{place}.draft.csv").touch()
    notes = verify(clone).notes
    assert sum("left by a job that was killed" in note for note in notes) == 6
    assert any(note.startswith("4 more files: left by") for note in notes)


def test_another_processor_may_differ_in_last_digits_and_no_more(clone, monkeypatch):
    path = clone.run_folder / TABLE
    table = pd.read_csv(path)
    monkeypatch.setattr(store, "blas", lambda: "[]")
    for factor, faults in ((1 + 1e-11, 0), (1 + 1e-7, 1)):
        table["simulated_mean"] *= factor
        path.write_text(tables.text(table))
        edit_json(
            manifest(clone, clone.plan().figures[NAME].table),
            table_sha256=store.file_digest(path),
        )
        edit_json(
            manifest(clone, clone.plan().figures[NAME].picture),
            table_sha256=store.file_digest(path),
        )
        report = verify(clone)
        assert sum(fault.kind == "tables" for fault in report.faults) == faults
        assert any("another here, so last digits may differ" in n for n in report.notes)
        if not faults:
            assert report.faults == []


@pytest.fixture
def paper(clone):
    """The miniature run under the name that references are committed of."""
    small = json.dumps(MINIATURE)
    (clone.folder / "config/presets/paper.yaml").write_text(small)
    clone.run_folder = clone.run_folder.rename(clone.results / "paper")
    shutil.copy(
        clone.run_folder / TABLE, clone.folder / f"figures/{NAME}/reference.csv"
    )
    shutil.copy(clone.run_folder / "claims.csv", clone.folder / "figures/claims.csv")
    return clone


def test_committed_references_of_the_paper_run_are_compared(paper):
    report = verify(paper, preset="paper")
    assert report.faults == []
    assert report.counts["committed references"].hold == 2


@pytest.mark.parametrize(("factor", "faults"), [(1 + 1e-9, 0), (1 + 1e-4, 1)])
def test_a_reference_may_differ_by_rounding_only(paper, factor, faults):
    path = paper.folder / f"figures/{NAME}/reference.csv"
    table = pd.read_csv(path)
    table["predicted"] *= factor
    table.to_csv(path, index=False)
    said = lines(verify(paper, preset="paper"))
    assert len(said) == faults
    for line in said:
        assert line.startswith(
            f"fault: figures/{NAME}/reference.csv: line 2, predicted"
        )
        assert f"mend it: git checkout figures/{NAME}/reference.csv, or" in line


def test_a_reference_is_not_checked_without_the_arrays(paper):
    simulated(paper).unlink()
    report = verify(paper, preset="paper")
    count = report.counts["committed references"]
    assert (count.named, count.unchecked) == (1, 1)


def test_missing_and_edited_references_are_named(paper):
    (paper.folder / f"figures/{NAME}/reference.csv").unlink()
    edit_bytes(paper.folder / "figures/claims.csv", b"not tested", b"supported")
    table, claims = lines(verify(paper, preset="paper"))
    assert "reference.csv: is missing" in table
    assert "figures/claims.csv: line" in claims


def test_a_figure_alone_leaves_the_verdicts(pristine):
    report = verify(pristine, figures=[NAME])
    assert report.faults == []
    assert "verdicts" not in report.counts


def test_every_kind_of_array_of_a_plan_has_a_name_and_shapes(pristine):
    config = checked_yaml.read_yaml(
        pristine.folder / "config/config.yaml", pristine.folder
    )
    config["preset"] = "quick"
    loaded = configuration.load(config, pristine.folder, "config/config.yaml")
    kinds = set()
    for figure in verification.Plan(loaded, "").shown().values():
        for item in figure.items():
            if item.kind not in kinds:
                assert array_check.shapes(item)
            kinds.add(item.kind)
    assert kinds == set(verification.ARRAYS) == set(array_check.SHAPES)


def test_the_record_holds_no_place_and_no_name(clone):
    simulated(clone).unlink()
    done = clone.verify()
    assert done.returncode == 1
    text = (clone.run_folder / reports.RECORD).read_text()
    content = json.loads(text)
    assert content["covers"] == reports.covered(clone.plan())
    (fault,) = content["faults"]
    assert fault.startswith("results/cache/simulation/")
    for word in (str(clone.folder), socket.gethostname()):
        assert word not in text.replace("results", "")
    path = next((clone.results / "cache/simulation").glob("*.json"))
    assert not re.search(r'"/|/home|/root|/tmp', path.read_text() + text)


def test_the_record_of_a_job_has_its_command_commit_and_digest(pristine):
    path = simulated(pristine)
    record = array_check.job_record(path)
    assert record["sha256"] == store.file_digest(path)
    assert record["git"] == {"changed": False, "commit": None}  # no clone of git
    (data,) = (pristine.results / "cache/data").glob("*.h5")
    assert record["command"] == (
        "python workflow/scripts/simulate_curve.py --spec SPEC "
        f"--dataset results/cache/data/{data.name} "
        f"--output results/cache/simulation/{path.name}"
    )
    assert record["seconds"] > 0
    assert record["peak_memory_mb"] > 0


BAD = {
    ("--preset", "miniatur"): "preset: there is no 'miniatur'; allowed: ",
    ("--recompute", "x"): "recompute must be a percentage above 0% and up to 100%",
    ("--sample", "x"): "sample must be a whole number from 0, such as 7, got 'x'",
}


@pytest.mark.parametrize("arguments", BAD, ids=" ".join)
def test_bad_input_is_one_line(pristine, arguments):
    done = pristine.verify(*arguments)
    assert done.returncode == 1
    (line,) = done.stdout.splitlines()
    assert line.startswith("error: ")
    assert BAD[arguments] in line


def test_what_was_not_run_is_told_with_what_runs_it(pristine, tmp_path):
    with pytest.raises(
        ValueError, match="quick: does not exist, so this preset was no"
    ):
        verify(pristine, preset="quick")
    with pytest.raises(ValueError, match="no figure 'heads'; it has nonlinear_attent"):
        verify(pristine, figures=["heads"])
    clone = Clone(pristine.folder)
    clone.results = tmp_path
    with pytest.raises(ValueError, match="is no results folder .* make PRESET=minia"):
        verify(clone)


@pytest.mark.parametrize("text", ["x", "5", "0%", "-1%", "101%", "5%%", ""])
def test_a_share_is_a_percentage(text):
    with pytest.raises(ValueError, match="above 0% and up to 100%"):
        recomputation.share(text)
