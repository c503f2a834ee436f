"""Theorem 1 a second way: three scalars and partial fractions, in mpmath.

This is docs/theory.md, section 5. It shares nothing with the package but the model:
no 3 by 3 matrices, no float64, no starting guess (the root is followed down from a
large gamma, where it is known), and the derivative is a difference quotient, which
costs digits that mpmath has to spare.
"""

from typing import NamedTuple

from mpmath import mp, mpf


class Prediction(NamedTuple):
    """What one evaluation of the scalar route gives."""

    error: mpf
    y_q_y: mpf  # y^T Q y / n
    u: mpf
    v: mpf
    w: mpf


class Setting(NamedTuple):
    """One point, in mpmath numbers."""

    c: mpf
    alpha: mpf
    variance: mpf  # sigma^2
    h: mpf  # d - a_1
    inner: tuple  # mu_mu, mu_wk, mu_wq, wk_wk, wq_wq, wk_wq


def predict(
    gamma,
    aspect_ratio,
    a1,
    nu,
    *,
    diagonal_limit=0,
    inner=(0, 0, 0, 0, 0, 0),
    digits=30,
):
    """Return Theorem 1 at one point, right to about ``digits`` digits.

    Numbers may be strings, to mean their decimal value; nu may equal a1^2.
    """
    with mp.workdps(2 * digits + 20):
        gamma, c, a1, nu, d = (
            mpf(x) for x in (gamma, aspect_ratio, a1, nu, diagonal_limit)
        )
        variance = max((nu - a1 * a1) / c, mpf(0))
        inner = tuple(mpf(x) for x in inner)
        setting = Setting(c, a1 / c, variance, d - a1, inner)
        if variance > 0:
            with mp.workdps(30):  # far from what is asked, near enough for Newton
                rough = follow(setting, gamma)

        def form(g):
            u, v, w = g, mpf(0), mpf(0)
            if variance > 0:
                tolerance = mpf(10) ** (-(3 * digits) // 2)
                x = newton(setting, g, rough, tolerance, 40)
                u, v, w = mp.exp(x[0]), mp.exp(x[1]), x[2]
            return quadratic_form(setting, u, v, w), u, v, w

        # Central difference in log gamma: its error is of the order of shift^2.
        shift = mpf(10) ** (-(digits // 2) - 2)
        value, u, v, w = form(gamma)
        above, below = form(gamma * mp.exp(shift))[0], form(gamma * mp.exp(-shift))[0]
        return Prediction(-gamma * (above - below) / (2 * shift), value, u, v, w)


def stieltjes(z, c):
    """Return m(z) of the Marchenko-Pastur law of Z^T Z / n, atom at 0 included."""
    root = mp.sqrt(c)
    s = mp.sqrt(z - (1 - root) ** 2) * mp.sqrt(z - (1 + root) ** 2)
    return (c - 1 - z + s) / (2 * z)


def cubic_roots(a, b, c, d):
    """Return the roots of a x^3 + b x^2 + c x + d by Cardano's formula."""
    delta0 = b * b - 3 * a * c
    delta1 = 2 * b**3 - 9 * a * b * c + 27 * a * a * d
    root = mp.sqrt(mp.mpc(delta1 * delta1 - 4 * delta0**3))
    cube = mp.cbrt(max(delta1 + root, delta1 - root, key=abs) / 2)
    turns = [cube * mp.expjpi(mpf(2 * k) / 3) for k in range(3)]
    return [-(b + turn + delta0 / turn) / (3 * a) for turn in turns]


def fractions(setting, u, v, w):
    """Write (1 + v x)/D, x h(x)/D and u x/D as constants plus simple poles.

    Returns the three constants, and for each pole r of the three m(r) and the three
    residues.
    """
    alpha, g = setting.alpha, setting.h - w
    slope = g * g + u * v  # of D(x) = u + slope x + 2 alpha g x^2 + alpha^2 x^3
    if alpha != 0:
        a, b = alpha * alpha, 2 * alpha * g
        constants = (mpf(0), mpf(0), mpf(0))
        roots = cubic_roots(a, b, slope, u)
        slopes = [(3 * a * r + 2 * b) * r + slope for r in roots]
    elif slope != 0:
        constants = (v / slope, g / slope, u / slope)
        roots, slopes = [-u / slope], [slope]
    else:
        return (1 / u, mpf(0), mpf(0)), []
    poles = [
        (
            stieltjes(r, setting.c),
            ((1 + v * r) / s, r * (alpha * r + g) / s, u * r / s),
        )
        for r, s in zip(roots, slopes, strict=True)
    ]
    return constants, poles


def averages(setting, u, v, w):
    """Integrate the three functions of :func:`fractions` over the law."""
    constants, poles = fractions(setting, u, v, w)
    return [
        constants[k] + mp.re(mp.fsum(m * residues[k] for m, residues in poles))
        for k in range(3)
    ]


def equations(setting, gamma, x):
    """Return the relative residual of the equations at x = (log u, log v, w)."""
    u, v, w = mp.exp(x[0]), mp.exp(x[1]), x[2]
    phi1, phi2, phi3 = averages(setting, u, v, w)
    s = setting.variance
    return mp.matrix([(gamma + s * phi3) / u - 1, s * phi1 / v - 1, s * phi2 - w])


def newton(setting, gamma, x, tolerance, steps):
    """Polish (log u, log v, w), or return None when the start is too far away."""
    shift = mpf(10) ** (-mp.dps // 2)
    for _ in range(steps):
        residual = equations(setting, gamma, x)
        jacobian = mp.matrix(3, 3)
        for k in range(3):
            moved = x.copy()
            moved[k] += shift
            jacobian[:, k] = (equations(setting, gamma, moved) - residual) / shift
        change = mp.lu_solve(jacobian, -residual)
        x = x + change
        size = max(abs(entry) for entry in change)
        if size < tolerance:
            return x
        if size > mpf("0.7"):
            return None
    return None


def follow(setting, gamma):
    """Return (log u, log v, w) at gamma, followed down from a large gamma."""
    c, variance = setting.c, setting.variance
    edge = (1 + mp.sqrt(c)) ** 2
    size = edge * ((abs(setting.alpha) * edge + abs(setting.h)) ** 2 + variance)
    # Far above the eigenvalues of A^T A / n, Q is I / gamma and D is gamma.
    here, goal = mp.log(max(gamma, 100 * size)), mp.log(gamma)
    mean = setting.alpha * (c + c * c) + setting.h * c  # of lambda h(lambda)
    start = [here, mp.log(variance) - here, variance * mean * mp.exp(-here)]
    tolerance = mpf(10) ** (-6)
    x = newton(setting, mp.exp(here), mp.matrix(start), tolerance, 30)
    stride, tangent = mpf(1), mp.matrix([0, 0, 0])
    while here > goal:
        there = max(here - stride, goal)
        guess = x + tangent * (there - here)
        found = newton(setting, mp.exp(there), guess, tolerance, 4)
        # What is far from the tangent may be another root: go slower there.
        if found is None or max(abs(entry) for entry in found - guess) > mpf("0.2"):
            stride /= 2
            if stride < mpf("1e-4"):
                raise ArithmeticError(f"lost the root at log gamma = {there}")
            continue
        tangent = (found - x) / (there - here)
        here, x = there, found
        stride = min(stride * mpf("1.5"), mpf(3))
    return x


def quadratic_form(setting, u, v, w):
    """Return the limit of y^T Q y / n, by the bilinear forms of section 3."""
    rho, mu_k, mu_q, k_k, q_q, k_q = setting.inner
    constants, poles = fractions(setting, u, v, w)

    def signal(k):  # y^T phi(B) y / n
        terms = (f[k] * m * (1 + m) / (1 + m + rho * m) for m, f in poles)
        return constants[k] + mp.re(mp.fsum(terms))

    def mixed(k, mu_a):  # y^T phi(B) X^T a / n
        return mp.re(mp.fsum(f[k] * m * mu_a / (1 + m + rho * m) for m, f in poles))

    def bilinear(k, mu_a, mu_b, a_b):  # a^T X phi(B) X^T b / n
        terms = (
            f[k] * m / (1 + m) * (a_b + mu_a * mu_b / (1 + m + rho * m))
            for m, f in poles
        )
        return mp.re(mp.fsum(terms))

    if setting.alpha == 0:
        return signal(0)
    cross = 1 / setting.alpha + bilinear(1, mu_q, mu_k, k_q)
    inner = mp.matrix(
        [
            [bilinear(0, mu_q, mu_q, q_q), cross],
            [cross, -bilinear(2, mu_k, mu_k, k_k)],
        ]
    )
    b = mp.matrix([mixed(0, mu_q), mixed(1, mu_k)])
    return signal(0) - (b.T * mp.lu_solve(inner, b))[0]
