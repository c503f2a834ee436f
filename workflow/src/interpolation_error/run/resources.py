"""What a job needs of the machine, from the sizes that its specification names."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from interpolation_error.model.setting import Setting
from interpolation_error.model.study import DIRECTIONS, WORDS, tokens_at
from interpolation_error.run.plan import FigurePlan, Simulation, StudyPart
from interpolation_error.simulation.attention import peak_memory
from interpolation_error.simulation.probe import FEW
from interpolation_error.theory.at_finite_size import FARTHEST

BASE_MEMORY = 400
"""Megabytes of a job that holds no large array: the interpreter and its imports."""
FLOAT = 8

# Seconds, measured on one thread of a machine of 2024 and rounded up; a cost is an
# estimate within a factor of two, as benchmarks/README.md says.
START = 0.5
"""Of a job, before it computes: the interpreter and its imports."""
DRAWING = 4.0
"""Of a job that makes a figure's table, or its pictures, or the verdicts."""
RATE = 3e10
"""Floating-point operations a second in a product of matrices."""
DRAW = 2.4e-8
"""Of one entry of a dataset."""
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

    Returns
    -------
    int

    Examples
    --------
    >>> memory_request(400), memory_request(400, 2, submitted=True)
    (400, 1800)
    """
    return attempt * math.ceil(megabytes + (SUBMITTED if submitted else 0))


def minutes_request(seconds: float, attempt: int = 1) -> int:
    """Return the minutes to ask for, more on every attempt.

    Parameters
    ----------
    seconds : float
        What the job is expected to take.
    attempt : int
        1, or more after a job had too little.

    Returns
    -------
    int

    Examples
    --------
    >>> minutes_request(1), minutes_request(3600), minutes_request(3600, 2)
    (3, 182, 364)
    """
    return attempt * math.ceil((STARTING + MARGIN * seconds) / 60)


def dataset_size(spec: dict[str, Any]) -> int:
    """Return the bytes of a dataset.

    Parameters
    ----------
    spec : dict
        With ``tokens``, ``dimension`` and ``replicates``.

    Returns
    -------
    int

    Examples
    --------
    >>> spec = {"tokens": 1000, "dimension": 500, "replicates": [0, 1]}
    >>> dataset_size(spec)
    8000000
    """
    size: int = FLOAT * spec["tokens"] * spec["dimension"] * len(spec["replicates"])
    return size


def dataset_memory(spec: dict[str, Any]) -> int:
    """Return the megabytes that drawing a dataset needs: one draw stands beside it.

    Parameters
    ----------
    spec : dict
        With ``tokens``, ``dimension`` and ``replicates``.

    Returns
    -------
    int

    Examples
    --------
    >>> spec = {"tokens": 1000, "dimension": 500, "replicates": [0, 1]}
    >>> dataset_memory(spec)
    413
    """
    size = dataset_size(spec)
    return BASE_MEMORY + _megabytes(size + size // len(spec["replicates"]))


def simulation_memory(simulation: Simulation) -> int:
    """Return the megabytes that simulating a block of draws of a curve needs.

    The whole dataset is read, so that its checksum can be verified; one draw is
    worked on at a time.

    Parameters
    ----------
    simulation : Simulation
        A curve, its draws and its dataset.

    Returns
    -------
    int

    Examples
    --------
    >>> from interpolation_error.model.curve import Curve
    >>> from interpolation_error.run.plan import Item
    >>> setting = Setting("regression", tokens=1000, dimension=500, snr=1.0, gamma=0.1)
    >>> curve = Curve(setting, "gamma", (0.1, 1.0))
    >>> spec = {"tokens": 1000, "dimension": 500, "replicates": [0, 1]}
    >>> item = Item("data", "noise", spec)
    >>> one = Simulation(item, item, curve)
    >>> simulation_memory(one) > BASE_MEMORY
    True
    """
    measure = simulation.curve.measure
    largest = max(_working_memory(setting, measure) for setting in simulation.curve)
    return BASE_MEMORY + _megabytes(dataset_size(simulation.dataset.spec) + largest)


def study_memory(part: StudyPart) -> int:
    """Return the megabytes that simulating or predicting a part of a study needs.

    The weights of the whole model, the noise of all draws, and for one draw scores,
    attention matrix and its working copies; or the blocks of a prediction.

    Parameters
    ----------
    part : StudyPart
        With its model, and its dataset if it has one.

    Returns
    -------
    int

    Examples
    --------
    >>> from interpolation_error.run.plan import Item
    >>> from interpolation_error.model.study import Model
    >>> model = Model("small", "small.safetensors", "0" * 64, "bert", 2, 4, 64)
    >>> theory = Item("theory", "description", {"part": "description"})
    >>> part = StudyPart("description", model, None, theory)
    >>> study_memory(part)
    402
    """
    model = part.model
    p = model.dimension
    weights = FLOAT * 8 * model.layers * p**2
    if part.dataset is None:
        return BASE_MEMORY + _megabytes(weights + FLOAT * 20 * p**2)
    n = part.dataset.spec["tokens"]
    working = FLOAT * (5 * n**2 + 4 * n * p + 20 * p**2)
    return dataset_memory(part.dataset.spec) + _megabytes(weights + working)


def study_seconds(part: StudyPart) -> tuple[float, float]:
    """Return about how long simulating and predicting a part of a study take.

    A prediction decomposes p by p matrices, a head at a time.

    Parameters
    ----------
    part : StudyPart
        With its model, and its dataset if it has one.

    Returns
    -------
    simulation, theory : float
        Seconds, start of the job included; without a simulation its number is 0.

    Examples
    --------
    >>> from interpolation_error.run.plan import Item
    >>> from interpolation_error.model.study import Model
    >>> model = Model("small", "small.safetensors", "0" * 64, "bert", 2, 4, 64)
    >>> theory = Item("theory", "description", {"part": "description"})
    >>> part = StudyPart("description", model, None, theory)
    >>> simulated, predicted = study_seconds(part)
    >>> simulated, predicted > START
    (0.0, True)
    """
    model, spec = part.model, part.theory.spec
    p, scale = model.dimension, (model.dimension / 384) ** 2
    every = model.layers * model.heads
    match spec["part"]:
        case "description":
            return 0.0, START + 0.05 * every * scale
        case "heads":
            n = tokens_at(p, spec["aspect_ratio"])
            points = model.heads * len(DIRECTIONS) * len(spec["replicates"])
            simulated = points * _any_weights_seconds(n, p)
            predicted = 0.5 * model.heads * scale
        case "sweeps":
            n = tokens_at(p, spec["aspect_ratio"])
            points = len(DIRECTIONS) * (1 + len(spec["signals"]))
            # A head, and two stand-ins whose products with the tokens are p by p.
            each = 3 * _any_weights_seconds(n, p) + 8 * p**2 * n / RATE
            simulated = points * len(spec["replicates"]) * each
            predicted = 12.0 + 5 * scale
        case _:
            sizes = [tokens_at(p, ratio) for ratio in spec["aspect_ratios"]]
            each = sum(_any_weights_seconds(n, p) for n in sizes)
            draws = len(WORDS) * len(spec["replicates"])
            simulated = draws * every * each
            predicted = 0.2 * every * scale
    return START + simulated, START + predicted


def _any_weights_seconds(n: int, p: int) -> float:
    """Return about how long one error with any attention weights takes."""
    small, large = sorted((n, p))
    return n**2 * ENTRY + (2 * p * n**2 + small**2 * large) / RATE


def dataset_seconds(spec: dict[str, Any]) -> float:
    """Return about how long drawing a dataset takes on one core.

    Parameters
    ----------
    spec : dict
        With ``tokens``, ``dimension`` and ``replicates``.

    Returns
    -------
    float
        Seconds, start of the job included.

    Examples
    --------
    >>> spec = {"tokens": 1000, "dimension": 500, "replicates": [0, 1]}
    >>> round(dataset_seconds(spec), 3)
    0.524
    """
    return START + DRAW * dataset_size(spec) / FLOAT


def simulation_seconds(simulation: Simulation) -> float:
    """Return about how long simulating a block of draws of a curve takes on one core.

    Points that differ in gamma alone are solved together.

    Parameters
    ----------
    simulation : Simulation
        A curve, its draws and its dataset.

    Returns
    -------
    float
        Seconds, start of the job included.

    Examples
    --------
    >>> from interpolation_error.model.curve import Curve
    >>> from interpolation_error.run.plan import Item
    >>> setting = Setting("regression", tokens=1000, dimension=500, snr=1.0, gamma=0.1)
    >>> curve = Curve(setting, "gamma", (0.1, 1.0))
    >>> spec = {"tokens": 1000, "dimension": 500, "replicates": [0, 1]}
    >>> item = Item("data", "noise", spec)
    >>> one = Simulation(item, item, curve)
    >>> simulation_seconds(one) > START
    True
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
    """Return about how long predicting all curves of a figure takes on one core.

    Limits take next to no time; what counts is the theory at finite size.

    Parameters
    ----------
    figure : FigurePlan
        With the curves that are predicted at finite size.

    Returns
    -------
    float
        Seconds, start of the job included.
    """
    return START + sum(
        _finite_size_seconds(setting)
        for curve in figure.predicted_at_finite_size()
        for setting in curve
    )


def _finite_size_seconds(setting: Setting) -> float:
    """Return about how long one prediction at finite size takes.

    By the coordinates that signal and weights span, and by the signal's share of a
    score, which asks for more nodes.
    """
    weights, snr = setting.weights, setting.snr
    lengths, coordinates = 0.0, 1
    if weights is not None:
        query = weights.query or weights.key
        lengths = weights.key.length(snr) * query.length(snr)
        coordinates += (weights.key.alignment != 1) + (weights.query is not None)
    # Of a type two standard deviations off the mean.
    share = (math.sqrt(snr) + 2) ** 2 * (1 + lengths) / math.sqrt(setting.dimension)
    seconds = (0.03, 0.1, 0.4)[coordinates - 1]
    if share > FARTHEST:
        return seconds  # it is refused
    return seconds * min(max(share / 2, 1.0), 60.0)


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
