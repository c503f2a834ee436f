"""Simulate a curve: draw by draw, one number for each of its points."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model import data
from interpolation_error.model.curve import Curve, log_width
from interpolation_error.model.setting import Direction, Setting
from interpolation_error.simulation import attention, linearization, probe, softmax

Array = NDArray[np.float64]


def simulate_curve(
    curve: Curve, draws: Mapping[str, Array], *, seed: int, replicates: Sequence[int]
) -> dict[str, Array]:
    r"""Return what a curve measures, for every replicate at every point.

    All points of a curve, and all curves of one draw, see the same noise: a smaller
    number of tokens or embedding dimension is its leading block, and the
    signal-to-noise ratio scales the signal upon it.

    Parameters
    ----------
    curve : Curve
        What is simulated.
    draws : mapping of str to ndarray
        Either ``noise``, shape (replicates, dimension, tokens), at least as large as
        the curve needs; or, for tokens of the user's own, ``tokens`` of that shape,
        ``labels`` of shape (replicates, tokens) and ``signal``, the unit vector of
        the signal, of shape (replicates, dimension).
    seed : int
        Root seed, from which the directions of signal and weights are drawn.
    replicates : sequence of int
        Number of each draw, as many as ``draws`` holds.

    Returns
    -------
    dict of str to ndarray of float64, shape (replicates, points)
        By quantity: ``error``, the interpolation error; ``trace``,
        :math:`\gamma \, \mathrm{tr}\, Q / n`; ``density``, the share of
        eigenvalues of :math:`A^T A / n` per unit of their logarithm, and at zero the
        share that is zero; ``remainder`` and ``relative_remainder`` of Lemma 1.

    Raises
    ------
    ValueError
        If the draws are smaller than the curve, or another number of them is named.

    Examples
    --------
    >>> setting = Setting("regression", tokens=64, dimension=16, snr=1.0, gamma=1.0)
    >>> noise = np.stack([data.noise(1, draw, 16, 64) for draw in (0, 1)])
    >>> curve = Curve(setting, "gamma", (0.1, 1.0))
    >>> draws = {"noise": noise}
    >>> simulate_curve(curve, draws, seed=1, replicates=(0, 1))["error"].shape
    (2, 2)
    """
    for name, array in draws.items():
        if len(array) != len(replicates):
            raise ValueError(
                f"{len(replicates)} replicates named, {name} has {len(array)}"
            )
    measured = [
        _one_draw(
            curve,
            _Draw({name: array[place] for name, array in draws.items()}, seed, number),
        )
        for place, number in enumerate(replicates)
    ]
    return {name: np.stack([one[name] for one in measured]) for name in measured[0]}


class _Draw(NamedTuple):
    """One draw: its arrays, the root seed and its number."""

    arrays: Mapping[str, Array]
    seed: int
    replicate: int


class _Instance(NamedTuple):
    """What one setting is on one draw, its penalty apart."""

    tokens: Array
    noise: Array
    labels: Array
    signal: Array
    weights: tuple[tuple[Array, Array] | None, ...]


def _one_draw(curve: Curve, draw: _Draw) -> dict[str, Array]:
    """Return one draw's numbers, taking points that differ in gamma alone at once."""
    places: dict[Setting, list[int]] = {}
    gamma = np.array([setting.gamma for setting in curve])
    for place, setting in enumerate(curve):
        alike = dataclasses.replace(setting, gamma=1.0)
        places.setdefault(alike, []).append(place)
    found: dict[str, Array] = {}
    for setting, mine in places.items():
        for name, values in _measure(curve, setting, gamma[mine], draw).items():
            found.setdefault(name, np.empty(len(gamma)))[mine] = values
    return found


def _measure(
    curve: Curve, setting: Setting, gamma: Array, draw: _Draw
) -> dict[str, Array]:
    """Return a setting's numbers at several penalties, or along a spectrum."""
    instance = _instance(setting, draw)
    if curve.measure == "error":
        return {"error": _error(setting, instance, gamma)}
    if curve.measure == "linearization":
        difference, norm = linearization.remainder(
            instance.noise,
            instance.labels,
            instance.signal,
            setting.function(),
            *(instance.weights[0] or (None, None)),
        )
        return {
            "remainder": np.full(len(gamma), difference),
            "relative_remainder": np.full(len(gamma), difference / norm),
        }
    eigenvalues = probe.gram_eigenvalues(_features(setting, instance))
    if curve.measure == "trace":
        zeros = setting.tokens - len(eigenvalues)
        share = gamma[:, None] / (eigenvalues + gamma[:, None])
        return {"trace": (share.sum(axis=1) + zeros) / setting.tokens}
    return {"density": _density(eigenvalues, setting.tokens, np.array(curve.values))}


def _instance(setting: Setting, draw: _Draw) -> _Instance:
    """Return tokens, labels, signal and the weights of every head."""
    p, n = setting.dimension, setting.tokens
    source = draw.arrays["tokens" if setting.data else "noise"]
    if source.shape[0] < p or source.shape[1] < n:
        raise ValueError(
            f"the curve needs draws of shape ({p}, {n}), got {source.shape}"
        )
    count = 3 if setting.heads.number == 1 else 2 + setting.heads.number
    directions = data.directions(draw.seed, draw.replicate, p, count)
    if setting.data:
        labels, direction = draw.arrays["labels"][:n], draw.arrays["signal"]
        directions = _orthogonal_to(direction, directions)
        tokens = source[:, :n]
        signal = sqrt(setting.snr) * direction
        noise = tokens - np.outer(signal, labels)
    else:
        labels = _labels(setting, draw)
        signal = sqrt(setting.snr) * directions[0]
        noise = source[:p, :n]
        tokens = data.signal_plus_noise(noise, labels, signal)
    return _Instance(tokens, noise, labels, signal, _weights(setting, directions))


def _labels(setting: Setting, draw: _Draw) -> Array:
    share = setting.labels.positive_share
    if setting.labels.random:
        return data.random_labels(draw.seed, draw.replicate, setting.tokens, share)
    return data.even_labels(setting.tokens, share)


def _orthogonal_to(direction: Array, directions: Array) -> Array:
    """Return a given first direction and the others made orthogonal to it."""
    Q, R = np.linalg.qr(np.vstack([direction, directions[1:]]).T)
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T)


def _weights(
    setting: Setting, directions: Array
) -> tuple[tuple[Array, Array] | None, ...]:
    """Return key and query of every head, None without a low-rank part."""
    if setting.weights is None:
        return (None,)

    def vector(direction: Direction, other: Array) -> Array:
        norm = direction.length(setting.snr)
        return data.aligned_weights(directions[0], other, norm, direction.alignment)

    key, query = setting.weights.key, setting.weights.query
    if setting.heads.number == 1:
        w_k = vector(key, directions[1])
        return ((w_k, w_k if query is None else vector(query, directions[2])),)
    shared, own = sqrt(setting.heads.overlap), sqrt(1 - setting.heads.overlap)
    heads = [
        vector(key, shared * directions[1] + own * other) for other in directions[2:]
    ]
    return tuple((w, w) for w in heads)


def _error(setting: Setting, instance: _Instance, gamma: Array) -> Array:
    """Return the interpolation errors at several penalties."""
    if setting.estimator == "attention" and setting.heads.number == 1:
        w_k, w_q = instance.weights[0] or (None, None)
        error = attention.attention_error(
            *(instance.tokens, instance.labels, gamma, setting.function()),
            *(w_k, w_q, setting.diagonal, setting.centred),
        )
    else:
        features = _features(setting, instance)
        error = probe.linear_regression_error(features, instance.labels, gamma)
    return np.asarray(error)


def _features(setting: Setting, instance: _Instance) -> Array:
    """Return what the probe sees: tokens, attention output, or that of all heads."""
    if setting.estimator == "regression":
        return instance.tokens
    if setting.estimator == "softmax":
        return softmax.softmax_output(
            instance.tokens,
            *(instance.weights[0] or (None, None)),
            masked=setting.diagonal == "zero",
            temperature=setting.temperature,
        )
    function = setting.function()
    outputs = []
    for weights in instance.weights:
        w_k, w_q = weights or (None, None)
        outputs.append(
            attention.attention_output(
                *(instance.tokens, function, w_k, w_q),
                *(setting.diagonal, setting.centred),
            )
        )
    return outputs[0] if len(outputs) == 1 else np.vstack(outputs)


def _density(eigenvalues: Array, tokens: int, values: Array) -> Array:
    """Return the share of eigenvalues per unit of their logarithm around values."""
    zero = values == 0
    inner, ratio = values[~zero], log_width(tuple(values))
    edges = np.append(inner / np.sqrt(ratio), inner[-1] * np.sqrt(ratio))
    counts, _ = np.histogram(eigenvalues, edges)
    density = np.empty(len(values))
    density[~zero] = counts / (tokens * np.log(ratio))
    # Those of no rank are left out by ``gram_eigenvalues``.
    density[zero] = (tokens - len(eigenvalues)) / tokens
    return density
