"""The interpolation error against the dense formula and against an SVD."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interpolation_error.model.data import (
    aligned_weights,
    alternating_labels,
    directions,
    noise,
    signal_plus_noise,
)
from interpolation_error.model.hermite import hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.simulation import (
    attention,
    attention_error,
    linear_regression_error,
    peak_memory,
    probe,
)

EPSILON = np.finfo(float).eps
# More tokens than dimensions, as many, fewer; odd numbers among them.
SHAPES = [(20, 61), (40, 40), (41, 43), (90, 37), (7, 8), (64, 64), (3, 50)]
# Both sides of the switch between one decomposition a penalty and one for all.
NUMBERS = [1, 3, probe.FEW, probe.FEW + 1, 25]


def draw(dimension, tokens, snr=2.0, replicate=0):
    """Return tokens, labels and the three directions of one draw."""
    labels = alternating_labels(tokens)
    axes = directions(11, replicate, dimension)
    mu = np.sqrt(snr) * axes[0]
    Z = noise(11, replicate, dimension, tokens)
    return signal_plus_noise(Z, labels, mu), labels, axes


def weights(axes, kind):
    """Return w_K and w_Q that are absent, one vector, or different ones."""
    mu, key, query = axes
    if kind == "none":
        return None, None
    w_k = aligned_weights(mu, key, 1.5, 0.7)
    return w_k, w_k if kind == "equal" else aligned_weights(mu, query, 1.2, -0.4)


@pytest.fixture(params=[None, 1, 5, 32], ids="{} tokens a block".format)
def block_size(request, monkeypatch):
    """Shrink the blocks of tokens; None leaves one block for all sizes here."""
    if request.param is not None:
        monkeypatch.setattr(attention, "BLOCK_BYTES", 8 * request.param**2)
    return request.param


def attention_output(X, f, w_k, w_q, diagonal):
    """Return A = X K, by the definition."""
    p, n = X.shape
    W = np.eye(p)
    if w_k is not None:
        W += np.outer(w_k, w_q)
    K = (f(X.T @ W @ X / np.sqrt(p)) - hermite_coefficients(f).a0) / np.sqrt(p)
    if diagonal == "zero":
        K[np.arange(n), np.arange(n)] = 0
    return X @ K


def error_by_solve(A, y, gamma):
    """Return E for each penalty as the paper writes it, with an n by n resolvent."""
    n = len(y)
    Q_y = [np.linalg.solve(A.T @ A / n + g * np.eye(n), y) for g in gamma]
    return np.array([g**2 * (x @ x) / n for g, x in zip(gamma, Q_y, strict=True)])


def error_by_svd(A, y, gamma):
    """Return E for each penalty, and the largest eigenvalue of the Gram matrix."""
    n = len(y)
    _, singular, Vt = np.linalg.svd(A)
    eigenvalues = np.zeros(n)
    eigenvalues[: len(singular)] = singular**2 / n
    shrunk = gamma[:, None] / (gamma[:, None] + eigenvalues)
    return np.mean((shrunk * (Vt @ y)) ** 2, axis=1), eigenvalues.max()


def assert_accurate(computed, A, y, gamma):
    """Hold errors against an SVD as closely as the size of gamma allows."""
    expected, largest = error_by_svd(A, y, gamma)
    allowed = np.where(gamma >= 1e-3, 1e-10, 100 * EPSILON * largest / gamma)
    relative = np.abs(computed - expected) / expected
    assert np.all(relative <= allowed), (relative / allowed).max()


def assert_dense(name, shape, kind, diagonal):
    """Hold attention against the n by n formula."""
    X, y, axes = draw(*shape)
    w_k, w_q = weights(axes, kind)
    gamma = np.array([0.01, 1.0, 30.0])
    A = attention_output(X, get(name), w_k, w_q, diagonal)
    computed = attention_error(X, y, gamma, name, w_k, w_q, diagonal)
    np.testing.assert_allclose(computed, error_by_solve(A, y, gamma), rtol=1e-9)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_regression_is_as_accurate_as_an_svd(shape, number):
    X, y, _ = draw(*shape)
    gamma = np.geomspace(1e-8, 1e4, number)
    assert_accurate(linear_regression_error(X, y, gamma), X, y, gamma)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["tanh", "cos", "relu"])
def test_attention_is_as_accurate_as_an_svd(name, shape, number):
    X, y, axes = draw(*shape)
    w_k, w_q = weights(axes, "equal")
    gamma = np.geomspace(1e-8, 1e4, number)
    A = attention_output(X, get(name), w_k, w_q, "zero")
    assert_accurate(attention_error(X, y, gamma, name, w_k, w_q), A, y, gamma)


@pytest.mark.parametrize("diagonal", ["zero", "keep"])
@pytest.mark.parametrize("kind", ["none", "equal", "different"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("block_size")
def test_attention_is_the_dense_formula(shape, kind, diagonal):
    assert_dense("truncated_exp", shape, kind, diagonal)


@pytest.mark.parametrize("diagonal", ["zero", "keep"])
@pytest.mark.parametrize("kind", ["none", "equal", "different"])
@pytest.mark.parametrize("name", ["tanh", "linear", "sign"])
def test_other_functions_are_the_dense_formula_too(name, kind, diagonal):
    for shape in [(20, 61), (90, 37)]:
        assert_dense(name, shape, kind, diagonal)


def test_the_default_blocks_are_several_and_uneven():
    shape = (40, 601)
    assert attention._block_size(601) == 201
    assert_dense("truncated_exp", shape, "different", "zero")


@pytest.mark.parametrize("snr", [10, 1e4])
@pytest.mark.parametrize("shape", [(50, 100), (60, 60), (90, 61)])
def test_a_strong_signal_costs_no_more_digits_than_its_eigenvalue(shape, snr):
    X, y, _ = draw(*shape, snr=snr)  # E falls to 1e-8, far below the labels' 1
    gamma = np.geomspace(1e-7, 1, 13)
    for name in (None, "tanh", "cos"):
        A, computed = X, linear_regression_error(X, y, gamma)
        if name is not None:
            A = attention_output(X, get(name), None, None, "zero")
            computed = attention_error(X, y, gamma, name)
        expected, largest = error_by_svd(A, y, gamma)
        allowed = 100 * EPSILON * largest / gamma
        assert np.all(np.abs(computed / expected - 1) <= allowed)


@pytest.mark.parametrize("kind", ["zero", "equal to another", "multiple of another"])
@pytest.mark.parametrize("shape", [(30, 61), (40, 40), (61, 30)])
def test_dependent_tokens_are_tokens_all_the_same(shape, kind):
    X, y, _ = draw(*shape)
    X[:, 7] = X[:, 3] * {"z": 0, "e": 1, "m": -2}[kind[0]]
    gamma = np.array([0.01, 1.0, 30.0])
    A = attention_output(X, get("sigmoid"), None, None, "zero")
    np.testing.assert_allclose(
        attention_error(X, y, gamma, "sigmoid"), error_by_solve(A, y, gamma), rtol=1e-9
    )


@pytest.mark.parametrize("n", [1, 5, 255, 256, 257, 4096, 4097, 65536])
def test_blocks_cover_the_tokens_within_their_budget(n):
    size = attention._block_size(n)
    assert 8 * size**2 <= attention.BLOCK_BYTES
    # No more blocks than the budget needs, and none wastefully small but the last.
    assert -(-n // size) == -(-n // 256)


@pytest.mark.parametrize(("kind", "times"), [("equal", 1), ("different", 2)])
@pytest.mark.parametrize("shape", [(12, 90), (90, 60)])
@pytest.mark.parametrize("block_size", [5], indirect=True)
def test_a_score_of_two_tokens_is_passed_to_the_function_once(
    block_size, shape, kind, times
):
    seen = []

    def counted(t):
        seen.append(t.size)
        return np.tanh(t)

    f = Nonlinearity("counted", counted)
    hermite_coefficients(f)
    integration = sum(seen[2:])  # the first two are trials
    X, y, axes = draw(*shape)
    w_k, w_q = weights(axes, kind)
    seen.clear()
    attention_error(X, y, 0.1, f, w_k, w_q)
    n = shape[1]
    pairs = n * (n - block_size) // 2
    assert sum(seen) - integration == times * pairs + n * block_size


def traced_peak(call):
    """Return the most bytes that Python's arrays held during a call."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize("shape", [(40, 1500), (700, 1000), (500, 500), (1100, 500)])
@pytest.mark.parametrize("kind", ["none", "different"])
def test_memory_is_as_foretold(shape, number, kind):
    p, n = shape
    X, y, axes = draw(p, n)
    w_k, w_q = weights(axes, kind)
    gamma = np.geomspace(0.1, 1, number)
    foretold = peak_memory(n, p) - X.nbytes
    for peak in (
        traced_peak(lambda: attention_error(X, y, gamma, "relu", w_k, w_q)),
        traced_peak(lambda: linear_regression_error(X, y, gamma)),
    ):
        assert peak < foretold
    attention = traced_peak(lambda: attention_error(X, y, gamma, "relu", w_k, w_q))
    assert attention > 0.3 * foretold
    if n > 10 * p:
        assert attention < 8 * n**2 / 2


def test_the_same_call_gives_the_same_bits():
    X, y, axes = draw(60, 300)
    w_k, w_q = weights(axes, "different")
    gamma = np.geomspace(1e-6, 1, 20)
    for call in (
        lambda X: attention_error(X, y, gamma, "tanh", w_k, w_q),
        lambda X: linear_regression_error(X, y, gamma),
    ):
        first = call(X)
        crowd = [np.ones(7), X.copy()]  # moves what is allocated next
        np.testing.assert_array_equal(call(X.copy()), first)
        assert len(crowd) == 2


@given(st.integers(3, 30), st.integers(1, 30), st.integers(0, 5), st.floats(0, 8))
@settings(max_examples=40, deadline=None)
def test_error_is_between_0_and_1_and_grows_with_gamma(p, n, replicate, snr):
    X, y, _ = draw(p, n, snr, replicate)
    gamma = np.geomspace(1e-4, 1e6, 11)
    for error in (
        linear_regression_error(X, y, gamma),
        attention_error(X, y, gamma, "sigmoid"),
    ):
        assert np.all((error >= 0) & (error <= 1 + 1e-12))
        assert np.all(np.diff(error) >= -1e-12)


def test_error_tends_to_the_unexplained_part_and_to_1():
    X, y, _ = draw(20, 61)
    beta, *_ = np.linalg.lstsq(X.T, y, rcond=None)
    unexplained = np.mean((y - X.T @ beta) ** 2)
    assert linear_regression_error(X, y, 1e-9) == pytest.approx(unexplained, rel=1e-9)
    assert linear_regression_error(X, y, 1e9) == pytest.approx(1, abs=1e-6)


def test_orthonormal_tokens_have_a_closed_form():
    # X = I: E = (gamma / (1/n + gamma))^2.
    gamma = np.array([0.01, 0.2, 3.0])
    expected = (gamma / (0.2 + gamma)) ** 2
    computed = linear_regression_error(np.eye(5), alternating_labels(5), gamma)
    np.testing.assert_allclose(computed, expected, rtol=1e-14)


@pytest.mark.parametrize("shape", [(12, 31), (31, 12)])
def test_renaming_tokens_rotating_space_or_flipping_labels_changes_nothing(shape):
    p, n = shape
    X, y, axes = draw(*shape)
    w_k, w_q = weights(axes, "different")
    order = np.random.default_rng(0).permutation(n)
    rotation, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((p, p)))
    error = attention_error(X, y, [0.1], "sigmoid", w_k, w_q)
    for other in (
        attention_error(X[:, order], y[order], [0.1], "sigmoid", w_k, w_q),
        attention_error(
            rotation @ X, y, [0.1], "sigmoid", rotation @ w_k, rotation @ w_q
        ),
        attention_error(X, -y, [0.1], "sigmoid", w_k, w_q),
    ):
        np.testing.assert_allclose(other, error, rtol=1e-11)


def test_a_constant_added_to_the_nonlinearity_changes_nothing():
    X, y, _ = draw(12, 31)
    raised = Nonlinearity("raised", lambda t: np.tanh(t) + 3)
    expected = attention_error(X, y, 0.1, "tanh")
    assert attention_error(X, y, 0.1, raised) == pytest.approx(expected, rel=1e-11)


def test_opposite_weights_are_the_same_weights():
    X, y, axes = draw(12, 31)
    w_k, w_q = weights(axes, "different")
    assert attention_error(X, y, 0.1, "tanh", -w_k, -w_q) == pytest.approx(
        attention_error(X, y, 0.1, "tanh", w_k, w_q), rel=1e-12
    )


@pytest.mark.parametrize("number", NUMBERS)
def test_both_ways_to_decompose_agree(number):
    X, y, _ = draw(30, 30)
    gamma = np.geomspace(1e-2, 1e2, number)
    H = X @ X.T / 30
    np.testing.assert_allclose(
        probe._solve_by_tridiagonal(H.copy(order="F"), y, gamma),
        probe._solve_by_cholesky(H.copy(order="F"), y, gamma),
        rtol=1e-9,
    )


@pytest.mark.parametrize(("number", "few"), [(n, n <= probe.FEW) for n in NUMBERS])
def test_the_number_of_penalties_alone_chooses_the_decomposition(
    monkeypatch, number, few
):
    used = []
    for name in ("_solve_by_cholesky", "_solve_by_tridiagonal"):
        original = getattr(probe, name)

        def noted(*arguments, name=name, original=original):
            used.append(name)
            return original(*arguments)

        monkeypatch.setattr(probe, name, noted)
    for shape in [(20, 61), (61, 20)]:
        X, y, _ = draw(*shape)
        linear_regression_error(X, y, np.geomspace(0.1, 1, number))
    expected = "_solve_by_cholesky" if few else "_solve_by_tridiagonal"
    assert used == [expected, expected]


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (1, 1), (2, 3)])
@pytest.mark.parametrize("number", [1, 20])
def test_the_smallest_sizes_work(shape, number):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal(shape), alternating_labels(shape[1])
    gamma = np.geomspace(0.1, 1, number)
    for error, A in (
        (linear_regression_error(X, y, gamma), X),
        (
            attention_error(X, y, gamma, "sigmoid", diagonal="keep"),
            attention_output(X, get("sigmoid"), None, None, "keep"),
        ),
    ):
        np.testing.assert_allclose(error, error_by_solve(A, y, gamma), rtol=1e-12)


def test_a_scalar_gives_a_float_and_an_array_its_shape():
    X, y, _ = draw(5, 8)
    for error in (
        lambda gamma: linear_regression_error(X, y, gamma),
        lambda gamma: attention_error(X, y, gamma, "tanh"),
    ):
        assert type(error(0.5)) is float
        assert type(error(np.float64(0.5))) is float
        assert type(error(np.array(0.5))) is float
        assert error([0.5]).shape == (1,)
        square = error([[0.1, 0.2], [0.3, 0.4]])
        assert square.shape == (2, 2)
        assert square[1, 0] == pytest.approx(error(0.3), rel=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_arguments_are_left_as_they_were(order):
    for shape in [(6, 11), (11, 6)]:
        X, y, axes = draw(*shape)
        X = X.copy(order=order)
        w_k, w_q = weights(axes, "different")
        copies = [array.copy() for array in (X, y, w_k, w_q)]
        gamma = np.geomspace(0.1, 1, 20)
        attention_error(X, y, gamma, "tanh", w_k, w_q)
        linear_regression_error(X, y, gamma)
        for array, copy in zip((X, y, w_k, w_q), copies, strict=True):
            np.testing.assert_array_equal(array, copy)


def test_lists_and_other_number_types_are_taken():
    X = [[1, 2, 0], [0, 1, 1]]
    floats = np.array(X, dtype=float)
    for one, other in ((X, floats), (np.array(X, np.float32), floats)):
        assert attention_error(one, [1, -1, 1], 1, "tanh") == attention_error(
            other, np.array([1.0, -1.0, 1.0]), 1.0, "tanh"
        )


GOOD = {
    "tokens": np.arange(1.0, 13.0).reshape(3, 4) % 5,
    "labels": [1, -1, 1, -1],
    "gamma": [0.5],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": np.full((3, 4), np.nan)}, "tokens must be finite"),
        ({"tokens": np.zeros((3, 0))}, r"tokens must not be empty, got shape \(3, 0\)"),
        ({"tokens": np.zeros(4)}, r"tokens must have shape \(dimension, tokens\)"),
        ({"tokens": [["a"]]}, "tokens must be real numbers"),
        ({"tokens": 1j * np.ones((3, 4))}, "tokens must be real numbers"),
        ({"labels": [1, -1, 1]}, r"labels must be one for each token, shape \(4,\)"),
        ({"labels": [1, -1, 1, 0.5]}, r"labels must be \+1 or -1, got 0.5"),
        ({"labels": [1, -1, 1, np.nan]}, "labels must be finite"),
        ({"labels": [[1, -1, 1, 1]]}, r"labels must be one for each token"),
        ({"gamma": 0.0}, "gamma must be positive, got 0.0"),
        ({"gamma": [0.1, -1.0]}, "gamma must be positive, got -1.0"),
        ({"gamma": np.nan}, "gamma must be finite"),
        ({"gamma": np.inf}, "gamma must be finite"),
        ({"gamma": []}, "gamma must not be empty"),
    ],
)
def test_bad_tokens_labels_or_penalties_are_one_clear_line(change, message):
    arguments = {**GOOD, **change}
    with pytest.raises(ValueError, match=message):
        linear_regression_error(**arguments)
    with pytest.raises(ValueError, match=message):
        attention_error(**arguments, nonlinearity="tanh")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nonlinearity": "tan"}, "nonlinearity must be one of arctan, cos"),
        ({"w_k": np.ones(3)}, "must be given together, got w_k without w_q"),
        ({"w_q": np.ones(3)}, "must be given together, got w_q without w_k"),
        (
            {"w_k": np.ones(4), "w_q": np.ones(3)},
            r"w_k must have one entry for each row of tokens, shape \(3,\), got \(4,\)",
        ),
        ({"w_k": np.ones(3), "w_q": np.full(3, np.inf)}, "w_q must be finite"),
        ({"diagonal": "drop"}, "diagonal must be one of zero, keep, got 'drop'"),
        ({"diagonal": None}, "diagonal must be one of zero, keep, got None"),
        (
            {"nonlinearity": Nonlinearity("exp", np.exp), "diagonal": "keep"},
            "which 'exp' is not: its diagonal would grow without limit",
        ),
        (
            {
                "nonlinearity": Nonlinearity(
                    "cut", lambda t: np.where(abs(t) < 40, t, np.nan)
                ),
                "tokens": 10 * GOOD["tokens"],
            },
            "nonlinearity 'cut' must be finite on the scores",
        ),
    ],
)
def test_bad_attention_is_one_clear_line(change, message):
    with pytest.raises(ValueError, match=message):
        attention_error(**{**GOOD, "nonlinearity": "tanh", **change})


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 5), "tokens must be a whole number from 1, got 0"),
        ((5, 2.0), "dimension must be a whole number from 1, got 2.0"),
    ],
)
def test_memory_of_no_sizes_is_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        peak_memory(*sizes)


@pytest.mark.parametrize("number", [1, 20])
@pytest.mark.parametrize("shape", [(3, 8), (8, 8)])
def test_a_penalty_below_the_rounding_of_a_singular_gram_matrix_is_refused(
    shape, number
):
    X, y, _ = draw(*shape)
    X[-1] = X[0]
    with pytest.raises(ValueError, match="gamma must be larger than the rounding"):
        linear_regression_error(1e3 * X, y, np.full(number, 1e-30))
