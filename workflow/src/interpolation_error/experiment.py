"""Simulate a curve: draw by draw, one interpolation error for each of its points."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from interpolation_error import data, simulation
from interpolation_error.curve import Curve, Direction, Setting

Array = NDArray[np.float64]


def simulate_curve(
    curve: Curve, noise: Array, *, seed: int, replicates: Sequence[int]
) -> Array:
    """Return the interpolation error of every replicate at every point of a curve.

    All points of a curve, and all curves of one draw, see the same noise: a smaller
    number of tokens or embedding dimension is its leading block, and the
    signal-to-noise ratio scales the signal upon it.

    Parameters
    ----------
    curve : Curve
        What is simulated.
    noise : ndarray, shape (replicates, dimension, tokens)
        The noise of each replicate, at least as large as the curve needs.
    seed : int
        Root seed, from which the directions of signal and weights are drawn.
    replicates : sequence of int
        Number of each draw, as many as ``noise`` holds.

    Returns
    -------
    ndarray of float64, shape (replicates, points)

    Raises
    ------
    ValueError
        If the noise is smaller than the curve, or another number of draws is named.

    Examples
    --------
    >>> from interpolation_error.curve import Setting
    >>> setting = Setting("regression", tokens=64, dimension=16, snr=1.0, gamma=1.0)
    >>> draws = np.stack([data.noise(1, draw, 16, 64) for draw in (0, 1)])
    >>> curve = Curve(setting, "gamma", (0.1, 1.0))
    >>> simulate_curve(curve, draws, seed=1, replicates=(0, 1)).shape
    (2, 2)
    """
    if len(noise) != len(replicates):
        raise ValueError(f"{len(replicates)} replicates named, noise has {len(noise)}")
    errors = [
        _one_draw(curve, one_noise, seed, replicate)
        for one_noise, replicate in zip(noise, replicates, strict=True)
    ]
    return np.stack(errors)


def _one_draw(curve: Curve, noise: Array, seed: int, replicate: int) -> Array:
    """Return one draw's errors, solving neighbours that differ in gamma at once."""
    errors: list[Array] = []
    same_tokens = itertools.groupby(
        curve, key=lambda setting: dataclasses.replace(setting, gamma=1.0)
    )
    for setting, group in same_tokens:
        gamma = np.array([member.gamma for member in group])
        errors.append(_one_matrix(setting, gamma, noise, seed, replicate))
    return np.concatenate(errors)


def _one_matrix(
    setting: Setting, gamma: Array, noise: Array, seed: int, replicate: int
) -> Array:
    """Return the errors at several ridge penalties of one draw of tokens."""
    p, n = setting.dimension, setting.tokens
    if noise.shape[0] < p or noise.shape[1] < n:
        raise ValueError(
            f"the curve needs noise of shape ({p}, {n}), got {noise.shape}"
        )
    labels = data.alternating_labels(n)
    signal, key, query = data.directions(seed, replicate, p)
    tokens = data.signal_plus_noise(
        noise[:p, :n], labels, np.sqrt(setting.snr) * signal
    )
    if setting.estimator == "regression":
        return np.asarray(simulation.linear_regression_error(tokens, labels, gamma))

    def vector(direction: Direction, other: Array) -> Array:
        return data.aligned_weights(signal, other, direction.norm, direction.alignment)

    w_k = w_q = None
    if setting.weights is not None:
        w_k = w_q = vector(setting.weights.key, key)
        if setting.weights.query is not None:
            w_q = vector(setting.weights.query, query)
    return np.asarray(
        simulation.attention_error(
            tokens,
            labels,
            gamma,
            setting.function(),
            w_k=w_k,
            w_q=w_q,
            diagonal=setting.diagonal,
        )
    )
