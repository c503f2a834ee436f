"""Theory for any weights: a reference table, the dense formula, limits, simulation."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interpolation_error import nonlinearity, theory
from interpolation_error.theory import general_weights as general
from interpolation_error.theory.correlated_scores import product_mean
from interpolation_error.theory.general_weights import (
    attention_error_general_weights as predict,
)

REFERENCE = pd.read_csv(
    Path(__file__).parent / "data/attention_general_weights_theory.csv"
)


def gaussian(p, seed=0):
    return np.random.default_rng(seed).standard_normal((p, p))


def vector(p, seed=1):
    return np.random.default_rng(seed).standard_normal(p)


def product(p, rank, seed=0):
    """Return a random matrix of this rank and of unit scale."""
    left, right = np.random.default_rng(seed).standard_normal((2, p, rank))
    W = left @ right.T
    return W * np.sqrt(p) / np.linalg.norm(W)


def reference_weights(kind, b, p):
    """Return D + b S^k (+ 3 1 e_1^T / sqrt p), S the cyclic shift S e_j = e_{j+1}."""
    S = np.roll(np.eye(p), 1, axis=0)
    if kind == "shift":
        return b * S
    D = np.eye(p) if kind.startswith("identity") else np.diag(np.linspace(0.2, 1.8, p))
    if not kind.endswith("rank1"):
        return D + b * S
    W = D + b * S @ S
    W[:, 0] += 3 / np.sqrt(p)
    return W


@pytest.mark.parametrize("row", REFERENCE.index)
def test_every_row_of_the_reference_table(row):
    """An independent program's; the worst row differs by 2.2e-8."""
    case = REFERENCE.loc[row]
    p = case["p"]
    directions = {"e1": np.eye(p)[0], "flat": np.ones(p), "ramp": np.linspace(1, 2, p)}
    mu = directions[case["mu_direction"]]
    mu = mu * np.sqrt(case["mu_mu"]) / np.linalg.norm(mu)
    W = reference_weights(case["weights"], case["b"], p)
    error = predict(
        case["gamma"], case["c"], case["nonlinearity"], W, mu, case["diagonal"]
    )
    assert error == pytest.approx(case["E_attention"], rel=1e-7)


def dense_label_form(gamma, c, f, W, mu, diagonal):
    """Return y^T Q y / n with P as it is defined, and R by damped iteration alone."""
    p = len(W)
    scale = np.linalg.norm(W) / np.sqrt(p)
    f, W = nonlinearity.rescaled(f, scale), W / scale
    a0, a1, _, nu = nonlinearity.hermite_coefficients(f)
    r = np.clip(np.trace(W @ W) / p, -1, 1)  # beyond only by rounding
    alpha, variance = a1 / c, (nu - a1**2) / c
    chi = (product_mean(f, r) - a1**2 * r) / c
    d = (f(np.trace(W) / np.sqrt(p)) - a0) / np.sqrt(p) if diagonal == "keep" else 0.0
    h = d - a1 * np.trace(W) / p
    zero, one = np.zeros((p, p)), np.eye(p)
    N = np.block(
        [[zero, -alpha * W.T, zero], [-alpha * W, zero, zero], [zero, zero, -one]]
    )
    A = np.array([[gamma, h, 0], [h, 0, -1], [0, -1, 0]])

    def blocks(R):
        P = N @ np.linalg.inv(np.eye(3 * p) - np.kron(R, one) @ N)
        return P.reshape(3, p, 3, p)

    R = np.linalg.inv(A)
    for _ in range(5000):
        Sigma = c / p * np.einsum("aibi->ab", blocks(R))
        Sigma[0, 0] += variance * R[1, 1]
        Sigma[1, 1] += variance * R[0, 0]
        Sigma[0, 1] += chi * R[0, 1]
        Sigma[1, 0] += chi * R[1, 0]
        step = np.linalg.inv(A - Sigma) - R
        R = R + step / 2
        if np.all(np.abs(step) < 1e-15 * np.abs(R).max()):
            break
    else:
        raise AssertionError("the damped iteration did not settle")
    T = np.einsum("i,aibj,j->ab", mu, blocks(R), mu)
    return np.linalg.inv(np.linalg.inv(R) - T)[0, 0]


@pytest.mark.parametrize(
    ("kind", "c", "gamma", "name", "diagonal"),
    [
        ("gaussian", 0.4, 0.05, "tanh", "zero"),
        ("gaussian", 3.0, 0.2, "relu", "keep"),
        ("antisymmetric", 0.7, 0.1, "sigmoid", "zero"),
        ("symmetric", 1.0, 0.5, "truncated_exp", "zero"),
        ("rank one", 2.0, 0.1, "sign", "zero"),
        ("large", 0.4, 0.1, "tanh", "keep"),
    ],
)
def test_the_dense_formula_and_a_difference_quotient(kind, c, gamma, name, diagonal):
    """Of order six in log gamma at a step of 0.06: off by about 1e-10."""
    p = 5
    W = {
        "gaussian": gaussian(p),
        "antisymmetric": gaussian(p) - gaussian(p).T,
        "symmetric": gaussian(p) + gaussian(p).T,
        "rank one": np.outer(vector(p, 2), vector(p, 3)),
        "large": 4 * gaussian(p),
    }[kind]
    f, mu = nonlinearity.get(name), vector(p)
    h = 0.06
    stencil = {-3: -1, -2: 9, -1: -45, 1: 45, 2: -9, 3: 1}
    slope = sum(
        weight * dense_label_form(gamma * np.exp(k * h), c, f, W, mu, diagonal)
        for k, weight in stencil.items()
    ) / (60 * h)
    error = predict(gamma, c, name, W, mu, diagonal)
    assert error == pytest.approx(-gamma * slope, rel=1e-8)


@pytest.mark.parametrize("diagonal", ["zero", "keep"])
@pytest.mark.parametrize("name", ["tanh", "relu", "cos", "linear"])
def test_the_identity_is_theorem_1(name, diagonal):
    p = 9
    mu = vector(p)
    a1, nu = nonlinearity.hermite_coefficients(name)[1::2]
    d = nonlinearity.diagonal_limit(name, p) if diagonal == "keep" else 0.0
    gamma, c = np.array([1e-5, 1e-3, 0.1, 10.0]), np.array([[0.25], [1.0], [4.0]])
    theorem = theory.attention_error(
        gamma,
        c,
        a1,
        nu,
        inner_products=theory.InnerProducts(mu @ mu),
        diagonal_limit=d,
    )
    error = predict(gamma, c, name, np.eye(p), mu, diagonal)
    np.testing.assert_allclose(error, theorem, rtol=1e-8)


def low_rank_case():
    directions = np.linalg.qr(gaussian(7)[:, :3])[0].T
    mu, w_k, w_q = np.diag([1.5, 2.0, 1.0]) @ (directions + 0.3)
    return mu, w_k, w_q, theory.InnerProducts.from_vectors(mu, w_k, w_q)


@pytest.mark.parametrize("c", [0.3, 2.0])
def test_a_low_rank_part_among_very_many_dimensions_is_theorem_1(c):
    """With the same averages: 1e10 dimensions, of which the part takes seven."""
    mu, w_k, w_q, products = low_rank_case()
    a1, nu = nonlinearity.hermite_coefficients("tanh")[1::2]
    layer = general._Layer(1.0, a1, nu - a1**2, nu - a1**2, -a1)
    parts = [
        general._Part(np.eye(7) + np.outer(w_k, w_q), 1.0, mu[:, None]),
        general._Part(np.eye(1), 1e10, np.zeros((1, 1))),
    ]
    for gamma in (1e-4, 1e-2, 1.0):
        error = general._Path(layer, c, parts).errors(gamma)[0]
        theorem = theory.attention_error(gamma, c, a1, nu, inner_products=products)
        assert error == pytest.approx(theorem, rel=1e-7)


def test_a_low_rank_part_becomes_theorem_1_as_one_over_p():
    """The traces of I + w_K w_Q^T differ from those of I by a share of 1/p."""
    mu, w_k, w_q, products = low_rank_case()
    a1, nu = nonlinearity.hermite_coefficients("tanh")[1::2]
    theorem = theory.attention_error(0.01, 0.5, a1, nu, inner_products=products)
    gaps = []
    for p in (200, 400, 800):
        m, k, q = (np.pad(x, (0, p - 7)) for x in (mu, w_k, w_q))
        error = predict(0.01, 0.5, "tanh", np.eye(p) + np.outer(k, q), m)
        gaps.append(error / theorem - 1)
    assert 1e-5 < gaps[2] < gaps[1] < gaps[0] < 1e-3
    # A polynomial in 1/p through the three of them goes through 0.
    assert abs(8 * gaps[2] - 6 * gaps[1] + gaps[0]) / 3 < 1e-6


def test_the_scale_goes_into_the_nonlinearity():
    W, mu = gaussian(6), vector(6)
    for name in ("relu", "truncated_exp"):  # kinks at 0 and elsewhere
        f = nonlinearity.rescaled(nonlinearity.get(name), 3.0)
        tripled = predict(0.1, 0.5, name, 3 * W, mu, "keep")
        assert tripled == pytest.approx(predict(0.1, 0.5, f, W, mu, "keep"), rel=1e-9)
    # A factor of f itself is one of gamma.
    linear = [predict(g, 0.5, "linear", k * W, mu) for g, k in ((0.1, 1), (0.4, 2))]
    assert linear[0] == pytest.approx(linear[1], rel=1e-9)


def test_only_the_angles_of_signal_and_weights_count():
    W, mu = gaussian(8), vector(8)
    Q = np.linalg.qr(gaussian(8, seed=4))[0]
    turned = predict(0.02, 0.5, "sigmoid", Q @ W @ Q.T, Q @ mu)
    assert turned == pytest.approx(predict(0.02, 0.5, "sigmoid", W, mu), rel=1e-9)


@pytest.mark.parametrize("tau", [0.0, -0.7])
def test_the_span_of_a_low_rank_part_is_all_that_counts(tau):
    W, mu = product(60, 4) + tau * np.eye(60), np.stack([vector(60), vector(60, 5)])
    scale = np.linalg.norm(W) / np.sqrt(60)
    parts = general._parts(W / scale, mu)
    assert [part.W.shape for part in parts] == [(8, 8), (1, 1)]
    assert [part.times for part in parts] == [1, 52]
    whole = [general._Part(W / scale, 1.0, mu.T)]
    layer = general._layer(nonlinearity.get("tanh"), W, "zero")
    for gamma in (1e-4, 0.1):
        np.testing.assert_allclose(
            general._Path(layer, 0.5, parts).errors(gamma),
            general._Path(layer, 0.5, whole).errors(gamma),
            rtol=1e-9,
        )


def test_broadcasting_and_the_order_of_gamma_change_nothing():
    W, mu = gaussian(7), np.stack([vector(7, k) for k in range(3)])
    gamma, c = np.array([0.3, 1e-4, 20.0, 0.3]), np.array([0.5, 2.0])
    table = predict(gamma, c[:, None, None], "relu", W, mu[:, None])
    assert table.shape == (2, 3, 4)
    for i, k, j in ((0, 0, 0), (0, 2, 1), (1, 1, 2), (1, 0, 3)):
        alone = predict(gamma[j], c[i], "relu", W, mu[k])
        assert isinstance(alone, float)
        assert table[i, k, j] == pytest.approx(alone, rel=1e-9)
    assert np.all(np.diff(table[..., [1, 0, 2]]) > 0)


def test_without_a_linear_component_the_signal_is_lost():
    """a_1 = 0: the weights count through r alone, and E -> 1 - c for small gamma."""
    W = gaussian(10)
    mu = np.stack([0 * vector(10), vector(10), 5 * vector(10)])
    errors = predict(1e-6, 0.25, "cos", W, mu)
    np.testing.assert_allclose(errors, 0.75, rtol=1e-4)


def random_case(seed):
    """Return W, of unit norm, a signal, p/n and f: singular, skew, graded, spiked."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(2, 12))
    G = rng.standard_normal((p, p))
    W = [
        G,
        G - G.T,
        np.outer(G[0], G[1]),
        np.diag(10.0 ** rng.uniform(-4, 1, p)) @ G,
        np.eye(p) + 3 * np.outer(G[0], G[1]) / p,
    ][seed % 5]
    if not np.any(W):
        W = G
    f = nonlinearity.hermite_mix(int(rng.integers(2, 5)), rng.choice([0, 1e-4, 0.5, 1]))
    c = rng.choice([1.0, 2.0 ** rng.uniform(-4, 4)])
    return W / np.linalg.norm(W), G[0], c, f


@pytest.mark.parametrize("seed", range(20))
def test_no_point_of_a_random_box_is_lost(seed):
    """Errors rise with gamma."""
    W, mu, c, f = random_case(seed)
    errors = predict(np.logspace(-8, 4, 7), c, f, W, mu)
    assert np.all((errors >= 0) & (errors <= 1))
    assert np.all(np.diff(errors) >= -1e-9)


# Skew weights without noise, lost at 1e-8 once; p/n = 1, where the shift of k once
# jumped, with noise, without any, and with a part of low rank; spiked; graded.
@pytest.mark.parametrize("seed", [6, 24, 11, 9, 4, 18])
def test_the_last_bits_of_the_input_do_not_count(seed):
    """The worst is off by 2e-11; from a large gamma down, or at one gamma alone."""
    W, mu, c, f = random_case(seed)
    gamma = np.array([1.0, 1e-4, 1e-8])
    rng = np.random.default_rng(seed)

    def moved(x):
        return x * (1 + np.finfo(float).eps * rng.integers(-3, 4, np.shape(x)))

    expected = [predict(g, c, f, W, mu) for g in gamma]
    errors = predict(moved(gamma), moved(c), f, moved(W), moved(mu))
    np.testing.assert_allclose(errors, expected, rtol=1e-9, atol=0)
    # The averages of f take most of the time, and are moved as they are.
    layer = general._layer(f, W, "zero")
    for _ in range(50):
        parts = general._parts(moved(W / layer.scale), moved(mu)[None])
        path = general._Path(general._Layer(*moved(layer)), moved(c), parts)
        errors = [path.errors(g)[0] for g in moved(gamma)]
        np.testing.assert_allclose(errors, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("tokens", [1200, 200])
def test_simulated_attention_with_a_product_of_rank_64(tokens):
    """The mean of twelve draws is within its 99 % t-interval of the prediction."""
    p, gamma, draws = 300, np.array([0.01, 1.0]), 12
    W = product(p, 64)
    mu = vector(p)
    mu *= np.sqrt(2) / np.linalg.norm(mu)
    y = np.tile([1.0, -1.0], tokens // 2)
    rng = np.random.default_rng(7)
    errors = np.empty((draws, 2))
    for draw in range(draws):
        X = np.outer(mu, y) + rng.standard_normal((p, tokens))
        K = np.tanh(X.T @ W @ X / np.sqrt(p)) / np.sqrt(p)
        np.fill_diagonal(K, 0)
        left, singular, right = np.linalg.svd(X @ K, full_matrices=False)
        squares = singular**2 / tokens
        along = (right @ y) ** 2 / tokens
        shrunk = (gamma[:, None] / (squares + gamma[:, None])) ** 2
        errors[draw] = 1 - along.sum() + shrunk @ along
    predicted = predict(gamma, p / tokens, "tanh", W, mu)
    half = stats.t.ppf(0.995, draws - 1) * stats.sem(errors, axis=0)
    assert np.all(half < 0.03)
    assert np.all(np.abs(errors.mean(axis=0) - predicted) < half)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weights": np.ones((3, 4))}, "must be a square matrix, got shape .3, 4."),
        ({"weights": np.zeros((3, 3))}, "weights must not be zero"),
        ({"weights": np.full((3, 3), np.nan)}, "weights must be finite"),
        ({"mu": np.ones(4)}, "mu must have shape .*, 3. for weights of shape .3, 3."),
        ({"mu": 1.0}, "mu must have shape"),
        ({"mu": np.ones((2, 3)), "gamma": np.ones(3)}, "must broadcast, got shapes"),
        ({"gamma": 0.0}, "gamma must be positive, got 0.0"),
        ({"aspect_ratio": -1.0}, "aspect_ratio must be positive"),
        ({"diagonal": "drop"}, "diagonal must be one of zero, keep, got 'drop'"),
        ({"nonlinearity": "swish"}, "nonlinearity must be one of"),
        ({"nonlinearity": "exp", "diagonal": "keep"}, "diagonal 'keep' needs"),
        ({"nonlinearity": "exp", "weights": 20 * np.eye(3)}, "must be finite, got inf"),
    ],
)
def test_bad_input_is_refused_in_one_line(change, message):
    arguments = {
        "gamma": 0.1,
        "aspect_ratio": 0.5,
        "nonlinearity": "tanh",
        "weights": np.eye(3),
        "mu": np.ones(3),
    }
    with pytest.raises(ValueError, match=message) as caught:
        predict(**arguments | change)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("c", [1.0, 2.0])
def test_a_point_that_is_not_found_is_said(c):
    """Nothing is left of the digits where gamma is 1e-30."""
    with pytest.raises(theory.ConvergenceError, match="at gamma = 1e-30, aspect_ratio"):
        predict(1e-30, c, "tanh", gaussian(6), vector(6))
