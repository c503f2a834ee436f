"""The theory at finite size: an independent table, its limit, and simulation."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interpolation_error import simulation, theory
from interpolation_error.model import data
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.theory import (
    ConvergenceError,
    InnerProducts,
    at_finite_size,
    attention_error_finite_size,
    finite_size,
    type_equations,
)
from interpolation_error.theory.fixed_point import solve_plain

TABLE = pd.read_csv(Path(__file__).parent / "data/attention_finite_size_theory.csv")
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
    # The table's own derivative is a finite difference.
    np.testing.assert_allclose(found.error, row.E_attention, rtol=3e-4)
    assert found.change < 3e-4 * found.error
    assert found.residual < 1e-8


@pytest.mark.parametrize("name", ["tanh", "cos", "relu", "sign"])
@pytest.mark.parametrize("diagonal", ["zero", "keep"])
@pytest.mark.parametrize("ratio", [1 / 3, 2])
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


@pytest.mark.parametrize(("n", "p"), [(300, 100), (200, 400)])
@pytest.mark.parametrize("snr", [1.0, 8.0])
def test_a_linear_function_with_its_diagonal_is_theorem_1(snr, n, p):
    """Nothing of it is left out by an expansion, and all of it is low rank."""
    products = aligned(snr, 1.0)
    found = attention_error_finite_size(GAMMA, n, p, "linear", products, "keep")
    expected = theory.attention_error(
        GAMMA, p / n, 1.0, 1.0, inner_products=products, diagonal_limit=1.0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("n", "p", "gamma", "error"),
    # Of 0.01: simulated 0.00045 with a standard error of 0.00009; of 0.1: 0.0021.
    [(600, 200, 0.01, 0.00047), (1200, 400, 0.1, 0.0022)],
)
def test_the_zeroth_order_is_taken_back_from_the_diagonal(n, p, gamma, error):
    found = attention_error_finite_size(gamma, n, p, "tanh", aligned(8.0, 2.8))
    assert found == pytest.approx(error, rel=0.03)


TINY = 1e-4


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


def test_equal_key_and_query_are_a_limit_of_different_ones():
    vectors = np.array([[np.sqrt(2.0), 0], [0.9, 1.2], [0.9, 1.2 + 1e-7]])
    near = InnerProducts.from_vectors(*vectors)
    for name in ("tanh", "sign"):
        found, equal = (
            attention_error_finite_size(0.1, 300, 100, name, products)
            for products in (near, aligned(2.0, 1.5, 0.6))
        )
        # The general route interpolates the covariance on a grid of its own.
        assert found == pytest.approx(equal, rel=1e-5)


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


@pytest.mark.parametrize(
    "vectors",
    [
        [[1e3, 0], [1e3, 0], [1e3, 0]],
        [[1e3, 0], [1e3, 0], [0, 1e3]],
    ],
    ids=["one vector", "two vectors"],
)
def test_scores_beyond_all_tables_are_refused(vectors):
    products = InnerProducts.from_vectors(*np.array(vectors))
    with pytest.raises(ConvergenceError, match="no prediction at finite size: ") as e:
        attention_error_finite_size(0.1, 300, 100, "tanh", products)
    assert "\n" not in str(e.value)
    settled = theory.errors_that_settle([0.1, 1.0], 300, 100, "tanh", products)
    assert np.all(np.isnan(settled))


def point_of_the_box(seed):
    """Return a setting from anywhere in the box in which nothing is refused."""
    rng = np.random.default_rng(seed)
    ratio, area = 16 ** rng.uniform(-1, 1), 10 ** rng.uniform(4.5, 6.5)
    n, p = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
    mu = np.sqrt([20 * rng.uniform(), 0.0, 0.0])

    def weights(coordinates):
        w = np.zeros(3)
        w[:coordinates] = rng.standard_normal(coordinates)
        return w / np.linalg.norm(w) * 4 * rng.uniform()

    # Mostly along the signal: more coordinates are the same, and slower.
    coordinates = (1, 1, 1, 2)[rng.integers(4)]
    w_k = weights(coordinates)
    w_q = w_k if rng.uniform() < 0.5 else weights(coordinates)
    names = ("tanh", "sigmoid", "truncated_exp", "cos", "relu", "sign")
    name, diagonal = rng.choice(names), rng.choice(["zero", "zero", "keep"])
    return n, p, str(name), InnerProducts.from_vectors(mu, w_k, w_q), str(diagonal)


@pytest.mark.parametrize("seed", [*range(12)])
def test_nothing_of_a_box_is_refused(seed):
    gamma = np.array([1e-6, 1e-4, 1e-2, 1.0, 10.0])
    found = finite_size(gamma, *point_of_the_box(seed))
    assert np.all(found.residual <= 1e-8)
    # The error grows with the penalty.
    assert np.all(np.diff(found.error) > -np.maximum(found.change[1:], 1e-9))


def test_key_and_query_are_not_taken_for_each_other():
    """Near the limit, where the query's alignment does the work, and not the key's."""
    n, p = 3 * 10**8, 10**8
    vectors = np.array([[1.5**0.5, 0.0], [2.0, 0.0], [0.0, 2.0]])
    mine = Nonlinearity("mine", lambda t: t / 2 + np.sqrt(3 / 8) * (t**2 - 1))
    found = []
    for key, query in ((1, 2), (2, 1)):
        products = InnerProducts.from_vectors(vectors[0], vectors[key], vectors[query])
        found.append(attention_error_finite_size(0.01, n, p, mine, products))
        expected = theory.attention_error(
            0.01, p / n, 0.5, 1.0, inner_products=products
        )
        assert found[-1] == pytest.approx(expected, rel=3e-3)
    assert found[0] > 1.5 * found[1]


def test_the_fixed_point_solves_the_plain_equations():
    """Written out type by type, without parities, scales or products of functions."""
    n, p, gamma, step = 90, 40, 0.05, 1e-5
    vectors = np.array([[1.2, 0.0], [0.9, 0.3], [0.2, 0.8]])
    f, c = get("truncated_exp"), p / n
    types = at_finite_size._types(*vectors, 4, p)
    kernels = at_finite_size._kernels(f, types, True, p, 1e-9)
    equations = type_equations.TypeEquations(c, types.weights, kernels)
    hermite = hermite_coefficients(f)
    penalties = gamma * np.exp([0.0, step, -step])
    limit = solve_plain(penalties, c, hermite.a1, hermite.nu, -hermite.a1)
    R, slope, residual = equations.solve(penalties, type_equations.entries(limit))
    assert np.all(residual <= type_equations.TOLERANCE)

    some = R[:, 0][type_equations.POSITION].transpose(2, 0, 1)
    # A mirrored type has the same R; odd functions change their sign.
    ends, C = [], []
    for sign in (1, -1):
        psi = np.hstack([kernels.even.psi, sign * kernels.odd.psi])
        chi = np.hstack([kernels.even.chi, sign * kernels.odd.chi])
        rank = psi.shape[1]
        rows = np.zeros((len(psi), 3, 2 * rank + 1))
        rows[:, 0, :rank], rows[:, 1, rank:-1], rows[:, 2, -1] = chi, psi, 1.0
        C.append(rows)
        ends.append(rank)
    values = np.concatenate([kernels.even.values, kernels.odd.values])
    A_P = np.zeros((2 * rank + 1,) * 2)
    A_P[:rank, rank:-1] = A_P[rank:-1, :rank] = np.diag(-c / values)
    A_P[-1, -1] = -1.0
    average = sum(
        w / 2 * rows.T @ one @ rows
        for side in C
        for w, one, rows in zip(types.weights, some, side, strict=True)
    )
    R_P = np.linalg.inv(A_P - average)
    for t, row in enumerate(C[0]):
        Sigma = c * row @ R_P @ row.T
        w = types.weights / c
        Sigma[0, 0] += w @ (kernels.variance[:, t] * some[:, 1, 1])
        Sigma[1, 1] += w @ (kernels.variance[t] * some[:, 0, 0])
        both = w @ (kernels.covariance[t] * some[:, 0, 1])
        Sigma[0, 1] += both
        Sigma[1, 0] += both
        A = np.array([[gamma, kernels.h[t], 0], [kernels.h[t], 0, -1], [0, -1, 0.0]])
        np.testing.assert_allclose(np.linalg.inv(A - Sigma), some[t], rtol=1e-6)

    quotient = (R[:, 1] - R[:, 2]) / (2 * step)
    np.testing.assert_allclose(slope[:, 0], quotient, rtol=1e-4, atol=1e-6)


def test_what_is_followed_down_is_what_is_found_from_the_limit():
    n, p, f = 600, 200, get("tanh")
    types = at_finite_size._types(*np.array([[2.0], [1.0], [1.0]]), 10, p)
    kernels = at_finite_size._kernels(f, types, False, p, 1e-5)
    equations = type_equations.TypeEquations(p / n, types.weights, kernels)
    hermite = hermite_coefficients(f)

    def limit(gamma):
        given = (p / n, hermite.a1, hermite.nu, -hermite.a1)
        return type_equations.entries(solve_plain(np.array([gamma]), *given))

    R, slope, _ = equations.solve(np.array([1e-4]), limit(1e-4))
    followed, its_slope, residual = equations.follow(10.0, 1e-4, limit(10.0))
    assert residual <= type_equations.TOLERANCE
    np.testing.assert_allclose(followed, R[:, 0], rtol=1e-6)
    sizes = np.abs(its_slope).max(axis=1, keepdims=True)
    np.testing.assert_allclose(its_slope / sizes, slope[:, 0] / sizes, atol=1e-6)


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


def test_what_has_not_settled_is_refused(monkeypatch):
    monkeypatch.setitem(at_finite_size.NODES, 1, (2, 4))
    with pytest.raises(ConvergenceError, match="the last step in nodes and terms") as e:
        attention_error_finite_size(1e-3, 300, 100, "tanh", aligned(8.0, 3.0))
    assert "\n" not in str(e.value)


def lost(gamma, *_):
    """Stand in for what solves on given types, and finds nothing at 0.1."""
    return np.where(gamma == 0.1, np.nan, gamma / 10), np.full(len(gamma), 0.5)


def test_a_penalty_that_is_not_found_takes_no_other_with_it(monkeypatch):
    monkeypatch.setattr(at_finite_size, "_errors", lost)
    settled = theory.errors_that_settle([1e-3, 0.1, 1.0], 300, 100, "tanh")
    np.testing.assert_array_equal(settled, [1e-4, np.nan, 0.1])
    with pytest.raises(ConvergenceError, match=r"gamma = 0.1, .* no fixed point") as e:
        finite_size([1e-3, 0.1, 1.0], 300, 100, "tanh")
    assert "\n" not in str(e.value)


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
