"""Compute a part of a study from its specification: what jobs and audits share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from interpolation_error.figures import study_prediction
from interpolation_error.model import pretrained, word_tokens
from interpolation_error.model.weights import AttentionWeights
from interpolation_error.run import download
from interpolation_error.simulation import study_simulation

Array = NDArray[np.float64]
REMEDY = "; remove it if it was fetched, then start the run again"


def check_files(spec: Mapping[str, Any], file: Path) -> None:
    """Refuse a part whose weights, or the vocabulary of its words, are not there.

    Parameters
    ----------
    spec, file
        As :func:`read_weights` takes them.

    Raises
    ------
    ValueError
        If one is missing or another one than the run was planned with; one line.
    """
    _check(file, spec["model"]["sha256"])
    if "vocabulary" in spec:
        _check(file.with_name("vocab.txt"), spec["vocabulary"])


def read_weights(spec: Mapping[str, Any], file: Path) -> AttentionWeights:
    """Return the weights of a part, if the file is the one that it names.

    Parameters
    ----------
    spec : mapping
        Specification of the part.
    file : Path
        Safetensors file of the model.

    Returns
    -------
    AttentionWeights

    Raises
    ------
    ValueError
        If the file is missing or another one, or lacks the weights; one line.
    """
    model = spec["model"]
    _check(file, model["sha256"], REMEDY)
    return pretrained.read_attention(file, model["layout"], model["heads"])


def read_words(spec: Mapping[str, Any], file: Path) -> tuple[Array, Array]:
    """Return the tokens of a part on real words, and their labels.

    Parameters
    ----------
    spec : mapping
        Specification of the part.
    file : Path
        Safetensors file of the model, with its ``vocab.txt`` beside it.

    Returns
    -------
    tokens : ndarray of float64, shape (p, words)
    labels : ndarray of float64, shape (words,)

    Raises
    ------
    ValueError
        As :func:`read_weights`.
    """
    vocabulary = file.with_name("vocab.txt")
    _check(vocabulary, spec["vocabulary"], REMEDY)
    layout = spec["model"]["layout"]
    return word_tokens.word_tokens(file, vocabulary, spec["words"], layout)


def predict(spec: Mapping[str, Any], file: Path) -> Mapping[str, Array]:
    """Return what theory says of a part, or what its weights are like.

    Parameters
    ----------
    spec, file
        As :func:`read_weights` takes them.

    Returns
    -------
    dict of str to ndarray
        As the function of :mod:`interpolation_error.figures.study_prediction` for such
        a part.

    Raises
    ------
    ValueError
        As :func:`read_weights`.
    """
    weights = read_weights(spec, file)
    match spec["part"]:
        case "description":
            return study_prediction.describe(weights)
        case "heads":
            return study_prediction.predict_heads(spec, weights)
        case "sweeps":
            return study_prediction.predict_sweeps(spec, weights)
        case _:
            return study_prediction.predict_words(
                spec, weights, *read_words(spec, file)
            )


def simulate(
    spec: Mapping[str, Any], file: Path, noise: Array | None
) -> Mapping[str, Array]:
    """Return what a part leaves in simulation.

    Parameters
    ----------
    spec, file
        As :func:`read_weights` takes them.
    noise : ndarray of float64, shape (replicates or more, p, n or more), or None
        Draws of the noise; None for real words.

    Returns
    -------
    dict of str to ndarray
        As the function of :mod:`interpolation_error.simulation.study_simulation` for
        such a part.

    Raises
    ------
    ValueError
        As :func:`read_weights`.
    """
    if (noise is None) != (spec["part"] == "words"):
        have = (
            "no draws of noise" if noise is None else "draws of noise, and needs none"
        )
        raise ValueError(f"the part {spec['part']} was given {have}")
    weights = read_weights(spec, file)
    if noise is None:
        words = read_words(spec, file)
        return study_simulation.simulate_words(spec, weights, *words)
    if spec["part"] == "heads":
        return study_simulation.simulate_heads(spec, weights, noise)
    return study_simulation.simulate_sweeps(spec, weights, noise)


def _check(path: Path, sha256: str, remedy: str = "") -> None:
    """Refuse a file that is another one than the run was planned with."""
    try:
        there = path.stat()
        state = there.st_ino, there.st_size, there.st_mtime_ns
    except OSError:
        state = None
    if fault := _fault(path, sha256, state):
        raise ValueError(f"{fault}{remedy}")


@cache
def _fault(path: Path, sha256: str, state: tuple[int, int, int] | None) -> str:
    """Return what is wrong with a file, empty if nothing is.

    Weights are large, and an audit asks for every part and every draw: as long as a
    file's ``state`` (inode, size, time of modification) is the same, so is the answer.
    """
    try:
        download.check_sha256(path, sha256)
    except download.DownloadError as error:
        return str(error)
    return ""
