"""Lemma 1's remainder against whole matrices and the low-rank form of the lemma."""

import numpy as np
import pytest

from interpolation_error.model import data
from interpolation_error.model.hermite import hermite_coefficients
from interpolation_error.model.nonlinearity import get
from interpolation_error.simulation.linearization import operator_norm, remainder


def by_lemma(Z, y, mu, f, w_k, w_q):
    """Return both norms with U Sigma V^T as docs/theory.md, section 2, writes it."""
    p, n = Z.shape
    a0, a1, _, _ = hermite_coefficients(f)
    X = np.outer(mu, y) + Z

    def attention(products):
        K = (f(products / np.sqrt(p)) - a0) / np.sqrt(p)
        return K - np.diag(np.diag(K))

    U = np.column_stack([y, Z.T @ mu, Z.T @ w_k]) / np.sqrt(p)
    V = np.column_stack([y, Z.T @ mu, Z.T @ w_q]) / np.sqrt(p)
    rho = mu @ mu + (mu @ w_k) * (mu @ w_q)
    Sigma = np.array([[rho, 1, mu @ w_k], [1, 0, 0], [mu @ w_q, 0, 1]])
    K = attention(X.T @ (np.eye(p) + np.outer(w_k, w_q)) @ X)
    linearized = attention(Z.T @ Z) + a1 * U @ Sigma @ V.T
    return np.linalg.norm(K - linearized, 2), np.linalg.norm(K, 2)


@pytest.mark.parametrize("name", ["tanh", "cos", "truncated_exp"])
@pytest.mark.parametrize("one_vector", [True, False])
@pytest.mark.parametrize("shape", [(30, 70), (70, 30)])
def test_it_is_the_lemma(shape, one_vector, name):
    p, n = shape
    y, axes = data.alternating_labels(n), data.directions(2, 0, p)
    Z, mu = data.noise(2, 0, p, n), 1.3 * axes[0]
    w_k = data.aligned_weights(axes[0], axes[1], 1.5, 0.6)
    w_q = w_k if one_vector else data.aligned_weights(axes[0], axes[2], 0.8, -0.5)
    computed = remainder(Z, y, mu, name, w_k, w_q)
    expected = by_lemma(Z, y, mu, get(name), w_k, w_q)
    np.testing.assert_allclose(computed, expected, rtol=1e-8)


def test_without_weights_the_signal_alone_is_left():
    p, n = 40, 60
    y, mu = data.alternating_labels(n), data.directions(2, 0, p)[0]
    Z = data.noise(2, 0, p, n)
    computed = remainder(Z, y, mu, "tanh")
    expected = by_lemma(Z, y, mu, get("tanh"), np.zeros(p), np.zeros(p))
    np.testing.assert_allclose(computed, expected, rtol=1e-8)


def test_no_signal_and_no_weights_leave_no_remainder():
    Z = data.noise(2, 0, 20, 30)
    difference, norm = remainder(Z, data.alternating_labels(30), np.zeros(20), "cos")
    assert difference == 0
    assert norm > 0


@pytest.mark.parametrize("symmetric", [True, False])
def test_the_norm_is_the_largest_singular_value(symmetric):
    M = np.random.default_rng(1).standard_normal((150, 150))
    M = M + M.T if symmetric else M
    expected = np.linalg.norm(M, 2)
    assert abs(operator_norm(M, symmetric=symmetric) / expected - 1) < 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": np.ones(3)}, r"noise must have shape \(dimension, tokens\), got"),
        ({"labels": [1, 2, 1]}, "labels must be"),
        ({"mu": np.zeros(3)}, r"mu must have one entry for each row of noise, shape"),
        ({"w_k": np.ones(4)}, "must be given together, got w_k without w_q"),
        ({"w_q": np.ones(4)}, "must be given together, got w_q without w_k"),
        (
            {"w_k": np.ones(5), "w_q": np.ones(4)},
            r"w_k must have one entry for each row of noise, shape \(4,\), got \(5,\)",
        ),
    ],
)
def test_bad_input_is_one_clear_line(change, message):
    given = {"noise": np.ones((4, 3)), "labels": [1, -1, 1], "mu": np.zeros(4)}
    with pytest.raises(ValueError, match=message) as error:
        remainder(**{**given, "nonlinearity": "tanh", **change})
    assert "\n" not in str(error.value)
