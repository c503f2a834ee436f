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
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

import patient_slurm
from tests.workflow.conftest import Clone, copy_project, wait_until
from tests.workflow.slurm import (
    NODES,
    OWNER,
    NotReadyError,
    Slurm,
    UnavailableError,
    refuse_if_present,
    remove_left,
    start_or_skip,
    started_by,
)

# Here: pytest runs none of them in parallel, since they share a SLURM. In this order: a
# run in which jobs are killed goes on behind the others, as it waits for a time limit.
pytestmark = [pytest.mark.cluster, pytest.mark.workflow]

# The profile as it is, but asking for jobs every second.
IMPATIENT = ["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "20"]
SOON = ["--seconds-between-status-checks", "1"]
IMPATIENT += SOON
DEADLINE = 600  # seconds, of anything that is waited for
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


def until_killed(condition=lambda: True):
    deadline = time.monotonic() + 600
    while condition() and time.monotonic() < deadline:
        time.sleep(0.1)


def hangs(name):
    if begins(name) == 1:
        until_killed()


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
    if count := begins("greedy"):
        block = np.ones(150_000_000)  # 1200 MB
        if count == 1 or (FOLDER / "little").exists():
            until_killed()
        del block
    return np.tanh(4 * t)


def quick_1(t):
    begins("quick_1")
    return np.tanh(9 * t)


def quick_2(t):
    begins("quick_2")
    return np.tanh(10 * t)


def patient(name):
    if begins(name):
        until_killed(lambda: not (FOLDER / "go").exists())


def first(t):
    patient("first")
    return np.tanh(5 * t)


def second(t):
    patient("second")
    return np.tanh(6 * t)


def third(t):
    patient("third")
    return np.tanh(7 * t)
'''


QUICK = ["quick_1", "quick_2"]
KILLED = ["slow", "greedy", "cancelled", "on_a_lost_node"]
FUNCTIONS = re.findall(r"^def (\w+)\(t\):", FAULTS, re.MULTILINE)


@pytest.fixture(scope="session")
def slurm():
    with ExitStack() as stack:
        running = start_or_skip(Slurm(), stack)
        yield running
    refuse_if_present()  # it says what is left, if anything is
    assert not running.folder.exists()


class Broken:
    """A SLURM that does not start."""

    def __init__(self, error):
        self.error = error

    def __enter__(self):
        raise self.error

    def __exit__(self, *_):
        pass


@pytest.mark.parametrize(
    ("error", "outcome", "words"),
    [
        (UnavailableError("no network"), pytest.skip.Exception, "NOT TESTED: no net"),
        (NotReadyError("slurmd ended"), pytest.fail.Exception, "does not work: slurmd"),
    ],
)
def test_only_a_slurm_that_is_not_to_be_had_is_skipped(error, outcome, words):
    with pytest.raises(outcome, match=words), ExitStack() as stack:
        start_or_skip(Broken(error), stack)


@pytest.mark.parametrize("command", ["true", "sleep 60"])
def test_a_slurm_that_ends_or_is_not_ready_in_time_is_told_apart(command):
    slurm = Slurm()
    slurm.folder = Path("/nonexistent")
    daemon = subprocess.Popen(["env", "A=1", "B=2", *command.split()])
    slurm.daemons = [daemon]
    ends = command == "true"
    if ends:
        daemon.wait()
    words = "true ended" if ends else "not ready after 0.2 s"
    try:
        with pytest.raises(NotReadyError, match=words):
            slurm._until(lambda: False, 60 if ends else 0.2)
    finally:
        daemon.kill()
        daemon.wait()


def test_none_is_started_beside_a_munge_that_is_here(tmp_path):
    try:
        refuse_if_present()
    except UnavailableError as reason:
        pytest.skip(f"NOT TESTED: {reason}")
    program = shutil.copy(shutil.which("sleep"), tmp_path / "munged")
    other = subprocess.Popen([program, "60"])
    try:
        # It is about to begin.
        wait_until(Path(f"/proc/{other.pid}/cmdline").read_bytes, other)
        with pytest.raises(UnavailableError, match=rf"munged \(process {other.pid}\)"):
            refuse_if_present()
    finally:
        other.kill()
        other.wait()


class ClusterClone(Clone):
    """A copy of the project whose Snakemake sends its jobs to a SLURM."""

    slurm = None

    def __init__(self, folder, **variables):
        super().__init__(folder)
        self.variables = variables

    def _command(self, *arguments, cores=1):
        command = super()._command(*arguments, cores=cores)
        if self.slurm:
            command["env"] |= self.slurm.environment | {"PYTHONPATH": self.path}
            command["args"][3:3] = ["--workflow-profile", "slurm", *IMPATIENT]
        command["env"] |= self.variables
        command["args"] += ["--logger", "plain"]
        return command

    @property
    def path(self):
        return str(self.folder / "workflow/src")

    def snakemake(self, *arguments, **options):
        command = self._command(*arguments, **options)
        return subprocess.run(**command, timeout=DEADLINE, check=False)

    def jobs(self):
        """Return the jobs that were submitted from here."""
        return self.slurm.jobs(self.folder)

    def start(self, *arguments):
        """Start a run without waiting for it; what it says goes into a file."""
        return self.begin(self._command(*arguments))

    def begin(self, command):
        """Start a command without waiting for it."""
        self.said = self.folder / "said.txt"
        with self.said.open("w") as said:
            return subprocess.Popen(**{**command, "stdout": said})

    def wait(self, run):
        """Wait for a run to end well."""
        assert run.wait(DEADLINE) == 0, self.said.read_text()

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
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert run.poll() is None, clone.said.read_text()
        assert time.monotonic() < deadline, clone.said.read_text()
        time.sleep(0.2)


def began(clone, name):
    """Return number and node of the first job that computes a curve, if one does."""
    flag = clone.folder / "flags" / name
    said = flag.read_text() if flag.exists() else ""
    return said.split()[:2] if said.endswith("\n") else None


def give_faults(clone, functions, others=0):
    """Let a clone simulate a curve for each function, and few others."""
    shutil.rmtree(clone.folder / "flags", ignore_errors=True)
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
        curves = {k: v for k, v in definition["curves"].items() if k not in FUNCTIONS}
        faults = {
            name: {**curves["tanh"], "label": name, "nonlinearity": name}
            for name in functions
        }
        definition["curves"] = {**faults, **curves}

    clone.edit("figures/nonlinear_attention/figure.yaml", put_first)
    clone.edit(
        "config/presets/miniature.yaml",
        lambda preset: preset["at_most"].update(curves=len(functions) + others),
    )


def copied(clone, folder, slurm=None, **variables):
    """Return a clone elsewhere, with all that it has computed."""
    ignored = shutil.ignore_patterns("*.pyc.*", "said.txt", ".snakemake", "*.refused")
    shutil.copytree(clone.folder, folder, ignore=ignored)
    copy = ClusterClone(folder, **variables)
    copy.slurm = slurm
    return copy


def test_the_folder_of_a_killed_one_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    gone = subprocess.Popen(["true"])
    gone.wait()
    for name, owner in (("killed", gone.pid), ("alive", os.getpid())):
        (tmp_path / f"slurm-{name}").mkdir()
        (tmp_path / f"slurm-{name}" / OWNER).write_text(f"{owner}\n")
    (tmp_path / "slurm-of-others").mkdir()
    mark = f"SLURM_CONF={tmp_path}/slurm-killed/slurm.conf"
    job = subprocess.Popen(["env", mark, "sleep", "600"])
    wait_until(lambda: started_by(tmp_path / "slurm-killed") == [job.pid], job)
    remove_left()
    assert job.wait(DEADLINE) == -signal.SIGKILL
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"slurm-alive", "slurm-of-others"}


def block(text, beginning):
    """Return the indented block of a document that begins with some words."""
    lines = text[text.index(f"\n    {beginning}") + 1 :].splitlines()
    inside = itertools.takewhile(lambda line: line[:4].isspace() or not line, lines)
    return textwrap.dedent("\n".join(inside))


# A run in which jobs are killed, on nodes of its own and behind the other tests, and
# the same one here, whose files they begin with.


class Behind:
    """A run on SLURM in which jobs run out of time, memory, a node, or luck."""

    def __init__(self, folder, slurm):
        clone = ClusterClone(copy_project(folder).folder)
        (clone.folder / "faults.py").write_text(FAULTS)
        give_faults(clone, KILLED, others=1)
        self.here = copied(clone, folder.parent / "here")
        self.there, self.slurm = clone, slurm
        clone.slurm = slurm
        clone.variables = {"SBATCH_PARTITION": "unlucky"}
        # The time limit is waited for, so it is as low as it can be.
        minutes = "attempt if 'slow' in wildcards.name else 3 * attempt"
        self.run = clone.start(*ALONE, "--set-resources", f"simulate:runtime={minutes}")
        self.error = None
        self.play = threading.Thread(target=self._play)
        self.play.start()

    def _play(self):
        try:
            self._end_jobs()
        except BaseException as error:
            self.error = error

    def _end_jobs(self):
        slurm, there, run = self.slurm, self.there, self.run
        until(lambda: began(there, "cancelled"), there, run)
        slurm.run("scancel", began(there, "cancelled")[0])
        until(lambda: began(there, "on_a_lost_node"), there, run)
        number, node = began(there, "on_a_lost_node")
        slurm.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        lost = (number, "NODE_FAIL")
        until(lambda: lost in [job[:2] for job in there.jobs()], there, run)
        slurm.run("scontrol", "update", f"nodename={node}", "state=resume")

    def wait(self):
        """Wait for the end of the run, and return what it made and its jobs."""
        self.play.join(DEADLINE)
        if self.error:
            raise self.error
        self.there.wait(self.run)
        return self.here, self.there, self.there.jobs()


@pytest.fixture(scope="module")
def behind(slurm, tmp_path_factory):
    started = Behind(tmp_path_factory.mktemp("killed") / "dort drüben", slurm)
    try:
        started.here.build(cores=2)
        yield started
    finally:
        if started.run.poll() is None:
            started.run.terminate()


@pytest.fixture(scope="module")
def generic(behind, slurm, tmp_path_factory):
    """A run by the generic executor, as the documents say, in the meantime."""
    clone = copied(behind.here, tmp_path_factory.mktemp("generic") / "clone", slurm)
    (missing,) = clone.results.glob("cache/simulation/*-tanh-*.h5")
    missing.unlink()
    shutil.rmtree(clone.run_folder)
    document = (clone.folder / "docs/cluster.md").read_text()
    status = clone.folder / "status.sh"
    status.write_text(block(document, "#!/bin/sh"))
    status.chmod(0o755)
    typed = block(document, ".venv/bin/snakemake --workflow-profile slurm --executor")
    words = shlex.split(typed.replace("\\\n", "").replace("smoke", clone.preset))
    command = clone._command()
    command["args"] = [sys.executable, "-m", "snakemake", *words[1:], *SOON]
    return clone, clone.begin(command)


@pytest.fixture(scope="module")
def starved(behind, slurm, tmp_path_factory):
    """A run whose job never gets enough memory, in the meantime."""
    clone = copied(behind.here, tmp_path_factory.mktemp("starved") / "clone", slurm)
    for path in clone.results.glob("cache/simulation/*greedy*"):
        path.unlink()
    shutil.rmtree(clone.run_folder)
    give_faults(clone, KILLED, others=1)
    (clone.folder / "flags/little").touch()
    little = ["--retries", "1", "--set-resources", "simulate:mem_mb=900"]
    return clone, clone.start(*ALONE, *little)


@pytest.fixture(scope="module")
def draws(behind, slurm, tmp_path_factory):
    """Return a clone with the draws of a run and nothing else, for other curves."""

    def make(functions, name, **variables):
        folder = tmp_path_factory.mktemp(name) / "clone"
        clone = copied(behind.here, folder, slurm, **variables)
        for path in clone.results.iterdir():
            if path.name != "cache":
                remove(path)
        for path in (clone.results / "cache").iterdir():
            if path.name != "data":
                remove(path)
        give_faults(clone, functions)
        return clone

    return make


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


SIMULATE = ["--until", "simulate"]


def test_the_partition_that_the_user_names_is_taken(behind):
    until(behind.there.jobs, behind.there, behind.run)
    assert {job.partition for job in behind.there.jobs()} == {"unlucky"}


# The main process is killed.


def test_a_killed_main_process_goes_on_and_doubles_no_job(draws):
    names = ["first", "second", "third"]
    clone = draws(names, "killed-main")
    flags = clone.folder / "flags"
    run = clone.start(*ALONE, *SIMULATE)
    until(lambda: len(list(flags.iterdir())) == len(NODES), clone, run)
    until(lambda: any(job.state == "PENDING" for job in clone.jobs()), clone, run)
    running = {flag.name for flag in flags.iterdir()}
    run.send_signal(signal.SIGKILL)
    run.wait()
    again = clone.start(*ALONE, *SIMULATE)
    until(lambda: "still compute here" in clone.said.read_text(), clone, again)
    (flags / "go").touch()
    clone.wait(again)
    (flags / "go").unlink()
    for name in names:
        lines = (flags / name).read_text().splitlines()
        assert len(lines) == 1, f"{name} was computed {len(lines)} times"
    said = clone.said.read_text()
    given = {name for name in names if f"simulate attention-{name}-against" in said}
    assert given == set(names) - running
    assert not list(clone.folder.glob(".snakemake/locks/*"))
    assert "jobs to run: 0" in clone.build(*SIMULATE)


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
def test_another_environment_on_a_node_ends_the_run_at_once(
    behind, slurm, tmp_path, lacks
):
    clone = copied(behind.here, tmp_path / "clone", slurm)
    shutil.rmtree(clone.results)
    if lacks == "package":
        path = blocking(tmp_path / "path", "interpolation_error")
        reason = "the package interpolation_error is not installed here"
    else:
        path = with_version(tmp_path / "path", "numpy", "1.0.0")
        reason = "numpy is 1.0.0 here and "
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
    assert 0 < len(clone.jobs()) <= 2
    assert not list(clone.results.rglob("*.h5"))


# Short jobs that go to the cluster together.


@pytest.fixture(scope="module")
def grouped(behind, generic, starved, slurm, tmp_path_factory):
    """A run with the groups of the profile, of which one is cancelled half done."""
    folder = tmp_path_factory.mktemp("grouped")
    there = copied(behind.here, folder / "there", slurm)
    shutil.rmtree(there.results / "cache/simulation")
    give_faults(there, ["cancelled", *QUICK])
    here = copied(there, folder / "here")
    run = there.start(*SIMULATE)
    here.build(*SIMULATE, cores=2)
    until(lambda: began(there, "cancelled"), there, run)
    slurm.run("scancel", began(there, "cancelled")[0])
    there.wait(run)
    return here, there, there.jobs()


def test_short_jobs_share_one(grouped, behind):
    groups = attempts(grouped, "cancelled")
    for name in QUICK:
        assert set(attempts(grouped, name)) <= set(groups)
    # One after the other: the time of all, and the memory of one.
    others = behind.there.jobs()
    alone = {int(job.megabytes[:-1]) for job in others if job.limit == "3:00"}
    assert groups[0].limit == f"{3 * (1 + len(QUICK))}:00"
    assert min(alone) <= int(groups[0].megabytes[:-1]) < 1.1 * min(alone)


def test_a_group_that_was_cancelled_is_tried_again_with_more(grouped):
    first, second = attempts(grouped, "cancelled")
    assert (first.state, second.state) == ("CANCELLED", "COMPLETED")
    assert int(second.limit.split(":")[0]) == 2 * int(first.limit.split(":")[0])


def test_bits_do_not_depend_on_the_company(grouped):
    here, there, _ = grouped
    assert there.made() == here.made()
    assert len(list(there.results.glob("cache/simulation/*.h5"))) == 1 + len(QUICK)


def test_a_failed_group_is_reported_with_its_members(grouped):
    said = grouped[1].said.read_text()
    assert f"FAILED: a group of {1 + len(QUICK)}, namely" in said
    for name in ("cancelled", *QUICK):
        assert f"FAILED: simulate attention-{name}-against" in said


def test_another_scheduler_is_served_as_the_documents_say(behind, generic):
    clone, run = generic
    clone.wait(run)
    assert {job.state for job in clone.jobs()} == {"COMPLETED"}
    assert clone.made() == behind.here.made()


def test_a_job_that_never_gets_enough_fails_by_name(starved):
    clone, run = starved
    assert run.wait(DEADLINE) != 0
    said = clone.said.read_text()
    assert "jobs failed: 1, not run: " in said
    assert "exceeded memory limit" in said
    lines = (clone.folder / "flags/greedy").read_text().splitlines()
    assert len(lines) == 2  # once and once more
    assert len(clone.jobs()) == 2
    assert "Traceback" not in said


# What became of the jobs that were killed.


@pytest.fixture(scope="module")
def faulty(behind):
    return behind.wait()


def test_arrays_tables_pictures_and_verdicts_are_the_same_bytes(faulty):
    here, there, _ = faulty
    assert there.made() == here.made()
    kinds = {path.suffix for path in here.made()}
    assert kinds == {".h5", ".csv", ".png", ".pdf", ".svg", ".md", ".json"}


def test_every_job_went_to_slurm_and_ended_well_at_last(faulty):
    _, there, jobs = faulty
    said = there.said.read_text()
    (total,) = re.findall(r"^jobs done: (\d+)", said, re.MULTILINE)
    ended_well = [job for job in jobs if job.state == "COMPLETED"]
    assert len(ended_well) == int(total) - 1  # all that `all` is to do is to be there
    assert len(jobs) == len(ended_well) + len(KILLED)


def test_three_nodes_were_busy_at_once(faulty, slurm):
    assert slurm.nodes_busy_at_once(faulty[2]) >= 3


def test_jobs_ask_for_what_the_formula_says(faulty):
    again = [job for name in KILLED for job in attempts(faulty, name)]
    jobs = [job for job in faulty[2] if job not in again]
    assert len(jobs) >= 5
    # Small jobs: the interpreter and Snakemake, for three minutes.
    assert {job.limit for job in jobs} == {"3:00"}
    assert all(re.fullmatch(r"\d+M", job.megabytes) for job in jobs)
    assert all(900 <= int(job.megabytes[:-1]) < 1100 for job in jobs)


def test_a_second_run_submits_nothing(faulty):
    _, there, jobs = faulty
    assert "Nothing to be done" in there.build()
    assert there.jobs() == jobs


def test_nothing_is_left_of_the_run_but_its_files(faulty):
    _, there, _ = faulty
    assert not list(there.results.rglob("*.draft*"))
    assert not list(there.folder.glob(".snakemake/locks/*"))


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


# The controller goes away, and with it all that answers for jobs.


@pytest.fixture(scope="module")
def outage(draws, slurm):
    """Two runs without a controller: one that outlasts it, and one that gives up."""
    back = draws(["first"], "back")
    away = draws(["second"], "away", **{patient_slurm.VARIABLE: "3"})
    runs = {clone: clone.start(*ALONE, *SIMULATE) for clone in (back, away)}
    until(lambda: began(back, "first"), back, runs[back])
    until(lambda: began(away, "second"), away, runs[away])
    slurm.stop_controller()
    try:
        assert runs[away].wait(DEADLINE) != 0
        until(lambda: "controller is away" in back.said.read_text(), back, runs[back])
    finally:
        slurm.start_controller()
    return back, runs[back], away


def test_a_run_goes_on_when_the_controller_is_back(outage):
    back, run, _ = outage
    (back.folder / "flags/go").touch()
    back.wait(run)
    assert [job.state for job in back.jobs()] == ["COMPLETED"]


def test_a_run_ends_in_one_line_when_the_controller_stays_away(outage):
    _, _, away = outage
    said = away.said.read_text()
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "SLURM's controller has been away for 3 s" in line
    assert "Traceback" not in said


def test_what_its_jobs_make_is_kept(outage):
    _, _, away = outage
    again = away.start(*ALONE, *SIMULATE)
    until(lambda: "still compute here" in away.said.read_text(), away, again)
    (away.folder / "flags/go").touch()
    away.wait(again)
    assert len((away.folder / "flags/second").read_text().splitlines()) == 1
    assert len(away.jobs()) == 1
