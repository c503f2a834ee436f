"""The pipeline on a real SLURM: the same bits, and what becomes of jobs that fail."""

import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Clone, copy_project
from slurm import NODES, OWNER, Slurm, UnavailableError, refuse_if_present, remove_left

pytestmark = [pytest.mark.cluster, pytest.mark.workflow]

# The profile as it is, but with no job waiting for company and the first look at jobs
# when small ones should have ended; the next ones are 10 s further apart each time.
IMPATIENT = ["--slurm-init-seconds-before-status-checks", "6", "--latency-wait", "20"]
ALONE = ["--group-components", "draws=1", "curves=1"]

# Functions of a user's whose simulation goes wrong in one way each, on a node alone. A
# line is left for every process that begins with one.
FAULTS = '''
import os
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "flags"
ON_A_NODE = "SLURM_JOB_ID" in os.environ and "simulate_curve.py" in sys.argv[0]


def begins(name):
    """Leave a line for each process that computes something, and count them."""
    if not ON_A_NODE or f"BEGAN_{name}" in os.environ:
        return 0
    os.environ[f"BEGAN_{name}"] = "in this process, however often this file is read"
    with (FOLDER / name).open("a") as file:
        print(os.environ["SLURM_JOB_ID"], os.environ["SLURMD_NODENAME"], file=file)
    return len((FOLDER / name).read_text().splitlines())


def hangs(name):
    if begins(name) == 1:
        time.sleep(900)


def slow(t):
    hangs("slow")
    return np.tanh(t)


def cancelled(t):
    hangs("cancelled")
    return np.tanh(2 * t)


def on_a_lost_node(t):
    hangs("on_a_lost_node")
    return np.tanh(3 * t)


def greedy(t):
    if begins("greedy"):
        block = np.ones(150_000_000)  # 1200 MB
        time.sleep(4)
        del block
    return np.tanh(4 * t)


def quick_1(t):
    begins("quick_1")
    return np.tanh(9 * t)


def quick_2(t):
    begins("quick_2")
    return np.tanh(10 * t)


def quick_3(t):
    begins("quick_3")
    return np.tanh(11 * t)


def patient(name):
    if begins(name):
        while not (FOLDER / "go").exists():
            time.sleep(0.1)


def first(t):
    patient("first")
    return np.tanh(5 * t)


def second(t):
    patient("second")
    return np.tanh(6 * t)


def third(t):
    patient("third")
    return np.tanh(7 * t)


def fourth(t):
    patient("fourth")
    return np.tanh(8 * t)
'''


QUICK = ["quick_1", "quick_2", "quick_3"]


@pytest.fixture(scope="session")
def slurm():
    with ExitStack() as stack:
        try:
            running = stack.enter_context(Slurm())
        except UnavailableError as reason:
            pytest.skip(f"NOT TESTED: {reason}")
        yield running
    refuse_if_present()  # it says what is left, if anything is
    assert not running.folder.exists()


def test_none_is_started_beside_a_munge_that_is_here(tmp_path):
    try:
        refuse_if_present()
    except UnavailableError as reason:
        pytest.skip(f"NOT TESTED: {reason}")
    program = shutil.copy(shutil.which("sleep"), tmp_path / "munged")
    other = subprocess.Popen([program, "60"])
    while not Path(f"/proc/{other.pid}/cmdline").read_bytes():
        time.sleep(0.01)  # it is about to begin
    try:
        with pytest.raises(UnavailableError, match=rf"munged \(process {other.pid}\)"):
            refuse_if_present()
    finally:
        other.kill()
        other.wait()


class ClusterClone(Clone):
    """A copy of the project whose Snakemake sends its jobs to a SLURM."""

    slurm = None
    preset = "miniature"

    def _command(self, *arguments, cores=1):
        command = super()._command(*arguments, cores=cores)
        if self.slurm:
            command["env"] |= self.slurm.environment | {"PYTHONPATH": self.path}
            command["args"][3:3] = ["--workflow-profile", "slurm", *IMPATIENT]
        command["args"] += ["--logger", "plain", "--config", f"preset={self.preset}"]
        return command

    @property
    def path(self):
        return str(self.folder / "workflow/src")

    def snakemake(self, *arguments, **options):
        command = self._command(*arguments, **options)
        return subprocess.run(**command, timeout=1200, check=False)

    def start(self, *arguments):
        """Start a run without waiting for it; what it says goes into a file."""
        command = self._command(*arguments)
        self.said = self.folder / "said.txt"
        with self.said.open("w") as said:
            return subprocess.Popen(**{**command, "stdout": said})

    def made(self):
        """Return all that a run makes, by its place, but for what is volatile."""
        return {
            path.relative_to(self.results): path.read_bytes()
            for path in sorted(self.results.rglob("*"))
            if path.suffix in {".h5", ".csv", ".png", ".pdf", ".svg", ".md"}
            or path.name == "claims.json"
        }


def until(condition, clone, run):
    """Wait for a condition while a run of a clone goes on."""
    deadline = time.monotonic() + 1200
    while not condition():
        assert run.poll() is None, clone.said.read_text()
        assert time.monotonic() < deadline, clone.said.read_text()
        time.sleep(0.2)


def began(clone, name):
    """Return number and node of the first job that computes a curve, if one does."""
    flag = clone.folder / "flags" / name
    said = flag.read_text() if flag.exists() else ""
    return said.split()[:2] if said.endswith("\n") else None


def with_faults(folder, functions):
    """Return a clone that simulates a curve for each function, and no others."""
    clone = ClusterClone(copy_project(folder).folder)
    (clone.folder / "faults.py").write_text(FAULTS)
    (clone.folder / "flags").mkdir()
    clone.edit(
        "config/config.yaml",
        lambda config: config.update(
            nonlinearities={
                name: {"file": "faults.py", "name": name, "kinks": []}
                for name in functions
            }
        ),
    )

    def put_first(definition):
        curve = definition["curves"]["tanh"]
        faults = {
            name: {**curve, "label": name, "nonlinearity": name} for name in functions
        }
        definition["curves"] = {**faults, **definition["curves"]}

    clone.edit("figures/nonlinear_attention/figure.yaml", put_first)
    clone.edit(
        "config/presets/miniature.yaml",
        lambda preset: preset["at_most"].update(curves=len(functions)),
    )
    return clone


def copied(clone, folder):
    """Return the same clone elsewhere, with nothing computed."""
    ignored = shutil.ignore_patterns("results", ".snakemake", "said.txt")
    shutil.copytree(clone.folder, folder, ignore=ignored)
    return ClusterClone(folder)


def test_the_folder_of_a_killed_one_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name, owner in (("killed", gone.pid), ("alive", os.getpid())):
        (tmp_path / f"slurm-{name}").mkdir()
        (tmp_path / f"slurm-{name}" / OWNER).write_text(f"{owner}\n")
    (tmp_path / "slurm-of-others").mkdir()
    remove_left()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"slurm-alive", "slurm-of-others"}


# The same bits.


@pytest.fixture(scope="module")
def smoke(slurm, tmp_path_factory):
    """The smoke preset, made here and made by SLURM, and SLURM's view of the latter."""
    folder = tmp_path_factory.mktemp("smoke")
    here = ClusterClone(copy_project(folder / "here").folder)
    there = ClusterClone(copy_project(folder / "dort drüben").folder)
    here.preset = there.preset = "smoke"
    here.build(cores=2)
    there.slurm = slurm
    before = len(slurm.jobs())
    there.said = there.build(*ALONE)
    return here, there, slurm.jobs()[before:]


def test_arrays_tables_pictures_and_verdicts_are_the_same_bytes(smoke):
    here, there, _ = smoke
    assert there.made() == here.made()
    kinds = {path.suffix for path in here.made()}
    assert kinds == {".h5", ".csv", ".png", ".pdf", ".svg", ".md", ".json"}


def test_every_job_went_to_slurm_and_ended_well(smoke):
    _, there, jobs = smoke
    (total,) = re.findall(r"^jobs done: (\d+)", there.said, re.MULTILINE)
    assert len(jobs) == int(total) - 1  # all that is to do for `all` is to be there
    assert {job.state for job in jobs} == {"COMPLETED"}


def test_three_nodes_were_busy_at_once(smoke, slurm):
    assert slurm.nodes_busy_at_once(smoke[2]) >= 3


def test_jobs_ask_for_what_the_formula_says(smoke):
    wanted = {(job.megabytes, job.limit) for job in smoke[2]}
    assert all(re.fullmatch(r"\d+M", megabytes) for megabytes, _ in wanted)
    # Small jobs: the interpreter and Snakemake, for three minutes.
    assert {limit for _, limit in wanted} == {"3:00"}
    assert all(900 <= int(megabytes[:-1]) < 1100 for megabytes, _ in wanted)


def test_a_second_run_submits_nothing(smoke, slurm):
    before = len(slurm.jobs())
    assert "Nothing to be done" in smoke[1].build()
    assert len(slurm.jobs()) == before


def test_nothing_is_left_of_the_run_but_its_files(smoke):
    _, there, _ = smoke
    assert not list(there.results.rglob("*.draft*"))
    assert not list(there.folder.glob(".snakemake/locks/*"))


# Jobs that are killed.


@pytest.fixture(scope="module")
def faulty(slurm, tmp_path_factory):
    """A run in which a job runs out of time, of memory, of a node, and is cancelled."""
    folder = tmp_path_factory.mktemp("faulty")
    names = ["slow", "greedy", "cancelled", "on_a_lost_node"]
    there = with_faults(folder / "there", names)
    here = copied(there, folder / "here")
    here.build(cores=2)
    there.slurm = slurm
    before = len(slurm.jobs())
    # The time limit is waited for, so it is as low as it can be.
    minutes = "attempt if 'slow' in wildcards.name else 3 * attempt"
    run = there.start(*ALONE, "--set-resources", f"simulate:runtime={minutes}")

    until(lambda: began(there, "cancelled"), there, run)
    slurm.run("scancel", began(there, "cancelled")[0])
    until(lambda: began(there, "on_a_lost_node"), there, run)
    number, node = began(there, "on_a_lost_node")
    slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
    until(
        lambda: (number, "NODE_FAIL") in [job[:2] for job in slurm.jobs()], there, run
    )
    slurm.run("scontrol", "update", f"nodename={node}", "state=resume")
    assert run.wait(1200) == 0, there.said.read_text()
    return here, there, slurm.jobs()[before:]


def attempts(made, name):
    """Return the jobs, in their order, that computed a curve."""
    _, there, jobs = made
    lines = (there.folder / "flags" / name).read_text().splitlines()
    numbers = [line.split()[0] for line in lines]
    return [job for job in jobs if job.number in numbers]


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("slow", "TIMEOUT"),
        ("cancelled", "CANCELLED"),
        ("on_a_lost_node", "NODE_FAIL"),
    ],
)
def test_a_job_killed_by_the_scheduler_is_tried_again(faulty, name, state):
    first, second = attempts(faulty, name)
    assert (first.state, second.state) == (state, "COMPLETED")


def test_a_job_out_of_memory_is_tried_again(faulty):
    first, second = attempts(faulty, "greedy")
    # SLURM itself has no better word for OverMemoryKill than that it failed.
    assert first.state in ("OUT_OF_MEMORY", "FAILED", "CANCELLED")
    assert second.state == "COMPLETED"


@pytest.mark.parametrize("name", ["slow", "greedy", "cancelled", "on_a_lost_node"])
def test_it_gets_more_the_second_time(faulty, name):
    first, second = attempts(faulty, name)
    assert int(second.megabytes[:-1]) > int(first.megabytes[:-1])
    assert int(second.limit.split(":")[0]) > int(first.limit.split(":")[0])


def test_bits_do_not_depend_on_the_attempt(faulty):
    here, there, _ = faulty
    assert there.made() == here.made()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("slow", "DUE TO TIME LIMIT"),
        ("greedy", "exceeded memory limit"),
        ("cancelled", "CANCELLED AT"),
        ("on_a_lost_node", "DUE TO NODE FAILURE"),
    ],
)
def test_it_is_reported_by_name_with_the_last_lines_of_its_log(faulty, name, words):
    said = faulty[1].said.read_text()
    failures = re.split(r"^(?=FAILED: |\[)", said, flags=re.MULTILINE)
    report = [one for one in failures if f"-{name}-against" in one and "FAILED" in one]
    assert report, said
    logs = [one for one in failures if words in one]
    assert logs, said
    assert f"again: simulate attention-{name}-against" in said


def test_a_job_that_never_gets_enough_fails_by_name(slurm, tmp_path):
    clone = with_faults(tmp_path / "clone", ["greedy"])
    clone.slurm = slurm
    little = ["--retries", "1", "--set-resources", "simulate:mem_mb=900"]
    done = clone.snakemake(*ALONE, *little)
    assert done.returncode != 0
    assert "jobs failed: 1, not run: " in done.stdout
    assert "exceeded memory limit" in done.stdout
    lines = (clone.folder / "flags/greedy").read_text().splitlines()
    assert len(lines) == 2  # once and once more
    assert "Traceback" not in done.stdout


# Short jobs that go to the cluster together.


@pytest.fixture(scope="module")
def grouped(slurm, tmp_path_factory):
    """A run with the groups of the profile, of which one is cancelled half done."""
    folder = tmp_path_factory.mktemp("grouped")
    there = with_faults(folder / "there", ["cancelled", *QUICK])
    here = copied(there, folder / "here")
    here.build(cores=2)
    there.slurm = slurm
    before = len(slurm.jobs())
    run = there.start()
    until(lambda: began(there, "cancelled"), there, run)
    slurm.run("scancel", began(there, "cancelled")[0])
    assert run.wait(1200) == 0, there.said.read_text()
    return here, there, slurm.jobs()[before:]


def test_short_jobs_share_one(grouped):
    groups = attempts(grouped, "cancelled")
    for name in QUICK:
        assert set(attempts(grouped, name)) <= set(groups)
    # One after the other: the time of all, and the memory of one.
    alone = {int(job.megabytes[:-1]) for job in grouped[2] if job.limit == "3:00"}
    assert groups[0].limit == f"{3 * (1 + len(QUICK))}:00"
    assert min(alone) <= int(groups[0].megabytes[:-1]) < 1.1 * min(alone)


def test_a_group_that_was_cancelled_is_tried_again_with_more(grouped):
    first, second = attempts(grouped, "cancelled")
    assert (first.state, second.state) == ("CANCELLED", "COMPLETED")
    assert int(second.limit.split(":")[0]) == 2 * int(first.limit.split(":")[0])


def test_bits_do_not_depend_on_the_company(grouped):
    here, there, _ = grouped
    assert there.made() == here.made()


def test_a_failed_group_is_reported_with_its_members(grouped):
    said = grouped[1].said.read_text()
    assert "FAILED: a group of 4, namely" in said
    for name in ("cancelled", *QUICK):
        assert f"FAILED: simulate attention-{name}-against" in said


# The main process is killed.


def test_a_killed_main_process_goes_on_and_doubles_no_job(slurm, tmp_path):
    names = ["first", "second", "third", "fourth"]
    clone = with_faults(tmp_path / "clone", names)
    clone.slurm = slurm
    flags = clone.folder / "flags"
    run = clone.start(*ALONE)
    until(lambda: len(list(flags.iterdir())) == len(NODES), clone, run)
    until(lambda: any(job.state == "PENDING" for job in slurm.jobs()), clone, run)
    running = {flag.name for flag in flags.iterdir()}
    run.send_signal(signal.SIGKILL)
    run.wait()
    again = clone.start(*ALONE)
    until(lambda: "still compute here" in clone.said.read_text(), clone, again)
    (flags / "go").touch()
    assert again.wait(1200) == 0, clone.said.read_text()
    (flags / "go").unlink()
    for name in names:
        lines = (flags / name).read_text().splitlines()
        assert len(lines) == 1, f"{name} was computed {len(lines)} times"
    said = clone.said.read_text()
    given = {name for name in names if f"simulate attention-{name}-against" in said}
    assert given == set(names) - running
    assert not list(clone.folder.glob(".snakemake/locks/*"))
    assert "Nothing to be done" in clone.build()


# A node that is not like the others.


def blocking(folder, package):
    """Return a path that makes Python say that a package is not installed."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        "import sys\n"
        f"sys.modules[{package!r}] = None  # import then raises ModuleNotFoundError\n"
    )
    return folder


def with_version(folder, package, version):
    """Return a path on which a package has another version."""
    record = folder / f"{package}-{version}.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    )
    return folder


@pytest.mark.parametrize("lacks", ["package", "version"])
def test_another_environment_on_a_node_ends_the_run_at_once(slurm, tmp_path, lacks):
    clone = copy_project(tmp_path / "clone")
    clone = ClusterClone(clone.folder)
    clone.slurm = slurm
    if lacks == "package":
        path = blocking(tmp_path / "path", "interpolation_error")
        reason = "the package interpolation_error is not installed here"
    else:
        path = with_version(tmp_path / "path", "numpy", "1.0.0")
        reason = "numpy is 1.0.0 here and "
    before = len(slurm.jobs())
    for node in NODES:
        slurm.give(node, PYTHONPATH=f"{path}:{clone.path}")
    try:
        done = clone.snakemake(*ALONE)
    finally:
        for node in NODES:
            slurm.give(node)
    assert done.returncode != 0
    last = [line for line in done.stdout.splitlines() if line.startswith("error: ")]
    assert len(last) == 1, done.stdout
    assert re.match(rf"error: node n\d: {re.escape(reason)}", last[0])
    assert "Traceback" not in done.stdout
    # The first ones that could begin, once each.
    assert len(slurm.jobs()) - before <= 2
    assert not list(clone.results.rglob("*.h5"))


def block(text, beginning):
    """Return the indented block of a document that begins with some words."""
    lines = text[text.index(f"\n    {beginning}") + 1 :].splitlines()
    inside = itertools.takewhile(lambda line: line[:4].isspace() or not line, lines)
    return textwrap.dedent("\n".join(inside))


def test_another_scheduler_is_served_as_the_documents_say(slurm, smoke, tmp_path):
    clone = ClusterClone(copy_project(tmp_path / "clone").folder)
    document = (clone.folder / "docs/cluster.md").read_text()
    status = clone.folder / "status.sh"
    status.write_text(block(document, "#!/bin/sh"))
    status.chmod(0o755)
    typed = block(document, ".venv/bin/snakemake --workflow-profile slurm --executor")
    words = shlex.split(typed.replace("\\\n", ""))
    command = clone._command()
    command["args"] = [sys.executable, "-m", "snakemake", *words[1:]]
    command["env"] |= slurm.environment | {"PYTHONPATH": clone.path}
    before = len(slurm.jobs())
    done = subprocess.run(**command, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout
    assert {job.state for job in slurm.jobs()[before:]} == {"COMPLETED"}
    assert clone.made() == smoke[0].made()


def test_a_user_without_slurm_gets_one_line(tmp_path):
    clone = ClusterClone(copy_project(tmp_path / "clone").folder)
    command = clone._command("--workflow-profile", "slurm")
    command["env"]["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    if shutil.which("sbatch", path=command["env"]["PATH"]):
        pytest.skip("SLURM is installed here")
    done = subprocess.run(**command, timeout=240)
    assert done.returncode != 0
    assert "sbatch" in done.stdout
    assert not list(clone.results.rglob("*.h5"))
