"""Means over shifted scores against closed forms and a quadrature for each pair."""

import numpy as np
import pytest
from scipy import stats

from interpolation_error.nonlinearity import (
    Nonlinearity,
    get,
    hermite_coefficients,
    rescaled,
)
from interpolation_error.shifted_scores import ShiftedMeans

STAIRS = Nonlinearity(
    "stairs",
    lambda t: np.floor(np.clip(t, -2.0, 2.0)),
    kinks=(-2.0, -1.0, 0.0, 1.0, 2.0),
)
ONE, OTHER = (
    np.random.default_rng(5).uniform(-3.0, 3.0, (2, 30)) * [[1.0], [0.5]]
).round(3)


def by_quadrature(f, a, b):
    """Return E f(xi + a) f(xi + b) and E xi f(xi + a), f centred, split at kinks."""
    cuts = np.array([k - x for k in f.kinks for x in (a, b)])
    edges = np.union1d(np.linspace(-10, 10, 161), cuts[np.abs(cuts) < 10])
    x, w = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    xi = (edges[:-1, None] + half * (1 + x)).ravel()
    weights = (half * w).ravel() * stats.norm.pdf(xi)
    a0 = hermite_coefficients(f).a0
    one, other = f(xi + a) - a0, f(xi + b) - a0
    return weights @ (one * other), weights @ (xi * one), weights @ one


@pytest.mark.parametrize("coarseness", [1.0, 2.0])
@pytest.mark.parametrize(
    "f",
    [*map(get, ("tanh", "sign", "relu", "truncated_exp")), STAIRS],
    ids=lambda f: f.name,
)
def test_means_are_those_of_a_quadrature_for_each_pair(f, coarseness):
    means = ShiftedMeans(f, 3.0, coarseness)
    found = means.covariance(ONE, OTHER)
    # Splines of degree five err by 1e-3 h^6 times a sixth derivative, of some tens.
    bound = 3e-10 * coarseness**6
    for k, (a, b) in enumerate(zip(ONE, OTHER, strict=True)):
        product, first, zeroth = by_quadrature(f, a, b)
        _, other_first, other_zeroth = by_quadrature(f, b, a)
        assert means.zeroth(a) == pytest.approx(zeroth, abs=bound)
        assert means.first(a) == pytest.approx(first, abs=bound)
        covariance = product - zeroth * other_zeroth - first * other_first
        assert found[k] == pytest.approx(covariance, abs=bound)
        variance = by_quadrature(f, a, a)[0] - zeroth**2 - first**2
        assert means.variance(a) == pytest.approx(variance, abs=10 * bound)


@pytest.mark.parametrize("f", [get("tanh"), get("sign"), STAIRS], ids=lambda f: f.name)
def test_many_pairs_are_interpolated_to_the_same(f, monkeypatch):
    means = ShiftedMeans(f, 3.0)
    many = [np.tile(x, 1000) for x in (ONE, OTHER)]
    interpolated = means.covariance(*many).reshape(1000, -1)[7]
    monkeypatch.delattr(ShiftedMeans, "_splined")
    pairs = means.covariance(ONE[:2], OTHER[:2])
    np.testing.assert_allclose(interpolated[:2], pairs, atol=1e-8)


def test_closed_forms_of_sign_and_cos():
    sign, cos = (ShiftedMeans(get(name), 3.0) for name in ("sign", "cos"))
    zeroth, first = 2 * stats.norm.cdf(ONE) - 1, 2 * stats.norm.pdf(ONE)
    np.testing.assert_allclose(sign.zeroth(ONE), zeroth, atol=1e-9)
    np.testing.assert_allclose(sign.first(ONE), first, atol=1e-9)
    np.testing.assert_allclose(sign.variance(ONE), 1 - zeroth**2 - first**2, atol=1e-8)
    root = np.exp(-1 / 2)
    product = (np.cos(ONE - OTHER) + np.exp(-2) * np.cos(ONE + OTHER)) / 2
    # Without the mean that is subtracted, which changes F_0 alone.
    less = root**2 * (np.cos(ONE - OTHER))
    np.testing.assert_allclose(cos.zeroth(ONE), root * (np.cos(ONE) - 1), atol=1e-9)
    np.testing.assert_allclose(cos.first(ONE), -root * np.sin(ONE), atol=1e-9)
    np.testing.assert_allclose(cos.covariance(ONE, OTHER), product - less, atol=1e-8)


def test_equal_shifts_have_the_variance_as_covariance():
    for name in ("tanh", "sign", "relu"):
        means = ShiftedMeans(get(name), 3.0)
        np.testing.assert_allclose(
            means.covariance(ONE, ONE), means.variance(ONE), atol=1e-8
        )


def test_far_shifts_cost_no_table():
    means = ShiftedMeans(get("sign"), 200.0)
    covariance = means.covariance(np.array([150.0, 0.3]), np.array([-150.0, 0.3]))
    assert covariance[0] == pytest.approx(0.0, abs=1e-12)
    assert covariance[1] == pytest.approx(means.variance(np.array(0.3)), abs=1e-8)


def test_a_steep_function_without_kinks():
    f = rescaled(get("tanh"), 10.0)
    means = ShiftedMeans(f, 1.0)
    a, b = np.array([0.4, -0.1]), np.array([0.1, 0.2])
    covariance = means.covariance(a, b)
    for k in range(2):
        product, first, zeroth = by_quadrature(f, a[k], b[k])
        _, other_first, other_zeroth = by_quadrature(f, b[k], a[k])
        expected = product - zeroth * other_zeroth - first * other_first
        assert covariance[k] == pytest.approx(expected, abs=1e-7)


def test_shifts_out_of_reach_are_refused():
    with pytest.raises(OverflowError, match=r"up to 1e\+06, and 2000 is the most"):
        ShiftedMeans(get("tanh"), 1e6)


def test_scores_on_which_it_is_infinite_are_refused():
    with pytest.raises(
        OverflowError, match="'exp' is not finite on all scores up"
    ) as e:
        ShiftedMeans(get("exp"), 800.0)
    assert "\n" not in str(e.value)
