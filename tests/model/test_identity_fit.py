"""The best multiple of the identity plus low rank, and the spectrum of weights."""

import numpy as np
import pytest

from interpolation_error.model.identity_fit import describe, fit


def gaussian(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def left(W, tau, rank):
    """Return the share that the best L of a rank leaves of W - tau I."""
    squares = np.linalg.svd(W - tau * np.eye(len(W)), compute_uv=False) ** 2
    return squares[rank:].sum() / np.linalg.norm(W) ** 2


@pytest.mark.parametrize("tau", [2.0, -0.3, 0.0])
def test_a_multiple_of_the_identity_plus_low_rank_is_found(tau):
    p, rank = 20, 3
    L = gaussian(p, rank) @ gaussian(rank, p, seed=1)
    found = fit(tau * np.eye(p) + L, rank)
    assert found.left == pytest.approx(0, abs=1e-10)
    # Flat to 1e-10 within a square root of it.
    assert found.tau == pytest.approx(tau, abs=1e-4)
    np.testing.assert_allclose(found.a @ found.b.T, L, atol=1e-3)
    np.testing.assert_allclose(found.b.T @ found.b, np.eye(rank), atol=1e-12)


def two_levels(p):
    """Return a matrix with a local minimum of the share on either side."""
    W = np.diag(np.where(np.arange(p) % 2, 1.0, -1.02))
    return W + 0.02 * gaussian(p, p)


@pytest.mark.parametrize("rank", [1, 4, 7])
@pytest.mark.parametrize(
    "kind", ["gaussian", "spiked", "two levels", "skew", "nilpotent"]
)
def test_no_tau_of_a_fine_grid_leaves_less(kind, rank):
    p = 12
    W = {
        "gaussian": gaussian(p, p),
        "spiked": np.eye(p) + 0.3 * gaussian(p, p) + 4 * np.outer(*gaussian(2, p)),
        "two levels": two_levels(p),
        "skew": gaussian(p, p) - gaussian(p, p).T,
        "nilpotent": np.triu(gaussian(p, p), 1),
    }[kind]
    found = fit(W, rank)
    edge = 2 * np.linalg.norm(W, 2)
    grid = min(left(W, tau, rank) for tau in np.linspace(-edge, edge, 4001))
    assert found.left <= grid + 1e-10
    assert found.left == pytest.approx(left(W, found.tau, rank), abs=1e-12)
    rest = np.linalg.norm(W - found.matrix) / np.linalg.norm(W)
    assert rest**2 == pytest.approx(found.left, abs=1e-12)


def test_alternation_can_stop_at_a_local_minimum_and_the_fit_does_not():
    W, rank, tau = two_levels(13), 6, 1.5
    for _ in range(2000):
        U, singular, V = np.linalg.svd(W - tau * np.eye(13))
        L = (U[:, :rank] * singular[:rank]) @ V[:rank]
        tau = np.trace(W - L) / 13
    assert fit(W, rank).left < 0.5 * left(W, tau, rank)


@pytest.mark.parametrize("rows", [3, 8, 30], ids=["thin", "half", "more than p"])
def test_a_description_says_what_the_matrix_has(rows):
    p, ranks = 11, (1, 2, 5)
    query, key = gaussian(rows, p), gaussian(rows, p, seed=1)
    W = key.T @ query
    found = describe(query, key, ranks)
    total = np.linalg.norm(W) ** 2
    singular = np.linalg.svd(W, compute_uv=False)[: min(rows, p)]
    np.testing.assert_allclose(found.singular_values, singular, rtol=1e-10)
    assert found.norm == pytest.approx(np.sqrt(total))
    assert found.trace == pytest.approx(np.trace(W))
    assert found.trace_share == pytest.approx(np.trace(W) ** 2 / p / total)
    symmetric = np.linalg.norm((W + W.T) / 2) ** 2 / total
    assert found.symmetric_share == pytest.approx(symmetric)
    for k, rank in enumerate(ranks):
        assert found.left[k] == pytest.approx(fit(W, rank).left, abs=2e-10)
        assert found.left[k] == pytest.approx(left(W, found.tau[k], rank), abs=1e-12)
        assert found.left_by_low_rank[k] == pytest.approx(left(W, 0.0, rank), abs=1e-12)
    assert np.all(found.left <= found.left_by_low_rank + 1e-12)
    assert np.all(np.diff(found.left) <= 0)


def test_leading_axes_and_ranks_that_do_not_fit():
    query, key = gaussian(2, 3, 4, 9), gaussian(2, 3, 4, 9, seed=1)
    found = describe(query, key, (1, 4, 9, 64))
    assert found.ranks == (1, 4)
    assert found.norm.shape == (2, 3)
    assert found.singular_values.shape == (2, 3, 4)
    assert found.tau.shape == found.left.shape == (2, 3, 2)
    alone = describe(query[1, 2], key[1, 2], (4,))
    assert found.left[1, 2, 1] == pytest.approx(alone.left[0], abs=1e-10)
    np.testing.assert_allclose(found.left[..., 1], 0, atol=1e-12)  # of rank 4


def test_bad_input_is_refused():
    square = gaussian(5, 5)
    with pytest.raises(ValueError, match="rank must be below p = 5, got 5"):
        fit(square, 5)
    with pytest.raises(ValueError, match="rank must be a whole number from 1, got 0"):
        fit(square, 0)
    with pytest.raises(ValueError, match="must be a square matrix"):
        fit(gaussian(2, 3), 1)
    with pytest.raises(ValueError, match="weights must not be zero"):
        fit(np.zeros((3, 3)), 1)
    with pytest.raises(ValueError, match="weights must not be zero"):
        describe(np.zeros((2, 5)), square[:2])
    with pytest.raises(ValueError, match=r"one shape .* got \(2, 5\) and \(3, 5\)"):
        describe(square[:2], square[:3])
    with pytest.raises(ValueError, match="ranks must have one below p = 5"):
        describe(square, square, (8,))
    with pytest.raises(ValueError, match="query must be finite"):
        describe(square * np.inf, square)
