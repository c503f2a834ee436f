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

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import roots_hermitenorm

from interpolation_error.model.checks import Array, as_finite, as_positive, as_whole
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.theory.fixed_point import ConvergenceError, solve_plain
from interpolation_error.theory.limit import InnerProducts
from interpolation_error.theory.shifted_averages import ShiftedAverages
from interpolation_error.theory.type_equations import (
    POSITION,
    TOLERANCE,
    Expansion,
    Kernels,
    TypeEquations,
    entries,
    solved_to_scale,
)

DIAGONALS = ("zero", "keep")

# Nodes of a coordinate of the type, by the number of coordinates. More and more are
# taken until the prediction settles.
NODES = {
    1: (7, 10, 14, 20, 28, 40, 56, 80, 112, 160),
    2: (7, 10, 14, 20, 28, 40),
    3: (5, 7, 10, 14),
}
# From so many on they are slow, and less is asked of what follows.
MANY = {1: 160, 2: 20, 3: 10}
# Terms of the expansion of F_1 whose singular value is below this share of the largest
# are left out, and below a third of it with every next number of nodes. The error that
# is left goes with the square of the share, since the diagonal is that of what is kept.
TERMS = 1e-4
# The expansion of F_0 enters once, at the end, and by its share itself.
TERMS_OF_MEAN = 1e-10
# Types of less than this share of the heaviest one's weight are left out.
LIGHT = 1e-12
# The prediction has settled when the last step in nodes and terms moved it by less than
# this share. The distance falls by a power at every step: far less is left.
SETTLED, SETTLED_OF_MANY = 3e-5, 1e-3
# After the last step this much is tolerated, and reported.
TOLERATED = 0.02
# Where an error is as good as zero a share of it says nothing: below these numbers a
# change is small whatever its share.
NEGLIGIBLE = 1e-7
SETTLED_AT_ZERO = 1e-10
# A fixed point that is not found from the limit is followed down from this penalty.
HIGH = 10.0

# The signal's share of a score up to which averages of f are tabulated, in standard
# deviations of a score.
FARTHEST = 4000.0


@dataclass(frozen=True)
class FiniteSize:
    """A prediction with what is known of its own error.

    Parameters
    ----------
    error : ndarray of float64
        Predicted interpolation error, one for each penalty.
    change : ndarray of float64
        By how much the last step in nodes and terms moved it: more than the error that
        is left.
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
        Ridge penalty, positive; many are solved at once.
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
        If the fixed point is not found, the prediction still moves by more than 2 % in
        the last step in nodes and terms, or the signal and the weights move scores by
        more than :data:`FARTHEST` standard deviations, too many for tables of averages.

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
    try:
        error, change, _ = _predictions(
            penalties, n, p, nonlinearity, inner_products, diagonal
        )
    except ConvergenceError:  # scores beyond all tables, whatever the penalty
        return np.full(len(penalties), np.nan)
    return np.where(_tolerated(error, change), error, np.nan)


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
    error, change, residual = _predictions(
        penalties.ravel(), n, p, nonlinearity, inner_products, diagonal
    )
    refused = np.flatnonzero(~_tolerated(error, change))
    if len(refused):
        at, last = penalties.ravel()[refused[0]], error[refused[0]]
        raise ConvergenceError(
            f"no prediction at finite size at gamma = {at:.6g}, aspect_ratio = "
            f"{p / n:.6g}: "
            + (
                f"the last step in nodes and terms moves it to {last:.6g}, by "
                f"{change[refused[0]]:.3g}"
                if np.isfinite(last)
                else f"no fixed point, the residual stays at {residual[refused[0]]:.3g}"
            )
        )
    shape = penalties.shape
    return FiniteSize(*(x.reshape(shape) for x in (error, change, residual)))


class _Types(NamedTuple):
    """Nodes of the type for y = 1, and the signal's share of scores between them."""

    coordinates: Array  # (types, r)
    weights: Array  # (types,), of sum 1
    omega: Array  # (types, types), omega(t, t')


def _predictions(
    gamma: Array,
    n: int,
    p: int,
    nonlinearity: str | Nonlinearity,
    inner_products: InnerProducts | None,
    diagonal: str,
) -> tuple[Array, Array, Array]:
    """Return error, change and residual of each penalty, NaN where there is none.

    The numbers of nodes are gone through from the smallest, each time with those of the
    penalties that have not settled yet.
    """
    n, p = as_whole("n", n, least=1), as_whole("p", p, least=1)
    f = get(nonlinearity)
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    keep = diagonal == "keep"
    if keep:
        diagonal_limit(f, p)  # refuses what grows without limit
    mu, w_k, w_q = _coordinates(inner_products or InnerProducts())
    error, change, residual = np.full((3, len(gamma)), np.nan)
    moving, share = np.arange(len(gamma)), TERMS
    for count in NODES[len(mu)]:
        types = _types(mu, w_k, w_q, count, p)
        _sure_within_reach(types.omega)
        kernels = _kernels(f, types, keep, p, share)
        found, residual[moving] = _errors(gamma[moving], f, n, p, types, kernels)
        change[moving] = np.abs(found - error[moving])
        error[moving] = found
        asked = SETTLED if count < MANY[len(mu)] else SETTLED_OF_MANY
        settled = change <= np.maximum(asked * error, SETTLED_AT_ZERO)
        moving = moving[~settled[moving]]
        if len(moving) == 0:
            break
        share /= 3
    return error, change, residual


def _tolerated(error: Array, change: Array) -> NDArray[np.bool_]:
    """Whether a prediction stands, never where it or its change is not a number."""
    return change <= np.maximum(TOLERATED * error, NEGLIGIBLE)


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


def _types(mu: Array, w_k: Array, w_q: Array, count: int, p: int) -> _Types:
    """Return Gauss-Hermite nodes t = mu + N(0, I) and omega = t^T Omega t' / sqrt p."""
    nodes, weights = roots_hermitenorm(count)
    r = len(mu)
    grid = np.meshgrid(*[nodes] * r, indexing="ij")
    z = np.stack([axis.ravel() for axis in grid], axis=-1)
    mass = np.prod(np.meshgrid(*[weights] * r, indexing="ij"), axis=0).ravel()
    # Nodes that carry nothing only cost time, and reach where f is of no interest.
    kept = mass > LIGHT * mass.max()
    t, mass = mu + z[kept], mass[kept]
    omega = t @ (np.eye(r) + np.outer(w_k, w_q)) @ t.T / sqrt(p)
    return _Types(t, mass / mass.sum(), omega)


def _sure_within_reach(omega: Array) -> None:
    reach = float(np.abs(omega).max())
    if not reach <= FARTHEST:
        raise ConvergenceError(
            f"no prediction at finite size: signal and weights move scores by up to "
            f"{reach:.3g} standard deviations, and averages are taken up to "
            f"{FARTHEST:g}"
        )


def _is_symmetric(omega: Array) -> bool:
    tolerance = 1e-12 * np.abs(omega).max() + 1e-300
    return np.allclose(omega, omega.T, rtol=0, atol=tolerance)


def _kernels(
    f: Nonlinearity, types: _Types, keep: bool, p: int, share: float
) -> Kernels:
    """Return the functions of pairs of types, by equations (8.3) and (8.4)."""
    omega, weights = types.omega, types.weights
    averages = ShiftedAverages(f, float(np.abs(omega).max()))
    variance = (averages.variance(omega) + averages.variance(-omega)) / 2
    if _is_symmetric(omega):
        covariance = variance
    else:
        # It is the same for the pair turned round, so that half of it does.
        pairs = np.triu_indices(len(omega))
        one, other = omega[pairs], omega.T[pairs]
        found = averages.covariance(one, other)
        if f.parity is None:
            found = (found + averages.covariance(-one, -other)) / 2
        covariance = np.empty_like(omega)
        covariance[pairs] = covariance.T[pairs] = found
    plus, minus = averages.first(omega), averages.first(-omega)
    even = Expansion.of((plus + minus) / 2, weights, share)
    odd = Expansion.of((plus - minus) / 2, weights, share)
    mean = (averages.zeroth(omega) - averages.zeroth(-omega)) / 2
    own = np.diagonal(omega)
    # Both smooth parts of K reach its diagonal: of first order, as far as it is
    # expanded, and of zeroth order.
    h = -even.diagonal() - odd.diagonal() - averages.zeroth(own) / sqrt(p)
    if keep:
        root = sqrt(p)
        h = h + (f(root + own) - hermite_coefficients(f).a0) / root
    return Kernels(
        h, variance, covariance, even, odd, Expansion.of(mean, weights, TERMS_OF_MEAN)
    )


def _errors(
    gamma: Array, f: Nonlinearity, n: int, p: int, types: _Types, kernels: Kernels
) -> tuple[Array, Array]:
    """Return errors, NaN where there is none, and residuals, on given types."""
    equations = TypeEquations(p / n, types.weights, kernels)
    hermite = hermite_coefficients(f)
    others = (p / n, hermite.a1, hermite.nu, -hermite.a1)
    limit = solve_plain(gamma, *others)
    R, slope, residual = equations.solve(gamma, entries(limit))
    for lost in np.flatnonzero(~(residual <= TOLERANCE)):
        high = max(HIGH, 10 * gamma[lost])
        top = solve_plain(np.array([high]), *others)
        R[:, lost], slope[:, lost], residual[lost] = equations.follow(
            high, gamma[lost], entries(top)
        )
    error = -gamma * _slope(types, kernels.mean, R, slope, sqrt(p) / n)
    # What is no error is another solution than the one that follows from large gamma.
    sure = (residual <= TOLERANCE) & (error >= -1e-6) & (error <= 1 + 1e-6)
    return np.where(sure, np.clip(error, 0.0, 1.0), np.nan), residual


def _slope(types: _Types, mean: Expansion, R: Array, dR: Array, scale: float) -> Array:
    """Return the derivative of y^T Q y / n, equations (8.8) and (8.9), given R's.

    The parts of K and X^T X that are functions of the type are of low rank: with
    M = D + U S U^T, D = R^-1 and Woodbury's identity,
    y^T M^-1 y = u - v^T (S^-1 + G)^-1 v.
    """
    phi, values, eta = mean
    rank, r = len(values), types.coordinates.shape[1]
    functions = [eta, phi, types.coordinates]
    S_inverse = np.zeros((2 * rank + r,) * 2)
    place = np.arange(rank)
    S_inverse[place, rank + place] = S_inverse[rank + place, place] = scale / values
    S_inverse[2 * rank :, 2 * rank :] = np.eye(r)

    def forms(matrix: Array) -> tuple[Array, Array, Array]:
        weighted = (types.weights * matrix)[POSITION]
        v = [weighted[a, 0] @ functions[a] for a in range(3)]
        G = [
            [functions[a].T @ (w[:, :, None] * functions[b]) for b, w in enumerate(row)]
            for a, row in enumerate(weighted)
        ]
        return weighted[0, 0].sum(axis=-1), np.hstack(v), np.block(G)

    (_, v, G), (du, dv, dG) = forms(R), forms(dR)
    lengths = (rank, rank, r)
    x = solved_to_scale(S_inverse + G, v[..., None], types.weights * R, lengths)[..., 0]
    moved = np.einsum("gi,gij,gj->g", x, dG, x)
    return np.asarray(du - 2 * np.sum(dv * x, axis=-1) + moved)
