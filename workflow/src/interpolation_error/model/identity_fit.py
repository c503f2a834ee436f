r"""How close attention weights are to a multiple of the identity plus low rank.

Assumption 1 of the paper is :math:`W = I + w_K w_Q^T`, up to a factor. For weights
:math:`W = W_K^T W_Q` of a real head this module has their spectrum, and the closest
matrix :math:`\tau I + L` with L of a given rank.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg

from interpolation_error.model.checks import as_finite, as_whole

Array = NDArray[np.float64]

RANKS = (1, 2, 4, 8, 16, 32, 64)

# The share left by a fit is at most this above the least one possible.
_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Description:
    r"""Spectrum of attention weights and their fits by :math:`\tau I + L`.

    Leading axes are those of the weights described. All shares are of
    :math:`\|W\|_F^2`.

    Parameters
    ----------
    norm : ndarray of float64, shape (...)
        :math:`\|W\|_F`.
    singular_values : ndarray of float64, shape (..., min(m, p))
        Descending; the other p - m are zero, m being the rows of the factors.
    trace : ndarray of float64, shape (...)
        :math:`\mathrm{tr}\, W`.
    trace_share : ndarray of float64, shape (...)
        :math:`(\mathrm{tr}\, W)^2 / (p \|W\|_F^2)`, the share that the closest multiple
        of the identity explains: 1 for a multiple of I.
    symmetric_share : ndarray of float64, shape (...)
        :math:`\|(W + W^T)/2\|_F^2 / \|W\|_F^2`: 1 for a symmetric W, 0 for a skew one,
        about 1/2 for a random one.
    ranks : tuple of int
        Ranks k of the fits.
    tau : ndarray of float64, shape (..., len(ranks))
        :math:`\tau` of the best fit of rank k.
    left : ndarray of float64, shape (..., len(ranks))
        :math:`\min_{\tau, L} \|W - \tau I - L\|_F^2 / \|W\|_F^2`, the share that the
        best fit leaves; 0 where Assumption 1 holds with that rank.
    left_by_low_rank : ndarray of float64, shape (..., len(ranks))
        The same for :math:`\tau = 0`, low rank alone.
    """

    norm: Array
    singular_values: Array
    trace: Array
    trace_share: Array
    symmetric_share: Array
    ranks: tuple[int, ...]
    tau: Array
    left: Array
    left_by_low_rank: Array


class Fit(NamedTuple):
    r"""A multiple of the identity plus low rank, :math:`\tau I + a b^T`.

    Parameters
    ----------
    tau : float
        :math:`\tau`.
    a, b : ndarray of float64, shape (p, k)
        Factors of L, with the columns of b orthonormal.
    left : float
        :math:`\|W - \tau I - a b^T\|_F^2 / \|W\|_F^2`.
    """

    tau: float
    a: Array
    b: Array
    left: float

    @property
    def matrix(self) -> Array:
        r"""The p by p matrix :math:`\tau I + a b^T`."""
        return np.asarray(self.tau * np.eye(len(self.a)) + self.a @ self.b.T)


def describe(
    query: ArrayLike, key: ArrayLike, ranks: Sequence[int] = RANKS
) -> Description:
    r"""Describe :math:`W = W_K^T W_Q` of every head (docs/theory.md, general weights).

    Parameters
    ----------
    query, key : array_like, shape (..., m, p)
        :math:`W_Q` and :math:`W_K`, m rows each; W is p by p of rank at most m.
    ranks : sequence of int, optional
        Ranks of the fits, from 1 to p - 1; those above are left out.

    Returns
    -------
    Description

    Raises
    ------
    ValueError
        If shapes do not agree, a value is not finite, a rank is not a whole number
        from 1, none is below p, or W is zero.

    Notes
    -----
    Singular values, norm and shares come from the factors, of 2m columns at most, and
    never from W. The fits are the best ones: the least share is bounded from below on
    the way (:func:`fit`), and the one found is within 1e-10 of it.

    Examples
    --------
    A multiple of the identity plus rank one:

    >>> description = describe(np.eye(4), 2 * np.eye(4) + np.ones((4, 4)), ranks=[1])
    >>> bool(description.left[0] < 1e-9), round(float(description.tau[0]), 3)
    (True, 2.0)
    """
    Q, K = as_finite("query", query), as_finite("key", key)
    if Q.ndim < 2 or Q.shape != K.shape:
        raise ValueError(
            "query and key must have one shape (..., rows, p), got "
            f"{Q.shape} and {K.shape}"
        )
    m, p = Q.shape[-2:]
    kept = tuple(k for k in (as_whole("rank", k, least=1) for k in ranks) if k < p)
    if not kept:
        raise ValueError(f"ranks must have one below p = {p}, got {tuple(ranks)}")
    leading = Q.shape[:-2]
    pairs = zip(Q.reshape(-1, m, p), K.reshape(-1, m, p), strict=True)
    columns = zip(*(_describe(one, other, kept) for one, other in pairs), strict=True)
    norm, singular, trace, of_trace, symmetric, tau, left, low_rank = (
        np.reshape(column, (*leading, *column[0].shape)) for column in columns
    )
    return Description(
        norm, singular, trace, of_trace, symmetric, kept, tau, left, low_rank
    )


def fit(weights: ArrayLike, rank: int) -> Fit:
    r"""Return the closest :math:`\tau I + L` to a matrix, L of rank k.

    For a given :math:`\tau` the best L is the truncated singular value decomposition of
    :math:`W - \tau I`, which leaves

    .. math:: \varphi(\tau) = \|W\|_F^2 - 2 \tau\, \mathrm{tr}\, W + (p - k) \tau^2
        - g(\tau), \qquad g(\tau) = \sum_{i \le k} \sigma_i(W - \tau I)^2 - k \tau^2.

    g is convex, a maximum of linear functions, so that on an interval it lies below
    its chord and :math:`\varphi` above a parabola. The best :math:`\tau` is found by
    dividing the interval in which it must lie until no part can hold a share lower by
    more than 1e-10: it is the global minimum, and no alternation of the two steps,
    which can stop at a local one.

    Parameters
    ----------
    weights : array_like, shape (p, p)
        W, not zero.
    rank : int
        k, from 1 to p - 1.

    Returns
    -------
    Fit

    Raises
    ------
    ValueError
        If W is not a square matrix, is zero or not finite, or ``rank`` is out of range.

    Examples
    --------
    >>> W = np.diag([5.0, 2.0, 2.0, 2.0])
    >>> np.allclose(fit(W, rank=1).matrix, W)
    True
    """
    W = as_finite("weights", weights)
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"weights must be a square matrix, got shape {W.shape}")
    p = len(W)
    rank = as_whole("rank", rank, least=1)
    if rank >= p:
        raise ValueError(f"rank must be below p = {p}, got {rank}")
    tau, left = _Core(W, 0).best(rank)
    U, singular, V = np.linalg.svd(W - tau * np.eye(p))
    return Fit(tau, U[:, :rank] * singular[:rank], V[:rank].T.copy(), left)


def _describe(Q: Array, K: Array, ranks: tuple[int, ...]) -> list[Array]:
    """Return the fields of a Description, ranks left out, for one pair of factors."""
    m, p = Q.shape
    if 2 * m < p:
        # W = B C B^T for an orthonormal basis B of the span of both factors.
        R = np.asarray(np.linalg.qr(np.concatenate([K, Q]).T, mode="r"))
        core = _Core(R[:, :m] @ R[:, m:].T, p - 2 * m)
    else:
        core = _Core(K.T @ Q, 0)
    singular = np.linalg.svd(core.C, compute_uv=False)[: min(m, p)]
    best = np.array([core.best(rank) for rank in ranks])
    fields = [
        core.norm,
        singular,
        core.trace,
        core.trace**2 / (p * core.norm**2),
        np.sum((core.C + core.C.T) ** 2) / (4 * core.norm**2),
        best[:, 0],
        best[:, 1],
        [np.sum((singular[rank:] / core.norm) ** 2) for rank in ranks],
    ]
    return [np.asarray(field, dtype=np.float64) for field in fields]


class _Core:
    """A matrix C, bordered by zeros to p rows and columns, and its fits by rank."""

    def __init__(self, C: Array, zeros: int) -> None:
        self.C, self.zeros = C, zeros
        self.p = len(C) + zeros
        self.norm = float(np.linalg.norm(C))
        if not self.norm > 0:
            raise ValueError("weights must not be zero")
        self.trace = float(np.trace(C))
        self.gram, self.twice = C.T @ C, C + C.T
        self.symmetric = np.append(linalg.eigvalsh(self.twice / 2), np.zeros(zeros))
        self.known: dict[float, Array] = {}

    def best(self, rank: int) -> tuple[float, float]:
        """Return the best tau for a rank and the share that is left."""
        p, k, total = self.p, rank, self.norm**2
        # Where (p - k) tau = tr W - tr W P for a projection P of rank k.
        eigenvalues = np.sort(self.symmetric)
        low = (self.trace - eigenvalues[p - k :].sum()) / (p - k)
        high = (self.trace - eigenvalues[:k].sum()) / (p - k)

        def g(tau: float) -> float:
            return float(self._squares(tau)[:k].sum()) - k * tau**2

        def phi(tau: float) -> float:
            return total - 2 * tau * self.trace + (p - k) * tau**2 - g(tau)

        def bound(start: float, stop: float) -> tuple[float, float, float, float]:
            """Return the least value of the parabola on an interval, and where."""
            width = stop - start
            slope = (g(stop) - g(start)) / width if width > 0 else 0.0
            tau = min(max((self.trace + slope / 2) / (p - k), start), stop)
            chord = g(start) + slope * (tau - start)
            value = total - 2 * tau * self.trace + (p - k) * tau**2 - chord
            return value, tau, start, stop

        # What other ranks have asked for is known already; 0 is low rank alone.
        marks = sorted({low, high, *(t for t in (0.0, *self.known) if low < t < high)})
        found = min((phi(tau), tau) for tau in marks)
        heap = [bound(*pair) for pair in zip(marks, marks[1:], strict=False)]
        heapq.heapify(heap)
        while heap and heap[0][0] < found[0] - _TOLERANCE * total:
            _, tau, start, stop = heapq.heappop(heap)
            margin = (stop - start) / 10
            tau = min(max(tau, start + margin), stop - margin)
            if not start < tau < stop:  # as narrow as numbers are
                continue
            found = min(found, (phi(tau), tau))
            heapq.heappush(heap, bound(start, tau))
            heapq.heappush(heap, bound(tau, stop))
        return found[1], min(max(found[0] / total, 0.0), 1.0)

    def _squares(self, tau: float) -> Array:
        """Return the squared singular values of W - tau I, descending."""
        if tau not in self.known:
            shifted = self.gram - tau * self.twice
            shifted[range(len(shifted)), range(len(shifted))] += tau**2
            squares = np.append(linalg.eigvalsh(shifted), np.full(self.zeros, tau**2))
            self.known[tau] = np.sort(np.maximum(squares, 0.0))[::-1]
        return self.known[tau]
