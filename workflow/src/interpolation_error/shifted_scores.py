r"""Means of a nonlinearity at attention scores that are shifted by the tokens' types.

A score is :math:`\xi + \omega`, standard normal but for a shift that the two tokens
bring along (docs/theory.md, section 8). Convolved with the normal law, any nonlinearity
is a smooth function of the shift, so that its means are computed on a grid of shifts,
with quadrature that is cut at the kinks, and interpolated by splines in between.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from math import sqrt

import numpy as np
from scipy.interpolate import RectBivariateSpline, make_interp_spline

from interpolation_error._checks import Array
from interpolation_error.nonlinearity import Nonlinearity, hermite_coefficients

# Gauss-Legendre panels, of the first width that gives the variance of f.
WIDTHS = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
NODES = 20
AGREEMENT = 1e-10
STEP = 0.05  # between shifts
# Between distances of two shifts, in widths of a panel: where f has kinks, and where it
# has none and they cost little.
STRIDE, FINE = 1 / 10, 1 / 40
FAR = 9.0  # where the normal law is cut off
FARTHEST = 2000.0  # reach, which is as much as takes seconds
LARGEST = 10**7  # entries of a table
CHUNK = 64  # shifts at a time, which share the panels around them, or pairs


class ShiftedMeans:
    r"""Means of a centred nonlinearity over :math:`\xi + \omega` as functions of it.

    With the normalized Hermite polynomials :math:`h_k`,
    :math:`F_k(\omega) = E f(\xi + \omega) h_k(\xi)`.

    Parameters
    ----------
    nonlinearity : Nonlinearity
        f; its mean :math:`a_0` is subtracted.
    reach : float
        Largest absolute shift that will be asked for, up to 2000.
    coarseness : float, optional
        By how much panels and steps are wider than they need be; to see the error of
        the quadrature and of the splines.

    Raises
    ------
    OverflowError
        If f is not finite on the shifted scores, or they are out of reach.

    Examples
    --------
    The sign has :math:`F_0(\omega) = 2 \Phi(\omega) - 1`:

    >>> from interpolation_error.nonlinearity import get
    >>> means = ShiftedMeans(get("sign"), reach=2.0)
    >>> means.zeroth(np.array(1.0)).round(6)
    np.float64(0.682689)
    """

    def __init__(
        self, nonlinearity: Nonlinearity, reach: float, coarseness: float = 1.0
    ) -> None:
        self._nonlinearity = nonlinearity
        self._a0, _, _, nu = hermite_coefficients(nonlinearity)
        for width in WIDTHS:
            xi, weights = _panels(-FAR, FAR, np.array(nonlinearity.kinks), width)
            weights *= np.exp(-(xi**2) / 2) / sqrt(2 * np.pi)
            if abs(weights @ self._centred(xi) ** 2 - nu) < AGREEMENT * nu:
                break
        self._width = width * coarseness
        if reach > FARTHEST:
            raise OverflowError(
                f"scores are shifted by up to {reach:.3g}, and {FARTHEST:g} is the most"
            )
        self._centred(np.array([-reach - FAR, reach + FAR]))  # refuses what overflows
        # Splines err more at their ends, which are not needed.
        reach += 5 * STEP * coarseness
        self._shifts = _grid(-reach, reach, STEP * coarseness)
        f = self._centred
        zeroth, first = self._convolved(lambda s: f(s)[None], 0.0, first=True)
        (second,) = self._convolved(lambda s: f(s)[None] ** 2, 0.0)
        # Higher powers of h_k are left: V is a sum of squares, also after rounding.
        variance = np.maximum(second - zeroth**2 - first**2, 0.0)
        self._zeroth = make_interp_spline(self._shifts, zeroth, k=5)
        self._first = make_interp_spline(self._shifts, first, k=5)
        self._variance = make_interp_spline(self._shifts, variance, k=5)

    def zeroth(self, shift: Array) -> Array:
        r"""Return :math:`F_0(\omega) = E f(\xi + \omega)`.

        Parameters
        ----------
        shift : ndarray of float64
            Up to the reach in size.

        Returns
        -------
        ndarray of float64, of the shape of ``shift``
        """
        return np.asarray(self._zeroth(shift))

    def first(self, shift: Array) -> Array:
        r"""Return :math:`F_1(\omega) = E \xi f(\xi + \omega)`, as :meth:`zeroth`."""
        return np.asarray(self._first(shift))

    def variance(self, shift: Array) -> Array:
        r"""Return :math:`V(\omega) = \sum_{k \ge 2} F_k(\omega)^2`.

        By Parseval it is :math:`E f(\xi + \omega)^2 - F_0^2 - F_1^2`. Parameters and
        result as of :meth:`zeroth`.
        """
        return np.asarray(np.maximum(self._variance(shift), 0.0))

    def covariance(self, one: Array, other: Array) -> Array:
        r"""Return :math:`\sum_{k \ge 2} F_k(\omega) F_k(\omega')` of pairs of shifts.

        By Parseval it is :math:`E f(\xi + \omega) f(\xi + \omega')` less the first two
        terms. That mean is smooth in :math:`\omega + \omega'`, and in
        :math:`|\omega - \omega'|` apart from where it is the distance of two kinks.

        Parameters
        ----------
        one, other : ndarray of float64, of one shape
            Up to the reach in size.

        Returns
        -------
        ndarray of float64, of the same shape
        """
        half = np.abs(one - other) / 2
        farthest = max(float(half.max()), STEP)
        kinks = bool(self._nonlinearity.kinks)
        step = self._width * (STRIDE if kinks else FINE)
        # A pair costs as much as an entry of a table with kinks, and many without.
        worth = half.size if kinks else min(20 * half.size, LARGEST)
        if len(self._shifts) * farthest / step > worth:
            product = self._products_of_pairs(one.ravel(), other.ravel())
        else:
            product = self._splined((one + other).ravel() / 2, half.ravel(), step)
        return np.asarray(
            product.reshape(half.shape)
            - self.zeroth(one) * self.zeroth(other)
            - self.first(one) * self.first(other)
        )

    def _splined(self, middle: Array, half: Array, step: float) -> Array:
        """Return E f(xi + m + h) f(xi + m - h) by splines in m and h."""
        farthest = max(float(half.max()), step)
        kinks = np.array(self._nonlinearity.kinks)
        meetings = np.unique(np.subtract.outer(kinks, kinks)) / 2
        inside = meetings[(meetings > 1e-9) & (meetings < farthest - 1e-9)]
        product = np.empty(len(half))
        for start, stop in pairwise([0.0, *inside, farthest]):
            here = (half >= start) & (half <= stop)
            if np.any(here):
                halves = _grid(start, stop, step)
                table = self._products(halves)
                spline = RectBivariateSpline(self._shifts, halves, table, kx=5, ky=5)
                product[here] = spline.ev(middle[here], half[here])
        return product

    def _products_of_pairs(self, one: Array, other: Array) -> Array:
        """Return E f(xi + a) f(xi + b), each pair by a quadrature of its own."""
        kinks = np.array(self._nonlinearity.kinks)
        product = np.empty(len(one))
        for start in range(0, len(one), CHUNK):
            a, b = (x[start : start + CHUNK, None] for x in (one, other))
            cuts = np.concatenate([kinks - a, kinks - b], axis=1)
            xi, weights = _panels(-FAR, FAR, cuts, self._width)
            weights = weights * np.exp(-(xi**2) / 2) / sqrt(2 * np.pi)
            values = self._centred(xi + a) * self._centred(xi + b)
            product[start : start + CHUNK] = np.sum(weights * values, axis=1)
        return product

    def _products(self, halves: Array) -> Array:
        """Return E f(xi + x + h) f(xi + x - h) at shifts x and half distances h."""
        if not self._nonlinearity.kinks:
            return self._convolved(partial(self._product, halves), 0.0).T
        columns = [
            self._convolved(partial(self._product, half[None]), float(half))[0]
            for half in halves
        ]
        return np.stack(columns, axis=1)

    def _product(self, halves: Array, s: Array) -> Array:
        """Return f(s + h) f(s - h), a row for each h."""
        return self._centred(s + halves[:, None]) * self._centred(s - halves[:, None])

    def _centred(self, scores: Array) -> Array:
        values = self._nonlinearity(scores) - self._a0
        if not np.all(np.isfinite(values)):
            raise OverflowError(
                f"nonlinearity {self._nonlinearity.name!r} is not finite on all scores "
                f"up to {np.abs(scores).max():.3g}"
            )
        return np.asarray(values)

    def _convolved(
        self, functions: Callable[[Array], Array], split: float, first: bool = False
    ) -> Array:
        """Return the means of functions of xi + x at every shift x, a row each.

        Each kink of f is one of theirs at its own place plus and minus ``split``. With
        ``first`` there follow the means of xi times them.
        """
        kinks = np.add.outer([-split, split], self._nonlinearity.kinks).ravel()
        found = []
        for start in range(0, len(self._shifts), CHUNK):
            shifts = self._shifts[start : start + CHUNK]
            low, high = shifts[0] - FAR, shifts[-1] + FAR
            s, weights = _panels(low, high, kinks, self._width)
            xi = s[:, None] - shifts
            normal = np.exp(-(xi**2) / 2) * (weights / sqrt(2 * np.pi))[:, None]
            values = functions(s)
            rows = [values @ normal]
            if first:
                rows.append(values @ (xi * normal))
            found.append(np.concatenate(rows))
        return np.concatenate(found, axis=1)


def _grid(start: float, stop: float, step: float) -> Array:
    """Return evenly spaced points, enough of them for splines of degree five."""
    return np.linspace(start, stop, max(6, int(np.ceil((stop - start) / step)) + 1))


def _panels(
    start: float, stop: float, cuts: Array, width: float
) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Legendre panels that end at the cuts.

    One set for each row of cuts. Within a panel x = t^2 (3 - 2t), so that a root at one
    of its ends is no trouble.
    """
    edges = np.linspace(start, stop, int(np.ceil((stop - start) / width)) + 1)
    edges = np.broadcast_to(edges, (*cuts.shape[:-1], len(edges)))
    edges = np.sort(np.concatenate([edges, np.clip(cuts, start, stop)], axis=-1))
    t, gauss = np.polynomial.legendre.leggauss(NODES)
    t, gauss = (1 + t) / 2, gauss / 2
    widths = np.diff(edges)[..., None]
    nodes = edges[..., :-1, None] + widths * (t * t * (3 - 2 * t))
    weights = widths * (6 * t * (1 - t) * gauss)
    shape = (*cuts.shape[:-1], -1)
    return nodes.reshape(shape), weights.reshape(shape)
