"""Recompute a random part of a run from its seeds, and hold it against the arrays."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.audit import study_audit
from interpolation_error.audit.agreement import (
    NO_DENSITY,
    OTHER,
    SAME,
    bin_unit,
    difference,
)
from interpolation_error.figures.prediction import predict_line
from interpolation_error.model import data, tokens_file
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import TokensFile
from interpolation_error.run.plan import FigurePlan, Item, Simulation, StudyPlan
from interpolation_error.simulation.experiment import simulate_curve

Array = NDArray[np.float64]
STUDIES = "parts of studies, recomputed"
"""What a report calls them; those that lack their weights are faults of it."""


class Unit(NamedTuple):
    """What is recomputed at once: one simulated curve on one draw, or one prediction.

    Points of a curve that share a matrix are solved together, and in another company
    they would be rounded otherwise, so that no less than a curve can be held against
    an array bit by bit.

    Parameters
    ----------
    array : str
        The cached file, below the results folder.
    title : str
        Which part of it, in words.
    compute : callable
        Computes the part again and returns its numbers by name.
    part : callable
        Gives the stored numbers of a name, from all arrays of the file.
    rounding : float
        A difference that counts as rounding whatever the size of a number.
    """

    array: str
    title: str
    compute: Callable[[], Mapping[str, Array]]
    part: Callable[[Mapping[str, Array], str], Array]
    rounding: float = 0.0


def share(text: str) -> float:
    """Return a share that is written as a percentage.

    Parameters
    ----------
    text : str
        Such as ``"5%"``.

    Returns
    -------
    float
        Above 0 and up to 1.

    Raises
    ------
    ValueError
        If it is no such share; one line.

    Examples
    --------
    >>> share("5%")
    0.05
    >>> share("x%")
    Traceback (most recent call last):
        ...
    ValueError: recompute must be a percentage above 0% and up to 100%, such as 5%, \
got 'x%'
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", text.strip())
    value = float(found[1]) / 100 if found else math.nan
    if not 0 < value <= 1:
        raise ValueError(
            "recompute must be a percentage above 0% and up to 100%, such as 5%, "
            f"got {text!r}"
        )
    return value


def units(figures: Sequence[FigurePlan | StudyPlan]) -> dict[str, list[Unit]]:
    """Return all that could be recomputed of some figures, by what it is.

    Parameters
    ----------
    figures : sequence of FigurePlan or StudyPlan
        Of a plan.

    Returns
    -------
    dict of str to list of Unit
        Simulated curves on a draw, predictions, and both of studies.
    """
    studies = [study for study in figures if isinstance(study, StudyPlan)]
    swept = [figure for figure in figures if isinstance(figure, FigurePlan)]
    simulations = {
        simulation.item.cached: simulation
        for figure in swept
        for simulation in figure.simulations
    }
    return {
        "curves on a draw, recomputed": [
            unit
            for simulation in simulations.values()
            for unit in _simulated(simulation)
        ],
        "predictions, recomputed": [
            unit for figure in swept for unit in _predicted(figure.theory)
        ],
        STUDIES: [
            _of_study(again) for study in studies for again in study_audit.again(study)
        ],
    }


def _of_study(again: study_audit.Again) -> Unit:
    def part(stored: Mapping[str, Array], name: str) -> Array:
        return stored[name] if again.place is None else stored[name][again.place]

    return Unit(again.array, again.title, again.compute, part)


def _simulated(simulation: Simulation) -> Iterator[Unit]:
    """Yield every draw of a simulated curve."""
    item = simulation.item
    curve = Curve.from_spec(item.spec["curve"])
    for place, replicate in enumerate(item.spec["replicates"]):

        def compute(place: int = place, replicate: int = replicate) -> dict[str, Array]:
            drawn = draws(simulation, place)
            seed = item.spec["seed"]
            again = simulate_curve(curve, drawn, seed=seed, replicates=[replicate])
            return {name: values[0] for name, values in again.items()}

        def part(stored: Mapping[str, Array], name: str, place: int = place) -> Array:
            drawn: Array = stored[name][place]
            return drawn

        yield Unit(item.cached, f"draw {replicate}", compute, part, bin_unit(curve))


def _predicted(theory: Item) -> Iterator[Unit]:
    """Yield every prediction of a figure."""
    for title, asked in theory.spec["curves"].items():
        curve = Curve.from_spec(asked["curve"])
        compute = partial(
            predict_line,
            *(curve, asked["x_scale"], asked["row_scale"]),
            finite_size=asked["finite_size"],
        )

        def part(stored: Mapping[str, Array], name: str, title: str = title) -> Array:
            return stored[f"{title}/{name}"]

        small = NO_DENSITY if curve.measure == "spectrum" else 0.0
        yield Unit(theory.cached, f"the prediction {title}", compute, part, small)


def sample(found: Sequence[Unit], part: float, seed: int) -> list[Unit]:
    """Return a random part of what could be recomputed, at least one.

    Parameters
    ----------
    found : sequence of Unit
        All.
    part : float
        Above 0 and up to 1.
    seed : int
        The same seed takes the same part.

    Returns
    -------
    list of Unit
        In the order of ``found``, so that files are read one after another.
    """
    count = min(len(found), math.ceil(part * len(found)))
    chosen = random.Random(seed).sample(range(len(found)), count)
    return [found[place] for place in sorted(chosen)]


def draws(simulation: Simulation, place: int) -> dict[str, Array]:
    """Return one of a simulation's draws, drawn again from its seed and not read.

    Parameters
    ----------
    simulation : Simulation
        Names its dataset.
    place : int
        Which of the dataset's draws.

    Returns
    -------
    dict of str to ndarray
        As :func:`interpolation_error.simulation.experiment.simulate_curve` takes them,
        the first axis of length one.
    """
    spec = simulation.dataset.spec
    replicate = spec["replicates"][place]
    if "source" in spec:
        drawn = tokens_file.draw(
            TokensFile(**spec["source"]),
            spec["tokens"],
            seed=spec["seed"],
            replicates=[replicate],
        )
        # As a file holds them: BLAS rounds a transposed matrix differently.
        return {name: np.ascontiguousarray(values) for name, values in drawn.items()}
    size = spec["dimension"], spec["tokens"]
    noise = data.noise(spec["seed"], replicate, *size, **spec.get("noise", {}))
    return {"noise": noise[None]}


def fault(unit: Unit, stored: Mapping[str, Array], exact: bool) -> str:
    """Return what differs between stored numbers and the same computed again.

    Parameters
    ----------
    unit : Unit
        What to compute.
    stored : mapping of str to ndarray
        The arrays of its file.
    exact : bool
        Whether every bit must be the same, as it is on one processor type; otherwise
        numbers may differ by rounding, as
        :mod:`interpolation_error.audit.agreement` says.

    Returns
    -------
    str
        Empty if nothing does.
    """
    words = []
    for name, again in unit.compute().items():
        apart = difference(again, unit.part(stored, name), unit.rounding)
        if apart.outcome == OTHER or (exact and apart.outcome != SAME):
            words.append(
                f"{unit.title} computed again from its seed gives another {name} "
                f"({apart})"
            )
    return "; ".join(words)
