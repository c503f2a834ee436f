"""The theory at finite size: an independent table, its limit, and simulation."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interpolation_error import (
    data,
    simulation,
    theory,
    theory_finite_size,
    token_types,
)
from interpolation_error.nonlinearity import (
    Nonlinearity,
    diagonal_limit,
    get,
    hermite_coefficients,
)
from interpolation_error.theory import (
    ConvergenceError,
    InnerProducts,
    attention_error_finite_size,
    finite_size,
)
from interpolation_error.typed_pencil import Model

TABLE = pd.read_csv(
    Path(__file__).parent / "data/reference/attention_finite_size_theory.csv"
)
GAMMA = np.array([1e-3, 0.1, 3.0])


def aligned(snr, norm, cosine=1.0):
    """Return the inner products of one weight vector as key and query."""
    product = np.sqrt(snr) * norm * cosine
    return InnerProducts(snr, product, product, norm**2, norm**2, norm**2)


def limit(gamma, n, p, name, products, diagonal="zero"):
    hermite = hermite_coefficients(name)
    kept = diagonal_limit(name, p) if diagonal == "keep" else 0.0
    return theory.attention_error(
        *(gamma, p / n, hermite.a1, hermite.nu),
        inner_products=products,
        diagonal_limit=kept,
    )


@pytest.mark.parametrize(
    "row", list(TABLE.itertuples()), ids=lambda row: f"row {row.Index}"
)
def test_it_is_the_table_of_an_independent_program(row):
    products = InnerProducts(
        *(row.mu_mu, row.mu_w, row.mu_w, row.w_w, row.w_w, row.w_w)
    )
    name = row.nonlinearity.removesuffix("_centred")
    found = finite_size(row.gamma, row.n, row.p, name, products, row.diagonal)
    # The table's own derivative is a finite difference, good to about 1e-4.
    np.testing.assert_allclose(found.error, row.E_attention, rtol=1e-4)
    assert found.change < 3e-4 * found.error
    assert found.residual < 1e-8


def pair_means(f, omega):
    """Return F_0, F_1 and E f(xi + omega_ij) f(xi + omega_ji), pair by pair."""
    x, w = np.polynomial.legendre.leggauss(12)
    a0 = hermite_coefficients(f).a0
    found = np.empty((3, *omega.shape))
    for (i, j), a in np.ndenumerate(omega):
        b = omega[j, i]
        cuts = np.array([k - shift for k in f.kinks for shift in (a, b)])
        edges = np.union1d(np.linspace(-9, 9, 73), cuts[np.abs(cuts) < 9])
        half = np.diff(edges)[:, None] / 2
        xi = (edges[:-1, None] + half * (1 + x)).ravel()
        weights = (half * w).ravel() * stats.norm.pdf(xi)
        one, other = f(xi + a) - a0, f(xi + b) - a0
        found[:, i, j] = weights @ one, weights @ (xi * one), weights @ (one * other)
    return found


def dense(gamma, n, p, f, vectors, count, diagonal):
    """Return the error by (8.8) to (8.10) as they stand: dense, plain and slow.

    Both labels, kernels pair by pair, no expansion and no scaling; the fixed point and
    its slope by damped steps alone.
    """
    half = token_types.types(vectors, p, count)
    t = np.concatenate([half.coordinates, -half.coordinates])
    y = np.repeat([1.0, -1.0], len(half.weights))
    pi, c, T = np.tile(half.weights, 2) / 2, p / n, len(y)
    omega = t @ (np.eye(t.shape[1]) + np.outer(*vectors[1:])) @ t.T / np.sqrt(p)
    F0, F1, mixed = pair_means(f, omega)
    V = square_mean(f, omega) - F0**2 - F1**2
    cov = mixed - F0 * F0.T - F1 * F1.T
    root = np.sqrt(np.outer(pi, pi))
    h = -np.diagonal(F1).copy()
    if diagonal == "keep":
        own = np.sqrt(p) + np.diagonal(omega)
        h += (f(own) - hermite_coefficients(f).a0) / np.sqrt(p)
    A, N, F = np.zeros((T, 3, 3)), np.zeros((3, T, 3, T)), np.zeros((3, T, 3, T))
    A[:, 0, 0], A[:, 1, 2], A[:, 2, 1] = gamma, -1, -1
    A[:, 0, 1] = A[:, 1, 0] = h
    N[1, :, 0], N[0, :, 1], N[2, :, 2] = -F1 * root / c, -F1.T * root / c, -root
    F[1, :, 0], F[0, :, 1] = n / np.sqrt(p) * np.array([F0 * root, F0.T * root])
    F[2, :, 2] = t @ t.T * root

    def flat(R):
        return np.einsum("tab,ts->atbs", R, np.eye(T)).reshape(3 * T, 3 * T)

    def energies(P, R):
        Sigma = c * np.einsum("atbt->tab", P.reshape(3, T, 3, T)) / pi[:, None, None]
        Sigma[:, 0, 0] += V.T @ (pi * R[:, 1, 1]) / c
        Sigma[:, 1, 1] += V @ (pi * R[:, 0, 0]) / c
        Sigma[:, 0, 1] += cov @ (pi * R[:, 0, 1]) / c
        Sigma[:, 1, 0] += cov @ (pi * R[:, 0, 1]) / c
        return Sigma

    def settled(step, R):
        for _ in range(2000):
            R, before = (R + step(R)) / 2, R
            if np.max(np.abs(R - before)) < 1e-12 * np.max(np.abs(R)):
                return R
        raise AssertionError("not settled")

    N, one = N.reshape(3 * T, 3 * T), np.eye(3 * T)
    E11 = np.diag([1.0, 0.0, 0.0])

    def pencil(R):
        return N @ np.linalg.inv(one - flat(R) @ N)

    R = settled(lambda R: np.linalg.inv(A - energies(pencil(R), R)), np.linalg.inv(A))
    P = pencil(R)
    dR = settled(lambda dR: R @ (energies(P @ flat(dR) @ P, dR) - E11) @ R, 0 * R)
    inverse = np.linalg.inv(R)
    x = np.concatenate([np.sqrt(pi) * y, np.zeros(2 * T)])
    x = np.linalg.solve(flat(inverse) + F.reshape(one.shape), x)
    return -(gamma**2) * x @ flat(inverse @ dR @ inverse) @ x


def square_mean(f, omega):
    """Return E f(xi + omega)^2, f centred."""
    found = [pair_means(f, np.array([[x]]))[2] for x in omega.ravel()]
    return np.reshape(found, omega.shape)


@pytest.mark.parametrize(
    ("gamma", "n", "p", "name", "diagonal", "vectors"),
    [
        (0.1, 600, 200, "tanh", "zero", [[1.5], [1.5], [1.5]]),
        (0.01, 300, 400, "sign", "keep", [[1.5], [1.5], [1.0]]),
        (0.1, 200, 600, "cos", "zero", [[1.0, 0.0], [0.5, 1.0], [0.5, 1.0]]),
        (0.01, 600, 200, "relu", "keep", [[1.5, 0.0], [1.0, 1.0], [0.0, 1.0]]),
        # The share of scores reaches 30 here.
        (0.01, 600, 200, "sign", "zero", [[2.8, 0.0], [4.0, 2.0], [4.0, -2.0]]),
    ],
)
def test_it_is_the_dense_formula(gamma, n, p, name, diagonal, vectors):
    f, vectors, count = get(name), np.array(vectors), 5 if len(vectors[0]) == 1 else 3
    types = token_types.types(vectors, p, count)
    kernels = token_types.kernels(f, types, p, diagonal == "keep")
    model = Model.of(n, p, types, kernels)
    (found,), _ = theory_finite_size._follow(np.array([gamma]), model, f)
    # What is left out of the expansions is 1e-8 of them.
    expected = dense(gamma, n, p, f, vectors, count, diagonal)
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("ratio", "diagonal", "name"),
    [
        (1 / 3, "zero", "tanh"),
        (2, "keep", "tanh"),
        (2, "zero", "cos"),
        (1 / 3, "keep", "cos"),
        (1 / 3, "zero", "relu"),
        (2, "keep", "relu"),
        (2, "zero", "sign"),
        (1 / 3, "keep", "sign"),
    ],
)
def test_it_tends_to_theorem_1_at_the_rate_of_the_signals_share(ratio, diagonal, name):
    products = aligned(1.0, 1.0)
    sizes = 10.0 ** np.array([4, 6, 8])
    distances = []
    for size in sizes:
        n, p = int(size / ratio), int(size)
        found = attention_error_finite_size(GAMMA, n, p, name, products, diagonal)
        expected = limit(GAMMA, n, p, name, products, diagonal)
        distances.append(np.max(np.abs(found / expected - 1)))
    assert distances[-1] < 2e-3
    # The share falls as p^(-1/2); without a_2, or where it cancels, faster.
    slopes = np.diff(np.log(distances)) / np.diff(np.log(sizes))
    assert np.all(slopes < -0.4)


@pytest.mark.parametrize("gamma", [1e-6, 1e-2, 1e2])
def test_no_signal_and_no_weights_leave_a_small_share(gamma):
    n, p = 3 * 10**7, 10**7
    found = attention_error_finite_size(gamma, n, p, "tanh")
    expected = limit(gamma, n, p, "tanh", InnerProducts())
    np.testing.assert_allclose(found, expected, rtol=1e-3)


@pytest.fixture
def few_nodes(monkeypatch):
    """Take fewer nodes, where a third of a percent does not matter."""
    monkeypatch.setitem(theory_finite_size.NODES, 2, (6, 8))
    monkeypatch.setitem(theory_finite_size.NODES, 3, (4, 6))
    monkeypatch.setattr(theory_finite_size, "SETTLED", 3e-3)


TINY = 1e-4


@pytest.mark.usefixtures("few_nodes")
@pytest.mark.parametrize("other", [TINY**2, 0.0], ids=["a plane", "a space"])
def test_more_coordinates_than_are_needed_matter_as_one_over_p(other):
    """Weights of next to no length do nothing, but their coordinates count beside p."""
    products = InnerProducts(2.0, 0.0, 0.0, TINY**2, TINY**2, other)
    moved = []
    for p in (100, 1000):
        one = attention_error_finite_size(0.1, 3 * p, p, "tanh", InnerProducts(2.0))
        more = attention_error_finite_size(0.1, 3 * p, p, "tanh", products)
        moved.append(abs(more / one - 1))
    assert moved[0] < 1 / 100
    assert moved[1] < moved[0] / 5


@pytest.mark.usefixtures("few_nodes")
def test_equal_key_and_query_are_a_limit_of_different_ones():
    vectors = np.array([[np.sqrt(2.0), 0], [0.9, 1.2], [0.9, 1.2 + 1e-7]])
    near = InnerProducts.from_vectors(*vectors)
    for name in ("tanh", "sign"):
        found, equal = (
            attention_error_finite_size(0.1, 300, 100, name, products)
            for products in (near, aligned(2.0, 1.5, 0.6))
        )
        # The general route has the covariance from a quadrature of its own.
        assert found == pytest.approx(equal, rel=1e-6)


@pytest.mark.usefixtures("few_nodes")
def test_key_and_query_are_not_exchangeable_but_their_signs_are():
    n, p = 300, 100
    vectors = np.array([[1.2, 0], [1.0, 0.0], [0.0, 1.0]])
    key, query = (
        InnerProducts.from_vectors(vectors[0], vectors[a], vectors[b])
        for a, b in ((1, 2), (2, 1))
    )
    turned = InnerProducts.from_vectors(vectors[0], -vectors[1], -vectors[2])
    errors = [
        attention_error_finite_size(GAMMA, n, p, "relu", x)
        for x in (key, query, turned)
    ]
    np.testing.assert_allclose(errors[2], errors[0], rtol=1e-8)
    assert np.max(np.abs(errors[1] / errors[0] - 1)) > 1e-3


def test_without_a_linear_component_the_signal_is_felt_all_the_same():
    errors = [
        attention_error_finite_size(0.01, 300, 100, "cos", aligned(snr, 1.0))
        for snr in (0.01, 2.0, 4.0)
    ]
    limits = [limit(0.01, 300, 100, "cos", aligned(snr, 1.0)) for snr in (0.01, 4.0)]
    assert errors[0] > errors[1] > errors[2]
    assert limits[0] == pytest.approx(limits[1], rel=1e-9)


@pytest.mark.usefixtures("few_nodes")
@pytest.mark.parametrize(
    ("name", "diagonal", "cosines"),
    [
        ("tanh", "zero", (1.0, 0.0)),
        ("sign", "zero", (0.7, -0.4)),
        ("truncated_exp", "zero", None),
        ("tanh", "keep", None),
    ],
)
def test_it_is_nearer_to_simulation_than_chance_allows(name, diagonal, cosines):
    """One statistic a draw, the mean deviation over penalties, and t over draws."""
    n, p, snr, draws = 450, 180, 3.0, 16
    deviations, products = [], None
    for draw in range(draws):
        axes = data.directions(4, draw, p)
        mu, y = np.sqrt(snr) * axes[0], data.alternating_labels(n)
        X = data.signal_plus_noise(data.noise(4, draw, p, n), y, mu)
        first, second = cosines or (1.0, 1.0)
        w_k = data.aligned_weights(axes[0], axes[1], 1.0, first)
        w_q = w_k
        if cosines:
            w_q = data.aligned_weights(axes[0], axes[2], 1.0, second)
        if products is None:
            products = InnerProducts.from_vectors(mu, w_k, w_q)
            predicted = attention_error_finite_size(
                GAMMA, n, p, name, products, diagonal
            )
        error = simulation.attention_error(X, y, GAMMA, name, w_k, w_q, diagonal)
        deviations.append(np.mean(error / predicted - 1))
    mean, error = np.mean(deviations), stats.sem(deviations)
    # What is left out is of the order of 1/p.
    assert abs(mean) < stats.t.ppf(0.999, draws - 1) * error + 3 / p


def test_penalties_come_in_any_order_and_shape():
    products = aligned(2.0, 1.0)
    row = attention_error_finite_size(GAMMA, 300, 100, "tanh", products)
    turned = attention_error_finite_size(GAMMA[::-1], 300, 100, "tanh", products)
    np.testing.assert_allclose(turned[::-1], row, rtol=1e-12)
    square = np.array([[1e-3, 0.1], [3.0, 0.1]])
    found = attention_error_finite_size(square, 300, 100, "tanh", products)
    assert found.shape == (2, 2)
    np.testing.assert_allclose(found[0, 1], row[1], rtol=1e-6)
    single = attention_error_finite_size(0.1, 300, 100, "tanh", products)
    assert isinstance(single, float)
    assert single == pytest.approx(row[1], rel=1e-6)


@pytest.mark.parametrize("ratio", [1 / 4, 1, 4])
@pytest.mark.parametrize("name", ["tanh", "cos"])
def test_small_penalties_are_found(ratio, name):
    gamma, p = np.geomspace(1e-8, 1e-4, 5), 200
    products = aligned(0.5, 0.7)
    found = finite_size(gamma, int(p / ratio), p, name, products, "keep")
    assert np.all(np.diff(found.error) > 0), "the error grows with the penalty"
    if ratio < 1:
        assert found.error[0] == pytest.approx(found.error[2], rel=1e-3)
    else:
        # As Theorem 1: a power of the penalty.
        slopes = np.diff(np.log(found.error)) / np.diff(np.log(gamma))
        np.testing.assert_allclose(slopes[:2], slopes[0], rtol=0.05)


def test_what_has_not_settled_is_refused(monkeypatch):
    monkeypatch.setattr(theory_finite_size, "NODES", {1: (3, 5)})
    with pytest.raises(ConvergenceError, match="from 3 to 5 nodes a coordinate") as e:
        attention_error_finite_size(1e-3, 300, 100, "tanh", aligned(8.0, 3.0))
    assert "\n" not in str(e.value)


def test_a_fixed_point_that_is_not_found_is_no_number(monkeypatch):
    monkeypatch.setattr("interpolation_error.typed_pencil.STEPS", 2)
    with pytest.raises(ConvergenceError, match="its residual stays at") as error:
        attention_error_finite_size(1e-3, 300, 100, "tanh", aligned(2.0, 1.0))
    assert "\n" not in str(error.value)


def test_scores_on_which_a_function_is_infinite_are_refused():
    with pytest.raises(ConvergenceError, match="'exp' is not finite on all") as error:
        attention_error_finite_size(0.1, 300, 100, "exp", aligned(40.0, 9.0))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"n": 0}, "n must be"),
        ({"p": 1.5}, "p must be"),
        ({"nonlinearity": "tan"}, "nonlinearity must be one of"),
        ({"diagonal": "drop"}, "diagonal must be one of zero, keep, got 'drop'"),
        ({"diagonal": "keep", "nonlinearity": "exp"}, "diagonal 'keep' needs"),
        ({"inner_products": InnerProducts([1.0, 2.0])}, "must be single numbers"),
    ],
)
def test_bad_input_is_one_clear_line(change, message):
    given = {"gamma": 0.1, "n": 300, "p": 100, "nonlinearity": "tanh", **change}
    with pytest.raises(ValueError, match=message) as error:
        attention_error_finite_size(**given)
    assert "\n" not in str(error.value)


def test_a_function_of_the_users():
    mine = Nonlinearity("mine", lambda t: np.abs(t) * np.sign(t), kinks=(0.0,))
    found = attention_error_finite_size(0.1, 300, 100, mine, aligned(1.0, 1.0))
    linear = attention_error_finite_size(0.1, 300, 100, "linear", aligned(1.0, 1.0))
    assert found == pytest.approx(linear, rel=1e-8)
