"""Gaussian averages of a shifted nonlinearity, against a fine quadrature."""

import itertools

import numpy as np
import pytest

from interpolation_error.model.hermite import hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.theory.shifted_averages import ShiftedAverages

NAMES = ["tanh", "sign", "relu", "truncated_exp", "cos"]


def by_quadrature(f, omega, other):
    """Return F_0, F_1 and E f(xi + omega) f(xi + other) by a fine midpoint rule."""
    xi = (np.arange(-90_000, 90_000) + 0.5) * 1e-4
    density = np.exp(-(xi**2) / 2) / np.sqrt(2 * np.pi) * 1e-4
    one = f(xi + omega) - hermite_coefficients(f).a0
    two = f(xi + other) - hermite_coefficients(f).a0
    return density @ one, density @ (xi * one), density @ (one * two)


@pytest.mark.parametrize("name", NAMES)
def test_averages_are_right_at_kinks(name):
    f = get(name)
    averages = ShiftedAverages(f, 2.0)
    for omega, other in itertools.product((-1.9, 0.0, 0.31), (-0.2, 0.31, 1.7)):
        zeroth, first, both = by_quadrature(f, omega, other)
        assert averages.zeroth(omega) == pytest.approx(zeroth, abs=1e-6)
        assert averages.first(omega) == pytest.approx(first, abs=1e-6)
        less = zeroth * by_quadrature(f, other, other)[0]
        less += first * by_quadrature(f, other, other)[1]
        covariance = averages.covariance(np.array([omega]), np.array([other]))
        assert covariance[0] == pytest.approx(both - less, abs=2e-5)
    own = by_quadrature(f, 0.7, 0.7)
    variance = own[2] - own[0] ** 2 - own[1] ** 2
    assert averages.variance(np.array(0.7)) == pytest.approx(variance, abs=1e-5)


def test_averages_are_right_at_a_cusp():
    cusp = Nonlinearity("cusp", lambda t: np.sqrt(np.abs(t)), (0.0,), "even")
    averages = ShiftedAverages(cusp, 2.0)
    for omega in (-1.0, 0.0, 0.4):
        zeroth, first, _ = by_quadrature(cusp, omega, omega)
        assert averages.zeroth(omega) == pytest.approx(zeroth, abs=1e-5)
        assert averages.first(omega) == pytest.approx(first, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reach", [1.0, 30.0])
def test_pairs_are_the_same_one_by_one_and_from_a_grid(reach, name):
    """A few are averaged themselves, many are interpolated."""
    averages = ShiftedAverages(get(name), reach)
    one, other = np.random.default_rng(3).uniform(-reach, reach, (2, 120_000))
    some = slice(0, 200)
    many = averages.covariance(one, other)[some]
    few = averages.covariance(one[some], other[some])
    assert np.any(many != few)
    np.testing.assert_allclose(many, few, atol=2e-5)


def test_the_covariance_of_equal_shifts_is_the_variance():
    averages = ShiftedAverages(get("relu"), 3.0)
    omega = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(
        averages.covariance(omega, omega), averages.variance(omega), atol=1e-7
    )
