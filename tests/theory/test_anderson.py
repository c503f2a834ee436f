"""Anderson's acceleration: linear problems, what runs away, and many at once."""

import numpy as np
import pytest

from interpolation_error.theory.anderson import DEPTH, accelerated


def test_a_linear_problem_takes_as_many_steps_as_it_has_eigenvalues():
    """Also with eigenvalues far outside of the unit circle, where plain steps fail."""
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.standard_normal((30, 30)))
    matrix = turn @ np.diag(np.repeat([-4.0, 0.3, 0.9], 10)) @ turn.T
    right = rng.standard_normal(30)
    x, residual = accelerated(
        lambda x, _: x @ matrix.T + right, np.zeros((1, 30)), 1e-10, DEPTH
    )
    assert residual[0] <= 1e-10
    expected = np.linalg.solve(np.eye(30) - matrix, right)
    np.testing.assert_allclose(x[0], expected, atol=1e-8)


def test_each_problem_goes_its_way():
    targets = np.array([0.5, 2.0, 7.0])

    def image(x, at):  # a square root by Newton's method, in two unknowns
        return (x + targets[at, None] / x) / 2

    start = np.ones((3, 2))
    together, _ = accelerated(image, start, 1e-13, 50)
    np.testing.assert_allclose(together[:, 0] ** 2, targets, rtol=1e-12)
    for place in range(3):
        alone, _ = accelerated(
            lambda x, _, place=place: image(x, np.array([place])), start[:1], 1e-13, 50
        )
        np.testing.assert_allclose(alone[0], together[place], rtol=1e-13)


def test_what_runs_away_takes_nothing_with_it():
    def image(x, at):
        return np.where(at[:, None] == 0, np.log(x - 2), np.cos(x))

    x, residual = accelerated(image, np.full((2, 1), 0.5), 1e-12, 30)
    assert residual[0] == np.inf
    assert x[1, 0] == pytest.approx(0.7390851332151607)


def test_the_best_is_kept_when_there_is_no_fixed_point():
    x, residual = accelerated(lambda x, _: x + 1.0, np.zeros((1, 1)), 1e-9, 12)
    assert residual[0] == pytest.approx(1.0)
    assert np.all(np.isfinite(x))
