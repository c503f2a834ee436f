r"""The fixed point between types of tokens, at many penalties at once.

Each type t has a symmetric 3 by 3 matrix R(t) of its own in place of the one R of the
limit, and all of them meet in averages over types (docs/theory.md, section 8, which
numbers the equations named here). Matrices stand as their six free entries, in arrays
of shape (6, penalties, types).
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model.checks import Array
from interpolation_error.theory.anderson import accelerated
from interpolation_error.theory.fixed_point import solve_linear

# The six free entries of a symmetric 3 by 3 matrix.
ROW = np.array([0, 0, 0, 1, 1, 2])
COLUMN = np.array([0, 1, 2, 1, 2, 2])
POSITION = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])

# The fixed point is accepted when its residual is below this, relative to the sizes of
# the rows and columns of R where it started.
TOLERANCE = 1e-9
STEPS = 200
# Of steps from one penalty to the next, in decades.
LONGEST, SHORTEST = 0.5, 0.01


class Expansion(NamedTuple):
    """A kernel on pairs of types, psi diag(values) chi^T, orthonormal over types."""

    psi: Array  # (types, terms)
    values: Array  # (terms,)
    chi: Array  # (types, terms)

    @classmethod
    def of(cls, kernel: Array, weights: Array, share: float) -> Expansion:
        """Return the terms whose value is above a share of the largest."""
        root = np.sqrt(weights)[:, None]
        left, values, right = np.linalg.svd(root * kernel * root.T)
        kept = values > max(share * values[0], 1e-14)
        return cls(left[:, kept] / root, values[kept], right[kept].T / root)

    def diagonal(self) -> Array:
        """Return the sum of the terms at pairs of a type with itself."""
        return np.asarray(np.sum(self.psi * self.values * self.chi, axis=1))


class Kernels(NamedTuple):
    """What the fixed point needs of f, each averaged over a token and its mirror."""

    h: Array  # (types,), what is on the diagonal of K beside its low-rank part
    variance: Array  # (types, types), V
    covariance: Array  # (types, types), Cov
    even: Expansion  # of F_1
    odd: Expansion
    mean: Expansion  # of the odd part of F_0


class _Sector:
    """The dimensions' side of (8.6) on functions of the type of one parity.

    Averages over types and their transpose are products with fixed matrices, of a row
    for each type and a column for each pair of functions.
    """

    def __init__(self, expansion: Expansion, c: float, even: bool) -> None:
        self.psi, values, self.chi = expansion
        self.rank = rank = len(values)
        self.even = even  # the constant function, coupled to k, is even
        self.size = 2 * rank + even
        self.A = np.zeros((self.size, self.size))
        place = np.arange(rank)
        self.A[place, rank + place] = self.A[rank + place, place] = -c / values
        if even:
            self.A[-1, -1] = -1.0
        self.upper, self.right = np.triu_indices(rank)
        self.q_q = self.chi[:, self.upper] * self.chi[:, self.right]
        self.l_l = self.psi[:, self.upper] * self.psi[:, self.right]
        self.q_l = (self.chi[:, :, None] * self.psi[:, None, :]).reshape(
            len(self.chi), rank**2
        )
        self.twice = np.where(self.upper == self.right, 1.0, 2.0)

    def average(self, R: Array) -> Array:
        """Return the sum over types of C^T R C, shape (penalties, size, size)."""
        rank, i, j = self.rank, self.upper, self.right
        M = np.zeros((R.shape[1], self.size, self.size))
        M[:, i, j] = M[:, j, i] = R[0] @ self.q_q
        M[:, rank + i, rank + j] = M[:, rank + j, rank + i] = R[3] @ self.l_l
        q_l = (R[1] @ self.q_l).reshape(len(M), rank, rank)
        M[:, :rank, rank : 2 * rank] = q_l
        M[:, rank : 2 * rank, :rank] = q_l.transpose(0, 2, 1)
        if self.even:
            M[:, :rank, -1] = M[:, -1, :rank] = R[2] @ self.chi
            M[:, rank:-1, -1] = M[:, -1, rank:-1] = R[4] @ self.psi
            M[:, -1, -1] = R[5].sum(axis=-1)
        return M

    def at_types(self, inner: Array) -> Array:
        """Return C R_P C^T of every type, shape (6, penalties, types)."""
        rank, i, j = self.rank, self.upper, self.right
        found = np.zeros((6, len(inner), len(self.chi)))
        found[0] = (inner[:, i, j] * self.twice) @ self.q_q.T
        found[3] = (inner[:, rank + i, rank + j] * self.twice) @ self.l_l.T
        q_l = inner[:, :rank, rank : 2 * rank].reshape(len(inner), rank**2)
        found[1] = q_l @ self.q_l.T
        if self.even:
            found[2] = inner[:, :rank, -1] @ self.chi.T
            found[4] = inner[:, rank:-1, -1] @ self.psi.T
            found[5] = inner[:, -1, -1, None]
        return found

    def solved(self, R: Array) -> Array:
        """Return R_P = (A_P - average)^-1, with R times the weights of the types."""
        matrix = self.A - self.average(R)
        identity = np.broadcast_to(np.eye(self.size), matrix.shape)
        return solved_to_scale(matrix, identity, R, (self.rank, self.rank, self.even))


class TypeEquations:
    """The fixed point of (8.6) on given types, and its derivative.

    Parameters
    ----------
    aspect_ratio : float
        c = p/n.
    weights : ndarray of float64, shape (types,)
        Of sum one.
    kernels : Kernels
    """

    def __init__(self, aspect_ratio: float, weights: Array, kernels: Kernels) -> None:
        self.c, self.weights, self.kernels = aspect_ratio, weights, kernels
        self._sectors = [
            _Sector(kernels.even, aspect_ratio, even=True),
            _Sector(kernels.odd, aspect_ratio, even=False),
        ]

    def inner(self, R: Array) -> list[Array]:
        """Return R_P of each parity."""
        return [sector.solved(self.weights * R) for sector in self._sectors]

    def energies(self, inner: list[Array], R: Array) -> Array:
        """Return Sigma = c C R_P C^T and the noise's part, linear in both."""
        weighted = self.weights * R
        Sigma = np.zeros_like(R)
        for sector, R_P in zip(self._sectors, inner, strict=True):
            Sigma += self.c * sector.at_types(R_P)
        Sigma[0] += weighted[3] @ self.kernels.variance / self.c
        Sigma[3] += weighted[0] @ self.kernels.variance.T / self.c
        Sigma[1] += weighted[1] @ self.kernels.covariance.T / self.c
        return Sigma

    def image(self, R: Array, gamma: Array) -> Array:
        """Return (A - Sigma(R))^-1, equal to R at the fixed point."""
        image = -self.energies(self.inner(R), R)
        image[0] += gamma[:, None]
        image[1] += self.kernels.h
        image[4] -= 1.0
        return inverse(image)

    def change(self, R: Array, inner: list[Array], dR: Array) -> Array:
        """Return the derivative of the image along dR, R dSigma R."""
        moved = [
            R_P @ sector.average(self.weights * dR) @ R_P
            for sector, R_P in zip(self._sectors, inner, strict=True)
        ]
        return sandwich(R, self.energies(moved, dR))

    def solve(self, gamma: Array, start: Array) -> tuple[Array, Array, Array]:
        """Return the fixed point, its derivative in log gamma, and the residual.

        Parameters
        ----------
        gamma : ndarray of float64, shape (penalties,)
            Positive.
        start : ndarray of float64, shape (6, penalties, types)
            Where to start, or the same for all types, with one of them.

        Returns
        -------
        R, slope : ndarray of float64, shape (6, penalties, types)
        residual : ndarray of float64, shape (penalties,)
            Largest that is left of either, relative to the sizes of rows and columns;
            not a number where R has signs that no resolvent has.
        """
        with np.errstate(all="ignore"):  # what runs away is seen by its residual
            return self._solve(gamma, start)

    def _solve(self, gamma: Array, start: Array) -> tuple[Array, Array, Array]:
        sizes = units(start)[ROW] * units(start)[COLUMN]
        shape = (6, len(gamma), len(self.weights))

        # The unknowns: a row for each penalty, relative to the sizes.
        def rows(R: Array, at: NDArray[np.intp] | slice = slice(None)) -> Array:
            relative = (R / sizes[:, at]).transpose(1, 0, 2)
            return np.asarray(relative.reshape(len(relative), -1))

        def back(x: Array, at: NDArray[np.intp] | slice = slice(None)) -> Array:
            relative = x.reshape(len(x), 6, -1).transpose(1, 0, 2)
            return np.asarray(relative * sizes[:, at])

        x, residual = accelerated(
            lambda x, at: rows(self.image(back(x, at), gamma[at]), at),
            rows(np.broadcast_to(start, shape)),
            *(TOLERANCE, STEPS),
        )
        R = back(x)
        inner = self.inner(R)
        # The derivative is linear, and taken in units of what drives it.
        first = R[POSITION[0]]
        forcing = rows(-gamma[:, None] * first[ROW] * first[COLUMN])
        strength = np.max(np.abs(forcing), axis=1, keepdims=True)
        forcing /= strength

        def derivative(x: Array, at: NDArray[np.intp]) -> Array:
            some = [R_P[at] for R_P in inner]
            return forcing[at] + rows(self.change(R[:, at], some, back(x, at)), at)

        x, rest = accelerated(derivative, forcing, TOLERANCE, STEPS)
        possible = np.all((R[0] > 0) & (R[3] < 0), axis=-1)
        residual = np.where(possible, np.maximum(residual, rest), np.nan)
        return R, back(x * strength), residual

    def follow(
        self, high: float, gamma: float, start: Array
    ) -> tuple[Array, Array, float]:
        """Return what :meth:`solve` does at one penalty, come to from a higher one.

        From step to step the rows and columns of R go on as powers of the penalty, with
        their slopes. A step that fails is halved.

        Parameters
        ----------
        high, gamma : float
            Where ``start`` is near enough, and where to go.
        start : ndarray of float64, shape (6, 1, types)
            Or the same for all types, with one of them.
        """
        R, slope, residual = self.solve(np.array([high]), start)
        here, step = high, LONGEST
        while residual[0] <= TOLERANCE and here > gamma and step > SHORTEST:
            there = max(gamma, here * 10**-step)
            powers = np.exp(log(there / here) * (slope / R)[[0, 3, 4]])
            first, second = np.sqrt(powers[:2])
            own = np.stack([first, second, powers[2] / second])
            found = self.solve(np.array([there]), R * own[ROW] * own[COLUMN])
            if found[2][0] <= TOLERANCE:
                (R, slope, residual), here = found, there
                step = min(2 * step, LONGEST)
            else:
                step /= 2
        arrived = here <= gamma
        return R[:, 0], slope[:, 0], float(residual[0]) if arrived else np.nan


def entries(matrices: Array) -> Array:
    """Return symmetric matrices, (penalties, 3, 3), as entries, (6, penalties, 1)."""
    return np.asarray(matrices[:, ROW, COLUMN].T[:, :, None])


def units(R: Array) -> Array:
    """Return the sizes of rows and columns of some R, shape (3, ...) from (6, ...)."""
    first, second, third = np.sqrt(np.abs(R[[0, 3, 5]]))
    # R_33 may be small beside R_23.
    return np.stack([first, second, np.maximum(third, np.abs(R[4]) / second)])


def solved_to_scale(
    matrix: Array, right: Array, R: Array, lengths: tuple[int, int, int]
) -> Array:
    """Solve linear systems whose rows belong to q, l and k, so many of each.

    At small penalties these rows and columns differ by many orders. They are brought to
    one size first, which is that of the average of R.

    Parameters
    ----------
    matrix : ndarray of float64, shape (penalties, size, size)
    right : ndarray of float64, shape (penalties, size, sides)
    R : ndarray of float64, shape (6, penalties, types)
        Times the weights of the types.
    lengths : tuple of int
        Of sum ``size``.
    """
    own = np.repeat(1 / units(R.sum(axis=-1)), lengths, axis=0).T[:, :, None]
    scaled = matrix * own * own.transpose(0, 2, 1)
    return np.asarray(own * solve_linear(scaled, own * right))


def inverse(S: Array) -> Array:
    """Return the inverses of symmetric 3 by 3 matrices, by cofactors.

    However the sizes of rows and columns differ, no digits are lost to that.
    """
    a, b, c, d, e, f = S
    first, second, third = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * first + b * second + c * third
    rest = a * f - c * c, b * c - a * e, a * d - b * b
    return np.asarray(np.stack([first, second, third, *rest]) / determinant)


def sandwich(R: Array, S: Array) -> Array:
    """Return R S R for symmetric 3 by 3 matrices."""
    full = R[POSITION]
    product = np.einsum("ab...,bc...->ac...", S[POSITION], full)
    return np.asarray(np.einsum("ab...,bc...->ac...", full, product)[ROW, COLUMN])
