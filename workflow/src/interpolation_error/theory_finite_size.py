r"""Predicted interpolation error of attention at finite size, beyond the paper.

Theorem 1 expands f to first order in the signal's share of a score, which is small only
when the embedding dimension p is very large. Here that share stays inside f. A token's
coordinates along the signal and the weights are its *type* t; the share of a score
between two types is :math:`\omega(t, t')`, the remaining coordinates are Gaussian, and
f acts on their product shifted by :math:`\omega`. Each type has a 3 by 3 matrix R(t) of
its own in place of the one R of the limit, and the fixed point is between all of them
(docs/theory.md, section 8, which numbers the equations named here).

Turning a token over, :math:`(t, y) \to (-t, -y)`, changes nothing, so that functions of
the type are even or odd under it, the two kinds never meet in an average, and types
with y = 1 alone need be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.sparse.linalg import LinearOperator, gmres

from interpolation_error._checks import Array, as_finite, as_positive, as_whole
from interpolation_error.fixed_point import ConvergenceError, solve_one
from interpolation_error.nonlinearity import (
    Nonlinearity,
    diagonal_limit,
    get,
    hermite_coefficients,
    on_panels,
    panel_edges,
)
from interpolation_error.theory_limit import InnerProducts

DIAGONALS = ("zero", "keep")

# Nodes of a coordinate of the type, by the number of coordinates: the fine ones, and
# half of them, whose difference is the error that is reported.
NODES = {1: 40, 2: 20, 3: 10}
# Terms of an expansion whose singular value is below this share of the largest are
# left out; at half the nodes the larger share holds.
TERMS = (1e-9, 1e-6)
# The fixed point is accepted when its residual is below this, relative to the sizes of
# the rows and columns of R.
TOLERANCE = 1e-9
# Damped steps between which Newton's are tried.
STEPS = 300
# A prediction is refused when it moves by more than this share at half the nodes.
SETTLED = 0.02
# Where an error is as good as zero a share of it says nothing.
NEGLIGIBLE = 1e-7

# The signal's share of a score up to which averages of f are tabulated, in standard
# deviations of a score: the tables grow with it, to about ten seconds each. Where w_K
# and w_Q differ those of products of two scores grow with its square.
FARTHEST = 4000.0
FARTHEST_OF_TWO = 100.0

_ROW = np.array([0, 0, 0, 1, 1, 2])
_COLUMN = np.array([0, 1, 2, 1, 2, 2])
_POSITION = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_WIDTH = 0.25  # of a Gauss-Legendre panel, with 16 nodes
# Of every panel; found once, since there are tens of thousands of panels.
_PLACES, _SHARES = np.polynomial.legendre.leggauss(16)
_PLACES, _SHARES = (1 + _PLACES) / 2, _SHARES / 2
_REACH = 9.0  # standard deviations beyond which the normal law is left out
# Of the table of products of f at two scores, in their mean and in half their distance:
# so many values, and more where they would be farther apart than the step.
_TOTALS, _DISTANCES, _STEP = 61, 31, 0.3


@dataclass(frozen=True)
class FiniteSize:
    """A prediction with what is known of its own error.

    Parameters
    ----------
    error : ndarray of float64
        Predicted interpolation error, one for each penalty.
    change : ndarray of float64
        By how much it moves when the nodes and the terms of the expansions are halved:
        more than the error that is left.
    residual : ndarray of float64
        Scaled residual of the fixed point.
    """

    error: Array
    change: Array
    residual: Array


def attention_error_finite_size(
    gamma: ArrayLike,
    n: int,
    p: int,
    nonlinearity: str | Nonlinearity,
    inner_products: InnerProducts | None = None,
    diagonal: str = "zero",
) -> float | Array:
    r"""Return the predicted interpolation error of attention at finite n and p.

    It tends to :func:`interpolation_error.theory.attention_error`, Theorem 1, as n and
    p grow at a fixed ratio, and keeps what that limit leaves out: the curvature and the
    saturation of f over the signal's share of a score (docs/theory.md, section 8;
    beyond the paper).

    Parameters
    ----------
    gamma : float or array_like
        Ridge penalty, positive; many are followed from the largest to the smallest.
    n, p : int
        Number of tokens and embedding dimension.
    nonlinearity : str or Nonlinearity
        :math:`f`, by its registered name or as an object.
    inner_products : InnerProducts, optional
        Of signal and weights, each a single number; none means neither.
    diagonal : {"zero", "keep"}, optional
        What becomes of the diagonal of the attention matrix.

    Returns
    -------
    float or ndarray of float64, of the shape of ``gamma``

    Raises
    ------
    ValueError
        If an argument is out of range, or the diagonal is kept of a function that
        grows too fast.
    ConvergenceError
        If the fixed point is not found, the prediction still moves by more than 2 %
        when nodes and terms are doubled, or the signal and the weights move scores by
        more than :data:`FARTHEST` standard deviations (:data:`FARTHEST_OF_TWO` where
        :math:`w_K` and :math:`w_Q` differ), too many for tables of averages.

    Examples
    --------
    Aligned weights at a strong signal, where the limit is 0.0806 and simulation gives
    0.0021:

    >>> mu, w = np.array([[8**0.5], [2.8]])
    >>> products = InnerProducts.from_vectors(mu, w, w)
    >>> error = attention_error_finite_size(0.1, 1200, 400, "tanh", products)
    >>> round(error, 4)
    0.0022
    """
    found = finite_size(gamma, n, p, nonlinearity, inner_products, diagonal)
    return float(found.error[0]) if np.ndim(gamma) == 0 else found.error


def errors_that_settle(
    gamma: ArrayLike,
    n: int,
    p: int,
    nonlinearity: str | Nonlinearity,
    inner_products: InnerProducts | None = None,
    diagonal: str = "zero",
) -> Array:
    """Return :func:`attention_error_finite_size`, NaN where it does not settle.

    Penalties are followed together. If one of them does not settle, each is tried by
    itself, so that it takes none of the others with it.

    Parameters
    ----------
    gamma : array_like, shape (penalties,)
        Ridge penalties, positive.
    n, p, nonlinearity, inner_products, diagonal
        As there.

    Returns
    -------
    ndarray of float64, shape (penalties,)

    Raises
    ------
    ValueError
        As there.

    Examples
    --------
    >>> errors_that_settle([0.1, 1.0], 300, 100, "tanh", InnerProducts(2.0)).round(3)
    array([0.24, 0.27])
    """
    penalties = np.atleast_1d(as_positive("gamma", gamma))
    others = (n, p, nonlinearity, inner_products, diagonal)
    try:
        return np.asarray(attention_error_finite_size(penalties, *others))
    except ConvergenceError:
        if len(penalties) == 1:
            return np.full(1, np.nan)
        alone = [errors_that_settle(one[None], *others) for one in penalties]
        return np.concatenate(alone)


def finite_size(
    gamma: ArrayLike,
    n: int,
    p: int,
    nonlinearity: str | Nonlinearity,
    inner_products: InnerProducts | None = None,
    diagonal: str = "zero",
) -> FiniteSize:
    """Return :func:`attention_error_finite_size` with what is known of its error.

    Parameters
    ----------
    gamma, n, p, nonlinearity, inner_products, diagonal
        As there.

    Returns
    -------
    FiniteSize
        Arrays of the shape of ``gamma``, of one entry for a single number.

    Raises
    ------
    ValueError, ConvergenceError
        As there.

    Examples
    --------
    >>> found = finite_size([0.1, 1.0], 300, 100, "tanh", InnerProducts(2.0))
    >>> bool(np.all(found.change < 1e-4 * found.error))
    True
    """
    penalties = np.atleast_1d(as_positive("gamma", gamma))
    n, p = as_whole("n", n, least=1), as_whole("p", p, least=1)
    f = get(nonlinearity)
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    if diagonal == "keep":
        diagonal_limit(f, p)  # refuses what grows without limit
    mu, w_k, w_q = _coordinates(inner_products or InnerProducts())
    nodes = NODES[len(mu)]
    solved = []
    for count, terms in ((nodes, TERMS[0]), (nodes // 2, TERMS[1])):
        types = _types(mu, w_k, w_q, count, n, p)
        _sure_within_reach(types.omega)
        kernels = _kernels(f, types, diagonal == "keep", p, terms)
        solved.append(_solve(penalties.ravel(), f, n, p, types, kernels))
    (error, residual), (coarse, _) = solved
    change = np.abs(error - coarse)
    moving = change > np.maximum(SETTLED * error, NEGLIGIBLE)
    if np.any(moving):
        where = np.flatnonzero(moving)[0]
        raise ConvergenceError(
            f"the prediction at gamma = {penalties.ravel()[where]:.6g} moves from "
            f"{coarse[where]:.6g} to {error[where]:.6g} with twice the nodes and terms"
        )
    shape = penalties.shape
    return FiniteSize(
        error.reshape(shape), change.reshape(shape), residual.reshape(shape)
    )


class _Types(NamedTuple):
    """Nodes of the type for y = 1, and the signal's share of scores between them."""

    coordinates: Array  # (types, r)
    weights: Array  # (types,), of sum 1
    omega: Array  # (types, types), omega(t, t')


class _Kernels(NamedTuple):
    """What the fixed point needs of f, each averaged over a token and its mirror."""

    h: Array  # (types,), what is on the diagonal of K beside its low-rank part
    variance: Array  # (types, types), V
    covariance: Array  # (types, types), Cov
    even: tuple[Array, Array, Array]  # psi, s, chi of F_1
    odd: tuple[Array, Array, Array]
    mean: tuple[Array, Array, Array]  # phi, sigma, eta of the odd part of F_0


def _coordinates(products: InnerProducts) -> tuple[Array, Array, Array]:
    """Return signal, key and query in as few coordinates as they span."""
    values = [as_finite(name, value) for name, value in vars(products).items()]
    if any(value.ndim for value in values):
        raise ValueError("inner_products must be single numbers at finite size")
    mm, mk, mq, kk, qq, kq = map(float, values)
    gram = np.array([[mm, mk, mq], [mk, kk, kq], [mq, kq, qq]])
    # Gram-Schmidt in the order mu, w_K, w_Q; what is left of length zero is dropped.
    scale = np.trace(gram)
    basis = np.zeros((3, 0))
    for vector in range(3):
        column = gram[:, vector] - basis @ basis[vector]
        if column[vector] > 1e-12 * max(scale, 1e-300):
            basis = np.column_stack([basis, column / sqrt(column[vector])])
    if basis.shape[1] == 0:
        basis = np.zeros((3, 1))
    mu, w_k, w_q = basis
    return mu, w_k, w_q


def _types(mu: Array, w_k: Array, w_q: Array, count: int, n: int, p: int) -> _Types:
    """Return Gauss-Hermite nodes t = mu + N(0, I) and omega = t^T Omega t' / sqrt p."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    r = len(mu)
    grid = np.meshgrid(*[nodes] * r, indexing="ij")
    z = np.stack([axis.ravel() for axis in grid], axis=-1)
    mass = np.prod(np.meshgrid(*[weights] * r, indexing="ij"), axis=0).ravel()
    # Nodes that carry nothing only cost time, and reach where f is of no interest.
    kept = mass > 1e-14 * mass.max()
    t, mass = mu + z[kept], mass[kept]
    omega = t @ (np.eye(r) + np.outer(w_k, w_q)) @ t.T / sqrt(p)
    return _Types(t, mass / mass.sum(), omega)


def _sure_within_reach(omega: Array) -> None:
    reach = float(np.abs(omega).max())
    limit = FARTHEST if _is_symmetric(omega) else FARTHEST_OF_TWO
    if not reach <= limit:
        raise ConvergenceError(
            f"no prediction at finite size: signal and weights move scores by up to "
            f"{reach:.3g} standard deviations, and averages are taken up to {limit:g}"
        )


def _is_symmetric(omega: Array) -> bool:
    tolerance = 1e-12 * np.abs(omega).max() + 1e-300
    return np.allclose(omega, omega.T, rtol=0, atol=tolerance)


def _kernels(
    f: Nonlinearity, types: _Types, keep: bool, p: int, terms: float
) -> _Kernels:
    """Return the functions of pairs of types, by equations (8.3) and (8.4)."""
    omega, weights = types.omega, types.weights
    means = _Moments(f, float(np.abs(omega).max()))
    own = np.diagonal(omega)
    # Both smooth parts of K, of first and of zeroth order, reach its diagonal.
    h = -means.first(own) - means.zeroth(own) / sqrt(p)
    if keep:
        root = sqrt(p)
        h = h + (f(root + own) - hermite_coefficients(f).a0) / root
    forth, back = (means.variance(x) for x in (omega, -omega))
    variance = (forth + back) / 2
    if _is_symmetric(omega):
        covariance = variance
    else:
        # At once, since the table is the longest part of it.
        both = means.covariance(
            np.stack([omega, -omega]), np.stack([omega.T, -omega.T])
        )
        covariance = (both[0] + both[1]) / 2
    plus, minus = means.first(omega), means.first(-omega)
    odd_mean = (means.zeroth(omega) - means.zeroth(-omega)) / 2
    return _Kernels(
        h,
        variance,
        covariance,
        _expansion((plus + minus) / 2, weights, terms),
        _expansion((plus - minus) / 2, weights, terms),
        _expansion(odd_mean, weights, terms),
    )


def _expansion(
    kernel: Array, weights: Array, terms: float
) -> tuple[Array, Array, Array]:
    """Return psi, s and chi with kernel = psi diag(s) chi^T, orthonormal on types."""
    root = np.sqrt(weights)
    left, values, right = np.linalg.svd(root[:, None] * kernel * root, hermitian=False)
    kept = values > max(terms * values[0], 1e-14)
    return left[:, kept] / root[:, None], values[kept], right[kept].T / root[:, None]


class _Moments:
    r"""Gaussian averages of :math:`f(\xi + \omega)` as functions of :math:`\omega`.

    Computed on a grid, by Gauss-Legendre panels that end at the kinks of f, and
    interpolated by splines: convolved with the normal law f is smooth.
    """

    def __init__(self, f: Nonlinearity, reach: float) -> None:
        self._a0 = hermite_coefficients(f).a0
        reach = max(reach, 1e-3) * (1 + 1e-12)
        self._reach = reach
        grid = np.linspace(-reach, reach, 2 * int(np.ceil(reach / 0.02)) + 9)
        s, weights = _panels(-reach - _REACH, reach + _REACH, f.kinks)
        values = f(s) - self._a0
        self._f, self._s, self._weights, self._values = f, s, weights, values
        rows = [self._averages(omega) for omega in grid]
        zeroth, first, second = np.array(rows).T
        self.zeroth: Callable[[Array], Array] = CubicSpline(grid, zeroth)
        self.first: Callable[[Array], Array] = CubicSpline(grid, first)
        centred = np.maximum(second - zeroth**2 - first**2, 0.0)
        spline = CubicSpline(grid, centred)
        self.variance: Callable[[Array], Array] = lambda x: np.maximum(spline(x), 0.0)

    def _averages(self, omega: float) -> tuple[float, float, float]:
        """Return E f(xi + omega), E xi f(xi + omega) and E f(xi + omega)^2."""
        # Nodes ascend. Only those about omega are looked at, or the time would grow
        # with the square of the reach; a little more of them than is needed.
        start, stop = np.searchsorted(self._s, [omega - _REACH - 1, omega + _REACH + 1])
        xi = self._s[start:stop] - omega
        near = np.abs(xi) < _REACH
        xi = xi[near]
        density = self._weights[start:stop][near] * np.exp(-(xi**2) / 2)
        f = self._values[start:stop][near]
        values = density / sqrt(2 * np.pi) * f
        return float(values.sum()), float(values @ xi), float(values @ f)

    def covariance(self, one: Array, other: Array) -> Array:
        """Return the sum over k of at least 2 of F_k(one) F_k(other).

        By Parseval it is E f(xi + one) f(xi + other) less the first two terms. As a
        function of the sum and of the distance of its arguments it is smooth, also
        where f jumps.
        """
        total, distance = (one + other) / 2, np.abs(one - other) / 2
        farthest = max(float(distance.max()), 1e-3) * (1 + 1e-12)
        count = max(_TOTALS, int(np.ceil(2 * self._reach / _STEP)) + 1)
        totals = np.linspace(-self._reach, self._reach, count)
        count = max(_DISTANCES, int(np.ceil(farthest / _STEP)) + 1)
        distances = np.linspace(0, farthest, count)
        product = np.array([[self._product(a, b) for b in distances] for a in totals])
        spline = RectBivariateSpline(totals, distances, product, kx=5, ky=5)
        less = self.zeroth(one) * self.zeroth(other) + self.first(one) * self.first(
            other
        )
        return np.asarray(spline.ev(total, distance) - less)

    def _product(self, total: float, distance: float) -> float:
        """Return E f(xi + total + distance) f(xi + total - distance)."""
        kinks = [k - total + d for k in self._f.kinks for d in (distance, -distance)]
        xi, weights = _panels(-_REACH, _REACH, tuple(kinks))
        one = self._f(xi + total + distance) - self._a0
        other = self._f(xi + total - distance) - self._a0
        return float(weights * np.exp(-(xi**2) / 2) @ (one * other) / sqrt(2 * np.pi))


def _panels(start: float, stop: float, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Return nodes and weights of Gauss-Legendre panels that end at the kinks."""
    # Ever shorter towards a kink, which may be a cusp.
    short = _WIDTH * 2.0 ** -np.arange(0, 30, 2)
    count = int(np.ceil((stop - start) / _WIDTH))
    edges = panel_edges(start, stop, count, kinks, short)
    return on_panels(edges, _PLACES, _SHARES)


class _Equations:
    """The fixed point of (8.6) on given types, and its derivative."""

    def __init__(self, n: int, p: int, types: _Types, kernels: _Kernels) -> None:
        self.c = p / n
        self.weights = types.weights
        self.kernels = kernels
        ones = np.ones((len(types.weights), 1))
        # Of each parity: functions coupled to q, l and k, where they stand, and A_P.
        self.sectors = [
            self._sector(kernels.even, ones),
            self._sector(kernels.odd, ones[:, :0]),
        ]

    def _sector(
        self, expansion: tuple[Array, Array, Array], third: Array
    ) -> tuple[list[Array], list[slice], Array]:
        psi, values, chi = expansion
        rank = len(values)
        ends = [slice(rank), slice(rank, 2 * rank), slice(2 * rank, None)]
        A_P = np.zeros((2 * rank + third.shape[1],) * 2)
        place = np.arange(rank)
        A_P[place, rank + place] = A_P[rank + place, place] = -self.c / values
        A_P[2 * rank :, 2 * rank :] = -np.eye(third.shape[1])
        return [chi, psi, third], ends, A_P

    def tokens(self, gamma: float) -> Array:
        """Return A(t), shape (types, 3, 3)."""
        A = np.zeros((len(self.weights), 3, 3))
        A[:, 0, 0] = gamma
        A[:, 0, 1] = A[:, 1, 0] = self.kernels.h
        A[:, 1, 2] = A[:, 2, 1] = -1.0
        return A

    def averages(self, R: Array, sector: int) -> Array:
        """Return the average of C^T R C over types, within one parity."""
        functions, ends, A_P = self.sectors[sector]
        M = np.zeros_like(A_P)
        for a, b in zip(_ROW, _COLUMN, strict=True):
            weighted = functions[a] * (self.weights * R[:, a, b])[:, None]
            M[ends[a], ends[b]] = weighted.T @ functions[b]
            M[ends[b], ends[a]] = M[ends[a], ends[b]].T
        return M

    def dimensions(self, R: Array) -> list[Array]:
        """Return R_P of each parity."""
        return [
            np.asarray(np.linalg.inv(A_P - self.averages(R, sector)))
            for sector, (_, _, A_P) in enumerate(self.sectors)
        ]

    def energies(self, inner: list[Array], R: Array) -> Array:
        """Return c C R_P C^T and the noise's part of Sigma, linear in both."""
        Sigma = np.zeros((len(self.weights), 3, 3))
        for (functions, ends, _), R_P in zip(self.sectors, inner, strict=True):
            for a, b in zip(_ROW, _COLUMN, strict=True):
                block = functions[a] @ R_P[ends[a], ends[b]]
                Sigma[:, a, b] += self.c * np.sum(block * functions[b], axis=1)
        kernels, w = self.kernels, self.weights / self.c
        Sigma[:, 0, 0] += kernels.variance.T @ (w * R[:, 1, 1])
        Sigma[:, 1, 1] += kernels.variance @ (w * R[:, 0, 0])
        Sigma[:, 0, 1] += kernels.covariance @ (w * R[:, 0, 1])
        return np.asarray(Sigma[:, _ROW, _COLUMN][:, _POSITION])

    def image(self, R: Array, gamma: float) -> Array:
        """Return (A - Sigma(R))^-1, equal to R at the fixed point."""
        Sigma = self.energies(self.dimensions(R), R)
        return np.asarray(np.linalg.inv(self.tokens(gamma) - Sigma))

    def change(self, R: Array, inner: list[Array], dR: Array) -> Array:
        """Return the derivative of the image along dR, R dSigma R."""
        moved = [
            R_P @ self.averages(dR, sector) @ R_P for sector, R_P in enumerate(inner)
        ]
        return np.asarray(R @ self.energies(moved, dR) @ R)


def _solve(
    gamma: Array, f: Nonlinearity, n: int, p: int, types: _Types, kernels: _Kernels
) -> tuple[Array, Array]:
    """Return errors and residuals, following the fixed point down from large gamma."""
    equations = _Equations(n, p, types, kernels)
    hermite = hermite_coefficients(f)
    error, residual = np.empty(len(gamma)), np.empty(len(gamma))
    R = before = np.empty(0)
    for place in np.argsort(-gamma):
        limit = solve_one(gamma[place], p / n, hermite.a1, hermite.nu, -hermite.a1)
        # From one penalty to the next R moves about as the limit does.
        guesses = [np.tile(limit, (len(types.weights), 1, 1))]
        if len(before):
            growth = _growth(before, limit)
            guesses.append(R * growth[:, None] * growth)
        R, residual[place] = _fixed_point(equations, guesses, gamma[place])
        error[place] = _error(equations, types, R, gamma[place], n, p)
        before = limit
    return error, residual


def _growth(before: Array, after: Array) -> Array:
    """Return by what the rows and columns of the limit's R grew."""
    first, second = np.sqrt(np.diagonal(after)[:2] / np.diagonal(before)[:2])
    return np.array([first, second, abs(after[1, 2] / before[1, 2]) / second])


def _fixed_point(
    equations: _Equations, guesses: list[Array], gamma: float
) -> tuple[Array, float]:
    """Return R(t) at one penalty, by damped steps and Newton's method on top.

    Starts from the guess of the smallest residual.
    """
    R = min(guesses, key=lambda R: _size(equations.image(R, gamma) - R, R))
    size = np.inf
    for _ in range(STEPS):
        image = equations.image(R, gamma)
        step = image - R
        size = _size(step, R)
        if size < TOLERANCE:
            return image, size
        if size < 0.3:
            trial = R + _linear(equations, R, image, step)
            if _size(equations.image(trial, gamma) - trial, trial) < 0.5 * size:
                R = trial
                continue
        R = R + step / 2
    raise ConvergenceError(
        f"no fixed point found at finite size at gamma = {gamma:.6g}, "
        f"aspect_ratio = {equations.c:.6g}: its residual stays at {size:.3g}"
    )


def _scales(R: Array) -> Array:
    """Return the sizes against which the entries of each R(t) are measured."""
    diagonal = np.sqrt(np.abs(np.einsum("taa->ta", R)))
    # R_33 may be small beside R_23.
    third = np.maximum(diagonal[:, 2], np.abs(R[:, 1, 2]) / diagonal[:, 1])
    rows = np.stack([diagonal[:, 0], diagonal[:, 1], third], axis=-1)
    return np.asarray(rows[:, :, None] * rows[:, None, :])


def _size(step: Array, R: Array) -> float:
    relative = np.abs(step / _scales(R))
    largest = float(relative.max())
    return largest if np.isfinite(largest) else np.inf


def _linear(equations: _Equations, R: Array, image: Array, right: Array) -> Array:
    """Return the solution of dR - (derivative of the image) dR = right."""
    scales = _scales(R)[:, _ROW, _COLUMN]
    inner = equations.dimensions(R)

    def apply(entries: NDArray[np.float64]) -> Array:
        dR = (entries.reshape(scales.shape) * scales)[:, _POSITION]
        moved = equations.change(image, inner, dR)
        return entries - (moved[:, _ROW, _COLUMN] / scales).ravel()

    operator = LinearOperator((scales.size,) * 2, matvec=apply)
    sides = (right[:, _ROW, _COLUMN] / scales).ravel()
    found, _ = gmres(operator, sides, rtol=1e-11, restart=60, maxiter=4)
    return np.asarray((found.reshape(scales.shape) * scales)[:, _POSITION])


def _error(
    equations: _Equations, types: _Types, R: Array, gamma: float, n: int, p: int
) -> float:
    """Return -gamma^2 d/dgamma of y^T Q y / n, equations (8.8) and (8.9).

    The parts of K and X^T X that are functions of the type are of low rank: with
    M = D + U S U^T, D = R^-1 and Woodbury's identity,
    y^T M^-1 y = u - v^T (S^-1 + G)^-1 v.
    """
    forcing = -np.einsum("ta,tb->tab", R[:, :, 0], R[:, 0, :])
    dR = _linear(equations, R, R, forcing)
    phi, values, eta = equations.kernels.mean
    rank, r = len(values), types.coordinates.shape[1]
    functions = [eta, phi, types.coordinates]
    ends = [slice(rank), slice(rank, 2 * rank), slice(2 * rank, None)]
    S_inverse = np.zeros((2 * rank + r,) * 2)
    place = np.arange(rank)
    S_inverse[place, rank + place] = sqrt(p) / n / values
    S_inverse[rank + place, place] = sqrt(p) / n / values
    S_inverse[2 * rank :, 2 * rank :] = np.eye(r)

    def forms(matrix: Array) -> tuple[float, Array, Array]:
        w = equations.weights
        v = np.concatenate([functions[a].T @ (w * matrix[:, a, 0]) for a in range(3)])
        G = np.zeros_like(S_inverse)
        for a in range(3):
            for b in range(3):
                weighted = functions[a] * (w * matrix[:, a, b])[:, None]
                G[ends[a], ends[b]] = weighted.T @ functions[b]
        return float(w @ matrix[:, 0, 0]), v, G

    (_, v, G), (du, dv, dG) = forms(R), forms(dR)
    x = np.linalg.solve(S_inverse + G, v)
    slope = du - 2 * dv @ x + x @ dG @ x
    error = -(gamma**2) * slope
    if not -1e-6 <= error <= 1 + 1e-6:
        raise ConvergenceError(
            f"the prediction at finite size at gamma = {gamma:.6g} is {error:.6g}, "
            "which is no error"
        )
    return float(np.clip(error, 0.0, 1.0))
