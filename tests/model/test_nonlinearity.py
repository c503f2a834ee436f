"""Hermite coefficients to 1e-12, and functions of the user's that check themselves."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpolation_error.model import hermite
from interpolation_error.model.hermite import (
    HermiteCoefficients,
    diagonal_limit,
    hermite_coefficients,
)
from interpolation_error.model.nonlinearity import (
    Nonlinearity,
    from_file,
    get,
    hermite_mix,
    names,
    rescaled,
)

IN_MPMATH = {
    "linear": lambda t: t,
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "arctan": mpmath.atan,
    "sigmoid": lambda t: 1 / (1 + mpmath.exp(-t)),
    "sign": mpmath.sign,
    "relu": lambda t: max(t, 0),
    "cos": mpmath.cos,
    "exp": mpmath.exp,
    "truncated_exp": lambda t: min(mpmath.exp(t), 5),
}


def by_mpmath(function, kinks=()):
    """Return the coefficients to 18 digits, whatever the library does."""
    with mpmath.workdps(18):
        edges = sorted({*range(-14, 15, 2), *kinks})

        def mean(g):
            return mpmath.quad(lambda t: g(t) * mpmath.npdf(t), edges)

        a0 = mean(function)
        a1 = mean(lambda t: t * function(t))
        a2 = mean(lambda t: (t**2 - 1) * function(t)) / mpmath.sqrt(2)
        nu = mean(lambda t: (function(t) - a0) ** 2)
        return HermiteCoefficients(*map(float, (a0, a1, a2, nu)))


def test_every_registered_function_has_a_reference():
    assert set(names()) == set(IN_MPMATH)


@pytest.mark.parametrize("name", names())
def test_coefficients_are_right_to_1e_12(name):
    kinks = [mpmath.log(5)] if name == "truncated_exp" else [0]
    expected = by_mpmath(IN_MPMATH[name], kinks)
    computed = hermite_coefficients(name)
    np.testing.assert_allclose(computed, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", names())
def test_quadrature_alone_is_right_to_1e_12(name):
    one = get(name)
    same = Nonlinearity("another name", one.function, one.kinks)
    np.testing.assert_allclose(
        hermite_coefficients(same), hermite_coefficients(name), rtol=1e-12, atol=1e-14
    )


@pytest.mark.parametrize("name", names())
def test_registered_function_is_the_one_its_name_says(name):
    points = np.array([-3.3, -0.7, 0.0, 0.4, 1.7, 800.0])
    expected = [float(IN_MPMATH[name](mpmath.mpf(t))) for t in points]
    np.testing.assert_allclose(get(name)(points), expected, rtol=1e-14)


@pytest.mark.parametrize("name", names())
def test_overwriting_gives_the_same_numbers(name):
    values = np.linspace(-4, 4, 12).reshape(3, 4)
    expected = get(name)(values)
    get(name).overwrite(values)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize("name", names())
def test_parity_is_in_the_coefficients(name):
    a0, a1, a2, _ = hermite_coefficients(name)
    if get(name).parity == "odd":
        assert a0 == a2 == 0
    elif get(name).parity == "even":
        assert a1 == 0


@given(
    st.lists(st.floats(-3, 3), min_size=1, max_size=5).filter(
        lambda c: max(map(abs, c)) > 1e-3
    )
)
def test_coefficients_of_a_hermite_series_are_its_own(series):
    norms = np.sqrt([1, 1, 2, 6, 24, 120])
    given_coefficients = np.array([0.7, *series])
    c = given_coefficients / norms[: len(given_coefficients)]
    f = Nonlinearity("series", lambda t: np.polynomial.hermite_e.hermeval(t, c))
    a0, a1, a2, nu = hermite_coefficients(f)
    padded = [*given_coefficients, 0.0]
    scale = max(map(abs, series))
    np.testing.assert_allclose([a0, a1, a2], padded[:3], atol=1e-12 * (1 + scale))
    assert nu == pytest.approx(sum(x * x for x in series), rel=1e-12)


@given(st.floats(-2, 2), st.floats(0.1, 3))
def test_a_step_anywhere_is_integrated_when_its_kink_is_declared(at, height):
    f = Nonlinearity("step", lambda t: np.where(t > at, height, 0.0), kinks=(at,))
    a0, a1, _, nu = hermite_coefficients(f)
    with mpmath.workdps(25):
        above = float(mpmath.ncdf(-mpmath.mpf(at)))
        density = float(mpmath.npdf(at))
    assert a0 == pytest.approx(height * above, rel=1e-12)
    assert a1 == pytest.approx(height * density, rel=1e-12)
    assert nu == pytest.approx(height**2 * above * (1 - above), rel=1e-11)


def test_poles_near_the_axis_cost_no_digits():
    f = Nonlinearity("steep", lambda t: np.arctan(20 * t))
    expected = by_mpmath(lambda t: mpmath.atan(20 * t), [-0.5, -0.1, 0, 0.1, 0.5])
    np.testing.assert_allclose(hermite_coefficients(f), expected, rtol=0, atol=1e-12)


def test_a_cusp_is_integrated_when_declared():
    f = Nonlinearity("cusp", lambda t: np.sqrt(np.abs(t)), kinks=(0,))
    with mpmath.workdps(25):
        expected = float(
            2 ** mpmath.mpf("0.25") * mpmath.gamma(0.75) / mpmath.sqrt(mpmath.pi)
        )
    assert hermite_coefficients(f).a0 == pytest.approx(expected, rel=1e-12)


def test_a_large_constant_costs_the_variance_no_digits():
    f = Nonlinearity("raised", lambda t: 100 + np.tanh(t))
    _, a1, _, nu = hermite_coefficients(f)
    plain = hermite_coefficients("tanh")
    assert (a1, nu) == pytest.approx((plain.a1, plain.nu), rel=1e-12)


def test_a_linear_function_of_the_users_keeps_nu_at_least_a1_squared():
    _, a1, _, nu = hermite_coefficients(Nonlinearity("mine", lambda t: 0.3 * t + 1))
    assert nu >= a1**2


def test_a_users_function_named_like_a_registered_one_has_its_own_coefficients():
    f = Nonlinearity("relu", lambda t: np.maximum(2 * t, 0.0), kinks=(0.0,))
    assert hermite_coefficients(f).a1 == pytest.approx(1.0, rel=1e-12)


def test_get_takes_an_object_as_it_is():
    f = Nonlinearity("cube", lambda t: t**3)
    assert get(f) is f


def test_a_function_that_works_in_place_leaves_its_argument_alone():
    def doubled(t):
        t *= 2
        return t

    values = np.ones(3)
    np.testing.assert_array_equal(Nonlinearity("doubled", doubled)(values), [2, 2, 2])
    np.testing.assert_array_equal(values, 1)


@pytest.mark.parametrize("dimension", [4, 513])
@pytest.mark.parametrize("name", sorted({*names()} - {"exp"}))
def test_diagonal_limit_is_of_the_actual_dimension(name, dimension):
    root = np.sqrt(dimension)
    expected = (get(name)(root) - hermite_coefficients(name).a0) / root
    assert diagonal_limit(name, dimension) == pytest.approx(float(expected), rel=1e-14)


@pytest.mark.parametrize(
    "function",
    [np.exp, np.square, lambda t: t * np.log1p(np.abs(t)), lambda t: np.abs(t) ** 1.2],
)
def test_superlinear_growth_has_no_diagonal_limit(function):
    f = Nonlinearity("f", function)
    with pytest.raises(ValueError, match="which 'f' is not: its diagonal would grow"):
        diagonal_limit(f, 64)


@pytest.mark.parametrize(
    "function", [lambda t: t - np.sqrt(np.abs(t)), lambda t: t * np.cos(t), np.cbrt]
)
def test_linear_growth_has_a_diagonal_limit(function):
    f = Nonlinearity("f", function, kinks=(0.0,))
    assert np.isfinite(diagonal_limit(f, 64))


@pytest.mark.parametrize("dimension", [0, 2.5, True, float("nan")])
def test_dimension_is_a_positive_whole_number(dimension):
    message = f"dimension must be a whole number from 1, got {dimension}"
    with pytest.raises(ValueError, match=message):
        diagonal_limit("tanh", dimension)


@pytest.mark.parametrize("name", ["tan", "", None, 3])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(
        ValueError, match="must be one of arctan, cos, erf, exp, linear"
    ):
        get(name)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (3, "nonlinearity 'f' must be a function, got int"),
        (lambda t: t[0], r"return the shape it is given, \(3, 4\), got \(4,\)"),
        (lambda t: t > 0, "must return float64, got bool"),
        (lambda t: t.astype(np.float32), "must return float64, got float32"),
        (lambda t: t + 0j, "must return float64, got complex128"),
        (np.log, "must be finite, got nan at -6.1"),
        (lambda t: 1 if t > 0 else 0, "fails on an array: ValueError: The truth value"),
        (mpmath.tanh, "fails on an array: TypeError"),
        (lambda t: np.exp(t) / np.exp(t).sum(), "must act on each entry by itself"),
    ],
)
def test_a_function_that_is_none_of_arrays_entry_by_entry_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        Nonlinearity("f", function)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "name must be a text, got ''"),
        ({"kinks": (float("nan"),)}, r"kinks must be finite numbers, got \(nan,\)"),
        ({"kinks": 3}, "kinks must be finite numbers, got 3"),
        ({"kinks": ("a",)}, "kinks must be finite numbers"),
        ({"parity": "none"}, "parity must be None, odd or even, got 'none'"),
        ({"parity": "even"}, "nonlinearity 'f' is not even"),
    ],
)
def test_other_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Nonlinearity(**{"name": "f", "function": np.tanh, **arguments})


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t: 0 * t + 2, "must not be constant: its variance is zero"),
        (lambda t: np.exp(t**2), "must be finite, got inf at"),
        (lambda t: np.exp(t**2 / 4), "must have a finite variance"),
        (lambda t: np.exp(0.26 * t**2), "must have a finite variance"),
        (lambda t: np.where(t > 0.3, 1.0, 0.0), "too rough to integrate: declare in k"),
        (lambda t: np.maximum(t - 0.3, 0), "too rough to integrate: declare in kinks"),
        (lambda t: np.maximum(t - 0.3, 0) ** 2, "too rough to integrate: declare in k"),
    ],
)
def test_a_function_without_trustworthy_coefficients_is_refused(function, message):
    with pytest.raises(ValueError, match=message):
        hermite_coefficients(Nonlinearity("f", function))


def test_a_value_that_is_not_finite_is_found_beyond_the_trial_points():
    f = Nonlinearity("f", lambda t: np.where(t > 7, np.nan, t))
    with pytest.raises(ValueError, match="'f' must be finite, got nan at 7"):
        hermite_coefficients(f)


def test_a_function_from_a_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import numpy as np\n\ndef ramp(t):\n    return np.clip(t, 0, 1)\n")
    ramp = from_file(path, "ramp", kinks=(0, 1))
    assert (ramp.name, ramp.kinks) == ("ramp", (0.0, 1.0))
    expected = by_mpmath(lambda t: min(max(t, 0), 1), [0, 1])
    np.testing.assert_allclose(hermite_coefficients(ramp), expected, rtol=1e-12)


def test_an_edited_file_is_read_anew(tmp_path):
    path = tmp_path / "mine.py"
    for power in (2, 3):  # same size, same second
        path.write_text(f"def f(t): return t ** {power}")
        assert from_file(path, "f")(2.0) == 2**power
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, r"mine\.py: cannot be read \(No such file or directory\)"),
        (b"\xff\xfe", r"mine\.py: cannot be read \(it is not text\)"),
        (b"f = (", r"mine\.py: cannot be run \(SyntaxError: '\(' was never closed"),
        (b"import nothing_here", r"cannot be run \(ModuleNotFoundError: No module nam"),
        (b"g = 1", r"mine\.py: defines no 'f'"),
        (b"f = 1", r"mine\.py: 'f' must be a function, got int"),
        (b"def f(t): return t > 0", r"mine\.py: nonlinearity 'f' must return float64"),
    ],
)
def test_a_file_without_such_a_function_is_one_clear_line(tmp_path, source, message):
    path = tmp_path / "mine.py"
    if source is not None:
        path.write_bytes(source)
    with pytest.raises(ValueError, match=message) as caught:
        from_file(path, "f")
    assert "\n" not in str(caught.value)


def test_closed_forms_are_of_registered_functions():
    assert set(hermite._CLOSED_FORMS) <= set(names())


@pytest.mark.parametrize("degree", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_a_mix_has_the_linear_share_and_a_variance_of_one(degree, share):
    a0, a1, a2, nu = hermite_coefficients(hermite_mix(degree, share))
    expected = [0, np.sqrt(share), np.sqrt(1 - share) if degree == 2 else 0, 1]
    np.testing.assert_allclose([a0, a1, a2, nu], expected, atol=1e-12)


@pytest.mark.parametrize(("degree", "share"), [(1, 0.5), (7, 0.5), (2, -0.1), (2, 1.1)])
def test_a_mix_out_of_range_is_refused(degree, share):
    with pytest.raises(ValueError, match="must be"):
        hermite_mix(degree, share)


def test_a_rescaled_function_keeps_kinks_and_parity():
    f = rescaled(get("sign"), 3.0)
    assert (f.kinks, f.parity) == ((0.0,), "odd")
    g = rescaled(get("truncated_exp"), 2.0)
    expected = by_mpmath(lambda t: min(mpmath.exp(2 * t), 5), [mpmath.log(5) / 2])
    np.testing.assert_allclose(hermite_coefficients(g), expected, rtol=1e-11)


def test_a_factor_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="factor must be positive"):
        rescaled(get("tanh"), 0.0)
