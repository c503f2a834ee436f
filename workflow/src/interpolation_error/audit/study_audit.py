"""What an audit asks of a study: shapes of its arrays, and its parts computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.figures import study_prediction
from interpolation_error.model import data
from interpolation_error.model.study import DIRECTIONS, THEORIES, WEIGHTS, WORDS
from interpolation_error.run import study_parts
from interpolation_error.run.plan import StudyPart, StudyPlan

Array = NDArray[np.float64]
ANY = -1
"""A length that depends on the transformer, which a specification knows by its hash."""
DESCRIBED = (
    *("norm", "singular_values", "trace", "trace_share", "symmetric_share"),
    *("ranks", "tau", "left", "left_by_low_rank"),
)


def simulated_shapes(spec: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    """Return the arrays that a simulated part must hold, by shape.

    Parameters
    ----------
    spec : mapping
        Its specification.

    Returns
    -------
    dict of str to tuple of int
        With :data:`ANY` for a length that depends on the transformer.
    """
    draws = len(spec["replicates"])
    match spec["part"]:
        case "heads":
            return {"error": (draws, spec["model"]["heads"], len(DIRECTIONS))}
        case "sweeps":
            shape = draws, len(WEIGHTS), len(DIRECTIONS)
            return {
                "against_gamma": (*shape, len(spec["penalties"])),
                "against_snr": (*shape, len(spec["signals"])),
            }
        case _:
            ratios = len(spec["aspect_ratios"])
            return {"error": (draws, len(WORDS), ratios, ANY)}


def predicted_shapes(spec: Mapping[str, Any]) -> dict[str, tuple[int, ...] | None]:
    """Return the arrays that a predicted part must hold, by shape.

    Parameters
    ----------
    spec : mapping
        Its specification.

    Returns
    -------
    dict of str to tuple of int or None
        None for any shape.
    """
    match spec["part"]:
        case "description":
            names = [f"{group}/{f}" for group in ("heads", "layers") for f in DESCRIBED]
            return {
                **dict.fromkeys(names),
                "eigenvalues": (ANY, spec["model"]["heads"], ANY),
                "representative": (2,),
            }
        case "heads":
            shape = spec["model"]["heads"], len(DIRECTIONS)
            return dict.fromkeys(THEORIES, shape)
        case "sweeps":
            found: dict[str, tuple[int, ...] | None] = {}
            for name, key in (("gamma", "penalties"), ("snr", "signals")):
                line = len(study_prediction.finer(spec[key]))
                found[name] = (line,)
                found[f"against_{name}"] = (len(WEIGHTS), len(DIRECTIONS), line)
                found[f"finite_size_against_{name}"] = (len(spec[key]),)
            return found
        case _:
            return {"predicted": (len(spec["aspect_ratios"]), ANY), "snr": ()}


class Again(NamedTuple):
    """A part of a study that can be computed again.

    Parameters
    ----------
    array : str
        The cached file, below the results folder.
    title : str
        Which draw of it, or that it is the prediction.
    place : int or None
        Which of the stored draws; None for a prediction.
    compute : callable
        Computes it and returns its numbers by name.
    """

    array: str
    title: str
    place: int | None
    compute: Callable[[], Mapping[str, Array]]


def without_files(study: StudyPlan) -> dict[str, tuple[str, str]]:
    """Return why parts of a study cannot be computed again, by the part's name.

    Parameters
    ----------
    study : StudyPlan
        Of a plan.

    Returns
    -------
    dict of str to (str, str)
        Of the parts whose files are missing or other ones: the file of the weights, and
        what is wrong with it or the vocabulary beside it, in one line that names no
        folder.
    """
    found = {}
    for part in study.parts:
        try:
            study_parts.check_files(part.theory.spec, Path(part.model.file))
        except ValueError as error:
            folder = f"{Path(part.model.file).parent}/"
            found[part.name] = part.model.file, str(error).replace(folder, "")
    return found


def again(study: StudyPlan) -> Iterator[Again]:
    """Yield all parts of a study that can be computed again, draw by draw.

    Parameters
    ----------
    study : StudyPlan
        Of a plan. Parts that :func:`without_files` names are left out.

    Yields
    ------
    Again
    """
    lost = without_files(study)
    for part in study.parts:
        if part.name in lost:
            continue
        yield Again(
            *(part.theory.cached, "the prediction", None),
            partial(study_parts.predict, part.theory.spec, Path(part.model.file)),
        )
        if part.simulation is None:
            continue
        for place, replicate in enumerate(part.simulation.spec["replicates"]):
            yield Again(
                *(part.simulation.cached, f"draw {replicate}", place),
                partial(_drawn, part, replicate),
            )


def _drawn(part: StudyPart, replicate: int) -> Mapping[str, Array]:
    """Return one draw, with noise from its seed."""
    spec = {**part.theory.spec, "replicates": [replicate]}
    noise = None
    if part.dataset is not None:
        n, p = part.dataset.spec["tokens"], part.dataset.spec["dimension"]
        noise = data.noise(spec["seed"], replicate, p, n)[None]
    found = study_parts.simulate(spec, Path(part.model.file), noise)
    return {name: values[0] for name, values in found.items()}
