"""Softmax attention against its formula, and its two limits."""

import numpy as np
import pytest

from interpolation_error import simulation
from interpolation_error.model import data
from interpolation_error.simulation.softmax import softmax_output


def draw(p, n, snr=1.0):
    labels = data.alternating_labels(n)
    axes = data.directions(5, 0, p)
    noise = data.noise(5, 0, p, n)
    return data.signal_plus_noise(noise, labels, np.sqrt(snr) * axes[0]), labels, axes


def by_definition(X, w_k, w_q, masked, temperature):
    """Return X K with every sum written out."""
    p, n = X.shape
    S = X.T @ (np.eye(p) + np.outer(w_k, w_q)) @ X / np.sqrt(p) / temperature
    K = np.zeros((n, n))
    for j in range(n):
        keys = [i for i in range(n) if not (masked and i == j)]
        total = sum(np.exp(S[i, j]) for i in keys)
        for i in keys:
            K[i, j] = n * np.exp(S[i, j]) / total - 1
    return X @ K * np.exp(0.5 / temperature**2) / np.sqrt(p)


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("shape", [(5, 9), (9, 5)])
def test_it_is_the_formula(shape, temperature, masked):
    X, _, axes = draw(*shape)
    computed = softmax_output(
        X, axes[1], 0.5 * axes[2], masked=masked, temperature=temperature
    )
    expected = by_definition(X, axes[1], 0.5 * axes[2], masked, temperature)
    np.testing.assert_allclose(computed, expected, rtol=1e-11)


def test_masked_it_is_near_the_entry_wise_exponential():
    X, y, axes = draw(300, 900)
    soft = simulation.linear_regression_error(softmax_output(X), y, [0.1, 1.0])
    entries = simulation.attention_error(X, y, [0.1, 1.0], "exp")
    np.testing.assert_allclose(soft, entries, rtol=0.05)


def test_unmasked_it_is_near_the_identity_less_the_mean_token():
    X, _, _ = draw(600, 300)
    output = softmax_output(X, masked=False)
    scale = np.exp(0.5) * 300 / np.sqrt(600)
    expected = X - X.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(output / scale, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"temperature": 0.0}, "temperature"),
        ({"w_k": np.ones(4)}, "together"),
        ({"w_k": np.ones(3), "w_q": np.ones(4)}, "w_k must have one entry"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    X, _, _ = draw(4, 6)
    with pytest.raises(ValueError, match=message):
        softmax_output(X, **arguments)
