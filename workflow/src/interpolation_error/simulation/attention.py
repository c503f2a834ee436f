"""Interpolation error of nonlinear attention, computed from tokens.

Scores are taken in blocks, and the attention matrix is never held where there are
fewer dimensions than tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, lapack

from interpolation_error.model.checks import as_key_and_query, as_tokens, as_whole
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.simulation.probe import (
    TOGETHER,
    checked,
    error_by_features,
    error_by_tokens,
    gram,
    like,
)

Array = NDArray[np.float64]

DIAGONALS = ("zero", "keep")

# Bytes of a block of scores. Tokens are taken in blocks of one size, as large as this
# allows, so the order of summation, and with it every bit, depends on n alone. At
# p = 128, 512 and 2048 the time differed by less than 5 % between 200 and 512 tokens.
BLOCK_BYTES = 2**19


def attention_error(
    tokens: ArrayLike,
    labels: ArrayLike,
    gamma: ArrayLike,
    nonlinearity: str | Nonlinearity,
    w_k: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
    diagonal: str = "zero",
    centred: bool = True,
) -> float | Array:
    r"""Return the interpolation error of nonlinear attention.

    .. math:: E = \frac1n \|y - A^T \beta\|^2 = \frac{\gamma^2}n y^T Q^2 y, \quad
       A = X K, \quad K = f(X^T W X / \sqrt p) / \sqrt p, \quad W = I_p + w_K w_Q^T,

    with :math:`f` centred by its mean :math:`a_0` under the normal law; its limit is
    Theorem 1 (docs/theory.md, sections 1 and 4).

    Parameters
    ----------
    tokens : array_like, shape (dimension, tokens)
        :math:`X`.
    labels : array_like, shape (tokens,)
        :math:`y`, each +1 or -1.
    gamma : float or array_like
        Ridge penalty, positive; many values cost little more than a few.
    nonlinearity : str or Nonlinearity
        :math:`f`, by its registered name or as an object.
    w_k, w_q : array_like, shape (dimension,), optional
        :math:`w_K` and :math:`w_Q`; without them :math:`W = I_p`.
    diagonal : {"zero", "keep"}, optional
        Whether the diagonal of :math:`K` is set to zero or kept.
    centred : bool, optional
        Whether :math:`a_0` is subtracted, as the model has it.

    Returns
    -------
    float or ndarray of float64, of the shape of ``gamma``
        From 0 to 1, as accurate as :func:`linear_regression_error`.

    Raises
    ------
    ValueError
        As :func:`linear_regression_error`, and if the nonlinearity is unknown or not
        finite on the scores, only one of ``w_k`` and ``w_q`` is given, ``diagonal`` is
        unknown, or a diagonal is kept that grows without limit with the dimension.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> y = np.tile([1.0, -1.0], 15)
    >>> error = attention_error(X, y, [0.01, 1.0, 100.0], "tanh")
    >>> error.shape, bool(np.all(np.diff(error) > 0))
    ((3,), True)
    """
    X, y, penalties = checked(tokens, labels, gamma)
    p, n = X.shape
    layer = _layer(X, nonlinearity, w_k, w_q, diagonal, centred)
    if p < n:
        return like(gamma, error_by_features(_output(X, layer), y, penalties))
    return like(gamma, error_by_tokens(_attention_gram(X, layer), y, penalties))


def attention_output(
    tokens: ArrayLike,
    nonlinearity: str | Nonlinearity,
    w_k: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
    diagonal: str = "zero",
    centred: bool = True,
) -> Array:
    r"""Return the attention output :math:`A = X K` (docs/theory.md, section 1).

    Parameters
    ----------
    tokens : array_like, shape (dimension, tokens)
        :math:`X`.
    nonlinearity, w_k, w_q, diagonal, centred
        As :func:`attention_error` takes them.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        As :func:`attention_error`.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((3, 5))
    >>> A = attention_output(X, "linear")
    >>> K = X.T @ X / 3
    >>> np.allclose(A, X @ (K - np.diag(np.diag(K))))
    True
    """
    X = as_tokens("tokens", tokens)
    return _output(X, _layer(X, nonlinearity, w_k, w_q, diagonal, centred))


class _Layer(NamedTuple):
    """An attention layer on given tokens: f, the products of its weights, its ways."""

    f: Nonlinearity
    weights: tuple[Array, Array] | None
    diagonal: str
    mean: float


def _layer(
    X: Array,
    nonlinearity: str | Nonlinearity,
    w_k: ArrayLike | None,
    w_q: ArrayLike | None,
    diagonal: str,
    centred: bool,
) -> _Layer:
    f = get(nonlinearity)
    vectors = as_key_and_query(w_k, w_q, len(X))
    weights = None if vectors is None else (X.T @ vectors[0], X.T @ vectors[1])
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    if diagonal == "keep":
        diagonal_limit(f, len(X))
    mean = hermite_coefficients(f).a0 if centred else 0.0
    return _Layer(f, weights, diagonal, mean)


def peak_memory(tokens: int, dimension: int) -> int:
    """Return the bytes that one call holds at its peak, the tokens given included.

    For fewer dimensions than tokens that is of the order of n p, not of n^2.

    Parameters
    ----------
    tokens, dimension : int
        Number of tokens n and embedding dimension p, both positive.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If an argument is not a positive whole number.

    Examples
    --------
    >>> round(peak_memory(tokens=65536, dimension=512) / 2**30, 2)
    0.84
    """
    n = as_whole("tokens", tokens, least=1)
    p = as_whole("dimension", dimension, least=1)
    rows = 3 * BLOCK_BYTES // 8 + (3 * TOGETHER + 16) * max(n, p)
    if p < n:
        # Tokens, their copy by columns and the attention output, with a byte of the
        # finite check; then the Gram matrix and its decomposition.
        return 8 * (n * p + max(2 * n * p + n * p // 8, n * p + 3 * p**2) + rows)
    # Tokens, then scores and attention matrix, or Gram matrix and decomposition.
    return 8 * (n * p + 3 * n**2 + rows)


def _output(X: Array, layer: _Layer) -> Array:
    """Return A = X K without ever holding K."""
    p, n = X.shape
    root = sqrt(p)
    # By columns, so that the tokens of a block lie together and BLAS makes no copies.
    X = np.asfortranarray(X)
    A = np.zeros((p, n), order="F")
    room = np.empty(_block_size(n) ** 2)

    def scores(rows: slice, columns: slice) -> Array:
        left, right = X[:, rows], X[:, columns]
        shape = (left.shape[1], right.shape[1])
        block = room[: shape[0] * shape[1]].reshape(shape, order="F")
        blas.dgemm(1 / root, left, right, c=block, trans_a=1, overwrite_c=1)
        return block

    for rows, columns, K in _attention_blocks(scores, p, n, layer):
        # What is mirrored is stored by rows.
        stored, mirrored = (K, 0) if K.flags.f_contiguous else (K.T, 1)
        blas.dgemm(
            *(1 / root, X[:, rows], stored, 1, A[:, columns]),
            trans_b=mirrored,
            overwrite_c=1,
        )
    _sure_finite(A, layer)
    return A


def _attention_gram(X: Array, layer: _Layer) -> Array:
    """Return the lower triangle of A^T A / n, for p >= n.

    With X^T X = L L^T it is that of M^T M for M = L^T K, which has n rows and not p.
    """
    p, n = X.shape
    B = (X.T @ X).T
    K = _attention_matrix(B, p, layer)
    L, failed = lapack.dpotrf(B, lower=1, clean=0, overwrite_a=1)
    # It fails for tokens that depend on each other linearly.
    M = X @ K if failed else blas.dtrmm(1.0, L, K, lower=1, trans_a=1, overwrite_b=1)
    del B, L, K
    return gram(M.T, 1 / (n * p))


def _attention_matrix(B: Array, p: int, layer: _Layer) -> Array:
    """Return K, times the root of p, from B = X^T X."""
    n = len(B)
    K = np.empty((n, n), order="F")

    def scores(rows: slice, columns: slice) -> Array:
        return np.asfortranarray(B[rows, columns]) / sqrt(p)

    for rows, columns, block in _attention_blocks(scores, p, n, layer):
        K[rows, columns] = block
    _sure_finite(K, layer)
    return K


def _attention_blocks(
    scores: Callable[[slice, slice], Array],
    p: int,
    n: int,
    layer: _Layer,
) -> Iterator[tuple[slice, slice, Array]]:
    """Yield rows, columns and that block of K, times the root of p.

    ``scores(rows, columns)`` gives that block of X^T X over the root of p, by columns,
    in an array that may be overwritten. It is asked for the lower triangle alone.
    """
    if layer.weights is not None:
        keys, queries = layer.weights
        symmetric = np.array_equal(keys, queries)
        keys = keys / sqrt(p)
    size = _block_size(n)
    blocks = [slice(start, min(start + size, n)) for start in range(0, n, size)]
    for number, rows in enumerate(blocks):
        for columns in blocks[: number + 1]:
            S = T = scores(rows, columns)
            if layer.weights is not None:
                if not symmetric and rows != columns:
                    # The product is shared, its share of rank one is not.
                    T = S.copy(order="F")
                    T = blas.dger(1.0, queries[rows], keys[columns], a=T, overwrite_a=1)
                S = blas.dger(1.0, keys[rows], queries[columns], a=S, overwrite_a=1)
            for block in (S,) if T is S else (S, T):
                layer.f.overwrite(block)
                if layer.mean:
                    block -= layer.mean
            if rows == columns and layer.diagonal == "zero":
                np.fill_diagonal(S, 0)
            yield rows, columns, S
            if rows != columns:
                yield columns, rows, T.T


def _block_size(n: int) -> int:
    """Return the number of tokens in a block: all alike but for the last."""
    most = int(sqrt(BLOCK_BYTES / 8))
    return ceil(n / ceil(n / most))


def _sure_finite(K: Array, layer: _Layer) -> None:
    if not np.all(np.isfinite(K)):
        raise ValueError(
            f"nonlinearity {layer.f.name!r} must be finite on the scores, "
            "got a NaN or an infinity"
        )
