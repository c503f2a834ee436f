r"""Gaussian averages of a nonlinearity at shifted scores.

With :math:`\xi \sim N(0, 1)`, Hermite polynomials :math:`h_k` and f less its mean,

.. math:: F_k(\omega) = E f(\xi + \omega) h_k(\xi)

(docs/theory.md, section 8). Convolved with the normal law f is smooth, also where it
jumps, so that functions of one shift are interpolated between values on a grid.
"""

from __future__ import annotations

from math import ceil, pi, sqrt

import numpy as np
from scipy.interpolate import RectBivariateSpline, make_interp_spline

from interpolation_error.model.checks import Array
from interpolation_error.model.hermite import hermite_coefficients, on_panels
from interpolation_error.model.nonlinearity import Nonlinearity

_REACH = 9.0  # standard deviations beyond which the normal law is left out
_STEP = 0.1  # of the grid: splines of degree five are then good to 1e-9
_STEP_OF_TWO = 0.15  # of the grid of pairs
# Panels of Gauss-Legendre nodes, 18 of width one, shorter and shorter towards a kink,
# which may be a cusp.
_PANELS = np.linspace(-_REACH, _REACH, 19)
_SHORT = 0.5 * 4.0 ** -np.arange(6)
_ABOUT_A_KINK = np.concatenate([-_SHORT, [0.0], _SHORT[::-1]])
_PLACES, _SHARES = np.polynomial.legendre.leggauss(8)
_PLACES, _SHARES = (1 + _PLACES) / 2, _SHARES / 2
_AT_ONCE = 2**11  # averages taken at once, so that their nodes fit in the cache


class ShiftedAverages:
    r"""Averages of :math:`f(\xi + \omega)` for shifts up to a reach.

    Parameters
    ----------
    f : Nonlinearity
        Its mean :math:`a_0` is subtracted.
    reach : float
        Largest size of a shift, in standard deviations of a score.

    Examples
    --------
    >>> relu = Nonlinearity("relu", lambda t: np.maximum(t, 0.0), kinks=(0.0,))
    >>> averages = ShiftedAverages(relu, reach=3.0)
    >>> averages.first(np.array([-3.0, 0.0, 3.0])).round(4)
    array([0.0013, 0.5   , 0.9987])
    """

    def __init__(self, f: Nonlinearity, reach: float) -> None:
        self._f = f
        self._a0 = hermite_coefficients(f).a0
        reach = max(reach, 1e-3) * (1 + 1e-12)
        grid = np.linspace(-reach, reach, 2 * ceil(reach / _STEP) + 9)
        rows = [self._moments(grid[at]) for at in _parts(len(grid))]
        zeroth, first, second = np.concatenate(rows, axis=-1)
        centred = np.maximum(second - zeroth**2 - first**2, 0.0)
        self._splines = [
            make_interp_spline(grid, values, k=5) for values in (zeroth, first, centred)
        ]

    def zeroth(self, omega: Array) -> Array:
        r"""Return :math:`F_0(\omega)`."""
        return np.asarray(self._splines[0](omega))

    def first(self, omega: Array) -> Array:
        r"""Return :math:`F_1(\omega)`."""
        return np.asarray(self._splines[1](omega))

    def variance(self, omega: Array) -> Array:
        r"""Return :math:`\sum_{k \ge 2} F_k(\omega)^2`, by Parseval's equation."""
        return np.asarray(np.maximum(self._splines[2](omega), 0.0))

    def covariance(self, one: Array, other: Array) -> Array:
        r"""Return :math:`\sum_{k \ge 2} F_k(\omega) F_k(\omega')`, pair by pair.

        By Parseval's equation it is :math:`E f(\xi + \omega) f(\xi + \omega')` less the
        first two terms. In the sum and in the distance of the two that is smooth, also
        where f jumps, and is interpolated where a grid has fewer pairs.
        """
        total, distance = (one + other) / 2, np.abs(one - other) / 2
        axes = [
            _grid(float(total.min()), float(total.max())),
            _grid(0.0, float(distance.max())),
        ]
        if len(axes[0]) * len(axes[1]) < np.size(one):
            middle, half = np.meshgrid(*axes, indexing="ij")
            grid = self.product(middle + half, middle - half)
            spline = RectBivariateSpline(*axes, grid, kx=5, ky=5)
            product = spline.ev(total, distance)
        else:
            product = self.product(one, other)
        less = self.zeroth(one) * self.zeroth(other) + self.first(one) * self.first(
            other
        )
        return np.asarray(product - less)

    def product(self, one: Array, other: Array) -> Array:
        r"""Return :math:`E f(\xi + \omega) f(\xi + \omega')`, pair by pair."""
        pairs = np.stack([np.ravel(one), np.ravel(other)], axis=-1)
        found = np.empty(len(pairs))
        for at in _parts(len(pairs)):
            xi, weights = self._quadrature(pairs[at])
            first, second = (
                self._f(xi + omega[:, None]) - self._a0 for omega in pairs[at].T
            )
            found[at] = np.sum(weights * first * second, axis=-1)
        return found.reshape(np.shape(one))

    def _moments(self, omega: Array) -> Array:
        """Return E f(xi + omega), E xi f(xi + omega) and E f(xi + omega)^2."""
        xi, weights = self._quadrature(omega[:, None])
        f = self._f(xi + omega[:, None]) - self._a0
        weighted = weights * f
        return np.stack([np.sum(weighted * g, axis=-1) for g in (1.0, xi, f)])

    def _quadrature(self, shifts: Array) -> tuple[Array, Array]:
        """Return nodes and weights of the normal law, split at kinks of shifted f."""
        kinks = (np.array(self._f.kinks) - shifts[..., None]).reshape(len(shifts), -1)
        about = (kinks[..., None] + _ABOUT_A_KINK).reshape(len(shifts), -1)
        panels = np.broadcast_to(_PANELS, (len(shifts), len(_PANELS)))
        # What is beyond the reach becomes a panel of no width.
        edges = np.sort(np.hstack([panels, np.clip(about, -_REACH, _REACH)]))
        xi, weights = on_panels(edges, _PLACES, _SHARES)
        return xi, weights * np.exp(-(xi**2) / 2) / sqrt(2 * pi)


def _parts(count: int) -> list[slice]:
    return [slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE)]


def _grid(start: float, stop: float) -> Array:
    return np.linspace(start, stop + 1e-3, ceil((stop - start) / _STEP_OF_TWO) + 7)
