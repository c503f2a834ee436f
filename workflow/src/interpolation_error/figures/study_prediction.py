"""Describe the heads of a pretrained transformer and predict what they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

import numpy as np

from interpolation_error import theory
from interpolation_error.figures.lines import BETWEEN
from interpolation_error.model import identity_fit
from interpolation_error.model.checks import Array
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.study import (
    DIRECTIONS,
    THEORIES,
    WEIGHTS,
    Matrix,
    leading,
    median_head,
    scaled,
    signal_directions,
    tokens_at,
    variants,
)
from interpolation_error.model.tokens_file import measured_signal
from interpolation_error.model.weights import AttentionWeights


def describe(weights: AttentionWeights) -> dict[str, Array]:
    """Return spectrum and fits of every head, and of the heads of a layer together.

    Parameters
    ----------
    weights : AttentionWeights
        Of a model.

    Returns
    -------
    dict of str to ndarray
        The fields of :class:`interpolation_error.model.identity_fit.Description` below
        ``heads`` and ``layers``, of shape (layers, heads, ...) and (layers, 1, ...);
        ``eigenvalues``, the absolute values of those of each head that need not
        vanish, descending; and ``representative``, layer and head.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> found = describe(weights)
    >>> found["eigenvalues"].shape, found["representative"].shape
    ((1, 2, 3), (2,))
    """
    found: dict[str, Array] = {}
    for name, some in (("heads", weights), ("layers", weights.together())):
        description = identity_fit.describe(some.query, some.key)
        for field, values in vars(description).items():
            found[f"{name}/{field}"] = np.asarray(values, dtype=np.float64)
    # W_K^T W_Q has the eigenvalues of W_Q W_K^T, and zeros.
    small = weights.query @ weights.key.swapaxes(-1, -2)
    moduli = np.abs(np.linalg.eigvals(small))
    found["eigenvalues"] = -np.sort(-moduli, axis=-1)
    found["representative"] = np.array(median_head(weights), dtype=np.float64)
    return found


def predict_heads(
    spec: Mapping[str, Any], weights: AttentionWeights
) -> dict[str, Array]:
    """Predict every head of a layer at one setting, by three theories.

    Parameters
    ----------
    spec : mapping
        As of :func:`interpolation_error.simulation.study_simulation.simulate_heads`.
    weights : AttentionWeights
        Of the model.

    Returns
    -------
    dict of str to ndarray
        ``any_weights``, the theory for any weights with the head's own; ``fit``, the
        same with the head's fit, scaled as the head is; ``theorem_1``, Theorem 1 with
        the fit, as Assumption 1 has it (docs/theory.md, sections 9 and 4). Each of
        shape (heads, directions of the signal), means over the directions of the
        draws.

    Raises
    ------
    ValueError
        If a head leaves no direction unseen, or the nonlinearity cannot be used
        (unknown, too rough, or growing too fast for a diagonal that is kept).
    theory.ConvergenceError
        If a limit is not found to full accuracy.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> spec |= {"layer": 0, "snr": 1.0, "aspect_ratio": 0.5, "replicates": [0, 1]}
    >>> predict_heads(spec, weights)["theorem_1"].shape
    (2, 3)
    """
    heads, p = weights.query.shape[1], weights.query.shape[-1]
    at = spec["gamma"], p / tokens_at(p, spec["aspect_ratio"])
    found = {name: np.empty((heads, len(DIRECTIONS))) for name in THEORIES}
    for head in range(heads):
        matrix = scaled(weights, spec["layer"], head)
        mu = _signals(matrix, spec, [spec["snr"]])[:, :, 0]
        fit = identity_fit.fit(matrix.whole, rank=1)
        fitted = fit.matrix * sqrt(p) / float(np.linalg.norm(fit.matrix))
        errors = (
            _any_weights(spec, *at, matrix.whole, mu),
            _any_weights(spec, *at, fitted, mu),
            _theorem_1(spec, *at, fit.a[:, 0] / fit.tau, fit.b[:, 0], mu),
        )
        for name, error in zip(THEORIES, errors, strict=True):
            found[name][head] = error.mean(axis=0)
    return found


def predict_sweeps(
    spec: Mapping[str, Any], weights: AttentionWeights
) -> dict[str, Array]:
    """Predict one head, its stand-ins and regression at one aspect ratio.

    Parameters
    ----------
    spec : mapping
        As of :func:`interpolation_error.simulation.study_simulation.simulate_sweeps`.
    weights : AttentionWeights
        Of the model.

    Returns
    -------
    dict of str to ndarray
        ``gamma`` and ``snr``, the values along the lines; ``against_gamma`` and
        ``against_snr``, of shape (weights, directions, values along the line);
        ``finite_size_against_gamma`` and ``finite_size_against_snr``, the theory at
        finite size of the identity plus rank one with a signal along the singular
        vector (docs/theory.md, section 8), at the values that are simulated, and NaN
        where it does not settle.

    Raises
    ------
    ValueError
        If a head leaves no direction unseen, or the nonlinearity cannot be used
        (unknown, too rough, or growing too fast for a diagonal that is kept).
    theory.ConvergenceError
        If a limit is not found to full accuracy.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> spec |= {"snr": 1.0, "aspect_ratio": 0.5, "replicates": [0]}
    >>> found = predict_sweeps({**spec, "penalties": [1.0], "signals": [1.0]}, weights)
    >>> found["gamma"], found["against_gamma"].shape
    (array([1.]), (4, 3, 1))
    """
    matrix = scaled(weights, *median_head(weights))
    p = matrix.query.shape[1]
    n = tokens_at(p, spec["aspect_ratio"])
    gamma, snr = finer(spec["penalties"]), finer(spec["signals"])
    found: dict[str, Array] = {"gamma": gamma, "snr": snr}
    compared = variants(matrix)
    fixed = _signals(matrix, spec, [spec["snr"]])[:, :, 0]
    swept = _signals(matrix, spec, snr)
    against_gamma = np.empty((len(WEIGHTS), len(DIRECTIONS), len(gamma)))
    against_snr = np.empty((len(WEIGHTS), len(DIRECTIONS), len(snr)))
    for kind, name in enumerate(WEIGHTS):
        if name == "regression":
            against_gamma[kind] = theory.linear_regression_error(
                gamma, p / n, spec["snr"]
            )
            against_snr[kind] = theory.linear_regression_error(
                spec["gamma"], p / n, snr
            )
            continue
        W = compared[name].whole
        along = _any_weights(spec, gamma[:, None, None], p / n, W, fixed)
        against_gamma[kind] = along.mean(axis=1).T
        along = _any_weights(spec, spec["gamma"], p / n, W, swept)
        against_snr[kind] = along.mean(axis=0)
    found |= {"against_gamma": against_gamma, "against_snr": against_snr}
    left, right = leading(matrix)
    for name, penalties, signals in (
        ("gamma", spec["penalties"], [spec["snr"]]),
        ("snr", [spec["gamma"]], spec["signals"]),
    ):
        mu = np.sqrt(signals)[:, None] * right
        found[f"finite_size_against_{name}"] = _finite_size(
            spec, penalties, (n, p), mu, left, right
        )
    return found


def predict_words(
    spec: Mapping[str, Any], weights: AttentionWeights, tokens: Array, labels: Array
) -> dict[str, Array]:
    """Predict what real words leave, as if they were the tokens of the model.

    Parameters
    ----------
    spec : mapping
        As of :func:`interpolation_error.simulation.study_simulation.simulate_words`.
    weights : AttentionWeights
        Of the model.
    tokens : ndarray of float64, shape (p, words)
        All words.
    labels : ndarray of float64, shape (words,)

    Returns
    -------
    dict of str to ndarray
        ``predicted``, of shape (aspect ratios, 1 + all heads), regression first, and
        ``snr``, the measured signal-to-noise ratio.

    Raises
    ------
    ValueError
        If both kinds of words have one mean, or the nonlinearity cannot be used
        (unknown, too rough, or growing too fast for a diagonal that is kept).
    theory.ConvergenceError
        If a limit is not found to full accuracy.

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal
    >>> weights = AttentionWeights(*draw((2, 1, 2, 3, 12)))
    >>> spec = {"gamma": 0.1, "nonlinearity": "tanh", "diagonal": "zero", "seed": 1}
    >>> tokens, labels = draw((12, 40)), np.repeat([1.0, -1.0], 20)
    >>> found = predict_words({**spec, "aspect_ratios": [0.5]}, weights, tokens, labels)
    >>> found["predicted"].shape
    (1, 3)
    """
    layers, heads, _, p = weights.query.shape
    direction, snr = measured_signal(tokens, labels)
    ratios = [p / tokens_at(p, ratio) for ratio in spec["aspect_ratios"]]
    found = np.empty((len(ratios), 1 + layers * heads))
    found[:, 0] = theory.linear_regression_error(spec["gamma"], np.array(ratios), snr)
    for number in range(layers * heads):
        W = scaled(weights, *divmod(number, heads)).whole
        found[:, 1 + number] = _any_weights(
            spec, spec["gamma"], np.array(ratios), W, sqrt(snr) * direction
        )
    return {"predicted": found, "snr": np.array(snr)}


def finer(values: Sequence[float]) -> Array:
    """Return values with some between each two, evenly in the logarithm.

    Parameters
    ----------
    values : sequence of float
        Positive, ascending.

    Returns
    -------
    ndarray of float64
        With :data:`interpolation_error.figures.lines.BETWEEN` more between each two.

    Examples
    --------
    >>> finer([1.0, 16.0])
    array([ 1.,  2.,  4.,  8., 16.])
    """
    places = np.arange(BETWEEN * (len(values) - 1) + len(values)) / (BETWEEN + 1)
    line = np.exp(np.interp(places, range(len(values)), np.log(values)))
    line[:: BETWEEN + 1] = values
    return np.asarray(line)


def _signals(
    matrix: Matrix, spec: Mapping[str, Any], snr: Sequence[float] | Array
) -> Array:
    """Return the signals of every draw, shape (draws, directions, strengths, p)."""
    directions = np.stack(
        [signal_directions(matrix, spec["seed"], draw) for draw in spec["replicates"]]
    )
    return np.asarray(directions[:, :, None] * np.sqrt(np.asarray(snr))[:, None])


def _any_weights(
    spec: Mapping[str, Any],
    gamma: float | Array,
    aspect_ratio: float | Array,
    W: Array,
    mu: Array,
) -> Array:
    return np.asarray(
        theory.attention_error_general_weights(
            gamma, aspect_ratio, spec["nonlinearity"], W, mu, spec["diagonal"]
        )
    )


def _theorem_1(
    spec: Mapping[str, Any],
    gamma: float,
    aspect_ratio: float,
    w_k: Array,
    w_q: Array,
    mu: Array,
) -> Array:
    """Return Theorem 1 for I + w_K w_Q^T, at signals of shape (..., p)."""
    f = spec["nonlinearity"]
    _, a1, _, nu = hermite_coefficients(f)
    kept = diagonal_limit(f, len(w_k)) if spec["diagonal"] == "keep" else 0.0
    return np.asarray(
        theory.attention_error(
            *(gamma, aspect_ratio, a1, nu),
            inner_products=_products(mu, w_k, w_q),
            diagonal_limit=kept,
        )
    )


def _finite_size(
    spec: Mapping[str, Any],
    penalties: Sequence[float],
    size: tuple[int, int],
    mu: Array,
    w_k: Array,
    w_q: Array,
) -> Array:
    """Return the theory at finite size along penalties or signals.

    NaN where it does not settle.
    """
    how = spec["nonlinearity"], spec["diagonal"]
    return np.concatenate(
        [
            theory.errors_that_settle(
                penalties, *size, how[0], _products(one, w_k, w_q), how[1]
            )
            for one in mu
        ]
    )


def _products(mu: Array, w_k: Array, w_q: Array) -> theory.InnerProducts:
    return theory.InnerProducts(
        *(np.sum(mu * mu, axis=-1), mu @ w_k, mu @ w_q),
        *(w_k @ w_k, w_q @ w_q, w_k @ w_q),
    )
