"""What can happen to a run really happens here, is noticed, and spoils nothing else."""

import errno
import faulthandler
import json
import os
import re
import resource
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
import yaml

from interpolation_error.audit import array_check, verification
from interpolation_error.run import lease, store
from interpolation_error.run.identity import Identity
from tests.workflow.conftest import MINIATURE, Clone, copy_project, wait_until

pytestmark = [pytest.mark.damage, pytest.mark.workflow]

NAME = "nonlinear_attention"
TABLE = f"tables/{NAME}.csv"
DEFINITION = f"figures/{NAME}/figure.yaml"


def verify(clone):
    """Verify in this process; return the lines of the faults."""
    report = verification.verify(clone.plan(), clone.folder)
    return [report.line(fault) for fault in report.faults], report


def arrays(clone):
    """Return the bytes of every cached array by its path."""
    return {
        path.relative_to(clone.results): path.read_bytes()
        for path in sorted(clone.results.glob("cache/*/[!.]*.h5"))
    }


def simulated(clone):
    return next((clone.results / "cache/simulation").glob("*tanh*.h5"))


def job(clone):
    """Return the command that simulates a curve, and the array that it writes."""
    path = simulated(clone)
    (dataset,) = (clone.results / "cache/data").glob("*.h5")
    spec = store.read_identity(path).spec
    arguments = ["--spec", spec, "--dataset", str(dataset), "--output", str(path)]
    return ["workflow/scripts/simulate_curve.py", *arguments], path


def no_traceback(said):
    assert "Traceback" not in said, said


# A job killed at any moment


KILLER = """
import os, runpy, signal, sys
moment, script = sys.argv[1:3]
sys.argv = sys.argv[2:]
sys.path.insert(0, os.path.dirname(script))
replace, left = os.replace, int(moment)
def killing(source, target):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    replace(source, target)
    left -= 1
    if left == 0 and moment == "1":
        os.kill(os.getpid(), signal.SIGKILL)
os.replace = killing
runpy.run_path(script, run_name="__main__")
"""
"""Runs a script and kills it before the file of that number gets its name."""


@pytest.mark.parametrize(
    ("moment", "faults"),
    [("0", ["is missing"]), ("1", [])],
    ids=["when all but the name was written", "before the record of the job"],
)
def test_a_job_killed_as_its_array_gets_its_name(clone, moment, faults):
    (command, path), good = job(clone), arrays(clone)
    path.unlink()
    path.with_suffix(".json").unlink()
    killed = subprocess.run(
        [sys.executable, "-c", KILLER, moment, *command], cwd=clone.folder
    )
    assert killed.returncode == -signal.SIGKILL
    found, report = verify(clone)
    assert [line.partition("; mend it")[0] for line in found] == [
        f"{path}: {fault}" for fault in faults
    ]
    left = [note for note in report.notes if "left by a job that was killed" in note]
    lost = [note for note in report.notes if "the record of its job" in note]
    assert (len(left), len(lost)) == ((1, 0) if faults else (0, 1))
    for line in found:
        mend(clone, line)
    assert arrays(clone) == good
    assert verify(clone)[0] == []
    if faults:
        assert not list(clone.results.rglob("*.draft*"))


def test_a_job_killed_at_any_moment_leaves_nothing_that_counts_as_done(clone):
    (command, path), good = job(clone), arrays(clone)
    command = [sys.executable, *command]
    start = time.monotonic()
    subprocess.run(command, cwd=clone.folder, check=True)
    whole = time.monotonic() - start
    outcomes = set()
    for part in range(13):
        path.unlink(missing_ok=True)
        path.with_suffix(".json").unlink(missing_ok=True)
        process = subprocess.Popen(command, cwd=clone.folder)
        time.sleep(whole * part / 12)
        process.kill()
        process.wait()
        found, _ = verify(clone)
        outcomes.add(len(found))
        if found:
            (line,) = found
            assert line.startswith(f"{path}: is missing; mend it: snakemake")
        else:
            assert path.read_bytes() == good[path.relative_to(clone.results)]
    assert 1 in outcomes
    for line in found:
        mend(clone, line)
    assert arrays(clone) == good
    assert verify(clone)[0] == []


def test_a_job_killed_while_it_writes_leaves_a_draft_that_is_cleared(tmp_path):
    spec = {"seed": 1, "tokens": 4096, "dimension": 4096, "replicates": [0, 1]}
    identity = Identity.of(spec, "data")
    path = tmp_path / f"noise-{identity.key[:16]}.h5"
    script = str(array_check.store.__file__).rpartition("/src/")[0]
    command = [sys.executable, f"{script}/scripts/generate_dataset.py"]
    command += ["--spec", identity.spec, "--output", str(path)]
    process = subprocess.Popen(command)
    wait_until(lambda: any(tmp_path.glob(".noise-*.draft.h5")), process)
    process.kill()
    process.wait()
    assert process.returncode == -signal.SIGKILL
    assert [one.name for one in tmp_path.iterdir()] == [
        f".{path.stem}.{socket.gethostname()}-{process.pid}.draft.h5"
    ]
    subprocess.run(command, check=True)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        path.name.replace(".h5", ending) for ending in (".h5", ".json")
    ]
    assert store.read(path)["noise"].shape == (2, 4096, 4096)


def test_a_run_killed_with_its_jobs_is_told_and_goes_on(clone):
    good = arrays(clone)
    shutil.rmtree(clone.results)
    clone.kill_when(lambda: any(clone.results.glob("cache/theory/*.h5")))
    done = clone.verify()
    assert done.returncode == 1
    assert f"{TABLE.partition('.')[0]}" not in done.stdout  # not checked, no fault
    assert "is missing; mend it: make PRESET=miniature" in done.stdout
    kept = arrays(clone)
    assert kept.items() <= good.items()
    clone.build()
    assert arrays(clone) == good
    assert clone.verify().returncode == 0


# Files that are damaged or edited


@pytest.mark.parametrize("record", [True, False], ids=["", "without its record"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
def test_a_truncated_array_is_named(clone, share, record):
    path, good = simulated(clone), arrays(clone)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    if not record:
        path.with_suffix(".json").unlink()
    (line,), report = verify(clone)
    words = "its bytes are not those" if record else "it cannot be read as HDF5 ("
    assert line.startswith(f"{path}: {words}")
    assert report.count("simulated curves").hold == 1
    if share == 0.5:
        mend(clone, line)
        assert arrays(clone) == good
        assert verify(clone)[0] == []


def mend(clone, line):
    """Do what a fault's line says."""
    command = line.partition("mend it: ")[2]
    command = command.replace(
        "snakemake ", f"{shlex.quote(sys.executable)} -m snakemake "
    )
    environment = dict(os.environ, PYTHONPATH=str(clone.folder / "workflow/src"))
    subprocess.run(
        command, shell=True, cwd=clone.folder, env=environment, check=True, timeout=240
    )


def test_a_flip_of_any_byte_of_an_array_is_noticed(clone):
    path = simulated(clone)
    item = clone.plan().simulations()[path.stem].item
    content = bytearray(path.read_bytes())
    assert array_check.check(item, path).fault == ""
    for place in range(len(content)):
        content[place] ^= 1 << place % 8
        path.write_bytes(content)
        fault = array_check.check(item, path).fault
        assert fault.startswith("its bytes are not those that its job wrote"), place
        content[place] ^= 1 << place % 8
    path.write_bytes(content)
    assert array_check.check(item, path).fault == ""


def test_a_flip_without_the_record_is_noticed_wherever_it_changes_a_number(clone):
    path = simulated(clone)
    path.with_suffix(".json").unlink()
    item = clone.plan().simulations()[path.stem].item
    content = path.read_bytes()
    kept = array_check.check(item, path)
    changes = 0
    for place in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        path.write_bytes(flipped)
        child = os.fork()
        if child == 0:  # for damage that makes HDF5 crash, or search without end
            # A crash is expected here and there: without its trace and its core.
            faulthandler.disable()
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.alarm(5)
            found = array_check.check(item, path)
            same = not found.fault and all(
                found.arrays[name].tobytes() == values.tobytes()
                for name, values in kept.arrays.items()
            )
            os._exit(0 if found.fault else 1 if same else 2)
        _, status = os.waitpid(child, 0)
        outcome = os.waitstatus_to_exitcode(status)
        assert outcome != 2, f"byte {place} changes a number and is not noticed"
        assert outcome in (0, 1, -signal.SIGSEGV, -signal.SIGALRM, -signal.SIGABRT)
        changes += outcome != 1
    assert changes > 100


def test_a_flipped_bit_stops_the_jobs_that_read_it(clone):
    path, good = simulated(clone), arrays(clone)
    content = bytearray(path.read_bytes())
    content[content.index(store.read(path)["error"].tobytes())] ^= 1
    path.write_bytes(content)
    done = clone.snakemake("--forcerun", f"tabulate_{NAME}")
    assert done.returncode != 0
    assert f"{path.relative_to(clone.folder)}: its arrays do not match" in done.stdout
    no_traceback(done.stdout)
    found, _ = verify(clone)
    assert any(line.startswith(f"{path}: its bytes are not those") for line in found)
    mend(clone, next(line for line in found if str(path) in line))
    clone.build()  # the failed job took its table along
    assert arrays(clone) == good
    assert verify(clone)[0] == []


@pytest.mark.parametrize("file", [TABLE, "claims.csv"])
def test_an_edited_csv_is_named_and_mended(clone, file):
    path, good = clone.run_folder / file, arrays(clone)
    text = path.read_text()
    last = text.rstrip("\n").rindex("\n") + 1
    path.write_text(text[:last] + text[last:].replace(",", ",7", 1))
    (line,), _ = verify(clone)
    assert line.startswith(f"{path}: ")
    assert "follows from the arrays" in line or "gives something else" in line
    mend(clone, line)
    assert path.read_text() == text
    assert arrays(clone) == good
    assert verify(clone)[0] == []


def test_a_deleted_record_is_noticed_with_what_it_costs(clone):
    path, good = simulated(clone), arrays(clone)
    path.with_suffix(".json").unlink()
    done = clone.verify()
    assert done.returncode == 0
    assert (
        f"note: {path.relative_to(clone.results)}: the record of its job (.json beside "
        "it) is missing or cannot be read; the array holds, what its job took is not "
        "known any more"
    ) in done.stdout
    assert arrays(clone) == good


# Parameters and code that are changed


@pytest.mark.parametrize("records", [True, False], ids=["", "without .snakemake"])
def test_a_swapped_pair_of_parameters_is_noticed(clone, records):
    if not records:
        shutil.rmtree(clone.folder / ".snakemake")
    good = arrays(clone)

    def swap(definition):
        setting = definition["panels"]["gamma"]["setting"]
        setting["tokens"], setting["dimension"] = (
            setting["dimension"],
            setting["tokens"],
        )

    definition = clone.figure.read_text()
    clone.edit(DEFINITION, swap)
    found, _ = verify(clone)
    assert sum("/simulation/" in line for line in found) == 2
    assert all(": is missing" in line for line in found if "/cache/" in line)
    assert clone.planned()["simulate"] == 2
    clone.build()
    assert verify(clone)[0] == []
    assert good.items() <= arrays(clone).items()
    clone.figure.write_text(definition)
    found, _ = verify(clone)
    assert found  # the table is that of the swapped pair
    assert not any("/cache/" in line for line in found)


def test_an_array_under_the_name_of_swapped_parameters_is_noticed(clone):
    path = simulated(clone)
    swapped = json.loads(store.read_identity(path).spec)
    curve = swapped["curve"]
    curve["tokens"], curve["dimension"] = curve["dimension"], curve["tokens"]
    identity = Identity.of(swapped, "simulation")
    other = path.with_name(f"swapped-{identity.key[:16]}.h5")
    store.write(other, store.read(path), identity)
    os.replace(other, path)
    path.with_suffix(".json").unlink()
    (line,), _ = verify(clone)
    assert f"{path}: it holds something else than its name says" in line


def test_an_edited_module_is_noticed(clone):
    path = clone.folder / "workflow/src/interpolation_error/theory/limit.py"
    path.write_text(path.read_text() + "\n_EDITED = True\n")
    good = arrays(clone)
    done = clone.verify()
    assert done.returncode == 1
    (theory,) = (clone.results / "cache/theory").glob("*.h5")
    faults = [line for line in done.stdout.splitlines() if line.startswith("fault: ")]
    assert len(faults) == 1
    assert "/theory/" in faults[0]
    assert f"is missing; {theory.name} has its specification, but was" in faults[0]
    assert "made by other code (" in faults[0]
    clone.build()
    assert clone.verify().returncode == 0
    assert good.items() <= arrays(clone).items()


# Disks and folders


def mounted(folder, *options):
    """Mount something on a folder, or skip the test where that is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        ["mount", *options, str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"may not mount here: {done.stderr.strip()}")


@pytest.fixture
def small_disk(tmp_path):
    """A clone without results, and for these a disk of its own of 300 KB."""
    if not shutil.which("mount"):
        pytest.skip("there is no mount here")
    clone = copy_project(tmp_path / "clone")
    mounted(clone.results, "-t", "tmpfs", "-o", "size=300k", "small")
    yield clone
    subprocess.run(["umount", "--lazy", str(clone.results)], check=True)


def test_a_full_disk_is_named_and_a_run_goes_on_with_more_room(small_disk, pristine):
    clone = small_disk
    (clone.results / "filling").write_bytes(b"0" * 200_000)
    done = clone.snakemake("--logger", "plain")
    assert done.returncode != 0
    assert "no space left on device" in done.stdout.lower()
    no_traceback(done.stdout)
    kept = arrays(clone)
    assert kept.items() <= arrays(pristine).items()
    assert len(kept) < len(arrays(pristine))
    said = clone.verify()
    assert said.returncode == 1
    no_traceback(said.stdout)
    assert "is missing; mend it: make PRESET=miniature" in said.stdout
    (clone.results / "filling").unlink()
    subprocess.run(["mount", "-o", "remount,size=50m", str(clone.results)], check=True)
    clone.build()
    assert arrays(clone) == arrays(pristine)
    assert clone.verify().returncode == 0


@pytest.mark.parametrize("size", [0, 4096])
def test_a_job_on_a_full_disk_says_so_in_one_line(small_disk, size, pristine):
    clone = small_disk
    (command, path) = job(pristine)
    output = clone.results / path.name
    room = os.statvfs(clone.results).f_bavail * 4096
    (clone.results / "filling").write_bytes(b"0" * (room - size))
    done = subprocess.run(
        [sys.executable, *command[:-1], str(output)],
        cwd=clone.folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == errno.ENOSPC
    (line,) = done.stderr.splitlines()
    assert line == f"error: {output}: No space left on device"
    assert list(clone.results.iterdir()) == [clone.results / "filling"]


@pytest.fixture
def read_only(clone):
    """A finished run whose results cannot be written, not even by root."""
    if os.getuid() != 0:
        subprocess.run(["chmod", "-R", "a-w", str(clone.results)], check=True)
        yield clone
        subprocess.run(["chmod", "-R", "u+w", str(clone.results)], check=True)
        return
    mounted(clone.results, "--bind", str(clone.results))
    subprocess.run(["mount", "-o", "remount,ro,bind", str(clone.results)], check=True)
    yield clone
    subprocess.run(["umount", "--lazy", str(clone.results)], check=True)


def test_a_read_only_results_folder_can_be_verified_and_not_changed(read_only):
    clone, good = read_only, arrays(read_only)
    done = clone.verify()
    assert done.returncode == 0
    words = "results/miniature/verification.json: no record is kept"
    assert re.search(
        rf"note: {words} \((Read-only file system|Permission)", done.stdout
    )
    assert "Nothing to be done" in clone.build()
    done = clone.snakemake("--forcerun", f"draw_{NAME}")
    assert done.returncode != 0
    assert f"Write-protected output files for rule draw_{NAME}" in done.stdout
    clone.preset = "smoke"
    other = clone.snakemake()
    assert other.returncode != 0
    words = "results: a run must write here and cannot"
    assert re.search(rf"{words} \((Read-only file system|Permission)", other.stdout)
    no_traceback(done.stdout + other.stdout)
    assert arrays(clone) == good


# Two at once


@pytest.mark.parametrize("preset", ["miniature", "twin"])
def test_a_second_run_is_refused_and_the_first_goes_on(clone, preset):
    """Also of another preset, since both would work on the arrays that they share."""
    good = arrays(clone)
    shutil.rmtree(clone.results)
    (clone.folder / "config/presets/twin.yaml").write_text(yaml.safe_dump(MINIATURE))
    first = clone.start()
    wait_until(lambda: any(clone.results.glob("cache/data/*.h5")), first)
    os.killpg(first.pid, signal.SIGSTOP)  # or it might end before the other looks
    other = Clone(clone.folder)
    other.preset = preset
    second = other.snakemake()
    os.killpg(first.pid, signal.SIGCONT)
    assert second.returncode != 0
    assert f"process {first.pid} on " in second.stdout
    no_traceback(second.stdout)
    said, _ = first.communicate(timeout=240)
    assert first.returncode == 0, said
    assert arrays(clone) == good
    assert verify(clone)[0] == []


def test_a_killed_run_does_not_stand_in_the_way_of_the_next(clone):
    good = arrays(clone)
    shutil.rmtree(clone.results)
    clone.kill_when(lambda: (clone.results / lease.RECORD).exists())
    clone.build()
    assert arrays(clone) == good
