"""Theory against independent high-precision programs, limits, and bad input.

The reference table and scalar_route.py take another route than the package: three
scalars and partial fractions in place of 3 by 3 matrices (docs/theory.md, section 5).
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import integrate

from interpolation_error import nonlinearity, theory
from interpolation_error.model import data
from interpolation_error.theory import ConvergenceError, InnerProducts, fixed_point
from interpolation_error.theory import limit as theory_limit
from tests.theory.scalar_route import Setting, averages, predict

DATA = Path(__file__).parent / "data"
REFERENCE = pd.read_csv(DATA / "attention_theory.csv")
SPECIAL = pd.read_csv(DATA / "attention_theory_special_cases.csv")
NAMES = ["mu_mu", "mu_wk", "mu_wq", "wk_wk", "wq_wq", "wk_wq"]
TANH = nonlinearity.hermite_coefficients("tanh")
ALIGNED = InnerProducts(*[1.0] * 6)


def predicted(table):
    products = table.rename(columns=str.lower)[NAMES]
    return theory.attention_error(
        table["gamma"],
        table["c"],
        table["a1"],
        table["nu"],
        inner_products=InnerProducts(*products.to_numpy().T),
        diagonal_limit=table["diagonal"],
    )


@pytest.mark.parametrize("table", [REFERENCE, SPECIAL], ids=["reference", "special"])
def test_attention_within_1e_8_of_every_row(table):
    np.testing.assert_allclose(predicted(table), table["E_attention"], rtol=1e-8)


def test_the_special_cases_are_special():
    assert {0.25, 1.0, 4.0} == set(SPECIAL["c"])
    assert (SPECIAL["a1"] == 0).sum() >= 10
    assert (SPECIAL["nu"] == SPECIAL["a1"] ** 2).sum() >= 10
    missing = (REFERENCE["c"] != 1) & (REFERENCE["a1"] != 0)
    assert missing.all()


@pytest.mark.parametrize("row", [0, 6, 13, 26])
def test_the_committed_special_cases_come_out_again(row):
    case = pd.read_csv(DATA / "attention_theory_special_cases.csv", dtype=str).loc[row]
    found = predict(
        case["gamma"],
        case["c"],
        case["a1"],
        case["nu"],
        diagonal_limit=case["diagonal"],
        inner=case[NAMES],
    )
    assert float(found.error) == pytest.approx(float(case["E_attention"]), rel=1e-15)


def test_the_fixed_point_and_the_label_form_match_the_reference():
    table = REFERENCE.rename(columns=str.lower)
    points, _, inner = theory_limit._points(
        table["gamma"],
        table["c"],
        table["a1"],
        table["nu"],
        table["diagonal"],
        InnerProducts(*table[NAMES].to_numpy().T),
    )
    R, _ = fixed_point.solve(points)
    form, _ = theory_limit._label_form(points, inner)
    for computed, column in (
        (points.gamma - points.variance * R[:, 1, 1], "u"),
        (points.variance * R[:, 0, 0], "v"),
        (points.variance * R[:, 0, 1], "w"),
        (form, "yqy_over_n"),
    ):
        np.testing.assert_allclose(computed, table[column], rtol=1e-10)


@pytest.mark.parametrize("alpha", [0, 0.7])
@pytest.mark.parametrize("c", [0.5, 3])
def test_partial_fractions_agree_with_quadrature(alpha, c):
    with mp.workdps(20):
        u, v, w = mpf("0.3"), mpf("1.5"), mpf("0.1")
        c, alpha = mpf(c), mpf(alpha)
        setting = Setting(c, alpha, mpf(1), mpf("-0.4"), (mpf(0),) * 6)
        low, high = (1 - mp.sqrt(c)) ** 2, (1 + mp.sqrt(c)) ** 2

        def parts(x):
            h = alpha * x + setting.h - w
            return [
                y / (u * (1 + v * x) + x * h * h) for y in (1 + v * x, x * h, u * x)
            ]

        def density(x):
            return mp.sqrt((high - x) * (x - low)) / (2 * mp.pi * x)

        for k, average in enumerate(averages(setting, u, v, w)):
            bulk = mp.quad(lambda x, k=k: density(x) * parts(x)[k], [low, high])
            atom = max(0, 1 - c) * parts(mpf(0))[k]
            assert abs(average - bulk - atom) < mpf("1e-12")


def exactly(gamma, c, a1, rest, products, diagonal_limit=0.0):
    """Return Theorem 1 to 50 digits at the nu that gives float64 this nu - a1^2."""
    with mp.workdps(120):
        a1 = mpf(a1)
        nu = a1 * a1 + mpf(rest)
        # The package forms d - a1 in float64 too, and rounds it.
        d = mpf(diagonal_limit - float(a1)) + a1
    inner = [float(getattr(products, name)) for name in NAMES]
    found = predict(gamma, c, a1, nu, diagonal_limit=d, inner=inner, digits=50)
    return float(found.error)


unit = st.floats(-1, 1)


# Not shrunk: an example costs half a second at 50 digits, and reads well as it is.
@settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
)
@given(
    log_c=st.one_of(st.just(0.0), st.floats(-4, 4)),
    log_gamma=st.floats(-8, 4),
    a1=st.one_of(st.just(0.0), st.floats(0.01, 1), st.floats(-1, -0.01)),
    rest=st.one_of(st.just(0.0), st.floats(-6, 0).map(lambda x: 10**x)),
    diagonal_limit=st.sampled_from([0.0, 1.0]),
    vectors=st.lists(unit, min_size=9, max_size=9),
)
@example(0.0, -8.0, 0.6, 0.04, 0.0, [1, 0, 0] * 3)
@example(0.0, -8.0, 1.0, 0.0, 1.0, [1, 0, 1] * 3)
@example(4.0, -8.0, 0.0, 1.0, 0.0, [0.5] * 9)
@example(-3.0, -8.0, 0.9, 0.0, 0.0, [0.5] * 9)
@example(-4.0, 4.0, 1.0, 0.0, 0.0, [1, -1, 0.5] * 3)
def test_no_point_of_the_box_is_wrong(
    log_c, log_gamma, a1, rest, diagonal_limit, vectors
):
    c, gamma = 2.0**log_c, 10.0**log_gamma
    nu = a1 * a1 + rest
    products = InnerProducts.from_vectors(*np.reshape(vectors, (3, 3)))
    error = theory.attention_error(
        gamma, c, a1, nu, inner_products=products, diagonal_limit=diagonal_limit
    )
    exact = exactly(gamma, c, a1, nu - a1 * a1, products, diagonal_limit)
    assert error == pytest.approx(exact, rel=1e-8)


def test_newton_and_continuation_find_the_same_root_all_over_the_box():
    generator = np.random.default_rng(1)
    number = 2000
    c = 16 ** generator.uniform(-1, 1, number)
    c[::4] = 1.0
    gamma = 10 ** generator.uniform(-8, 4, number)
    a1 = generator.uniform(-1, 1, number)
    a1[::7] = 0.0
    rest = 10 ** generator.uniform(-6, 0, number)
    rest[::9] = 0.0
    d = np.where(generator.random(number) < 0.5, 0.0, 1.0)
    points, _, _ = theory_limit._points(
        gamma, c, a1, a1 * a1 + rest, d, InnerProducts()
    )
    R, _ = fixed_point.solve(points)
    with np.errstate(all="ignore"):
        followed = fixed_point._from_above(points)
    for k in (0, 1):
        np.testing.assert_allclose(R[:, k, k], followed[:, k, k], rtol=1e-8)


def test_low_rank_weights_agree_with_the_large_pencil():
    # docs/theory.md, (4.2): 3r by 3r matrices on the span of mu, w_K and w_Q.
    gamma, c, a1, nu, d = 0.05, 0.7, 0.6, 0.5, 0.3
    mu, w_k, w_q = np.random.default_rng(3).standard_normal((3, 3))
    products = InnerProducts.from_vectors(mu, w_k, w_q)

    def form(penalty):
        points, _, _ = theory_limit._points(penalty, c, a1, nu, d, InnerProducts())
        R = fixed_point.solve(points)[0][0]
        shift = points.shift[0]
        back = np.eye(3) + shift * np.outer([0, 0, 1], [1, 0, 0])
        R, alpha = back @ R @ back.T, points.alpha[0]
        W, I, O = np.eye(3) + np.outer(w_k, w_q), np.eye(3), np.zeros((3, 3))  # noqa: E741
        N = np.block([[O, -alpha * W.T, O], [-alpha * W, O, O], [O, O, -I]])
        P = N @ np.linalg.inv(np.eye(9) - np.kron(R, I) @ N)
        T = np.einsum("i,aibj,j->ab", mu, P.reshape(3, 3, 3, 3), mu)
        return np.linalg.inv(np.linalg.inv(R) - T)[0, 0]

    points, _, inner = theory_limit._points(gamma, c, a1, nu, d, products)
    value, slope = theory_limit._label_form(points, inner)
    assert value[0] == pytest.approx(form(gamma), rel=1e-11)
    step = 1e-5
    difference = form(gamma * np.exp(step)) - form(gamma * np.exp(-step))
    assert slope[0] == pytest.approx(difference / (2 * step), rel=1e-6)


def test_a_map_of_theorem_1_converges_everywhere():
    c = np.geomspace(1 / 16, 16, 41)[:, None]  # c = 1 among them
    gamma = np.geomspace(1e-8, 1e4, 37)
    error = theory.attention_error(gamma, c, TANH.a1, TANH.nu, inner_products=ALIGNED)
    assert error.shape == (41, 37)
    assert np.all((error > 0) & (error < 1))
    assert np.all(np.diff(error, axis=1) > -1e-13), "the error grows with the penalty"


def test_attention_without_linear_component_is_blind_to_the_signal():
    snr = np.array([0.0, 1.0, 100.0])
    error = theory.attention_error(
        0.1, 0.5, 0.0, 1.0, inner_products=InnerProducts(mu_mu=snr)
    )
    np.testing.assert_allclose(error, error[0], rtol=1e-12)


def test_the_identity_as_attention_matrix_is_linear_regression():
    # K = d I: h = d, sigma = 0 and alpha = 0 in the pencil scale the tokens by d.
    gamma, c = np.geomspace(1e-8, 1e4, 13), np.array([[0.25], [1.0], [4.0]])
    d = np.array([1.0, -3.0])[:, None, None]
    attention = theory.attention_error(
        gamma * d**2,
        c,
        0.0,
        0.0,
        inner_products=InnerProducts(mu_mu=2.0, wk_wk=1.0, wq_wq=1.0),
        diagonal_limit=d,
    )
    regression = theory.linear_regression_error(gamma, c, 2.0)
    np.testing.assert_allclose(attention[0], regression, rtol=1e-10)
    np.testing.assert_allclose(attention[1], regression, rtol=1e-10)


def test_an_attention_matrix_that_vanishes_predicts_nothing():
    assert theory.attention_error(0.1, 0.5, 0.0, 0.0, inner_products=ALIGNED) == 1.0


def test_the_scale_of_the_nonlinearity_is_that_of_the_penalty():
    gamma, scale = np.geomspace(1e-6, 1e2, 9), 3.0
    error = theory.attention_error(
        gamma, 0.7, 0.6, 0.5, inner_products=ALIGNED, diagonal_limit=0.4
    )
    scaled = theory.attention_error(
        gamma * scale**2,
        0.7,
        0.6 * scale,
        0.5 * scale**2,
        inner_products=ALIGNED,
        diagonal_limit=0.4 * scale,
    )
    np.testing.assert_allclose(scaled, error, rtol=1e-10)


@pytest.mark.parametrize("snr", [0.0, 1.0, 7.5])
def test_ridgeless_regression(snr):
    below = theory.linear_regression_error(1e-10, 0.25, snr)
    assert below == pytest.approx(0.75 / (1 + snr), rel=1e-8)
    assert theory.linear_regression_error(1e-10, 4.0, snr) < 1e-18


def test_a_heavy_penalty_leaves_the_labels_alone():
    gamma = np.array([1e2, 1e3, 1e4])
    for error in (
        theory.linear_regression_error(gamma, 0.5, 1.0),
        theory.attention_error(gamma, 0.5, TANH.a1, TANH.nu, inner_products=ALIGNED),
    ):
        # 1 - E falls as 1 / gamma.
        assert (1 - error[2]) / (1 - error[1]) == pytest.approx(0.1, rel=0.1)


def test_regression_solves_its_equation_against_quadrature():
    gamma, c, snr = 0.3, 0.5, 2.0
    low, high = (1 - np.sqrt(c)) ** 2, (1 + np.sqrt(c)) ** 2

    def transform(penalty):
        def density(x):
            return np.sqrt((high - x) * (x - low)) / (2 * np.pi * x) / (x + penalty)

        return integrate.quad(density, low, high, epsabs=1e-13)[0] + (1 - c) / penalty

    def form(penalty):
        m = transform(penalty)
        return m * (1 + m) / (1 + m + snr * m)

    step = 1e-4
    slope = (form(gamma + step) - form(gamma - step)) / (2 * step)
    error = theory.linear_regression_error(gamma, c, snr)
    assert error == pytest.approx(-(gamma**2) * slope, rel=1e-7)


@pytest.mark.parametrize("c", [0.25, 1.0, 2.0])
def test_marchenko_pastur_transform_solves_its_equation_on_the_right_branch(c):
    z = np.array([-1e-3, -1.0, 0.5 + 1e-3j, 2.0 + 0.5j, -3.0 + 2.0j])
    m = theory.marchenko_pastur_stieltjes(z, c)
    np.testing.assert_allclose(z * m**2 + (z + 1 - c) * m + 1, 0, atol=1e-10)
    assert np.all(m[:2].real > 0)
    assert np.all(m[2:].imag > 0)


@pytest.mark.parametrize("name", ["tanh", "cos"])
@pytest.mark.parametrize("c", [0.5, 2.0])
def test_the_spectral_density_has_the_mass_that_the_atom_leaves(name, c):
    hermite = nonlinearity.hermite_coefficients(name)
    x = np.geomspace(1e-7, 1e2, 1500)
    density = theory.attention_spectral_density(x, c, hermite.a1, hermite.nu)
    mass = integrate.trapezoid(density * x, np.log(x))
    assert mass == pytest.approx(min(c, 1.0), abs=2e-3)


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0])
def test_the_spectral_density_of_linear_regression_is_marchenko_pastur(c):
    low, high = (1 - np.sqrt(c)) ** 2, (1 + np.sqrt(c)) ** 2
    x = low + (high - low) * np.array([0.001, 0.1, 0.5, 0.9, 0.999])
    expected = np.sqrt((high - x) * (x - low)) / (2 * np.pi * x)
    density = theory.attention_spectral_density(x, c, 0.0, 0.0, diagonal_limit=1.0)
    np.testing.assert_allclose(density, expected, rtol=1e-7)
    outside = theory.attention_spectral_density(1.1 * high, c, 0, 0, diagonal_limit=1)
    assert 0 <= outside < 1e-8


def test_the_spectral_density_has_the_mean_of_the_eigenvalues():
    # tr K X^T X K / n^2 with K = alpha B + h I + S, and the moments of B = Z^T Z / n.
    c, a1, nu, d = 0.75, 0.6, 0.5, 0.2
    alpha, h = a1 / c, d - a1
    moments = c, c + c**2, c + 3 * c**2 + c**3
    mean = np.dot([h**2 + (nu - a1**2) / c, 2 * alpha * h, alpha**2], moments)
    t = np.linspace(np.log(1e-4), np.log(50), 1000)
    density = theory.attention_spectral_density(np.exp(t), c, a1, nu, diagonal_limit=d)
    assert integrate.trapezoid(density * np.exp(2 * t), t) == pytest.approx(
        mean, rel=1e-3
    )


def test_trace_and_density_describe_a_simulated_matrix():
    n, p, gamma = 600, 300, 0.1
    Z = data.noise(1, 0, p, n)
    K = np.tanh(Z.T @ Z / np.sqrt(p)) / np.sqrt(p)
    np.fill_diagonal(K, 0)
    eigenvalues = np.linalg.svd(Z @ K / np.sqrt(n), compute_uv=False) ** 2
    trace = (np.sum(1 / (eigenvalues + gamma)) + (n - p) / gamma) / n
    limit = theory.attention_resolvent_trace(gamma, p / n, TANH.a1, TANH.nu)
    # Linear statistics fluctuate by O(1/n).
    assert trace == pytest.approx(limit, abs=20 / n)
    middle = np.median(eigenvalues)
    x = np.geomspace(1e-6, middle, 1000)
    density = theory.attention_spectral_density(x, p / n, TANH.a1, TANH.nu)
    below = integrate.trapezoid(density * x, np.log(x)) * n / p
    assert below == pytest.approx(0.5, abs=10 / p)


def test_arguments_broadcast_and_scalars_give_a_float():
    gamma, c = np.array([0.1, 1.0]), np.array([[0.5], [1.0], [2.0]])
    table = theory.attention_error(gamma, c, 0.6, 0.4, inner_products=ALIGNED)
    assert table.shape == (3, 2)
    one = theory.attention_error(1.0, 2.0, 0.6, 0.4, inner_products=ALIGNED)
    assert isinstance(one, float)
    assert one == pytest.approx(table[2, 1], rel=1e-12)
    assert isinstance(theory.linear_regression_error(0.1, 0.5, 1.0), float)
    assert theory.linear_regression_error(gamma, c, 1.0).shape == (3, 2)


def test_no_inner_products_are_noise_alone():
    none = theory.attention_error(0.1, 0.5, 0.6, 0.4)
    assert none == theory.attention_error(
        0.1, 0.5, 0.6, 0.4, inner_products=InnerProducts()
    )


def test_a_point_that_does_not_converge_is_an_error_and_not_a_number():
    named = "gamma = 1e-20, aspect_ratio = 16, a1 = 0.6, nu = 0.4, diagonal_limit = 0"
    with pytest.raises(ConvergenceError, match=named) as error:
        theory.attention_error([0.1, 1e-20], 16.0, 0.6, 0.4, inner_products=ALIGNED)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("gamma", [1e-300, 1e-30, 1e10, 1e100, 1e300])
@pytest.mark.parametrize("c", [0.25, 1.0, 4.0])
def test_an_extreme_penalty_is_right_or_refused(gamma, c):
    try:
        error = theory.attention_error(gamma, c, 0.6, 0.4, inner_products=ALIGNED)
    except ConvergenceError:
        return
    edge = theory.attention_error(
        np.clip(gamma, 1e-8, 1e4), c, 0.6, 0.4, inner_products=ALIGNED
    )
    # The error grows with the penalty.
    assert edge < error <= 1 if gamma > 1 else 0 < error < edge * (1 + 1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive, got 0.0"),
        ({"gamma": np.nan}, "gamma must be finite"),
        ({"gamma": []}, "gamma must not be empty"),
        ({"gamma": "one"}, "gamma must be real numbers"),
        ({"aspect_ratio": 0.0}, "aspect_ratio must be positive"),
        ({"a1": np.inf}, "a1 must be finite"),
        ({"nu": 0.3}, "nu must"),
        ({"diagonal_limit": np.nan}, "diagonal_limit must be finite"),
        ({"gamma": [1.0, 2.0], "aspect_ratio": [1.0, 2.0, 3.0]}, "broadcast"),
    ],
)
def test_bad_arguments_of_attention(change, message):
    arguments = {"gamma": 0.1, "aspect_ratio": 0.5, "a1": 0.6, "nu": 0.4, **change}
    with pytest.raises(ValueError, match=message) as error:
        theory.attention_error(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 0.5, 1.0), "gamma must be positive"),
        ((0.1, -1.0, 1.0), "aspect_ratio must be positive"),
        ((0.1, 0.5, -1.0), "snr must not be negative"),
        ((0.1, 0.5, np.nan), "snr must be finite"),
        ((0.1, [], 1.0), "aspect_ratio must not be empty"),
        (([1.0, 2.0], [1.0, 2.0, 3.0], 1.0), "broadcast"),
    ],
)
def test_bad_arguments_of_regression(arguments, message):
    with pytest.raises(ValueError, match=message):
        theory.linear_regression_error(*arguments)


@pytest.mark.parametrize(
    ("products", "message"),
    [
        ({"mu_mu": -1.0}, "mu_mu must not be negative"),
        ({"mu_mu": np.nan}, "mu_mu must be finite"),
        ({"mu_mu": 1.0, "wk_wk": 1.0, "mu_wk": 2.0}, "those of three vectors"),
        (
            dict(zip(NAMES, [1.0, 0.9, 0.9, 1.0, 1.0, -0.9], strict=True)),
            "those of three vectors, got a matrix of cosines",
        ),
        ({"mu_mu": [1.0, 2.0], "wk_wk": [1.0, 2.0, 3.0]}, "broadcast"),
    ],
)
def test_inner_products_that_no_vectors_have(products, message):
    with pytest.raises(ValueError, match=message):
        InnerProducts(**products)


def test_vectors_of_different_length_are_refused():
    with pytest.raises(ValueError, match="one length"):
        InnerProducts.from_vectors([1.0, 2.0], [1.0], [1.0])
