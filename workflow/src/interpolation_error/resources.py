"""What a job needs of the machine, from the sizes that its specification names."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

from interpolation_error.plan import FigurePlan, Plan, Simulation
from interpolation_error.setting import Setting
from interpolation_error.simulation import FEW, peak_memory

BASE_MEMORY = 400
"""Megabytes of a job that holds no large array: the interpreter and its imports."""
FLOAT = 8

# Seconds, measured on one thread of a machine of 2024 and rounded up; a cost is an
# estimate within a factor of two, as benchmarks/README.md says.
START = 1.0
"""Of a job, before it computes: the interpreter and its imports."""
DRAWING = 4.0
"""Of a job that makes a figure's table, or its pictures, or the verdicts."""
RATE = 3e10
"""Floating-point operations a second in a product of matrices."""
ENTRY = 1.2e-8
"""Of one entry of a nonlinearity, with what is read and written around it."""
DECOMPOSITION = 8e9
"""Operations a second where a matrix is decomposed."""

SHORT = 30.0
"""Seconds below which a job is worth sharing its place on a cluster with others."""
SUBMITTED = 500
"""Megabytes of the two Snakemakes that a cluster runs around every job."""
STARTING = 120.0
"""Seconds that they, and Python, may take to start from a slow file system."""
MARGIN = 3.0
"""How many times longer than estimated a job on a cluster may take."""


def memory_request(megabytes: float, attempt: int = 1, submitted: bool = False) -> int:
    """Return the megabytes to ask for, more on every attempt.

    Parameters
    ----------
    megabytes : float
        What the job itself needs.
    attempt : int
        1, or more after a job had too little.
    submitted : bool
        Whether a cluster runs it, inside of Snakemakes of its own.

    Examples
    --------
    >>> memory_request(400), memory_request(400, 2, submitted=True)
    (400, 1800)
    """
    return attempt * math.ceil(megabytes + (SUBMITTED if submitted else 0))


def minutes_request(seconds: float, attempt: int = 1) -> int:
    """Return the minutes to ask for, more on every attempt.

    Examples
    --------
    >>> minutes_request(1), minutes_request(3600), minutes_request(3600, 2)
    (3, 182, 364)
    """
    return attempt * math.ceil((STARTING + MARGIN * seconds) / 60)


def dataset_memory(spec: dict[str, Any]) -> int:
    """Return the megabytes that drawing a dataset needs."""
    size = FLOAT * spec["tokens"] * spec["dimension"] * len(spec["replicates"])
    return BASE_MEMORY + _megabytes(size)


def simulation_memory(simulation: Simulation) -> int:
    """Return the megabytes that simulating a block of draws of a curve needs.

    The whole dataset is read, so that its checksum can be verified; one draw is
    worked on at a time.
    """
    measure = simulation.curve.measure
    largest = max(_working_memory(setting, measure) for setting in simulation.curve)
    return dataset_memory(simulation.dataset.spec) + _megabytes(largest)


def dataset_seconds(spec: dict[str, Any]) -> float:
    """Return about how long drawing a dataset takes on one core."""
    entries: int = spec["tokens"] * spec["dimension"] * len(spec["replicates"])
    return START + ENTRY * 2 * entries


def simulation_seconds(simulation: Simulation) -> float:
    """Return about how long simulating a block of draws of a curve takes on one core.

    Points that differ in gamma alone are solved together.
    """
    curve = simulation.curve
    penalties: dict[Setting, int] = {}
    for setting in curve:
        alike = dataclasses.replace(setting, gamma=1.0)
        penalties[alike] = penalties.get(alike, 0) + 1
    draws = len(simulation.item.spec["replicates"])
    each = sum(_seconds(one, n, curve.measure) for one, n in penalties.items())
    return START + draws * each


def theory_seconds(figure: FigurePlan) -> float:
    """Return about how long predicting all curves of a figure takes on one core."""
    return 3 * START + sum(
        _finite_size_seconds(setting)
        for curve in figure.predicted_at_finite_size()
        for setting in curve
    )


class Cost(NamedTuple):
    """What a stage of a run takes: jobs, core-seconds, and megabytes.

    ``memory`` is that of its largest job, ``disk`` that of all its arrays.
    """

    jobs: int
    seconds: float
    memory: int
    disk: float


def costs(plan: Plan) -> dict[str, Cost]:
    """Return about what each stage of a run takes from nothing.

    Parameters
    ----------
    plan : Plan
        The run.

    Returns
    -------
    dict of str to Cost
        By stage: data, simulation, theory, and figures with their tables and verdicts.
    """
    datasets = [item.spec for item in plan.datasets().values()]
    simulations = list(plan.simulations().values())
    figures = len(plan.figures)
    entries = sum(
        spec["tokens"] * spec["dimension"] * len(spec["replicates"])
        for spec in datasets
    )
    return {
        "data": Cost(
            len(datasets),
            sum(map(dataset_seconds, datasets)),
            max(map(dataset_memory, datasets), default=0),
            FLOAT * entries / 2**20,
        ),
        "simulation": Cost(
            len(simulations),
            sum(map(simulation_seconds, simulations)),
            max(map(simulation_memory, simulations), default=0),
            # A small file each, whatever it holds.
            0.01 * len(simulations),
        ),
        "theory": Cost(
            figures,
            sum(map(theory_seconds, plan.figures.values())),
            BASE_MEMORY,
            0.1 * figures,
        ),
        "figures": Cost(
            2 * figures + 1, 2 * DRAWING * figures, BASE_MEMORY, 2.0 * figures
        ),
    }


def _finite_size_seconds(setting: Setting) -> float:
    """Return about how long one prediction at finite size takes, by its coordinates."""
    weights = setting.weights
    if weights is None or weights.key.alignment == 1:
        return 0.05
    return 0.3 if weights.query is None else 0.7


def _seconds(setting: Setting, penalties: int, measure: str) -> float:
    """Return about how long one setting takes on one draw."""
    n, p = setting.tokens, setting.dimension
    if measure == "linearization":
        # Two attention matrices, each with a nonlinearity, and two norms by iteration.
        return 2 * p * n**2 / RATE + n**2 * (4 * ENTRY + 100e-9)
    heads = 0 if setting.estimator == "regression" else setting.heads.number
    features = max(heads, 1) * p
    small, large = sorted((features, n))
    whole = heads > 1 or setting.estimator == "softmax" or measure != "error"
    if p < n or whole:
        products = heads * 3 * p * n**2 + small**2 * large
    else:  # the Gram matrix of the tokens takes the place of the tokens
        products = small**2 * large + (3 * n**3 if heads else 0)
    pairs = heads * n**2 * (1 if whole or p >= n else 0.5) * ENTRY
    if measure == "error" and penalties <= FEW:
        decomposition = penalties * small**3 / 3 / RATE
    else:
        decomposition = 4 / 3 * small**3 / DECOMPOSITION
    return products / RATE + pairs + decomposition + 5e-9 * n * features


def _working_memory(setting: Setting, measure: str) -> int:
    """Return the bytes that one setting needs beside its dataset."""
    n, p, heads = setting.tokens, setting.dimension, setting.heads.number
    if measure == "linearization":
        return FLOAT * (6 * n**2 + 3 * n * p)
    memory = peak_memory(n, p * heads)
    if setting.estimator == "softmax":
        memory += FLOAT * 4 * n**2
    elif measure != "error" or heads > 1:
        # The attention output stands beside its Gram matrix.
        memory += FLOAT * (heads + 2) * n * p
    return memory


def _megabytes(size: float) -> int:
    return int(1.1 * size / 2**20) + 1
