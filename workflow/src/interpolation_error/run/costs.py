"""What a run costs: estimates, and what the jobs that ran said of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from interpolation_error.run import resources
from interpolation_error.run.plan import Plan

SMALL_FILE = 0.01
"""Megabytes of an array of numbers that are shown."""


class Job(NamedTuple):
    """What one job of a run is expected to take: seconds, and megabytes.

    ``array`` is the path of what it caches, below the results folder; tables, pictures
    and verdicts are not cached.
    """

    stage: str
    array: str | None
    seconds: float
    memory: int
    disk: float


def jobs(plan: Plan) -> Iterator[Job]:
    """Yield every job of a run from nothing.

    Parameters
    ----------
    plan : Plan
        The run.

    Yields
    ------
    Job
    """
    for dataset in plan.datasets().values():
        spec = dataset.spec
        yield Job(
            *("data", dataset.cached, resources.dataset_seconds(spec)),
            *(resources.dataset_memory(spec), resources.dataset_size(spec) / 2**20),
        )
    for simulation in plan.simulations().values():
        seconds = resources.simulation_seconds(simulation)
        memory = resources.simulation_memory(simulation)
        yield Job("simulation", simulation.item.cached, seconds, memory, SMALL_FILE)
    memory = resources.BASE_MEMORY
    for figure in plan.figures.values():
        seconds = resources.theory_seconds(figure)
        yield Job("theory", figure.theory.cached, seconds, memory, 0.1)
        yield Job("figures", None, resources.DRAWING, memory, 0.5)  # its table
        yield Job("figures", None, resources.DRAWING, memory, 1.5)  # its pictures
    for study in plan.studies.values():
        for part in study.parts:
            items = (part.simulation, part.theory)
            each = zip(items, resources.study_seconds(part), strict=True)
            largest = resources.study_memory(part)
            for item, seconds in each:
                if item is not None:
                    yield Job("studies", item.cached, seconds, largest, SMALL_FILE)
        yield Job("figures", None, resources.DRAWING, memory, 1.0)  # its tables
        yield Job("figures", None, resources.DRAWING, memory, 2.0)  # its pictures
    yield Job("figures", None, resources.DRAWING, memory, SMALL_FILE)  # the verdicts


class Cost(NamedTuple):
    """What a stage of a run takes: jobs, core-seconds, and megabytes.

    ``memory`` is that of its largest job, ``disk`` that of all its files.
    """

    jobs: int
    seconds: float
    memory: int
    disk: float


def by_stage(jobs: Iterable[Job]) -> dict[str, Cost]:
    """Return what jobs take together, stage by stage.

    Examples
    --------
    >>> one = Job("data", None, seconds=2.0, memory=400, disk=1.0)
    >>> by_stage([one, one._replace(memory=500)])
    {'data': Cost(jobs=2, seconds=4.0, memory=500, disk=2.0)}
    """
    found: dict[str, Cost] = {}
    for job in jobs:
        cost = found.get(job.stage, Cost(0, 0.0, 0, 0.0))
        found[job.stage] = Cost(
            cost.jobs + 1,
            cost.seconds + job.seconds,
            max(cost.memory, job.memory),
            cost.disk + job.disk,
        )
    return found


def measured(jobs: Iterable[Job], results: Path) -> Iterator[tuple[Job, Job]]:
    """Yield each job that has run, as expected and as its sidecar says it was.

    Parameters
    ----------
    jobs : iterable of Job
        Expected.
    results : Path
        The results folder. A job whose array or sidecar is not there is left out.

    Yields
    ------
    expected, measured : Job

    Raises
    ------
    ValueError
        If a sidecar cannot be read; one line with its name.
    """
    for job in jobs:
        if job.array is None:
            continue
        array = results / job.array
        sidecar = array.with_suffix(".json")
        if not (array.is_file() and sidecar.is_file()):
            continue
        try:
            content = json.loads(sidecar.read_text("utf-8"))
            # Older sidecars know only what the clock on the wall said.
            seconds = float(content.get("cpu_seconds", content["seconds"]))
            memory = int(content["peak_memory_mb"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(
                f"{sidecar}: does not say what the job took ({error!r}); delete it"
            ) from None
        disk = array.stat().st_size / 2**20
        yield job, job._replace(seconds=seconds, memory=memory, disk=disk)
