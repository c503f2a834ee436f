"""What a run is said to cost, and what it took by the sidecars of its arrays."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, costs, plan, resources

ROOT = Path(__file__).parents[2]


def planned(preset="smoke"):
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": preset}, ROOT, "config")
    return plan.Plan(loaded, "")


def ran(results, job, **sidecar):
    """Pretend that a job ran and left an array of a megabyte with a sidecar."""
    array = results / job.array
    array.parent.mkdir(parents=True, exist_ok=True)
    array.write_bytes(bytes(2**20))
    content = {"seconds": 9.0, "cpu_seconds": 4.0, "peak_memory_mb": 100, **sidecar}
    array.with_suffix(".json").write_text(json.dumps(content))


def test_costs_are_those_of_every_job():
    run = planned()
    stages = costs.by_stage(costs.jobs(run))
    assert list(stages) == ["data", "simulation", "theory", "figures"]
    assert stages["data"].jobs == len(run.datasets())
    assert stages["simulation"].jobs == len(run.simulations())
    assert stages["figures"].jobs == 2 * len(run.figures) + 1
    (dataset,) = run.datasets().values()
    n, p = dataset.spec["tokens"], dataset.spec["dimension"]
    draws = len(dataset.spec["replicates"])
    assert stages["data"].disk == 8 * n * p * draws / 2**20
    assert stages["theory"].seconds > stages["theory"].jobs * resources.START
    arrays = [job.array for job in costs.jobs(run) if job.array]
    assert sorted(arrays) == sorted(run.arrays())


@pytest.mark.parametrize("preset", ["quick", "paper", "large"])
def test_the_documents_say_what_a_preset_costs(preset):
    all_jobs = list(costs.jobs(planned(preset)))
    seconds = sum(job.seconds for job in all_jobs)
    largest = max(job.memory for job in all_jobs) / 1000
    disk = sum(job.disk for job in all_jobs) / 1000
    hours = f"{float(f'{seconds / 3600:.2g}'):g}"
    row = (
        f"| `{preset}` | {len(all_jobs)} | {hours} | {largest:.1f} GB | {disk:.1f} GB |"
    )
    assert row in (ROOT / "docs/cluster.md").read_text()


def test_measured_jobs_are_those_with_array_and_sidecar(tmp_path):
    jobs = list(costs.jobs(planned()))
    assert list(costs.measured(jobs, tmp_path)) == []
    first, second, third, *_ = jobs
    ran(tmp_path, first, cpu_seconds=3.5)
    ran(tmp_path, second)
    ran(tmp_path, third)
    (tmp_path / second.array).unlink()
    (tmp_path / third.array).with_suffix(".json").unlink()
    ((expected, took),) = costs.measured(jobs, tmp_path)
    assert expected == first
    assert took == costs.Job(first.stage, first.array, 3.5, 100, 1.0)


def test_a_sidecar_without_processor_time_counts_by_the_clock(tmp_path):
    job = next(costs.jobs(planned()))
    ran(tmp_path, job)
    sidecar = (tmp_path / job.array).with_suffix(".json")
    content = json.loads(sidecar.read_text())
    del content["cpu_seconds"]
    sidecar.write_text(json.dumps(content))
    ((_, took),) = costs.measured([job], tmp_path)
    assert took.seconds == 9.0


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"seconds": 1.0}', '{"seconds": {}}']
)
def test_a_spoilt_sidecar_is_named_in_one_line(tmp_path, text):
    job = next(costs.jobs(planned()))
    ran(tmp_path, job)
    sidecar = (tmp_path / job.array).with_suffix(".json")
    sidecar.write_text(text)
    with pytest.raises(ValueError, match="does not say what the job took") as caught:
        list(costs.measured([job], tmp_path))
    assert str(caught.value).startswith(f"{sidecar}: ")
    assert "\n" not in str(caught.value)


@pytest.fixture
def clone(tmp_path):
    """What `make cost` reads of a clone, with its results in another folder."""
    for name in ("config", "figures", "workflow"):
        shutil.copytree(ROOT / name, tmp_path / "clone" / name)
    path = tmp_path / "clone/config/config.yaml"
    config = checked_yaml.read_yaml(path, path.parent)
    config["results"] = str(tmp_path / "results")
    path.write_text(yaml.safe_dump(config))
    return tmp_path / "clone"


def cost(clone):
    """Run the script and return its rows by their first word, a table after another."""
    done = subprocess.run(
        [sys.executable, "workflow/scripts/cost.py", "--preset", "smoke"],
        cwd=clone,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if line]
    return [row for row in rows if row[0] in ("data", "simulation", "all")]


def test_the_ratio_to_a_run_is_shown_where_there_is_one(clone, tmp_path):
    data, simulation, total = cost(clone)
    assert len(data) == len(total) == 5
    jobs = [job for job in costs.jobs(planned()) if job.array]
    for job in jobs:
        # Half of what is expected, exactly.
        ran(tmp_path / "results", job, cpu_seconds=job.seconds / 2)
    before, after = cost(clone)[:3], cost(clone)[3:]
    assert before == [data, simulation, total]
    assert [row[-1] for row in after] == ["2.00"] * 3
    assert [int(row[1]) for row in after] == [1, int(simulation[1]), len(jobs)]
