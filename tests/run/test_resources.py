"""What a run is said to cost, and that the paper preset stays within its budget."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from interpolation_error.figures import checked_yaml
from interpolation_error.model.setting import Direction, Setting, Weights
from interpolation_error.run import configuration, costs, plan, resources
from interpolation_error.run.store import file_digest

ROOT = Path(__file__).parents[2]
BUDGET = 6000
"""Core-seconds of the paper preset from nothing."""


def planned(preset):
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": preset}, ROOT, "config")
    return plan.Plan(loaded, file_digest(ROOT / "figures/paper.mplstyle"))


def test_the_paper_preset_is_within_its_budget():
    assert sum(job.seconds for job in costs.jobs(planned("paper"))) <= BUDGET


def test_beyond_figures_1_and_2_sizes_are_small():
    for name, figure in planned("paper").figures.items():
        if name in ("linear_regression", "nonlinear_attention"):
            continue
        for simulation in figure.simulations:
            sizes = {(s.tokens, s.dimension) for s in simulation.curve}
            if name in ("finite_size", "linearization"):
                assert len(sizes) <= 4
                assert max(n for n, _ in sizes) <= 4800
            else:
                assert all(n * p <= 2**20 for n, p in sizes), name
                assert all(n <= 2048 for n, p in sizes if p < n), name
            assert len(simulation.item.spec["replicates"]) <= 10


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper", "large", "scaling"])
def test_specifications_fit_on_a_command_line(preset):
    """Linux takes 128 KiB in one argument, and a shell command is one."""
    run = planned(preset)
    items = [run.claims, *run.datasets().values()]
    items += [simulation.item for simulation in run.simulations().values()]
    for figure in run.figures.values():
        items += [figure.theory, figure.table, figure.picture]
    assert max(len(item.identity.spec) for item in items) < 100_000


def test_the_smoke_preset_has_at_most_twelve_jobs():
    run = planned("smoke")
    jobs = len(run.datasets()) + len(run.simulations()) + 3 * len(run.figures)
    assert jobs + 1 <= 12  # and the claims


@pytest.mark.parametrize("preset", ["quick", "large", "scaling"])
def test_every_job_has_memory_and_time(preset):
    for simulation in planned(preset).simulations().values():
        assert resources.simulation_memory(simulation) > resources.BASE_MEMORY
        assert resources.simulation_seconds(simulation) > resources.START


def test_the_large_preset_fits_a_common_node_and_lapacks_integers():
    """A matrix with 2**31 entries or more is too large for 32-bit BLAS and LAPACK."""
    run = planned("large")
    settings = [s for one in run.simulations().values() for s in one.curve]
    assert max(setting.tokens for setting in settings) == 32768
    assert all(s.tokens * s.dimension < 2**31 for s in settings)
    assert all(min(s.tokens, 2**16) ** 2 < 2**31 for s in settings)
    draws = {p.replicates for f in run.figures.values() for p in f.definition.panels}
    assert draws == {20}
    for name, figure in run.figures.items():
        for one in figure.simulations:
            # What is held for sure: a draw twice while it is drawn; then the draw, its
            # tokens and, for attention, their copy.
            n, p = one.dataset.spec["tokens"], one.dataset.spec["dimension"]
            assert resources.dataset_memory(one.dataset.spec) > 8 * n * p * 2 / 2**20
            largest = resources.simulation_memory(one)
            assert 8 * n * p * 3 / 2**20 < largest < 30_000, name


def test_drawing_a_dataset_stays_within_its_memory(tmp_path):
    """Of one draw and of several, by what the job itself says."""
    for replicates in ([0], [0, 1, 2]):
        spec = {"tokens": 4096, "dimension": 4096, "seed": 1, "replicates": replicates}
        made = plan.Item("data", f"draws{len(replicates)}", spec)
        output = tmp_path / made.cached
        script = ROOT / "workflow/scripts/generate_dataset.py"
        command = [sys.executable, script, "--spec", made.identity.spec]
        subprocess.run([*command, "--output", output], check=True)
        peak = json.loads(output.with_suffix(".json").read_text())["peak_memory_mb"]
        size = resources.dataset_size(spec) / 2**20
        # Not for the margin of a small job, which would hide a large one's lack.
        allowed = resources.dataset_memory(spec) - resources.BASE_MEMORY + 100
        assert size < peak < allowed


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system counts both")
def test_the_memory_of_a_job_is_not_that_of_who_started_it():
    scripts = ROOT / "workflow/scripts"
    job = f"import sys; sys.path[:0] = [{str(scripts)!r}]; import _job"
    job += "; print(_job.peak_memory())"
    large = (
        "import subprocess, sys; held = bytearray(2**29); held[::4096] = held[1::4096]"
    )
    large += f"; subprocess.run([sys.executable, '-c', {job!r}], check=True)"
    said = subprocess.run(
        [sys.executable, "-c", large], capture_output=True, text=True, check=True
    )
    assert 10 < int(said.stdout) < 400


@pytest.mark.parametrize(
    ("snr", "seconds"), [(1.0, (0.02, 0.2)), (100.0, (1, 4)), (1e6, (0, 0.1))]
)
def test_a_strong_signal_makes_a_prediction_at_finite_size_long(snr, seconds):
    """Up to where there is none; 1.6 seconds were measured at a signal of 100."""
    weights = Weights(Direction(norm="signal", alignment=1.0))
    setting = Setting("attention", 300, 100, snr, 0.1, "tanh", weights)
    least, most = seconds
    assert least <= resources._finite_size_seconds(setting) <= most


def test_requests_grow_with_every_attempt():
    attempts = (1, 2, 3)
    for request in (resources.memory_request, resources.minutes_request):
        first, second, third = (request(1000, attempt) for attempt in attempts)
        assert (second, third) == (2 * first, 3 * first)


def test_a_job_on_a_cluster_has_room_for_what_runs_around_it():
    alone = resources.memory_request(resources.BASE_MEMORY)
    submitted = resources.memory_request(resources.BASE_MEMORY, submitted=True)
    assert alone == resources.BASE_MEMORY
    assert submitted == alone + resources.SUBMITTED


@pytest.mark.parametrize("preset", ["smoke", "quick", "large"])
def test_time_asked_for_is_several_times_what_is_expected(preset):
    run = planned(preset)
    expected = [resources.theory_seconds(figure) for figure in run.figures.values()]
    expected += map(resources.simulation_seconds, run.simulations().values())
    for seconds in expected:
        assert 60 * resources.minutes_request(seconds) >= 3 * seconds + 120
