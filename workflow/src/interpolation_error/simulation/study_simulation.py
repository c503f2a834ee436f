"""Simulate the study of a pretrained transformer: its heads, one head, real words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from interpolation_error.model import data
from interpolation_error.model.checks import Array
from interpolation_error.model.study import (
    DIRECTIONS,
    WEIGHTS,
    WORDS,
    Matrix,
    median_head,
    scaled,
    signal_directions,
    tokens_at,
    variants,
)
from interpolation_error.model.weights import AttentionWeights
from interpolation_error.simulation.general_weights import (
    attention_error_general_weights,
)
from interpolation_error.simulation.probe import linear_regression_error

SHUFFLES = 4
"""First part of the spawn key of a shuffle; ``data`` has those before it."""


def simulate_heads(
    spec: Mapping[str, Any], weights: AttentionWeights, noise: Array
) -> dict[str, Array]:
    """Simulate every head of a layer at one setting.

    Parameters
    ----------
    spec : mapping
        ``layer``, ``snr``, ``gamma``, ``aspect_ratio``, ``nonlinearity``, ``diagonal``,
        ``seed`` and ``replicates``, the numbers of the draws.
    weights : AttentionWeights
        Of the model.
    noise : ndarray of float64, shape (replicates or more, p, n or more)
        Draws of the noise, of which the first are used, and of them the first n tokens.

    Returns
    -------
    dict of str to ndarray
        ``error``, of shape (replicates, heads, directions of the signal): the
        interpolation error E of docs/theory.md, section 1.

    Raises
    ------
    ValueError
        If the noise is smaller than that, a head leaves no direction unseen, or the
        nonlinearity cannot be used (unknown, or not finite on the scores).

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> spec |= {"layer": 0, "snr": 1.0, "aspect_ratio": 0.5, "replicates": [0, 1]}
    >>> simulate_heads(spec, weights, draw((2, 12, 24)))["error"].shape
    (2, 2, 3)
    """
    heads, p = weights.query.shape[1], weights.query.shape[-1]
    n = tokens_at(p, spec["aspect_ratio"])
    y = data.alternating_labels(n)
    error = np.empty((len(spec["replicates"]), heads, len(DIRECTIONS)))
    for head in range(heads):
        matrix = scaled(weights, spec["layer"], head)
        for draw, replicate in enumerate(spec["replicates"]):
            directions = signal_directions(matrix, spec["seed"], replicate)
            for number, direction in enumerate(directions):
                X = _tokens(noise[draw], y, direction, spec["snr"])
                error[draw, head, number] = _error(
                    X, y, spec["gamma"], matrix, spec["nonlinearity"], spec["diagonal"]
                )
    return {"error": error}


def simulate_sweeps(
    spec: Mapping[str, Any], weights: AttentionWeights, noise: Array
) -> dict[str, Array]:
    """Simulate one head, its stand-ins and regression at one aspect ratio.

    Parameters
    ----------
    spec : mapping
        As of :func:`simulate_heads`, without ``layer``, and with ``penalties`` and
        ``signals``, swept one by one; ``gamma`` and ``snr`` are what is not swept.
    weights, noise
        As of :func:`simulate_heads`.

    Returns
    -------
    dict of str to ndarray
        ``against_gamma`` and ``against_snr``, of shape (replicates, weights,
        directions, values): interpolation errors E.

    Raises
    ------
    ValueError
        As :func:`simulate_heads`.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> spec |= {"snr": 1.0, "aspect_ratio": 0.5, "replicates": [0]}
    >>> spec |= {"penalties": [0.1, 1.0], "signals": [1.0, 2.0, 4.0]}
    >>> found = simulate_sweeps(spec, weights, draw((1, 12, 24)))
    >>> found["against_snr"].shape == (1, len(WEIGHTS), len(DIRECTIONS), 3)
    True
    """
    matrix = scaled(weights, *median_head(weights))
    p = matrix.query.shape[1]
    n = tokens_at(p, spec["aspect_ratio"])
    y = data.alternating_labels(n)
    compared = {**variants(matrix), "regression": None}
    shape = (len(spec["replicates"]), len(WEIGHTS), len(DIRECTIONS))
    against_gamma = np.empty((*shape, len(spec["penalties"])))
    against_snr = np.empty((*shape, len(spec["signals"])))
    how = spec["nonlinearity"], spec["diagonal"]
    for draw, replicate in enumerate(spec["replicates"]):
        directions = signal_directions(matrix, spec["seed"], replicate)
        for number, direction in enumerate(directions):
            X = _tokens(noise[draw], y, direction, spec["snr"])
            for kind, name in enumerate(WEIGHTS):
                against_gamma[draw, kind, number] = _error(
                    X, y, spec["penalties"], compared[name], *how
                )
            for place, snr in enumerate(spec["signals"]):
                X = _tokens(noise[draw], y, direction, snr)
                for kind, name in enumerate(WEIGHTS):
                    against_snr[draw, kind, number, place] = _error(
                        X, y, spec["gamma"], compared[name], *how
                    )
    return {"against_gamma": against_gamma, "against_snr": against_snr}


def simulate_words(
    spec: Mapping[str, Any], weights: AttentionWeights, tokens: Array, labels: Array
) -> dict[str, Array]:
    """Put embeddings of real words through every head.

    Parameters
    ----------
    spec : mapping
        ``aspect_ratios``, ``gamma``, ``nonlinearity``, ``diagonal``, ``seed`` and
        ``replicates``.
    weights : AttentionWeights
        Of the model.
    tokens : ndarray of float64, shape (p, words)
        As :func:`interpolation_error.model.word_tokens.word_tokens` returns them.
    labels : ndarray of float64, shape (words,)

    Returns
    -------
    dict of str to ndarray
        ``error``, of shape (replicates, kinds of words, aspect ratios, 1 + all heads),
        regression first. A draw is a random choice of words.

    Raises
    ------
    ValueError
        If there are fewer words than an aspect ratio asks for, a label is neither +1
        nor -1, or the nonlinearity cannot be used.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> spec |= {"aspect_ratios": [0.5, 1.0], "replicates": [0]}
    >>> tokens, labels = draw((12, 40)), np.repeat([1.0, -1.0], 20)
    >>> simulate_words(spec, weights, tokens, labels)["error"].shape
    (1, 2, 2, 3)
    """
    layers, heads, _, p = weights.query.shape
    matrices = [scaled(weights, *divmod(i, heads)) for i in range(layers * heads)]
    sizes = [tokens_at(p, ratio) for ratio in spec["aspect_ratios"]]
    shape = (len(spec["replicates"]), len(WORDS), len(sizes), 1 + len(matrices))
    error = np.empty(shape)
    how = spec["nonlinearity"], spec["diagonal"]
    for draw, replicate in enumerate(spec["replicates"]):
        for kind, name in enumerate(WORDS):
            for place, n in enumerate(sizes):
                X = tokens
                if name == "shuffled":
                    X = shuffled(tokens, labels, spec["seed"], replicate)
                chosen = data.subset(spec["seed"], replicate, labels, n)
                X, y = X[:, chosen], labels[chosen]
                for number, matrix in enumerate([None, *matrices]):
                    error[draw, kind, place, number] = _error(
                        X, y, spec["gamma"], matrix, *how
                    )
    return {"error": error}


def _tokens(noise: Array, labels: Array, direction: Array, snr: float) -> Array:
    """Return tokens of a signal along a direction, as many as there are labels."""
    Z = noise[:, : len(labels)]
    return data.signal_plus_noise(Z, labels, sqrt(snr) * direction)


def _error(
    X: Array,
    y: Array,
    gamma: float | Sequence[float],
    matrix: Matrix | None,
    nonlinearity: str,
    diagonal: str,
) -> float | Array:
    if matrix is None:
        return linear_regression_error(X, y, gamma)
    return attention_error_general_weights(
        X, y, gamma, nonlinearity, matrix.query, matrix.key, diagonal
    )


def shuffled(tokens: Array, labels: Array, seed: int, replicate: int) -> Array:
    """Return tokens whose entries are shuffled within each dimension and class.

    Class means and the distribution of every entry stay, correlations go.

    Parameters
    ----------
    tokens : ndarray of float64, shape (p, words)
    labels : ndarray of float64, shape (words,)
    seed, replicate : int
        Root seed and number of the draw.

    Returns
    -------
    ndarray of float64, shape (p, words)

    Examples
    --------
    >>> X = np.arange(8.0).reshape(2, 4)
    >>> mixed = shuffled(X, np.array([1.0, 1.0, -1.0, -1.0]), seed=1, replicate=0)
    >>> np.sort(mixed[:, :2])
    array([[0., 1.],
           [4., 5.]])
    """
    mixed = np.empty_like(tokens)
    for sign in (1.0, -1.0):
        places = np.flatnonzero(labels == sign)
        for dimension, row in enumerate(tokens):
            key = (SHUFFLES, replicate, dimension)
            generator = np.random.default_rng(
                np.random.SeedSequence(seed, spawn_key=key)
            )
            mixed[dimension, places] = generator.permutation(row[places])
    return mixed
