"""What a run is said to cost, and that the paper preset stays within its budget."""

from pathlib import Path

import pytest

from interpolation_error import configuration, plan, resources
from interpolation_error.store import file_digest

ROOT = Path(__file__).parents[1]
BUDGET = 6000
"""Core-seconds of the paper preset from nothing."""


def planned(preset):
    config = configuration.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": preset}, ROOT, "config")
    return plan.Plan(loaded, file_digest(ROOT / "figures/paper.mplstyle"))


def test_the_paper_preset_is_within_its_budget():
    costs = resources.costs(planned("paper"))
    assert sum(cost.seconds for cost in costs.values()) <= BUDGET


def test_costs_are_those_of_every_job():
    run = planned("smoke")
    costs = resources.costs(run)
    assert costs["data"].jobs == len(run.datasets())
    assert costs["simulation"].jobs == len(run.simulations())
    (dataset,) = run.datasets().values()
    n, p = dataset.spec["tokens"], dataset.spec["dimension"]
    draws = len(dataset.spec["replicates"])
    assert costs["data"].disk == 8 * n * p * draws / 2**20
    assert costs["theory"].seconds > costs["theory"].jobs * resources.START


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


@pytest.mark.parametrize("preset", ["smoke", "quick", "paper", "large"])
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


@pytest.mark.parametrize("preset", ["quick", "large"])
def test_every_job_has_memory_and_time(preset):
    for simulation in planned(preset).simulations().values():
        assert resources.simulation_memory(simulation) > resources.BASE_MEMORY
        assert resources.simulation_seconds(simulation) > resources.START


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
