"""What is left in the cache of parameters that no figure names any more."""

import pytest

from interpolation_error.run import lease

pytestmark = pytest.mark.workflow


def cached(clone):
    return {path.name for path in clone.results.glob("cache/*/*")}


def test_nothing_of_a_finished_run_is_listed(clone):
    done = clone.script("prune")
    assert done.stdout.startswith("0 files, 0.0 MB could be removed")


def test_scripts_find_the_run_from_any_folder(clone, tmp_path):
    for name, words in (
        ("prune", "0 files, 0.0 MB could be removed"),
        ("cost", "Measured, of the jobs whose arrays are in results:"),
        ("summarize", "Verdicts on statements and regions: "),
    ):
        preset = [] if name == "prune" else ["--preset", "miniature"]
        done = clone.script(name, *preset, folder=tmp_path)
        assert done.returncode == 0, done.stdout
        assert words in done.stdout


def test_no_reference_is_taken_from_a_run_that_is_not_whole(clone):
    before = clone.folder / "figures/claims.csv"
    kept = before.read_bytes()
    done = clone.script("release")
    assert done.returncode != 0
    assert done.stdout == "error: results/paper/claims.csv is missing; run: make\n"
    assert before.read_bytes() == kept


def test_what_no_figure_names_is_removed_unless_a_run_is_at_work(clone):
    before = cached(clone)
    clone.replace(
        "figures/nonlinear_attention/figure.yaml",
        "nonlinearity: tanh\n",
        "nonlinearity: cos\n",
    )
    clone.build()
    stale = {name for name in before if "attention-tanh" in name}
    stale |= {name for name in before if name.startswith("nonlinear_attention-")}
    after = cached(clone)

    listed = clone.script("prune").stdout.splitlines()
    assert {line.rpartition("/")[2] for line in listed[:-1]} == stale
    assert cached(clone) == after

    with (clone.results / lease.LOCK).open("a+") as file:
        assert lease._lock(file, lease.fcntl.LOCK_EX, lease.RUN, print)
        refused = clone.script("prune", "--delete")
    assert refused.returncode != 0
    assert "runs here since" in refused.stdout
    assert "Traceback" not in refused.stdout
    assert cached(clone) == after

    removed = clone.script("prune", "--delete")
    assert removed.returncode == 0, removed.stdout
    assert cached(clone) == after - stale
    assert clone.planned() == {}
