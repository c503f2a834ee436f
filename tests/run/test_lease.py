"""One run at a time in a results folder: who is kept out, and what is waited for."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from interpolation_error.run import lease

IDENTITY = {"numpy": "2.4.6", "code": "0123"}
HOLD = """
import sys
from pathlib import Path
from interpolation_error.run import lease
lease.take(Path(sys.argv[1]), {"numpy": "2.4.6", "code": "0123"}, print)
print("taken", flush=True)
sys.stdin.read()
"""
JOB = """
import sys
from interpolation_error.run import lease
with lease.working():
    print("working", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _released(monkeypatch):
    """Give back what a test took."""
    monkeypatch.setenv(lease.VARIABLE, "")
    yield
    while lease._held:
        lease._held.pop().close()


def start(script, *arguments):
    """Start a process of its own and wait for its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


def kill(process):
    process.kill()
    process.communicate()


def test_a_second_run_is_kept_out_and_told_by_whom(tmp_path):
    other, said = start(HOLD, tmp_path)
    assert said == "taken"
    with pytest.raises(lease.LeaseError) as refusal:
        lease.take(tmp_path, IDENTITY, print)
    kill(other)
    (line,) = str(refusal.value).splitlines()
    assert f"process {other.pid} on " in line
    assert "--config results=FOLDER" in line


@pytest.mark.parametrize(
    "record", ["", "[]", "null", '"x"', "{}", '{"run": "a"}', "\xff", "a record"]
)
def test_a_record_that_is_none_is_one_line(tmp_path, monkeypatch, record):
    other, _ = start(HOLD, tmp_path)
    (tmp_path / lease.RECORD).write_text(record, "latin-1")
    with pytest.raises(lease.LeaseError, match="another run has just begun here"):
        lease.take(tmp_path, IDENTITY, print)
    kill(other)
    monkeypatch.setenv(lease.VARIABLE, f"a {tmp_path}")
    with pytest.raises(lease.LeaseError, match="another one has taken"):
        lease.check(IDENTITY)


def test_who_comes_at_the_same_moment_is_told_the_new_name(tmp_path, monkeypatch):
    other, _ = start(HOLD, tmp_path)
    new = (tmp_path / lease.RECORD).read_text()
    (tmp_path / lease.RECORD).write_text(new.replace(f" {other.pid},", " 1,"))
    write = (tmp_path / lease.RECORD).write_text
    monkeypatch.setattr(lease.time, "sleep", lambda _: write(new))
    with pytest.raises(lease.LeaseError, match=f"process {other.pid} on "):
        lease.take(tmp_path, IDENTITY, print)
    kill(other)


def test_another_folder_is_free(tmp_path):
    other, _ = start(HOLD, tmp_path / "one")
    lease.take(tmp_path / "two", IDENTITY, print)
    kill(other)


def test_a_killed_run_leaves_no_lock(tmp_path):
    other, _ = start(HOLD, tmp_path)
    kill(other)
    lease.take(tmp_path, IDENTITY, pytest.fail)


def test_jobs_of_a_killed_run_are_waited_for(tmp_path):
    lease.take(tmp_path, IDENTITY, pytest.fail)
    job, said = start(JOB)
    assert said == "working"
    lease._held.pop().close()  # as if this run had been killed
    told = []

    def let_go(line):
        told.append(line)
        job.communicate("")

    lease.take(tmp_path, IDENTITY, let_go)
    assert job.returncode == 0
    assert len(told) == 1
    assert "still compute here" in told[0]


def test_a_job_of_an_earlier_run_does_not_begin(tmp_path, monkeypatch):
    lease.take(tmp_path, IDENTITY, print)
    earlier = os.environ[lease.VARIABLE]
    lease._held.pop().close()
    lease.take(tmp_path, IDENTITY, print)
    lease.check(IDENTITY)
    monkeypatch.setenv(lease.VARIABLE, earlier)
    with pytest.raises(lease.LeaseError, match="another one has taken"):
        lease.check(IDENTITY)
    with pytest.raises(lease.LeaseError, match="another one"), lease.working():
        pytest.fail("it worked")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"numpy": "2.3.0"}, "numpy is 2.3.0 here and 2.4.6 where the run was planned"),
        ({"code": "4567"}, "the code changed since the run was planned"),
    ],
)
def test_a_job_with_something_else_is_refused_in_one_line(tmp_path, change, said):
    lease.take(tmp_path, IDENTITY, print)
    with pytest.raises(lease.LeaseError) as refusal:
        lease.check(IDENTITY | change)
    (line,) = str(refusal.value).splitlines()
    assert said in line


def test_outside_of_a_run_anything_goes():
    lease.check({"numpy": "1.0"})
    with lease.working():
        assert lease.refused() is None


def test_a_refusal_holds_for_one_run(tmp_path):
    def refuse():
        run, _, folder = os.environ[lease.VARIABLE].partition(" ")
        path = Path(folder) / lease.REFUSAL.format(run=run)
        path.write_text("node n1: no package\n")
        return path

    lease.take(tmp_path, IDENTITY, print)
    assert lease.refused() is None
    earlier = refuse()
    assert lease.refused() == "node n1: no package"
    lease._held.pop().close()
    lease.take(tmp_path, IDENTITY, print)
    assert lease.refused() is None
    assert not earlier.exists()
    earlier.write_text("by a job that came late\n")
    assert lease.refused() is None


def test_without_locks_a_run_goes_on_and_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", refuse)
    told = []
    lease.take(tmp_path, IDENTITY, told.append)
    assert any("gives no locks (No locks available)" in line for line in told)
    with lease.working():
        pass


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else_is_one_line(tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(lease.LeaseError) as refusal:
        lease.take(tmp_path, IDENTITY, print)
    (line,) = str(refusal.value).splitlines()
    assert "Permission denied" in line
    assert "the folder is " in line


def test_whoever_may_write_in_the_folder_may_run_there_next(tmp_path):
    tmp_path.chmod(0o775)
    lease.take(tmp_path, IDENTITY, print)
    assert (tmp_path / lease.LOCK).stat().st_mode & 0o777 == 0o664


def test_rules_name_a_refusal_as_this_module_reads_it():
    rules = (Path(__file__).parents[2] / "workflow/rules/common.smk").read_text()
    assert f'"{lease.VARIABLE}"' in rules
    assert f'f"{lease.REFUSAL}"' in rules
