"""What a job needs of the machine, from the sizes that its specification names."""

from __future__ import annotations

from typing import Any

from interpolation_error.plan import Simulation
from interpolation_error.simulation import peak_memory

BASE_MEMORY = 400
"""Megabytes of a job that holds no large array: the interpreter and its imports."""
FLOAT = 8


def dataset_memory(spec: dict[str, Any]) -> int:
    """Return the megabytes that drawing a dataset needs."""
    size = FLOAT * spec["tokens"] * spec["dimension"] * len(spec["replicates"])
    return BASE_MEMORY + _megabytes(size)


def simulation_memory(simulation: Simulation) -> int:
    """Return the megabytes that simulating a block of draws of a curve needs.

    The whole dataset is read, so that its checksum can be verified; one draw is
    worked on at a time.
    """
    largest = max(
        peak_memory(setting.tokens, setting.dimension) for setting in simulation.curve
    )
    return dataset_memory(simulation.dataset.spec) + _megabytes(largest)


def _megabytes(size: float) -> int:
    return int(1.1 * size / 2**20) + 1
