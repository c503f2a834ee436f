"""What is volatile is told, and never who or where."""

import getpass
import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from interpolation_error.run import provenance

SCRIPTS = Path(__file__).parents[2] / "workflow/scripts"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_a_commit_is_named_with_a_mark_if_a_file_differs(tmp_path):
    assert provenance.git_state(tmp_path) == {"commit": None, "changed": False}
    git(tmp_path, "init")
    assert provenance.git_state(tmp_path)["commit"] is None
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "Add a file")
    commit = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.git_state(tmp_path) == {"commit": commit, "changed": False}
    (tmp_path / "other").write_text("of no commit")
    assert not provenance.git_state(tmp_path)["changed"]
    (tmp_path / "file").write_text("two")
    assert provenance.git_state(tmp_path) == {"commit": commit, "changed": True}
    (tmp_path / "deeper").mkdir()
    assert provenance.git_state(tmp_path / "deeper")["commit"] is None


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A repository with one commit, named in the environment as a hook does."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    git(folder, "init")
    git(folder, "commit", "--allow-empty", "-m", "Begin")
    monkeypatch.setenv("GIT_DIR", str(folder / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(folder))
    monkeypatch.setenv("GIT_INDEX_FILE", str(folder / ".git/index"))
    return folder


def test_a_repository_in_the_environment_is_not_that_of_the_folder(
    elsewhere, tmp_path, monkeypatch
):
    assert provenance.git_state(elsewhere)["commit"] is not None
    own = tmp_path / "own"
    own.mkdir()
    none = {"commit": None, "changed": False}
    assert provenance.git_state(own) == none
    # With no work tree said, git takes the folder it is in for the top of it.
    monkeypatch.delenv("GIT_WORK_TREE")
    assert provenance.git_state(own) == none


def state(repository):
    """Return all that a commit to a repository would change."""
    return {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}


def test_tests_leave_a_repository_in_the_environment_alone(elsewhere):
    before = state(elsewhere)
    name = test_a_commit_is_named_with_a_mark_if_a_file_differs.__name__
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"{__file__}::{name}"], capture_output=True, text=True
    )
    assert state(elsewhere) == before
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_without_git_there_is_no_commit(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance.git_state(tmp_path) == {"commit": None, "changed": False}


def test_versions_name_no_machine_and_no_user():
    text = json.dumps(provenance.versions())
    for name in (socket.gethostname(), getpass.getuser()):
        assert f'"{name}"' not in text
    assert provenance.versions()["python"] == ".".join(map(str, sys.version_info[:3]))


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"version":"1"}]', "null"])
def test_a_text_that_names_no_kernel_gives_none(text):
    assert provenance.kernels(text) == frozenset()


def test_arrays_of_other_kernels_or_of_none_are_of_another_processor():
    def blas(architecture):
        known = {"internal_api": "openblas", "version": "1", "num_threads": 1}
        return {**known, "architecture": architecture}

    here = json.dumps([blas("Zen"), {**blas("Zen"), "version": "2"}])
    assert provenance.same_processor([here, json.dumps([blas("Zen")])], here)
    assert not provenance.same_processor([here, json.dumps([blas("Haswell")])], here)
    assert not provenance.same_processor([here, "[]"], here)


COMMAND = """
import os, sys
del sys.argv[0]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from pathlib import Path
from _job import command
print(command(Path("me/results")))
"""
"""Says what a script that is called so would write."""


def test_the_command_of_a_job_holds_no_place(tmp_path):
    script = SCRIPTS / "simulate_curve.py"
    elsewhere = tmp_path / "me/results/cache/simulation/a b-1.h5"
    weights = tmp_path / "me/results/cache/weights/minilm/model.safetensors"
    own = tmp_path / "me/cache/secret/model.safetensors"
    arguments = ["--spec", '{"file": "/home/me/x"}', "--output", str(elsewhere)]
    arguments += ["--weights", str(weights), "--dataset", str(own)]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, str(script), *arguments],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout.strip() == (
        "python workflow/scripts/simulate_curve.py --spec SPEC "
        "--output 'results/cache/simulation/a b-1.h5' "
        "--weights results/cache/weights/minilm/model.safetensors "
        "--dataset model.safetensors"
    )
