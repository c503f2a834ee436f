r"""Means of products of a nonlinearity at two correlated attention scores.

The scores of a token with another and of the other with it are jointly normal, and
equal only where the attention weights are symmetric.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model.hermite import LIMIT, hermite_coefficients, on_panels
from interpolation_error.model.nonlinearity import Nonlinearity, get

Array = NDArray[np.float64]

# Quadrature: Gauss-Legendre panels, halved until two widths agree relative to Var f.
NODES = 20
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16)
AGREEMENT = 1e-10
# Where v below is cut off; the integrand grows more slowly than exp(v^2 / 4).
FAR = 12.0
CHUNK = 2**16  # values of the nonlinearity at a time, which stay in the cache


def product_mean(nonlinearity: str | Nonlinearity, correlation: float) -> float:
    r"""Return the mean product of a centred nonlinearity at two correlated scores.

    .. math:: E (f(\xi) - a_0)(f(\xi') - a_0) = \sum_{k \ge 1} a_k^2 r^k

    for standard normal :math:`\xi, \xi'` of correlation r (docs/theory.md, the section
    on general weights).

    Parameters
    ----------
    nonlinearity : str or Nonlinearity
        f, by its registered name or as an object.
    correlation : float
        r, from -1 to 1, both included.

    Returns
    -------
    float
        Between :math:`-\nu` and :math:`\nu`, to about 1e-10 of :math:`\nu`.

    Raises
    ------
    ValueError
        If ``correlation`` is out of range, or the nonlinearity is unknown, has no
        finite variance, or is too rough for the quadrature (a kink not declared).

    Notes
    -----
    With :math:`\xi = a u + b v` and :math:`\xi' = \pm (a u - b v)`, the sign that of
    r, :math:`a^2 = (1 + |r|)/2` and :math:`b^2 = (1 - |r|)/2`, u and v are independent.
    The integral over u is cut where one of the scores is at a kink. As a function of v
    it is smooth but where two of these cuts meet, which is where that over v is cut.

    Examples
    --------
    The sign has :math:`\frac2\pi \arcsin r`:

    >>> round(product_mean("sign", 0.5), 9)
    0.333333333
    """
    f = get(nonlinearity)
    r = float(correlation)
    if not -1 <= r <= 1:
        raise ValueError(f"correlation must be from -1 to 1, got {correlation!r}")
    a0, _, _, nu = hermite_coefficients(f)
    sign = 1.0 if r >= 0 else -1.0
    a, b = sqrt((1 + abs(r)) / 2), sqrt((1 - abs(r)) / 2)
    kinks = np.array(f.kinks)
    meetings = np.subtract.outer(kinks, sign * kinks).ravel()
    meetings = meetings[np.abs(meetings) < 2 * b * FAR] / (2 * b) if b else meetings[:0]
    previous = np.inf
    for width in WIDTHS:
        grid = np.linspace(-LIMIT, LIMIT, round(2 * LIMIT / width) + 1)
        v, outer = _normal_panels(np.union1d(grid[np.abs(grid) <= FAR], meetings))
        total, size = 0.0, max(1, CHUNK // (NODES * len(grid)))
        for start in range(0, len(v), size):
            some = v[start : start + size, None]
            cuts = [(kinks - b * some) / a, (sign * kinks + b * some) / a]
            edges = np.concatenate([np.tile(grid, (len(some), 1)), *cuts], axis=1)
            u, inner = _normal_panels(np.sort(np.clip(edges, -LIMIT, LIMIT)))
            one, other = a * u + b * some, sign * (a * u - b * some)
            inner *= (f(one) - a0) * (f(other) - a0)
            total += float(outer[start : start + size] @ inner.sum(axis=1))
        if abs(total - previous) <= AGREEMENT * nu:
            return min(max(total, -nu), nu)
        previous = total
    raise ValueError(
        f"nonlinearity {f.name!r} is too rough to integrate over two correlated "
        "scores: declare in kinks where it or a derivative of it jumps"
    )


def _normal_panels(edges: Array) -> tuple[Array, Array]:
    """Return nodes and weights of the normal law on panels between sorted edges.

    Within a panel x = t^2 (3 - 2t), so that a root at one of its ends is no trouble.
    """
    t, gauss = np.polynomial.legendre.leggauss(NODES)
    t, gauss = (1 + t) / 2, gauss / 2
    nodes, weights = on_panels(edges, t * t * (3 - 2 * t), 6 * t * (1 - t) * gauss)
    return nodes, weights * np.exp(-(nodes**2) / 2) / sqrt(2 * np.pi)
