r"""The study of a pretrained transformer: its definition, its weights, its signals.

A figure of panels and curves sweeps settings of the paper's model. The study instead
takes attention weights :math:`W = W_K^T W_Q` from a file, scales those of every head to
:math:`\|W\|_F = \sqrt p`, so that scores of unit noise have unit variance, and puts
signal-plus-noise tokens through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model import data, identity_fit
from interpolation_error.model.weights import AttentionWeights

Array = NDArray[np.float64]

DIRECTIONS = ("singular", "random", "unseen")
"""Of the signal: W's leading right singular vector, a random direction, and a random
one in the null space of both W and its transpose."""
WEIGHTS = ("real", "fit", "low_rank", "regression")
"""What a sweep compares: a head, its best fit by a multiple of the identity plus rank
one, the identity plus rank one along the head's leading singular vectors, and no
attention at all."""
THEORIES = ("any_weights", "fit", "theorem_1")
"""What a head is held against: the limit with its own weights, the same with their fit,
and Theorem 1 with the fit, as Assumption 1 has it."""
WORDS = ("real", "shuffled")
"""Embeddings of words as they are, and with the entries of each dimension shuffled
among the words of a class, which leaves means and marginals and no correlation."""


@dataclass(frozen=True)
class Model:
    """A transformer's attention weights in a file.

    Parameters
    ----------
    name : str
        For people.
    file : str
        Where the weights are, or will be once they are fetched.
    sha256 : str
        Of the file.
    layout : str
        How it names its tensors, a key of ``LAYOUTS`` in
        :mod:`interpolation_error.model.pretrained`.
    layers, heads, dimension : int
        Its size: layers, heads of each, embedding dimension p.
    """

    name: str
    file: str
    sha256: str
    layout: str
    layers: int
    heads: int
    dimension: int

    def spec(self) -> dict[str, Any]:
        """Return what arrays depend on, in plain JSON types: not name and place."""
        return {"sha256": self.sha256, "layout": self.layout, "heads": self.heads}


@dataclass(frozen=True)
class Heads:
    """Every head at one setting."""

    aspect_ratio: float
    snr: float
    gamma: float


@dataclass(frozen=True)
class Sweeps:
    """One head at several aspect ratios, against the penalty and the signal."""

    aspect_ratios: tuple[float, ...]
    gamma: tuple[float, ...]
    snr: tuple[float, ...]
    replicates: int


@dataclass(frozen=True)
class Words:
    """Real tokens: embeddings of words by a model, put through the model's heads."""

    model: Model
    vocabulary: str
    vocabulary_sha256: str
    words: tuple[tuple[str, int], ...]
    aspect_ratios: tuple[float, ...]
    gamma: float
    replicates: int


@dataclass(frozen=True)
class Study:
    """The definition of the study, checked.

    Parameters
    ----------
    name, title, paper, equation : str
        As of a figure.
    model : Model
        Whose weights.
    nonlinearity, diagonal : str
        f, and what becomes of the diagonal of the attention matrix.
    replicates : int
        Number of draws for every head; sweeps and words have their own.
    heads : Heads
        Every head at one setting.
    sweeps : Sweeps
        One head against penalty and signal, see :func:`representative`.
    words : Words or None
        Real tokens, if they are wanted.
    """

    name: str
    title: str
    paper: str
    equation: str
    model: Model
    nonlinearity: str
    diagonal: str
    replicates: int
    heads: Heads
    sweeps: Sweeps
    words: Words | None


def tokens_at(dimension: int, aspect_ratio: float) -> int:
    """Return the number of tokens n for which p/n is nearest to an aspect ratio."""
    return max(1, round(dimension / aspect_ratio))


class Matrix(NamedTuple):
    r"""Weights by their factors, :math:`W = W_K^T W_Q`."""

    query: Array
    key: Array

    @property
    def whole(self) -> Array:
        """W, p by p."""
        return np.asarray(self.key.T @ self.query)


def scaled(weights: AttentionWeights, layer: int, head: int) -> Matrix:
    r"""Return the factors of a head, scaled to :math:`\|W\|_F = \sqrt p`.

    Parameters
    ----------
    weights : AttentionWeights
        Of a model.
    layer, head : int
        Counted from 0.

    Returns
    -------
    Matrix

    Examples
    --------
    >>> draw = np.random.default_rng(0).standard_normal((2, 1, 1, 3, 8))
    >>> matrix = scaled(AttentionWeights(*draw), 0, 0)
    >>> round(float(np.linalg.norm(matrix.whole)) ** 2, 12)
    8.0
    """
    Q, K = weights.query[layer, head], weights.key[layer, head]
    # The norm of K^T Q by its small factors.
    squared = float(np.sum((K @ K.T) * (Q @ Q.T)))
    p = Q.shape[1]
    return Matrix(Q * sqrt(sqrt(p / squared)), K * sqrt(sqrt(p / squared)))


def leading(matrix: Matrix) -> tuple[Array, Array]:
    """Return W's leading left and right singular vectors, of a definite sign.

    Examples
    --------
    >>> left, right = leading(Matrix(np.diag([3.0, 1.0]), np.eye(2)))
    >>> left, right
    (array([1., 0.]), array([1., 0.]))
    """
    # Of K^T Q through the small core of its factors.
    basis_k, r_k = np.linalg.qr(matrix.key.T)
    basis_q, r_q = np.linalg.qr(matrix.query.T)
    U, _, V = np.linalg.svd(r_k @ r_q.T)
    left, right = basis_k @ U[:, 0], basis_q @ V[0]
    sign = np.sign(right[np.argmax(np.abs(right))])
    return sign * left + 0.0, sign * right + 0.0


def signal_directions(matrix: Matrix, seed: int, replicate: int) -> Array:
    """Return the unit vectors along which the signal stands in one draw.

    Parameters
    ----------
    matrix : Matrix
        A head.
    seed, replicate : int
        Root seed and number of the draw.

    Returns
    -------
    ndarray of float64, shape (len(DIRECTIONS), p)

    Raises
    ------
    ValueError
        If the head sees every direction.
    """
    p = matrix.query.shape[1]
    random = data.directions(seed, replicate, p, count=1)[0]
    basis, _ = np.linalg.qr(np.concatenate([matrix.query, matrix.key]).T)
    if basis.shape[1] >= p:
        raise ValueError(
            f"a head of {len(matrix.query)} rows sees every direction of an embedding "
            f"dimension of {p}: a head must have fewer than half of that"
        )
    unseen = random - basis @ (basis.T @ random)
    unseen -= basis @ (basis.T @ unseen)  # again, for the last digits
    return np.stack([leading(matrix)[1], random, unseen / np.linalg.norm(unseen)])


def representative(left: Array) -> tuple[int, int]:
    r"""Return layer and head of the median share that a fit of rank one leaves.

    Parameters
    ----------
    left : ndarray of float64, shape (layers, heads)
        As :func:`interpolation_error.model.identity_fit.describe` has it.

    Returns
    -------
    tuple of int

    Examples
    --------
    >>> representative(np.array([[0.9, 0.5], [0.7, 0.8]]))
    (1, 0)
    """
    order = np.argsort(left, axis=None, kind="stable")
    layer, head = np.unravel_index(order[(order.size - 1) // 2], left.shape)
    return int(layer), int(head)


def median_head(weights: AttentionWeights) -> tuple[int, int]:
    """Return layer and head of the :func:`representative` head of a model."""
    description = identity_fit.describe(weights.query, weights.key, ranks=[1])
    return representative(description.left[..., 0])


def variants(matrix: Matrix) -> Mapping[str, Matrix]:
    r"""Return the weights that a sweep compares, all but regression.

    Parameters
    ----------
    matrix : Matrix
        A head.

    Returns
    -------
    dict of str to Matrix
        ``real``; ``fit``, the best :math:`\tau I + L` of rank one, scaled to
        :math:`\|\cdot\|_F = \sqrt p` as the head is; ``low_rank``,
        :math:`I + w_K w_Q^T` along the head's leading singular vectors, of norm 1.
    """
    p = matrix.query.shape[1]
    fitted = identity_fit.fit(matrix.whole, rank=1).matrix
    left, right = leading(matrix)
    identity = np.eye(p)
    return {
        "real": matrix,
        "fit": Matrix(fitted * sqrt(p) / float(np.linalg.norm(fitted)), identity),
        "low_rank": Matrix(identity + np.outer(left, right), identity),
    }
