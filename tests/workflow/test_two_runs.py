"""Two runs in one results folder: the second is kept out, and nothing is spoilt."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from interpolation_error.run import lease

pytestmark = pytest.mark.workflow

SOMEBODY = 65534
HOLD = """
import sys
from pathlib import Path
from interpolation_error.run import lease
lease.take(Path(sys.argv[1]), {}, print)
print("taken", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other():
    """Hold results folders, as runs of somebody else would."""
    started = []

    def hold(results):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(results)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        started.append(process)
        assert process.stdout.readline() == b"taken\n"
        return process

    yield hold
    for process in started:
        process.communicate(b"")


def one_error(said):
    """Return the one line of an error in what Snakemake said."""
    assert "Traceback" not in said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    return line


def test_a_second_run_is_refused_before_any_job(clone, other):
    shutil.rmtree(clone.results)
    process = other(clone.results)
    done = clone.snakemake("--logger", "plain")
    assert done.returncode != 0
    line = one_error(done.stdout)
    assert f"process {process.pid} on " in line
    assert "name another results folder: --config results=FOLDER" in line
    assert not list(clone.results.rglob("*.h5"))
    process.communicate(b"")
    assert "jobs done" in clone.build("--logger", "plain")


def test_looking_is_free_while_somebody_runs(clone, other):
    other(clone.results)
    record = (clone.results / lease.RECORD).read_bytes()
    assert clone.planned() == {}
    assert (clone.results / lease.RECORD).read_bytes() == record


@pytest.mark.skipif(os.getuid() != 0, reason="needs files of two users, so root")
def test_another_user_is_kept_out_of_a_folder_that_is_not_theirs(clone):
    # Root without its right to write everywhere is a user like any other.
    shutil.rmtree(clone.results)
    clone.results.mkdir()
    os.chown(clone.results, SOMEBODY, SOMEBODY)
    command = clone._command("--logger", "plain")
    drop = "--bounding-set=-dac_override,-dac_read_search,-fowner,-chown"
    command["args"] = ["setpriv", drop, *command["args"]]
    done = subprocess.run(**command, timeout=240, check=False)
    assert done.returncode != 0
    assert "(Permission denied; the folder is " in one_error(done.stdout)
    assert not list(clone.results.iterdir())


def test_a_run_killed_alone_leaves_its_jobs_to_the_next(clone):
    """The main process is killed and its job is not: the job is waited for."""
    function = """
import os
import sys
import time
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent


def patient(t):
    if "simulate_curve.py" in sys.argv[0]:
        (FOLDER / "began" / str(os.getpid())).touch()
        while not (FOLDER / "go").exists():
            time.sleep(0.1)
    return np.tanh(2 * t)
"""
    (clone.folder / "mine.py").write_text(function)
    definition = {"patient": {"file": "mine.py", "name": "patient", "kinks": []}}
    clone.edit("config/config.yaml", lambda c: c.update(nonlinearities=definition))
    clone.edit(
        "figures/nonlinear_attention/figure.yaml",
        lambda d: d["curves"]["tanh"].update(nonlinearity="patient"),
    )
    began = clone.folder / "began"
    began.mkdir()
    run = subprocess.Popen(**{**clone._command(), "stdout": subprocess.DEVNULL})
    wait_for(lambda: any(began.iterdir()))
    run.kill()
    run.wait()
    log = clone.folder / "again.txt"
    with log.open("w") as said:
        again = subprocess.Popen(**{**clone._command(), "stdout": said})
    wait_for(lambda: "still compute here" in log.read_text())
    (clone.folder / "go").touch()
    assert again.wait(240) == 0, log.read_text()
    assert len(list(began.iterdir())) == 1  # it was not computed again


def wait_for(condition):
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        time.sleep(0.1)
