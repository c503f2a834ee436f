r"""Predicted interpolation error of attention at finite size, beyond the paper.

Theorem 1 expands f to first order in the signal's share of a score, which is small only
when the embedding dimension p is very large. Here that share stays inside f. A token's
coordinates along the signal and the weights are its *type* t; the share of a score
between two types is :math:`\omega(t, t')`, the remaining coordinates are Gaussian, and
f acts on their product shifted by :math:`\omega`. Each type has a 3 by 3 matrix R(t) of
its own in place of the one R of the limit, and the fixed point is between all of them
(docs/theory.md, section 8, which numbers the equations named here).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from interpolation_error import theory_limit, token_types
from interpolation_error._checks import Array, as_finite, as_positive, as_whole
from interpolation_error.nonlinearity import (
    Nonlinearity,
    diagonal_limit,
    get,
    hermite_coefficients,
)
from interpolation_error.theory_limit import ConvergenceError, InnerProducts
from interpolation_error.typed_pencil import (
    TOLERANCE,
    Equations,
    Model,
    fixed_point,
    moved,
    scaled,
)

DIAGONALS = ("zero", "keep")

# Nodes of a coordinate of the type, by the number of coordinates, from one level to the
# next. The first level also takes wider steps in the means of f and fewer terms.
NODES = {1: (20, 40, 80, 160, 320), 2: (10, 20, 40), 3: (6, 10, 14)}
# A prediction is done when it moves by no more than this share from one level to the
# next, and refused when it still moves by more than the second one at the last level.
ENOUGH, SETTLED = 1e-4, 1e-3
# Where an error is as good as zero a share of it says nothing.
NEGLIGIBLE = 1e-9


@dataclass(frozen=True)
class FiniteSize:
    """A prediction with what is known of its own error.

    Parameters
    ----------
    error : ndarray of float64
        Predicted interpolation error, one for each penalty.
    change : ndarray of float64
        By how much it moved when nodes and terms were last refined: more than the error
        that is left of the discretization.
    residual : ndarray of float64
        Relative residual of the fixed point or of its derivative, the larger one.
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
        If the fixed point is not found, or the prediction still moves by more than a
        thousandth, and 1e-9, when nodes and terms are refined for the last time.

    Notes
    -----
    Where the signal's share of a score is large the error does not depend on n and p
    through p/n alone. What the theory itself leaves out is of the order of 1/p. A curve
    of 20 penalties takes about a second if signal and weights are parallel, a few
    seconds if they span a plane, and ten to a hundred if they span a space.

    Examples
    --------
    Aligned weights at a strong signal, where the limit is 0.0806 and simulation gives
    0.0023:

    >>> products = InnerProducts(8.0, 8.0, 8.0, 8.0, 8.0, 8.0)
    >>> error = attention_error_finite_size(0.1, 1200, 400, "tanh", products)
    >>> round(error, 4)
    0.0023
    """
    found = finite_size(gamma, n, p, nonlinearity, inner_products, diagonal)
    return float(found.error[0]) if np.ndim(gamma) == 0 else found.error


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
    products = InnerProducts() if inner_products is None else inner_products
    vectors = token_types.span(_gram(products))
    levels = NODES[vectors.shape[1]]
    error = np.full(penalties.size, np.inf)
    for level, count in enumerate(levels):
        before = error
        types = token_types.types(vectors, p, count)
        try:
            with np.errstate(all="ignore"):  # what overflows is caught
                kernels = token_types.kernels(
                    f, types, p, diagonal == "keep", rough=level == 0
                )
                model = Model.of(n, p, types, kernels)
                error, residual = _follow(penalties.ravel(), model, f)
        except (OverflowError, np.linalg.LinAlgError) as fault:
            raise ConvergenceError(f"no prediction at finite size: {fault}") from None
        change = np.abs(error - before)
        if np.all(change <= np.maximum(ENOUGH * error, NEGLIGIBLE)):
            break
    moving = change > np.maximum(SETTLED * error, NEGLIGIBLE)
    if np.any(moving):
        where = np.flatnonzero(moving)[0]
        raise ConvergenceError(
            f"the prediction at gamma = {penalties.ravel()[where]:.6g} moves from "
            f"{before[where]:.6g} to {error[where]:.6g} at finite size from "
            f"{levels[-2]} to {levels[-1]} nodes a coordinate"
        )
    shape = penalties.shape
    return FiniteSize(
        error.reshape(shape), change.reshape(shape), residual.reshape(shape)
    )


def _gram(products: InnerProducts) -> Array:
    """Return the inner products of signal, key and query as a matrix."""
    values = [as_finite(name, value) for name, value in vars(products).items()]
    if any(value.ndim for value in values):
        raise ValueError("inner_products must be single numbers at finite size")
    mm, mk, mq, kk, qq, kq = map(float, values)
    return np.array([[mm, mk, mq], [mk, kk, kq], [mq, kq, qq]])


def _follow(gamma: Array, model: Model, f: Nonlinearity) -> tuple[Array, Array]:
    """Return errors and residuals, following the fixed point down from large gamma."""
    _, a1, _, nu = hermite_coefficients(f)
    exchange = np.eye(3)  # as Model.of does it
    exchange[2, 0] = a1 if model.c < 1 else 0.0
    error, residual = np.empty(len(gamma)), np.empty(len(gamma))
    last: tuple[Equations, Array, Array] | None = None
    for place in np.argsort(-gamma):
        # Where the signal's share of scores is small, R is that of the limit.
        limit = theory_limit.fixed_point(gamma[place], model.c, a1, nu, -a1)
        equations = Equations(model, gamma[place], tau := 1 / limit[0, 0])
        limit = scaled(exchange @ limit @ exchange.T, tau)
        guesses = [np.tile(limit, (len(model.weights), 1, 1))]
        if last is not None:
            # Scaled, R changes little from one penalty to the next.
            before, R, slope = last
            way = np.log(gamma[place] / before.gamma)
            guesses += [R, scaled(moved(R, way * slope), tau / before.tau)]
        R, missed = fixed_point(equations, guesses)
        error[place], slope, slope_missed = _error(equations, R)
        residual[place] = max(missed, slope_missed)
        last = equations, R, slope
    return error, residual


def _error(equations: Equations, R: Array) -> tuple[float, Array, float]:
    """Return -gamma^2 d/dgamma of y^T Q y / n, equations (8.11) and (8.12).

    With it, the derivative of R in log gamma, and by how much that misses its equation.
    """
    means, share = equations.model.means, equations.gamma / equations.tau
    forcing = -share * np.einsum("ta,tb->tab", R[:, :, 0], R[:, 0, :])
    dR, missed = equations.solve(R, forcing, 1e-11)
    weighted, change = equations.weighted(R), equations.weighted(dR)
    # In (8.11), S_0^-1 is minus what A_P is to the couplings.
    x = np.linalg.solve(
        means.averages(weighted) - means.dimensions(equations.tau),
        means.column(weighted),
    )
    slope = change[:, 0, 0].sum() - 2 * means.column(change) @ x
    slope += x @ means.averages(change) @ x
    error = float(-share * slope)
    if not (-1e-6 <= error <= 1 + 1e-6 and missed < 1e3 * TOLERANCE):
        raise ConvergenceError(
            f"the prediction at finite size at gamma = {equations.gamma:.6g} is "
            f"{error:.6g}, with a slope of R that misses its equation by {missed:.3g}"
        )
    return min(max(error, 0.0), 1.0), dR, missed
