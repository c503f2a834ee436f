"""The fixed point of Theorem 1, for a batch of points at once.

It is a symmetric 3 by 3 matrix R at each point (docs/theory.md, sections 4 and 6). Its
rows belong to the three places where the tokens enter the linear pencil of the
attention matrix, called q, l and k in docs/theory.md. R_11 is the limit of the trace of
the resolvent; R_22 is negative and goes to 0 with gamma.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model.checks import Array, Arrays

# The six free entries of a symmetric 3 by 3 matrix, in the order of the 6-vectors.
_ROW = np.array([0, 0, 0, 1, 1, 2])
_COLUMN = np.array([0, 1, 2, 1, 2, 2])
_POSITION = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_IDENTITY = np.eye(3)
# What the symmetric noise puts into Sigma: R_22 at 11, R_11 at 22 and R_12 at 12.
_NOISE = np.zeros((6, 6))
_NOISE[0, 3] = _NOISE[3, 0] = _NOISE[1, 1] = 1.0

# R is accepted when a further Newton step moves no entry by more than this, relative
# to its row and column: the residual of the fixed point, seen through the Jacobian.
TOLERANCE = 1e-9
# The density is taken at gamma = x exp(-i (pi - _ANGLE)).
_ANGLE = 1e-9


class ConvergenceError(ArithmeticError):
    """The fixed point of Theorem 1 was not found at some point."""


class Points(NamedTuple):
    """A batch of points in the terms of the pencil, each of shape (points,)."""

    gamma: Arrays
    c: Array
    alpha: Array  # a_1 / c
    variance: Array  # sigma^2 = (nu - a_1^2) / c
    h: Array  # d - a_1

    @classmethod
    def of(cls, gamma: Arrays, c: Array, a1: Array, nu: Array, d: Array) -> Points:
        """Return the points with these parameters, arrays of shape (points,).

        Raises ValueError where nu is less than a1^2, beyond rounding.
        """
        with np.errstate(over="ignore"):  # a huge a1 is refused below
            square = a1 * a1
        low = nu < square * (1 - 1e-9)
        if np.any(low):
            raise ValueError(
                f"nu must be at least a1^2, got nu = {float(nu[low][0])!r} and "
                f"a1 = {float(a1[low][0])!r}"
            )
        return cls(gamma, c, a1 / c, np.maximum(nu - square, 0.0) / c, d - a1)

    def at(self, chosen: NDArray[Any] | slice) -> Points:
        """Return the chosen points."""
        return Points(*(x[chosen] for x in self))

    @property
    def shift(self) -> Array:
        """Return the share of h that the pencil keeps on the side of the dimension.

        To exchange the variable k for k + h q turns A and N into a pencil of the same
        form without h in A, and leaves the q corner alone. For c < 1 the tokens that X
        sends to 0 lock q and k together by h, and for small gamma R loses its digits
        to a part of rank one, which the exchange removes. For c >= 1 it is the plain
        pencil that is well conditioned.
        """
        return np.where(self.c < 1, self.h, 0.0)


class Scaled(NamedTuple):
    """A solution in units in which its entries and those of the pencil are moderate."""

    tau: Array  # 1/tau undoes the scaling of the q corner
    R: Arrays
    slope: Arrays  # of R, in log gamma
    E: Arrays
    L: Arrays  # N = E^-1 L


def solve(points: Points) -> tuple[Arrays, Arrays]:
    """Return R and its slope in log gamma, in units of :func:`sizes`.

    Raises ConvergenceError where R is not found.
    """
    with np.errstate(all="ignore"):  # a point that runs away is caught below
        R, found = _iterate(_damped(points, 8), points, 30)
        stalled = ~(found & (R[:, 0, 0] > 0) & (R[:, 1, 1] < 0))
        if np.any(stalled):
            R[stalled] = _from_above(points.at(stalled))
        step, slope = _newton(R, points)
    # R_11 falls with gamma; only where numbers underflow does it not.
    require((_size(step) <= TOLERANCE) & (slope[:, 0] < 0), points)
    return R, slope


def scaled_solution(points: Points) -> Scaled:
    """Return the fixed point in the scaling of its pencil.

    Raises ConvergenceError where it is not found.
    """
    R, slope = solve(points)
    tau = tau_of(R)
    R = scaled_by(R, tau)
    _, E, L = _pencil(points, tau)
    return Scaled(tau, R, symmetric(slope * sizes(R)), E, L)


def solve_on_the_cut(points: Points) -> tuple[Arrays, NDArray[np.bool_]]:
    """Return R at minus gamma, just below the real axis, and where it is found.

    R is followed from gamma along the half circle. Raises ConvergenceError where it is
    not found at gamma itself.
    """
    R, _ = solve(points)
    here = np.log(points.gamma).astype(np.complex128)
    goal = here - 1j * (np.pi - _ANGLE)
    turned = points._replace(gamma=np.exp(goal))
    with np.errstate(all="ignore"):
        R = _continue(R.astype(np.complex128), points, here, goal)
        R, _ = _iterate(R, turned, 4)
        step, _ = _newton(R, turned)
    return R, _size(step) <= 1e-6


def solve_plain(
    gamma: Array, aspect_ratio: float, a1: float, nu: float, h: float
) -> Array:
    """Return R at some penalties, in the plain pencil of docs/theory.md, section 4.

    Parameters
    ----------
    gamma : ndarray of float64, shape (penalties,)
        Positive.
    aspect_ratio : float
        Positive.
    a1, nu : float
        First Hermite coefficient and variance of the nonlinearity.
    h : float
        What is left on the diagonal beside the linear part.

    Returns
    -------
    ndarray of float64, shape (penalties, 3, 3)

    Raises
    ------
    ValueError
        If ``nu`` is less than the square of ``a1``.
    ConvergenceError
        If R is not found.

    Examples
    --------
    >>> solve_plain(np.array([0.1, 1.0]), 0.5, 0.0, 1.0, 0.0).shape
    (2, 3, 3)
    """
    others = (np.full(len(gamma), x) for x in (aspect_ratio, a1, nu, h + a1))
    points = Points.of(gamma, *others)
    R, _ = solve(points)
    # The pencil may have exchanged k for k + h q, see Points.shift.
    back = np.tile(_IDENTITY, (len(gamma), 1, 1))
    back[:, 2, 0] = points.shift
    return np.asarray(back @ R @ back.transpose(0, 2, 1))


def require(found: NDArray[np.bool_], points: Points) -> None:
    """Raise a ConvergenceError unless the fixed point is found at every point."""
    failed = np.flatnonzero(~found)
    if len(failed):
        gamma, c, alpha, variance, h = (x[failed[0]] for x in points)
        a1 = alpha * c
        raise ConvergenceError(
            f"no fixed point found at gamma = {gamma:.6g}, aspect_ratio = {c:.6g}, "
            f"a1 = {a1:.6g}, nu = {c * variance + a1 * a1:.6g}, diagonal_limit = "
            f"{h + a1:.6g}"
        )


def solve_linear(matrix: Arrays, right: Arrays) -> Arrays:
    """Solve a batch of linear systems, with NaN where a matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return np.full((1, *right.shape[-2:]), np.nan)
        half = len(matrix) // 2
        right = np.broadcast_to(right, (len(matrix), *right.shape[-2:]))
        parts = (slice(half), slice(half, None))
        return np.concatenate(
            [solve_linear(matrix[part], right[part]) for part in parts]
        )


def inverse(matrix: Arrays) -> Arrays:
    """Invert a batch of 3 by 3 matrices, with NaN where one is singular."""
    return solve_linear(matrix, _IDENTITY)


def transpose(matrix: Arrays) -> Arrays:
    """Transpose a batch of matrices."""
    return matrix.swapaxes(-1, -2)


def symmetric(entries: Arrays) -> Arrays:
    """Return the symmetric 3 by 3 matrices with the given six entries."""
    return entries[..., _POSITION]


def _entries(matrix: Arrays) -> Arrays:
    """Return the six entries of symmetric 3 by 3 matrices."""
    return matrix[..., _ROW, _COLUMN]


def _congruence(matrix: Arrays) -> Arrays:
    """Return the 6 by 6 matrix of S -> M S M on symmetric S, for symmetric M."""
    i, j = _ROW[:, None], _COLUMN[:, None]
    result: Arrays = (
        matrix[..., i, _ROW] * matrix[..., j, _COLUMN]
        + matrix[..., i, _COLUMN] * matrix[..., j, _ROW]
    )
    result[..., _ROW == _COLUMN] *= 0.5  # counted twice on the diagonal
    return result


def _pencil(points: Points, tau: Array) -> tuple[Arrays, Arrays, Arrays]:
    """Return A, E and L with N = E^-1 L, rows scaled by (tau^-1/2, tau^1/2, tau^-1/2).

    N itself holds the large 1/tau in up to four places, E and L do not.
    """
    shape, shift = (len(points.c), 3, 3), points.shift
    A = np.zeros(shape, dtype=points.gamma.dtype)
    A[:, 0, 0] = points.gamma / tau
    A[:, 0, 1] = A[:, 1, 0] = points.h - shift
    A[:, 1, 2] = A[:, 2, 1] = -1.0
    E = np.zeros(shape)
    E[:, 0, 0] = E[:, 1, 1] = 1.0
    E[:, 0, 2] = -shift
    E[:, 2, 2] = tau
    L = np.zeros(shape)
    L[:, 0, 1] = L[:, 1, 0] = -points.alpha
    L[:, 2, 0] = -shift
    L[:, 2, 2] = -1.0
    return A, E, L


def scaled_by(R: Arrays, tau: Array) -> Arrays:
    """Return R in the scaling of :func:`_pencil`; 1/tau undoes it."""
    root = np.sqrt(tau)
    rows = np.stack([root, 1 / root, root], axis=-1)
    scaled: Arrays = R * rows[:, :, None] * rows[:, None, :]
    return scaled


def tau_of(R: Arrays) -> Array:
    """Return the tau that scales R_11 to 1, or leaves it where it is below 1."""
    return np.asarray(1 / np.maximum(np.abs(R[:, 0, 0]), 1.0))


def _equations(
    R: Arrays, points: Points, A: Arrays, E: Arrays, L: Arrays
) -> tuple[Arrays, Arrays]:
    """Return (A - Sigma(R))^-1, equal to R at the fixed point, and P(R).

    With N = E^-1 L, P = N (I - R N)^-1 = (E - L R)^-1 L.
    """
    P = solve_linear(E - L @ R, L)
    Sigma = points.c[:, None, None] * P
    Sigma[:, 0, 0] += points.variance * R[:, 1, 1]
    Sigma[:, 1, 1] += points.variance * R[:, 0, 0]
    Sigma[:, 0, 1] += points.variance * R[:, 0, 1]
    Sigma[:, 1, 0] += points.variance * R[:, 0, 1]
    return inverse(A - (Sigma + transpose(Sigma)) / 2), P


def sizes(R: Arrays) -> Array:
    """Return the sizes against which the six entries of R are measured."""
    first, second = np.sqrt(np.abs(R[:, 0, 0])), np.sqrt(np.abs(R[:, 1, 1]))
    third = np.maximum(np.sqrt(np.abs(R[:, 2, 2])), np.abs(R[:, 1, 2]) / second)
    rows = np.stack([first, second, third], axis=-1)
    return np.asarray(rows[:, _ROW] * rows[:, _COLUMN])


def _newton(R: Arrays, points: Points) -> tuple[Arrays, Arrays]:
    """Return the Newton step of the fixed point and its slope in log gamma.

    Both are (points, 6) arrays in units of :func:`sizes`. The derivative of
    R = (A - Sigma)^-1 is dR = R (dSigma - dA) R, with dP = P dR P in dSigma.
    """
    tau = tau_of(R)
    R = scaled_by(R, tau)
    A, E, L = _pencil(points, tau)
    image, P = _equations(R, points, A, E, L)
    c, variance = points.c[:, None, None], points.variance[:, None, None]
    around = _congruence(image)
    jacobian = np.eye(6) - around @ (c * _congruence(P) + variance * _NOISE)
    weights = sizes(R)
    residual = _entries(image - R)
    forcing = -around[:, :, 0] * A[:, :1, 0]  # dA = gamma E_11 for d log gamma
    sides = np.stack([residual, forcing], axis=-1) / weights[:, :, None]
    jacobian *= weights[:, None, :] / weights[:, :, None]
    solution = solve_linear(jacobian, sides)
    return solution[..., 0], solution[..., 1]


def moved(R: Arrays, step: Arrays) -> Arrays:
    """Return R moved by a step in units of its weights, R_11 and R_22 in logarithm."""
    r = _entries(R)
    change = step * sizes(R)
    r_moved = r + change
    for k in (0, 3):  # keeps their signs
        r_moved[:, k] = r[:, k] * np.exp(change[:, k] / r[:, k])
    return symmetric(r_moved)


def extrapolated(R: Arrays, slope: Arrays, length: Arrays) -> Arrays:
    """Return R a length in log gamma further, as a power law with this slope.

    That is how R goes with small gamma: the diagonal moves in its logarithm, and the
    other entries move relative to it.
    """
    r, weights = _entries(R), sizes(R)
    change = slope * weights
    growth = change[:, [0, 3, 5]] / r[:, [0, 3, 5]]
    # R_33 may be zero: then it moves as it is.
    growth[:, 2] = np.where(np.abs(r[:, 5]) > 0.5 * weights[:, 5], growth[:, 2], 0.0)
    rate = (growth[:, _ROW] + growth[:, _COLUMN]) / 2
    length = length[:, None]
    return symmetric((r + (change - rate * r) * length) * np.exp(rate * length))


def _size(step: Arrays) -> Array:
    """Return the largest entry of each step, infinite where it is not a number."""
    size = np.max(np.abs(step), axis=-1)
    return np.where(np.isfinite(size), size, np.inf)


def _damped(points: Points, steps: int) -> Arrays:
    """Return R after some steps of damped iteration from A^-1, where Sigma is 0."""
    A, _, _ = _pencil(points, np.ones_like(points.c))  # not scaled
    R = inverse(A)
    for _ in range(steps):
        tau = tau_of(R)
        image, _ = _equations(scaled_by(R, tau), points, *_pencil(points, tau))
        R = (R + scaled_by(image, 1 / tau)) / 2
    return R


def _iterate(R: Arrays, points: Points, steps: int) -> tuple[Arrays, NDArray[np.bool_]]:
    """Take Newton steps, of size 2 at most, until one is below the tolerance.

    Returns R and which points got there.
    """
    R, done = R.copy(), np.zeros(len(R), dtype=bool)
    active = np.arange(len(R))
    for _ in range(steps):
        step, _ = _newton(R[active], points.at(active))
        size = _size(step)
        R[active] = moved(R[active], step * np.minimum(1, 2 / size)[:, None])
        done[active] = size < TOLERANCE
        active = active[(size >= TOLERANCE) & np.isfinite(size)]
        if len(active) == 0:
            break
    return R, done


def _continue(R: Arrays, points: Points, here: Arrays, goal: Arrays) -> Arrays:
    """Follow the fixed point from log gamma = here to log gamma = goal.

    Each point goes straight there at a stride of its own: an extrapolation is kept when
    Newton's first correction is small and its last one negligible, and tried again at
    half the stride otherwise. A point that gets lost turns into NaN.
    """
    R, here = R.copy(), here.copy()
    _, slope = _newton(R, points._replace(gamma=np.exp(here)))
    stride = np.full(len(R), 0.5)
    active = np.flatnonzero(here != goal)
    while len(active):
        way = goal[active] - here[active]
        share = np.minimum(1, stride[active] / np.abs(way))
        there = np.where(share == 1, goal[active], here[active] + share * way)
        there_points = points.at(active)._replace(gamma=np.exp(there))
        trial = extrapolated(R[active], slope[active], share * way)
        step, _ = _newton(trial, there_points)
        kept = _size(step) < 0.3
        for _ in range(3):
            trial = moved(trial, np.where(kept[:, None], step, 0.0))
            step, new_slope = _newton(trial, there_points)
        kept &= _size(step) < 1e-6
        R[active[kept]], here[active[kept]] = trial[kept], there[kept]
        slope[active[kept]] = new_slope[kept]
        stride[active] *= np.where(kept, 2.0, 0.5)
        lost = stride[active] < 1e-6 * np.abs(way)
        R[active[lost]] = np.nan
        active = active[(here[active] != goal[active]) & ~lost]
    return R


def _from_above(points: Points) -> Arrays:
    """Return R followed down from a gamma above the eigenvalues of A^T A / n."""
    edge = (1 + np.sqrt(points.c)) ** 2
    size = edge * (
        (np.abs(points.alpha) * edge + np.abs(points.h)) ** 2 + points.variance
    )
    above = points._replace(gamma=np.maximum(points.gamma, size))
    R, _ = _iterate(_damped(above, 30), above, 8)
    R = _continue(R, points, np.log(above.gamma), np.log(points.gamma))
    return _iterate(R, points, 8)[0]
