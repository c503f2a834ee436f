"""The pencil of attention with tokens of several types, and its fixed point.

Each type of token has a symmetric 3 by 3 matrix R(t) of its own, with the rows q, l and
k of the limit's R, and types meet in averages only (docs/theory.md, section 8, whose
equations are named here; section 6 for scaling and exchange).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from interpolation_error._checks import Array
from interpolation_error.theory_limit import ConvergenceError
from interpolation_error.token_types import Expansion, Kernels, Types

# The fixed point is accepted when its residual is below this, relative to the sizes of
# the rows and columns of R.
TOLERANCE = 1e-10
# Damped and Newton's steps until it is given up.
STEPS = 300

# The six free entries of a symmetric 3 by 3 matrix.
_ROW = np.array([0, 0, 0, 1, 1, 2])
_COLUMN = np.array([0, 1, 2, 1, 2, 2])
_POSITION = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])


class Sector(NamedTuple):
    """How types of one parity are coupled to dimensions: C(t) and A_P of (8.7).

    Parameters
    ----------
    rows : tuple of int
        Of each part of C(t): where in q, l, k it stands.
    functions : tuple of ndarray, each of shape (types, columns)
        The parts of C(t).
    ends : tuple of slice
        Which dimensions the columns of each part belong to.
    pairs : ndarray of float64
        What stands between e_a and e'_a.
    width : int
        Number of dimensions beyond e and e'.
    """

    rows: tuple[int, ...]
    functions: tuple[Array, ...]
    ends: tuple[slice, ...]
    pairs: Array
    width: int

    @classmethod
    def of(
        cls, expansion: Expansion, factor: float, third: Array, shift: Array
    ) -> Sector:
        """Couple q and l by an expansion, k by ``third``, and q by shift times it."""
        rank, width = len(expansion.values), third.shape[1]
        last = slice(2 * rank, 2 * rank + width)
        return cls(
            (0, 1, 2, 0),
            (expansion.right, expansion.left, third, shift[:, None] * third),
            (slice(rank), slice(rank, 2 * rank), last, last),
            factor / expansion.values,
            width,
        )

    def dimensions(self, tau: float) -> Array:
        """Return A_P, with -tau at (a, a)."""
        rank = len(self.pairs)
        A_P = np.zeros((2 * rank + self.width,) * 2)
        place = np.arange(rank)
        A_P[place, rank + place] = A_P[rank + place, place] = self.pairs
        A_P[2 * rank :, 2 * rank :] = -tau * np.eye(self.width)
        return A_P

    def averages(self, weighted: Array) -> Array:
        """Return the sum over types of C^T R C, R with the weights of types."""
        M = np.zeros((2 * len(self.pairs) + self.width,) * 2)
        for i, j, a, b in self._pairs_of_parts():
            part = self.functions[i].T @ (weighted[:, a, b, None] * self.functions[j])
            M[self.ends[i], self.ends[j]] += part
            if i != j:
                M[self.ends[j], self.ends[i]] += part.T
        return M

    def column(self, weighted: Array) -> Array:
        """Return the sum over types of C^T times the column q of R."""
        v = np.zeros(2 * len(self.pairs) + self.width)
        for a, function, end in zip(self.rows, self.functions, self.ends, strict=True):
            v[end] += function.T @ weighted[:, a, 0]
        return v

    def energies(self, R_P: Array) -> Array:
        """Return C R_P C^T at every type."""
        Sigma = np.zeros((len(self.functions[0]), 3, 3))
        for i, j, a, b in self._pairs_of_parts():
            block = self.functions[i] @ R_P[self.ends[i], self.ends[j]]
            part = np.einsum("tx,tx->t", block, self.functions[j])
            Sigma[:, a, b] += part
            if i != j:
                Sigma[:, b, a] += part
        return Sigma

    def _pairs_of_parts(self) -> Iterator[tuple[int, int, int, int]]:
        for i, a in enumerate(self.rows):
            for j in range(i, len(self.rows)):
                yield i, j, a, self.rows[j]


class Model(NamedTuple):
    """What the equations on given types are made of, at any penalty.

    Parameters
    ----------
    c : float
        Aspect ratio p/n.
    weights, h : ndarray of float64, shape (types,)
        Of the types, and what is left on the diagonal of K on the side of the tokens.
    variance, covariance : ndarray of float64, shape (types, types)
        Of the noise.
    even, odd : Sector
        Couplings of the two parities.
    means : Sector
        Of the same form, the parts of K and X^T X that are functions of two types; all
        odd.
    """

    c: float
    weights: Array
    h: Array
    variance: Array
    covariance: Array
    even: Sector
    odd: Sector
    means: Sector

    @classmethod
    def of(cls, tokens: int, dimension: int, types: Types, kernels: Kernels) -> Model:
        """Set it up.

        To exchange the variable k for k + h q moves h from A to the side of the
        dimensions and leaves the q corner alone. For c < 1 this keeps the digits that R
        loses otherwise for small gamma.
        """
        c, h = dimension / tokens, kernels.h
        shift = h if c < 1 else np.zeros_like(h)
        ones = np.ones((len(h), 1))
        return cls(
            c,
            types.weights,
            h - shift,
            kernels.variance,
            kernels.covariance,
            Sector.of(kernels.even, -c, ones, shift),
            Sector.of(kernels.odd, -c, ones[:, :0], shift),
            Sector.of(
                kernels.mean, -sqrt(dimension) / tokens, types.coordinates, shift
            ),
        )


class Equations:
    """The fixed point (8.8) at one penalty, and its derivative.

    Rows q, l and k of R are scaled by the square roots of tau, 1 / tau and tau, which
    divides gamma by tau, puts -tau for -1 at (a, a) and changes nothing else.

    Parameters
    ----------
    model : Model
        The types and their couplings.
    gamma : float
        Ridge penalty.
    tau : float
        Positive; with the inverse of R_qq every number is of order one.
    """

    def __init__(self, model: Model, gamma: float, tau: float) -> None:
        self.model, self.gamma, self.tau = model, gamma, tau
        self._A = np.zeros((len(model.weights), 3, 3))
        self._A[:, 0, 0] = gamma / tau
        self._A[:, 0, 1] = self._A[:, 1, 0] = model.h
        self._A[:, 1, 2] = self._A[:, 2, 1] = -1.0
        self._sectors = [(s, s.dimensions(tau)) for s in (model.even, model.odd)]

    def weighted(self, R: Array) -> Array:
        """Return R with the weights of types."""
        return self.model.weights[:, None, None] * R

    def image(self, R: Array) -> Array:
        """Return (A - Sigma(R))^-1, equal to R at the fixed point."""
        Sigma = self._energies(self._inner(R), R)
        return np.asarray(np.linalg.inv(self._A - Sigma))

    def residual(self, R: Array) -> float:
        """Return by how much R misses the fixed point."""
        return self.size(self.image(R) - R, R)

    def size(self, step: Array, R: Array) -> float:
        """Return the size of a step beside R, a mean square over types."""
        entries = np.square(step / _scales(R)).sum(axis=(1, 2))
        size = float(np.sqrt(self.model.weights @ entries))
        return size if np.isfinite(size) else np.inf

    def solve(self, R: Array, right: Array, share: float) -> tuple[Array, float]:
        """Return the solution of dR - (derivative of the image) dR = right.

        GMRES stops at a share of ``right``. The second number is by how much the
        solution misses the equation, relative to its own size.
        """
        image, inner = self.image(R), self._inner(R)
        # Types of next to no weight may be far from all others, and count as little.
        root = np.sqrt(self.model.weights)[:, None]
        scales = _scales(R)[:, _ROW, _COLUMN] / root

        def apply(entries: Array) -> Array:
            dR = (entries.reshape(scales.shape) * scales)[:, _POSITION]
            weighted = self.weighted(dR)
            moved = [
                R_P @ sector.averages(weighted) @ R_P
                for R_P, (sector, _) in zip(inner, self._sectors, strict=True)
            ]
            change = image @ self._energies(moved, dR) @ image
            return entries - (change[:, _ROW, _COLUMN] / scales).ravel()

        operator = LinearOperator((scales.size,) * 2, matvec=apply)
        sides = (right[:, _ROW, _COLUMN] / scales).ravel()
        found, _ = gmres(operator, sides, rtol=share, restart=60, maxiter=4)
        missed = float(np.linalg.norm(apply(found) - sides) / np.linalg.norm(found))
        return (found.reshape(scales.shape) * scales)[:, _POSITION], missed

    def _inner(self, R: Array) -> list[Array]:
        """Return R_P of each parity."""
        weighted = self.weighted(R)
        return [
            np.asarray(np.linalg.inv(A_P - sector.averages(weighted)))
            for sector, A_P in self._sectors
        ]

    def _energies(self, inner: list[Array], R: Array) -> Array:
        """Return c C R_P C^T and the noise's part of Sigma, linear in both."""
        c, w = self.model.c, self.model.weights / self.model.c
        Sigma = np.zeros_like(R)
        for R_P, (sector, _) in zip(inner, self._sectors, strict=True):
            Sigma += c * sector.energies(R_P)
        Sigma[:, 0, 0] += self.model.variance.T @ (w * R[:, 1, 1])
        Sigma[:, 1, 1] += self.model.variance @ (w * R[:, 0, 0])
        mixed = self.model.covariance @ (w * R[:, 0, 1])
        Sigma[:, 0, 1] += mixed
        Sigma[:, 1, 0] += mixed
        return Sigma


def fixed_point(equations: Equations, guesses: list[Array]) -> tuple[Array, float]:
    """Return R(t) at one penalty, by damped steps and then Newton's.

    Parameters
    ----------
    equations : Equations
        What it solves.
    guesses : list of ndarray of float64, each of shape (types, 3, 3)
        The best of them is where it starts.

    Returns
    -------
    R : ndarray of float64, shape (types, 3, 3)
        Scaled as the equations are.
    residual : float
        Below the tolerance.

    Raises
    ------
    ConvergenceError
        If it is not found.
    """
    R = min(guesses, key=equations.residual)
    size = np.inf
    for _ in range(STEPS):
        step = equations.image(R) - R
        size = equations.size(step, R)
        # Of the roots only one has these signs, those of a resolvent.
        if size < TOLERANCE and np.all(R[:, 0, 0] > 0) and np.all(R[:, 1, 1] < 0):
            return R + step, size
        R = _newton(equations, R, step, size) if size < 0.3 else R + step / 2
    raise ConvergenceError(
        f"no fixed point found at finite size at gamma = {equations.gamma:.6g}, "
        f"aspect_ratio = {equations.model.c:.6g}: its residual stays at {size:.3g}"
    )


def scaled(R: Array, tau: float) -> Array:
    """Return R with its rows q, l and k scaled as :class:`Equations` has them.

    Examples
    --------
    >>> scaled(np.eye(3), 4.0).diagonal()
    array([4.  , 0.25, 4.  ])
    """
    rows = np.sqrt([tau, 1 / tau, tau])
    return np.asarray(R * rows[:, None] * rows)


def moved(R: Array, change: Array) -> Array:
    """Return R + change to first order, with its diagonal moved in the logarithm.

    The other entries move along. To scale q up and l down changes little in the
    equations for small gamma, so that R may be far off in this direction.

    Examples
    --------
    >>> R = np.diag([1.0, -1.0, 1.0])[None]
    >>> moved(R, 0.1 * R)[0].diagonal().round(4)
    array([ 1.1052, -1.1052,  1.1052])
    """
    diagonal = np.einsum("taa->ta", R)
    # R_kk may be small beside what it is measured against: then it moves as it is.
    logarithmic = np.abs(diagonal) > 0.5 * np.einsum("taa->ta", _scales(R))
    growth = np.einsum("taa->ta", change) / np.where(logarithmic, diagonal, np.inf)
    rates = np.clip(growth, -2, 2) / 2
    rates = rates[:, :, None] + rates[:, None, :]
    return np.asarray((R + change - rates * R) * np.exp(rates))


def _newton(equations: Equations, R: Array, step: Array, size: float) -> Array:
    """Return R moved by a part of Newton's step that helps, or by a damped step."""
    direction, _ = equations.solve(R, step, 1e-4)
    for length in (1.0, 0.25):
        trial = moved(R, length * direction)
        if equations.residual(trial) < (1 - length / 2) * size:
            return trial
    return R + step / 2


def _scales(R: Array) -> Array:
    """Return the sizes against which the entries of each R(t) are measured."""
    diagonal = np.sqrt(np.abs(np.einsum("taa->ta", R)))
    # R_33 may be small beside R_23.
    third = np.maximum(diagonal[:, 2], np.abs(R[:, 1, 2]) / diagonal[:, 1])
    rows = np.stack([diagonal[:, 0], diagonal[:, 1], third], axis=-1)
    return np.asarray(rows[:, :, None] * rows[:, None, :])
