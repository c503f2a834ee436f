"""`make` sets up, runs and helps; where it cannot, it says why in one line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def make(folder, *arguments, **environment):
    """Run make and return the finished process, output as text."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    return subprocess.run(
        ["make", *arguments],
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def clone(tmp_path):
    """A folder with a space in its name, and in it what set-up needs."""
    folder = tmp_path / "a clone"
    shutil.copytree(ROOT / "envs", folder / "envs")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def fake_python(folder, script):
    """Write a program that stands for a Python, and return its path."""
    path = folder / "fake-python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def one_line(done):
    """Return the one line that set-up said before make gave up."""
    assert done.returncode != 0
    said, given_up = done.stderr.splitlines()
    assert given_up.startswith("make: ***")
    return said


def test_a_profile_that_is_not_there_is_one_line():
    done = make(ROOT, "--dry-run", "PROFILE=nonsense")
    assert done.returncode != 0
    (line,) = done.stderr.splitlines()
    assert "PROFILE: there is no 'nonsense'; allowed: default slurm" in line


def test_help_names_every_target():
    said = make(ROOT, "help").stdout
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE.replace("\\\n", ""), re.MULTILINE)
    targets = phony[1].split()
    assert sorted(targets) == sorted(re.findall(r"^make ([a-z-]+)", said, re.MULTILINE))
    for variable in ("PRESET", "FIGURE", "RECOMPUTE", "CORES", "PROFILE", "PYTHON"):
        assert f"{variable}=" in said


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        ((), "snakemake --cores all --logger plain --config preset=paper"),
        (("PRESET=quick", "CORES=1"), "--cores 1 --logger plain --config preset=quick"),
        (("FIGURE=linear_regression",), "snakemake linear_regression --cores"),
        (("verify", "PRESET=quick"), "verify.py --preset quick"),
        (
            ("verify", "FIGURE=heads", "FIGURES=1", "RECOMPUTE=5%", "SAMPLE=7"),
            "--recompute '5%' --sample '7'",
        ),
        (("compare", "A=results", "B=b c"), "compare.py 'results' 'b c'"),
        (("test-damage",), "-m damage"),
        (("PROFILE=slurm",), "snakemake --workflow-profile slurm --logger plain"),
        (("test-cluster",), "pytest -m cluster"),
        (("test",), '-m "not site and not damage and not cluster"'),
        (("prune", "DELETE=1"), "prune.py --delete"),
        (("audit", "PRESET=quick"), "audit.py --preset quick"),
        (("crate", "PRESET=quick"), "crate.py --preset quick"),
        (("test-site",), "pytest -m site tests/workflow/test_site.py"),
        (("lock", "UPGRADE=1"), "--no-emit-find-links"),
    ],
)
def test_make_runs_what_it_is_asked_for(arguments, command):
    said = make(ROOT, "--dry-run", *arguments).stdout
    assert command in " ".join(said.split())


def test_a_missing_python_is_one_line(clone):
    said = one_line(make(clone, "PYTHON=no-such-python"))
    assert said.startswith(
        "setup: there is no no-such-python here; install Python 3.11"
    )


@pytest.mark.parametrize("version", ["2.7", "3.10", "3.15", "4.0"])
def test_another_version_is_one_line(clone, version):
    python = fake_python(clone, f"echo {version}")
    said = one_line(make(clone, "test", f"PYTHON={python}"))
    assert f"is Python {version}, which is not 3.11 to 3.14" in said


def test_a_python_that_does_not_run_is_one_line(clone):
    python = fake_python(clone, "echo no developer tools >&2; exit 1")
    assert "does not run" in one_line(make(clone, f"PYTHON={python}"))


def test_a_python_without_venv_is_one_line(clone):
    python = fake_python(
        clone,
        f'case "$*" in *ensurepip*) exit 1;; *) exec "{sys.executable}" "$@";; esac',
    )
    assert "install python3-venv" in one_line(make(clone, f"PYTHON={python}"))


@pytest.mark.slow
def test_without_a_network_it_is_one_line_and_nothing_half_made_stays(clone):
    nothing = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
    said = one_line(make(clone, "setup", f"PYTHON={sys.executable}", **nothing))
    assert said.startswith("setup: could not install from envs/requirements.txt (")
    assert "is there a network?" in said
    assert not (clone / ".venv").exists()
    assert "No matching distribution" in (clone / ".setup.log").read_text()


def finished(clone):
    """Pretend that .venv was set up here, for the lock that is here."""
    (clone / ".venv/bin").mkdir(parents=True)
    (clone / ".venv/bin/python").symlink_to(sys.executable)
    script = (clone / "envs/setup.sh").read_text()
    wanted = re.search(r"^wanted=\$\((.*)\)$", script, re.MULTILINE)[1]
    command = wanted.replace("$lock", "envs/requirements.txt")
    said = subprocess.run(command, shell=True, cwd=clone, capture_output=True)
    (clone / ".venv/complete").write_bytes(said.stdout)


def test_a_finished_environment_is_left_alone(clone):
    finished(clone)
    done = make(clone, "setup", "PYTHON=no-such-python")
    assert done.returncode == 0
    assert done.stdout == done.stderr == ""


@pytest.mark.parametrize("change", ["lock", "moved", "broken"])
def test_an_environment_that_no_longer_fits_is_made_again(clone, change):
    finished(clone)
    if change == "lock":
        with (clone / "envs/requirements.txt").open("a") as lock:
            lock.write("# newer\n")
    elif change == "moved":
        clone = clone.rename(clone.with_name("elsewhere"))
    else:
        (clone / ".venv/bin/python").unlink()
        (clone / ".venv/bin/python").symlink_to(clone / "a Python that was removed")
    assert "no-such-python" in one_line(make(clone, "setup", "PYTHON=no-such-python"))


def test_clean_data_removes_the_draws_and_nothing_else(clone):
    for stage in ("data", "simulation"):
        (clone / "results/cache" / stage).mkdir(parents=True)
    assert make(clone, "clean-data").returncode == 0
    assert [path.name for path in (clone / "results/cache").iterdir()] == ["simulation"]


def test_clean_removes_what_was_computed_and_keeps_the_environment(clone):
    (clone / "results/paper").mkdir(parents=True)
    (clone / ".snakemake").mkdir()
    finished(clone)
    assert make(clone, "clean").returncode == 0
    assert not (clone / "results").exists()
    assert not (clone / ".snakemake").exists()
    assert (clone / ".venv/complete").exists()
