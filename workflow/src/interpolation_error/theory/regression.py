"""Predicted interpolation error of linear regression: Proposition 2 of the paper.

A limit for many tokens n and a large embedding dimension p at a fixed ratio c = p/n,
in closed form through the Marchenko-Pastur law (docs/theory.md, section 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from interpolation_error.model.checks import (
    Array,
    Arrays,
    as_finite,
    as_non_negative,
    as_positive,
    broadcast,
    plain,
    unmasked,
)


def marchenko_pastur_stieltjes(
    z: ArrayLike, aspect_ratio: ArrayLike
) -> float | complex | Arrays:
    r"""Return the Stieltjes transform of the Marchenko-Pastur law.

    .. math:: m(z) = \int \frac{d\mathrm{MP}(\lambda)}{\lambda - z}, \qquad
        z m^2 + (z + 1 - c) m + 1 = 0,

    where the law is that of the eigenvalues of :math:`Z^T Z / n`, Z of shape (p, n)
    with independent standard normal entries. It has an atom :math:`\max(0, 1 - c)` at
    0 (docs/theory.md, section 3).

    Parameters
    ----------
    z : array_like of float or complex
        Where to evaluate; outside the support of the law.
    aspect_ratio : array_like
        :math:`c = p/n`, positive. Broadcasts against ``z``.

    Returns
    -------
    float, complex or ndarray
        Real if ``z`` is.

    Raises
    ------
    ValueError
        If ``z`` is not finite or lies in the support, ``aspect_ratio`` is not positive,
        or the shapes do not broadcast.

    Examples
    --------
    >>> round(marchenko_pastur_stieltjes(-1.0, 1.0), 6)
    0.618034
    """
    given = unmasked("z", z)
    is_complex = given.dtype.kind == "c"
    if is_complex:
        point: Arrays = as_finite("z", given.real) + 1j * as_finite("z", given.imag)
    else:
        point = as_finite("z", z).astype(np.complex128)
    c = as_positive("aspect_ratio", aspect_ratio)
    point, c = broadcast({"z": point, "aspect_ratio": c})
    lower, upper = _edges(c)
    x = point.real
    inside = ((x >= lower) & (x <= upper)) | ((x == 0) & (c < 1))
    inside &= point.imag == 0
    if np.any(inside):
        raise ValueError(
            "z must lie outside the support of the Marchenko-Pastur law, got "
            f"{float(x[inside][0])!r}"
        )
    # The product of two roots, not the root of a product, is on the right branch.
    s, b = np.sqrt(point - lower) * np.sqrt(point - upper), point + 1 - c
    # Of the two forms of m, take the one that does not cancel.
    first = np.abs(s - b) > np.abs(s + b)
    m = np.where(first, s - b, -2.0) / np.where(first, 2 * point, s + b)
    if not is_complex:
        return plain(m.real)
    return complex(m) if m.ndim == 0 else m


def linear_regression_error(
    gamma: ArrayLike, aspect_ratio: ArrayLike, snr: ArrayLike
) -> float | Array:
    r"""Return the limiting interpolation error of linear regression.

    Proposition 2 of the paper (docs/theory.md, section 3):

    .. math:: E = -\gamma^2 \frac{d}{d\gamma} \frac{m (1 + m)}{1 + m + \rho m},
        \qquad m = m(-\gamma),

    m being :func:`marchenko_pastur_stieltjes`. With the derivative taken by hand,
    :math:`\kappa = 1 + \rho` and :math:`\lambda_\pm = (1 \pm \sqrt c)^2`,

    .. math:: E = \gamma^2 \frac{1 + 2m + \kappa m^2}{(1 + \kappa m)^2}
        \frac{m (1 + m)}{\sqrt{(\gamma + \lambda_-)(\gamma + \lambda_+)}}.

    Every factor is positive, so this is right to rounding for every gamma.

    Parameters
    ----------
    gamma : array_like
        Regularization :math:`\gamma`, positive; the ridge penalty is
        :math:`n\gamma`.
    aspect_ratio : array_like
        :math:`c = p/n`, positive.
    snr : array_like
        Signal-to-noise ratio :math:`\rho = \|\mu\|^2`, not negative.

    Returns
    -------
    float or ndarray of float64
        E between 0 and 1, of the shape to which the arguments broadcast.

    Raises
    ------
    ValueError
        If an argument is out of its range or not finite, or the shapes do not
        broadcast.

    Examples
    --------
    >>> round(linear_regression_error(1e-9, 0.25, 1.0), 6)  # (1 - c) / (1 + rho)
    0.375
    >>> linear_regression_error([1e-3, 1.0], 0.25, 1.0).shape
    (2,)
    """
    gamma, c, rho = broadcast(
        {
            "gamma": as_positive("gamma", gamma),
            "aspect_ratio": as_positive("aspect_ratio", aspect_ratio),
            "snr": as_non_negative("snr", snr),
        }
    )
    lower, upper = _edges(c)
    root = np.sqrt(gamma + lower) * np.sqrt(gamma + upper)
    # g = gamma m, by the form of the quadratic's root that does not cancel.
    b = gamma + c - 1
    half = np.abs(b) / 2 + root / 2
    g = np.where(b > 0, gamma / half, half)
    # p = m / (1 + kappa m) and q = 1 / (1 + kappa m), without m, which may overflow.
    kappa = 1 + rho
    p, q = g / (gamma + kappa * g), gamma / (gamma + kappa * g)
    error = (q * q + 2 * p * q + kappa * p * p) * g * ((gamma + g) / root)
    return plain(np.clip(error, 0.0, 1.0))


def _edges(c: Array) -> tuple[Array, Array]:
    """Return the edges (1 -+ sqrt c)^2 of the Marchenko-Pastur law."""
    root = np.sqrt(c)
    return ((1 - c) / (1 + root)) ** 2, (1 + root) ** 2
