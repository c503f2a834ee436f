"""One finished run of a miniature configuration, copied for tests that spoil it."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, store
from interpolation_error.run.plan import Plan

ROOT = Path(__file__).parents[2]
PARTS = (
    *("CHANGELOG.md", "CITATION.cff", "LICENSE", "Makefile", "README.md"),
    *("Snakefile", "config", "docs", "envs", "figures", "profiles"),
    *("pyproject.toml", "workflow"),
)
MINIATURE = {
    "figures": ["nonlinear_attention"],
    "replicates_per_job": "all",
    "size_divisor": 16,
    "at_most": {"panels": 1, "curves": 2, "points": 3, "replicates": 2},
}


class Clone:
    """A copy of the project in a folder of its own, and its Snakemake."""

    preset = "miniature"

    def __init__(self, folder: Path):
        self.folder = folder
        self.results = folder / "results"
        self.run_folder = self.results / "miniature"
        self.figure = folder / "figures/nonlinear_attention/figure.yaml"

    def _command(self, *arguments, cores=2):
        """Return how Snakemake is called here, with the environment it needs."""
        environment = dict(os.environ, PYTHONPATH=str(self.folder / "workflow/src"))
        environment.pop("SNAKEMAKE_PROFILE", None)
        command = [sys.executable, "-m", "snakemake", "--cores", str(cores)]
        return {
            "args": [*command, *arguments, "--config", f"preset={self.preset}"],
            "cwd": self.folder,
            "env": environment,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
        }

    def snakemake(self, *arguments, **options):
        """Run Snakemake here and return the finished process, output as text."""
        return subprocess.run(**self._command(*arguments, **options), timeout=240)

    def script(self, name, *arguments, folder=None):
        """Run one of the scripts here, or from a folder, and return the process."""
        script = self.folder / f"workflow/scripts/{name}.py"
        command = [sys.executable, str(script), *arguments]
        environment = dict(os.environ, COLUMNS="200")
        return subprocess.run(
            command,
            cwd=folder or self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )

    def verify(self, *arguments):
        """Verify the run here by the command, and return the finished process."""
        return self.script("verify", "--preset", "miniature", *arguments)

    def plan(self, preset="miniature"):
        """Return the plan of the run here."""
        config = checked_yaml.read_yaml(self.folder / "config/config.yaml", self.folder)
        config |= {"preset": preset, "results": str(self.results)}
        loaded = configuration.load(config, self.folder, "config/config.yaml")
        return Plan(loaded, store.file_digest(self.folder / "figures/paper.mplstyle"))

    def start(self):
        """Start a run in a session of its own and return the process."""
        return subprocess.Popen(**self._command(cores=1), start_new_session=True)

    def kill_when(self, condition):
        """Start a run and kill it with all its jobs as soon as a condition holds."""
        process = self.start()
        wait_until(condition, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def build(self, *arguments, **options):
        """Run to the end and return what Snakemake said."""
        done = self.snakemake(*arguments, **options)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def planned(self, *arguments):
        """Return how many jobs of each rule a run would start."""
        said = self.build("--dry-run", *arguments)
        return planned_jobs(said)

    def edit(self, path, change):
        """Change a YAML file's content in place."""
        path = self.folder / path
        content = checked_yaml.read_yaml(path, self.folder)
        change(content)
        path.write_text(yaml.safe_dump(content, sort_keys=False))

    def replace(self, path, old, new):
        """Change one place of a text file."""
        path = self.folder / path
        text = path.read_text()
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {path}"
        path.write_text(text.replace(old, new))


def wait_until(condition, process):
    """Wait for a condition, as long as a process runs that will bring it about."""
    deadline = time.monotonic() + 240
    while not condition():
        assert process.poll() is None, "the process ended before the condition held"
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.005)


def planned_jobs(said):
    """Return the job counts of a Snakemake job table, without its total and targets."""
    counts = dict(re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE))
    return {
        rule: int(count)
        for rule, count in counts.items()
        if rule not in ("total", "all", "nonlinear_attention")
    }


def copy_project(folder):
    """Copy what a run needs of the project, with the miniature preset added."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            # What is compiled comes along, or every clone would compile it anew; not
            # what another test is about to write there.
            ignored = shutil.ignore_patterns("*.pyc.*", "*.egg-info")
            shutil.copytree(source, folder / part, ignore=ignored)
        else:
            shutil.copy(source, folder / part)
    preset = folder / "config/presets/miniature.yaml"
    preset.write_text(yaml.safe_dump(MINIATURE))
    return Clone(folder)


@pytest.fixture(scope="session")
def pristine(tmp_path_factory):
    """A finished run; no test may change it."""
    clone = copy_project(tmp_path_factory.mktemp("run") / "clone")
    clone.said = clone.build()
    return clone


@pytest.fixture
def clone(pristine, tmp_path):
    """A copy of the finished run, times of modification kept, to be spoilt."""
    shutil.copytree(pristine.folder, tmp_path / "clone", symlinks=True)
    return Clone(tmp_path / "clone")
