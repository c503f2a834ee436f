"""Theorem 1 a second way: three scalars and partial fractions, in mpmath.

This is docs/theory.md, section 5. It shares nothing with ``theory.py`` but the model:
no 3 by 3 matrices, no float64, no starting point (the root is followed down from a
large gamma, where it is known), and the derivative is a difference quotient, which
costs digits that mpmath has to spare.
"""

from __future__ import annotations

from typing import NamedTuple

from mpmath import mp, mpf


class Prediction(NamedTuple):
    """What one evaluation of the scalar route gives."""

    error: mpf
    y_q_y: mpf
    u: mpf
    v: mpf
    w: mpf


class _Setting(NamedTuple):
    """One point, in mpmath numbers."""

    c: mpf
    alpha: mpf
    variance: mpf  # sigma^2
    h: mpf  # d - a_1
    inner: tuple[mpf, ...]  # mu_mu, mu_wk, mu_wq, wk_wk, wq_wq, wk_wq


def stieltjes(z, c):
    """Return m(z) of the Marchenko-Pastur law of Z^T Z / n, atom at 0 included."""
    lower, upper = (1 - mp.sqrt(c)) ** 2, (1 + mp.sqrt(c)) ** 2
    return (c - 1 - z + mp.sqrt(z - lower) * mp.sqrt(z - upper)) / (2 * z)


def cubic_roots(a, b, c, d):
    """Return the roots of a x^3 + b x^2 + c x + d by Cardano's formula."""
    delta0 = b * b - 3 * a * c
    delta1 = 2 * b**3 - 9 * a * b * c + 27 * a * a * d
    root = mp.sqrt(mp.mpc(delta1 * delta1 - 4 * delta0**3))
    larger = max(delta1 + root, delta1 - root, key=abs)
    cube = mp.cbrt(larger / 2)
    unity = mp.expjpi(mpf(2) / 3)
    return [
        -(b + unity**k * cube + delta0 / (unity**k * cube)) / (3 * a) for k in range(3)
    ]


def _fractions(setting, u, v, w):
    """Write (1 + v x)/D, x h(x)/D and u x/D as constants plus simple poles.

    Returns a list of (pole, residue) where pole ``None`` stands for the constant, for
    each of the three.
    """
    alpha, g = setting.alpha, setting.h - w
    numerators = (lambda x: 1 + v * x, lambda x: x * (alpha * x + g), lambda x: u * x)
    if alpha != 0:
        a, b, c = alpha * alpha, 2 * alpha * g, g * g + u * v
        roots = cubic_roots(a, b, c, u)
        slopes = [3 * a * r * r + 2 * b * r + c for r in roots]
        return [
            [(r, p(r) / s) for r, s in zip(roots, slopes, strict=True)]
            for p in numerators
        ]
    slope = g * g + u * v  # D(x) = u + slope x
    if slope == 0:
        return [[(None, 1 / u)], [(None, mpf(0))], []]
    root = -u / slope
    limits = (v / slope, g / slope, u / slope)
    return [
        [(None, limit), (root, p(root) / slope)]
        for p, limit in zip(numerators, limits, strict=True)
    ]


def _average(fractions, c):
    """Integrate a sum of simple poles over the Marchenko-Pastur law."""
    return mp.re(mp.fsum(f if r is None else f * stieltjes(r, c) for r, f in fractions))


def _equations(setting, gamma, logs):
    """Return the relative residual of the equations for (log u, log v, w)."""
    u, v, w = mp.exp(logs[0]), mp.exp(logs[1]), logs[2]
    phi1, phi2, phi3 = (_average(f, setting.c) for f in _fractions(setting, u, v, w))
    s = setting.variance
    return mp.matrix([(gamma + s * phi3) / u - 1, s * phi1 / v - 1, s * phi2 - w])


def _newton(setting, gamma, logs, tolerance, steps):
    """Polish (log u, log v, w), or return None when the start is too far away."""
    for _ in range(steps):
        residual = _equations(setting, gamma, logs)
        shift = mpf(10) ** (-mp.dps // 2)
        jacobian = mp.matrix(3, 3)
        for k in range(3):
            moved = logs.copy()
            moved[k] += shift
            jacobian[:, k] = (_equations(setting, gamma, moved) - residual) / shift
        change = mp.lu_solve(jacobian, -residual)
        logs = logs + change
        size = max(abs(change[0]), abs(change[1]), abs(change[2]))
        if size < tolerance:
            return logs
        if size > mpf("0.7"):
            return None
    return None


def _follow(setting, gamma):
    """Return (log u, log v, w) at gamma, followed down from a large gamma."""
    # Size of A^T A / n: far above it Q is the identity over gamma.
    size = (1 + mp.sqrt(setting.c)) ** 2
    size *= (abs(setting.alpha) * size + abs(setting.h)) ** 2 + setting.variance + 1
    here = mp.log(max(gamma, 100 * size))
    goal = mp.log(gamma)
    start = mp.exp(here)
    mean_h = setting.alpha * (1 + setting.c) + setting.h
    logs = mp.matrix(
        [
            here,
            mp.log(setting.variance) - here,
            setting.variance * setting.c * mean_h / start,
        ]
    )
    tolerance = mpf(10) ** (-8)
    logs = _newton(setting, start, logs, tolerance, 30)
    stride = mpf(1)
    tangent = mp.matrix([0, 0, 0])
    while here > goal:
        there = max(here - stride, goal)
        guess = logs + tangent * (there - here)
        found = _newton(setting, mp.exp(there), guess, tolerance, 4)
        # A long way from the tangent may be another root: take it slower.
        if found is None or max(abs(x) for x in found - guess) > mpf("0.2"):
            stride /= 2
            if stride < mpf("1e-4"):
                raise ArithmeticError(f"lost the root at log gamma = {there}")
            continue
        tangent = (found - logs) / (there - here)
        here, logs = there, found
        stride = min(stride * mpf("1.5"), mpf(1))
    return logs


def _bilinear(fractions, c, rho, mu_a, mu_b, a_b):
    """Return a^T X phi(B) X^T b / n for phi a sum of simple poles."""
    total = mpf(0)
    for r, f in fractions:
        m = stieltjes(r, c)
        total += f * (
            a_b * m / (1 + m) + mu_a * mu_b * m / ((1 + m) * (1 + m + rho * m))
        )
    return mp.re(total)


def _mixed(fractions, c, rho, mu_a):
    """Return y^T phi(B) X^T a / n for phi a sum of simple poles."""
    total = mpf(0)
    for r, f in fractions:
        m = stieltjes(r, c)
        total += f * m * mu_a / (1 + m + rho * m)
    return mp.re(total)


def _quadratic_form(setting, u, v, w):
    """Return the limit of y^T Q y / n."""
    c = setting.c
    rho, mu_k, mu_q, k_k, q_q, k_q = setting.inner
    phi1, phi2, phi3 = _fractions(setting, u, v, w)
    total = mpf(0)
    for r, f in phi1:
        m = None if r is None else stieltjes(r, c)
        total += f if r is None else f * m * (1 + m) / (1 + m + rho * m)
    total = mp.re(total)
    if setting.alpha == 0 or k_k == 0 or q_q == 0:
        return total
    cross = 1 / setting.alpha + _bilinear(phi2, c, rho, mu_q, mu_k, k_q)
    inner = mp.matrix(
        [
            [_bilinear(phi1, c, rho, mu_q, mu_q, q_q), cross],
            [cross, -_bilinear(phi3, c, rho, mu_k, mu_k, k_k)],
        ]
    )
    b = mp.matrix([_mixed(phi1, c, rho, mu_q), _mixed(phi2, c, rho, mu_k)])
    return total - (b.T * mp.lu_solve(inner, b))[0]


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

    ``inner`` holds mu.mu, mu.w_K, mu.w_Q, w_K.w_K, w_Q.w_Q and w_K.w_Q; nu may equal
    a1^2 and a1 may be 0. Numbers may be strings, to mean their decimal value.
    """
    with mp.workdps(3 * digits + 20):
        gamma, c, a1, nu = (mpf(x) for x in (gamma, aspect_ratio, a1, nu))
        variance = max((nu - a1 * a1) / c, mpf(0))
        setting = _Setting(
            c=c,
            alpha=a1 / c,
            variance=variance,
            h=mpf(diagonal_limit) - a1,
            inner=tuple(mpf(x) for x in inner),
        )
        if variance > 0:
            with mp.workdps(digits + 20):
                rough = _follow(setting, gamma)

        def form(g):
            if variance == 0:
                return _quadratic_form(setting, g, mpf(0), mpf(0)), g, mpf(0), mpf(0)
            tolerance = mpf(10) ** (-(3 * digits) // 2)
            logs = _newton(setting, g, rough, tolerance, 40)
            u, v, w = mp.exp(logs[0]), mp.exp(logs[1]), logs[2]
            return _quadratic_form(setting, u, v, w), u, v, w

        # Central difference in log gamma: its error is of the order of shift^2.
        shift = mpf(10) ** (-(digits // 2) - 2)
        value, u, v, w = form(gamma)
        slope = (form(gamma * mp.exp(shift))[0] - form(gamma * mp.exp(-shift))[0]) / (
            2 * shift
        )
        return Prediction(-gamma * slope, value, u, v, w)
