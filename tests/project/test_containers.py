"""Both container recipes stand on the lock, and start what runs outside of them."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from setuptools import build_meta

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "envs/Dockerfile").read_text()
DEFINITION = (ROOT / "envs/apptainer.def").read_text()
HOME = "/opt/interpolation_error"


def instructions():
    """Return the Dockerfile's instructions and their words, in order."""
    joined = re.sub(r"\\\n", " ", DOCKERFILE)
    lines = [line for line in joined.splitlines() if line and line[0] != "#"]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def section(name):
    """Return the lines of a section of the Apptainer definition, without comments."""
    body = re.search(rf"^%{name}\n(.*?)(?=^%|\Z)", DEFINITION, re.DOTALL | re.MULTILINE)
    lines = [line.strip() for line in body[1].splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def docker(name):
    return [words for instruction, words in instructions() if instruction == name]


def copied():
    """Return where the Dockerfile puts each thing that it copies."""
    places = {}
    for words in docker("COPY"):
        *sources, target = words.split()
        for source in sources:
            inside = f"{target}{Path(source).name}" if target[-1] == "/" else target
            places[source] = f"{HOME}/{inside.removeprefix('./')}"
    return places


def environment():
    """Return the variables that the Dockerfile sets."""
    (words,) = docker("ENV")
    return dict(word.split("=", 1) for word in shlex.split(words))


def test_both_have_one_python_that_is_supported():
    (base,) = docker("FROM")
    assert re.search(r"^From: (.*)$", DEFINITION, re.MULTILINE)[1] == base
    version = re.fullmatch(r"python:(3\.\d+)-slim", base)[1]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version in SpecifierSet(project["requires-python"])


def test_both_copy_the_same_files_which_exist():
    files = dict(line.split() for line in section("files"))
    assert files == copied()
    assert all((ROOT / name).exists() for name in files)
    assert "envs/requirements.txt" in files


def test_both_run_the_setup_of_a_clone_and_nothing_else():
    assert docker("WORKDIR") == [HOME]
    assert docker("RUN") == ["sh envs/setup.sh python3"]
    assert section("post") == [f"cd {HOME}", *docker("RUN")]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "ENTRYPOINT"}
    assert {instruction for instruction, _ in instructions()} == known


def test_setup_installs_from_the_lock_with_hashes_and_nothing_else():
    script = re.sub(r"\\\n", " ", (ROOT / "envs/setup.sh").read_text())
    assert re.search(r"^lock=(.*)$", script, re.MULTILINE)[1] == "envs/requirements.txt"
    helper = re.search(r"^install\(\) \{.*?^\}\n", script, re.DOTALL | re.MULTILINE)[0]
    calls = re.findall(
        r"(?:pip install|^install)((?: +(?:--?[\w:-]+|:all:|\$lock|[\w./]+))+)",
        script.replace(helper, ""),
        re.MULTILINE,
    )
    assert len(calls) == 4
    own = [call for call in calls if call.split()[-2:] == ["-e", "."]]
    assert own == [" --no-build-isolation --no-deps -e ."]
    for call in set(calls) - set(own):
        assert "--require-hashes" in call
        # The first two entries of the lock, or all of it.
        assert call.split()[-2:] in (["-r", ".venv/first.txt"], ["-r", "$lock"])


def test_both_set_the_same_variables():
    exports = dict(
        line.removeprefix("export ").split("=", 1) for line in section("environment")
    )
    docker_alone = environment()
    assert docker_alone.pop("USER")  # Apptainer keeps the user's own
    assert exports == docker_alone


def test_what_is_copied_is_enough_to_install_the_package(tmp_path, monkeypatch):
    for source, target in copied().items():
        place = tmp_path / Path(target).relative_to(HOME)
        place.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / source).is_dir():
            ignored = shutil.ignore_patterns("*.egg-info", "__pycache__")
            shutil.copytree(ROOT / source, place, ignore=ignored)
        else:
            shutil.copy(ROOT / source, place)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "metadata").mkdir()
    made = build_meta.prepare_metadata_for_build_editable("metadata")
    metadata = (tmp_path / "metadata" / made / "METADATA").read_text()
    assert "Name: interpolation_error" in metadata
    assert "Requires-Dist: numpy" in metadata


@pytest.mark.workflow
def test_the_entry_command_runs_a_clone(tmp_path):
    for name in ("Snakefile", "config", "envs", "figures", "profiles", "workflow"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / name)
    (entry,) = docker("ENTRYPOINT")
    command = entry.strip('[]"')
    assert section("runscript") == [f'exec {command} "$@"']
    path = environment()["PATH"]
    assert path == f"{HOME}/.venv/bin:$PATH"
    here = {
        **environment(),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "HOME": "/nonexistent",
    }
    done = subprocess.run(
        [*(command, "--cores", "1", "--dry-run", "--config", "preset=smoke")],
        cwd=tmp_path,
        env=here,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tabulate_nonlinear_attention" in done.stdout
