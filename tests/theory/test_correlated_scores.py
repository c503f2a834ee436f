"""Mean products at correlated scores against closed forms."""

from math import acos, asin, cosh, exp, pi, sqrt

import pytest

from interpolation_error import nonlinearity
from interpolation_error.theory.correlated_scores import product_mean

CORRELATIONS = [-1.0, -0.9999, -0.3, 0.03, 1 - 1e-9]


def relu(r, s):
    return s**2 * (sqrt(1 - r * r) + r * (pi - acos(r)) - 1) / (2 * pi)


# E (f(s x) - a_0)(f(s y) - a_0) for standard normal x and y of correlation r.
CLOSED_FORMS = {
    "linear": lambda r, s: s**2 * r,
    "sign": lambda r, s: 2 / pi * asin(r),
    "relu": relu,
    "erf": lambda r, s: 2 / pi * asin(2 * s**2 * r / (1 + 2 * s**2)),
    "cos": lambda r, s: exp(-(s**2)) * (cosh(s**2 * r) - 1),
    "exp": lambda r, s: exp(s**2) * (exp(s**2 * r) - 1),
}


@pytest.mark.parametrize("scale", [0.5, 3.0])
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_closed_forms(name, scale):
    f = nonlinearity.rescaled(nonlinearity.get(name), scale)
    nu = CLOSED_FORMS[name](1.0, scale)
    for r in CORRELATIONS:
        expected = CLOSED_FORMS[name](r, scale)
        assert product_mean(f, r) == pytest.approx(expected, rel=0, abs=1e-12 * nu)


@pytest.mark.parametrize("degree", [2, 3])
def test_a_hermite_polynomial_gives_a_power(degree):
    f = nonlinearity.hermite_mix(degree, 0.25)
    for r in CORRELATIONS:
        expected = 0.25 * r + 0.75 * r**degree
        assert product_mean(f, r) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", ["truncated_exp", "tanh", "sigmoid"])
def test_the_variance_and_the_mirrored_function_at_the_ends(name):
    f = nonlinearity.get(name)
    nu = nonlinearity.hermite_coefficients(f).nu
    assert product_mean(f, 1.0) == pytest.approx(nu, rel=1e-10)
    if f.parity == "odd":
        assert product_mean(f, -1.0) == pytest.approx(-nu, rel=1e-10)


def test_a_steep_function_and_a_cusp():
    """tanh(9 t) is halfway to the sign; sqrt|t| has an infinite derivative at 0."""
    steep = nonlinearity.rescaled(nonlinearity.get("tanh"), 9.0)
    assert product_mean(steep, 1.0) == pytest.approx(
        nonlinearity.hermite_coefficients(steep).nu, rel=1e-10
    )
    cusp = nonlinearity.Nonlinearity("cusp", lambda t: abs(t) ** 0.5, (0.0,))
    assert product_mean(cusp, 1.0) == pytest.approx(
        nonlinearity.hermite_coefficients(cusp).nu, rel=1e-9
    )


def test_refuses():
    with pytest.raises(ValueError, match="correlation must be from -1 to 1, got 1.5"):
        product_mean("tanh", 1.5)
    with pytest.raises(ValueError, match="correlation"):
        product_mean("tanh", float("nan"))
    undeclared = nonlinearity.Nonlinearity("step", lambda t: 1.0 * (t > 0.1234))
    with pytest.raises(ValueError, match="too rough"):
        product_mean(undeclared, 0.5)
