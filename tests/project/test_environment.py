"""What a run stands on: direct requirements, their lock, and conda's copy of it."""

import ast
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
ENVS = ROOT / "envs"
LOCK = (ENVS / "requirements.txt").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CONDA_NAMES = {"matplotlib-base": "matplotlib", "huggingface_hub": "huggingface-hub"}
OWN = {"interpolation_error", "snakemake_logger_plugin_plain", "patient_slurm"}


def requirements(lines):
    """Return direct requirements by canonical name, but for its own extras."""
    found = [Requirement(line) for line in lines]
    return {canonicalize_name(one.name): one for one in found if one.name not in OWN}


def locked():
    """Return the lock's entries by canonical name, each with its hashes."""
    entries = {}
    for entry in re.split(r"\n(?=[a-z])", LOCK.replace(" \\\n", " ")):
        if not entry.startswith("#"):
            requirement, *hashes = entry.strip().split(" --hash=")
            parsed = Requirement(requirement)
            entries[canonicalize_name(parsed.name)] = (parsed, hashes)
    return entries


EXTRAS = PROJECT["optional-dependencies"]
LIBRARY = requirements(PROJECT["dependencies"])
RUN = LIBRARY | requirements([*EXTRAS["figures"], *EXTRAS["pipeline"]])
DEVELOP = requirements(EXTRAS["dev"])
ENTRIES = locked()


def version(name):
    (pin,) = ENTRIES[name][0].specifier
    return pin.version


def test_every_entry_of_the_lock_is_one_version_with_hashes():
    assert len(ENTRIES) > 50
    for name, (requirement, hashes) in ENTRIES.items():
        (pin,) = requirement.specifier
        assert pin.operator == "==", name
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes)


def test_the_lock_names_no_index_and_no_place():
    entries = "".join(
        line for line in LOCK.splitlines(keepends=True) if "--hash=" not in line
    )
    for word in ("://", "index", "find-links", "file:", "/"):
        assert word not in entries
    assert len(re.findall("--(?!hash=)", LOCK)) == 0


@pytest.mark.parametrize("name", sorted(RUN | DEVELOP))
def test_the_lock_gives_what_is_asked_for(name):
    requirement, _ = ENTRIES[name]
    assert (RUN | DEVELOP)[name].specifier.contains(version(name))
    for platform in ("linux", "darwin"):
        for python in ("3.11", "3.12", "3.13", "3.14"):
            where = default_environment() | {
                "sys_platform": platform,
                "python_version": python,
                "python_full_version": f"{python}.0",
            }
            assert requirement.marker is None or requirement.marker.evaluate(where)


@pytest.mark.parametrize("name", sorted(RUN))
def test_what_is_installed_here_is_what_is_locked(name):
    assert metadata.version(name) == version(name)


def test_conda_gets_the_versions_of_the_lock():
    content = yaml.safe_load((ENVS / "environment.yaml").read_text())
    *packages, by_pip = content["dependencies"]
    pins = dict(re.fullmatch(r"([\w-]+)(.*)", line).groups() for line in packages)
    python = pins.pop("python")
    assert pins.pop("pip") == pins.pop("setuptools") == ""
    found = {CONDA_NAMES.get(name, name): pin for name, pin in pins.items()}
    found |= {line.split("==")[0]: line.split("=", 1)[1] for line in by_pip["pip"]}
    assert found == {name: f"={version(name)}" for name in RUN}
    assert SpecifierSet(python) == SpecifierSet(PROJECT["requires-python"])


def imports(folder):
    """Return the top-level names that the Python files in a folder import."""
    names = set()
    for path in folder.rglob("*.py"):
        names |= {path.stem, path.parent.name}
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
    return found - set(sys.stdlib_module_names) - names - OWN


@pytest.mark.parametrize(
    ("folder", "requirements"), [("workflow", RUN), ("tests", RUN | DEVELOP)]
)
def test_everything_imported_is_a_direct_requirement(folder, requirements):
    # Comes with Snakemake, whose version is fixed.
    interfaces = {f"snakemake-interface-{of}" for of in ("common", "logger-plugins")}
    direct = {*requirements, *interfaces}
    distributions = metadata.packages_distributions()
    for name in imports(ROOT / folder):
        providers = {canonicalize_name(one) for one in distributions.get(name, [name])}
        assert providers & direct, f"{folder} imports {name}"


def python(program):
    """Return what a program says in a Python of its own."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", ["nonlinearity", "simulation", "theory"])
def test_the_mathematics_needs_no_extra(name):
    extra = {canonicalize_name(one) for one in RUN.keys() - LIBRARY.keys()}
    providers = metadata.packages_distributions().items()
    blocked = {
        module
        for module, given in providers
        if extra & {canonicalize_name(one) for one in given}
    }
    assert {"h5py", "matplotlib", "pandas", "snakemake", "yaml"} <= blocked
    said = python(
        f"import sys; sys.modules.update(dict.fromkeys({sorted(blocked)!r}))\n"
        f"import interpolation_error.{name} as room; print(room.__name__)"
    )
    assert said.strip() == f"interpolation_error.{name}"


def test_the_package_supports_what_setup_accepts():
    script = (ENVS / "setup.sh").read_text()
    (accepted,) = re.findall(r"^(3\.11 .*)\) ;;$", script, re.MULTILINE)
    supported = SpecifierSet(PROJECT["requires-python"])
    minors = [f"3.{minor}" for minor in range(30) if f"3.{minor}" in supported]
    assert accepted.split(" | ") == minors


def test_weights_are_read_without_torch():
    text = (ROOT / "envs/requirements.txt").read_text()
    names = re.findall(r"^([A-Za-z0-9_.-]+)==", text, re.MULTILINE)
    assert "safetensors" in names
    assert "torch" not in names
