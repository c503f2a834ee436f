r"""Interpolation error of the ridge probe, computed from tokens.

For features :math:`A \in R^{p \times n}` (the tokens themselves, or the attention
output) and labels :math:`y`, the probe is

.. math:: \beta = (A A^T + n \gamma I_p)^{-1} A y

and its interpolation error :math:`E = \|y - A^T \beta\|^2 / n` (docs/theory.md,
section 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, eigvalsh, lapack

from interpolation_error._checks import (
    as_key_and_query,
    as_labels,
    as_positive,
    as_tokens,
    as_whole,
)
from interpolation_error.nonlinearity import (
    Nonlinearity,
    diagonal_limit,
    get,
    hermite_coefficients,
)

Array = NDArray[np.float64]

DIAGONALS = ("zero", "keep")

# Bytes of a block of scores. Tokens are taken in blocks of one size, as large as this
# allows, so the order of summation, and with it every bit, depends on n alone. At
# p = 128, 512 and 2048 the time differed by less than 5 % between 200 and 512 tokens.
BLOCK_BYTES = 2**19

# Up to this many ridge penalties, a Cholesky decomposition for each; above it one
# tridiagonal decomposition for all, after which a penalty costs next to nothing. That
# takes as long as 4.6, 5.2, 7.2 and 9 to 13 Cholesky decompositions of size 512, 1024,
# 2048 and 4096; an eigendecomposition takes 2 to 4 times longer still.
FEW = 8

# Penalties whose residuals are held at once.
TOGETHER = 32


def linear_regression_error(
    tokens: ArrayLike, labels: ArrayLike, gamma: ArrayLike
) -> float | Array:
    r"""Return the interpolation error of linear regression, :math:`E_{LR}`.

    .. math:: E_{LR} = \frac1n \|y - X^T \beta\|^2 = \frac{\gamma^2}n y^T Q^2 y, \quad
       Q = (X^T X / n + \gamma I_n)^{-1},

    whose limit is Proposition 2 (docs/theory.md, section 3).

    Parameters
    ----------
    tokens : array_like, shape (dimension, tokens)
        :math:`X`.
    labels : array_like, shape (tokens,)
        :math:`y`, each +1 or -1.
    gamma : float or array_like
        Ridge penalty, positive; many values cost little more than a few.

    Returns
    -------
    float or ndarray of float64, of the shape of ``gamma``
        From 0 to 1, with a relative error of the order of
        :math:`\epsilon \lambda_\max / \gamma`, where :math:`\epsilon` is 2e-16 and
        :math:`\lambda_\max` the largest eigenvalue of :math:`X^T X / n`.

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite, a label is not +1 or -1, or a
        penalty is not positive or is below the rounding error of the Gram matrix.

    Examples
    --------
    >>> linear_regression_error(np.eye(2), [1, -1], gamma=0.5)
    0.25
    """
    X, y, penalties = _checked(tokens, labels, gamma)
    p, n = X.shape
    if p < n:
        return _like(gamma, _error_by_features(X, y, penalties))
    return _like(gamma, _error_by_tokens(_gram(X.T, 1 / n), y, penalties))


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
    X, y, penalties = _checked(tokens, labels, gamma)
    p, n = X.shape
    layer = _layer(X, nonlinearity, w_k, w_q, diagonal, centred)
    if p < n:
        return _like(gamma, _error_by_features(_output(X, layer), y, penalties))
    return _like(gamma, _error_by_tokens(_attention_gram(X, layer), y, penalties))


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


def gram_eigenvalues(features: ArrayLike) -> Array:
    r"""Return the eigenvalues of :math:`A^T A / n` that are not zero by its rank.

    Parameters
    ----------
    features : array_like, shape (dimension, tokens)
        :math:`A`.

    Returns
    -------
    ndarray of float64, shape (min(dimension, tokens),)
        Ascending and not negative; the other n - p for p < n are zero.

    Raises
    ------
    ValueError
        If a value is not finite.

    Examples
    --------
    >>> gram_eigenvalues([[2.0, 0.0], [0.0, 4.0]])
    array([2., 8.])
    """
    A = as_tokens("features", features)
    p, n = A.shape
    gram = _gram(A if p < n else A.T, 1 / n)
    eigenvalues: Array = eigvalsh(gram, lower=True, overwrite_a=True)
    return np.maximum(eigenvalues, 0.0)


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
    return _gram(M.T, 1 / (n * p))


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


def _gram(rows: Array, factor: float) -> Array:
    """Return the lower triangle of the Gram matrix of the rows, times a factor."""
    # The routine takes arrays by columns; others transposed, so that none is copied.
    by_columns = rows.flags.f_contiguous
    gram: Array = blas.dsyrk(
        factor, rows if by_columns else rows.T, trans=not by_columns, lower=1
    )
    return gram


# Both of these give the residual y - A^T beta = gamma Q y with no cancellation beyond
# what its own size brings; E is its mean square.


def _error_by_features(A: Array, y: Array, gamma: Array) -> Array:
    """Return E for each penalty by the p by p Gram matrix."""
    n = len(y)
    beta = _solve(_gram(A, 1 / n), A @ y / n, gamma)
    error = np.empty(len(gamma))
    for start in range(0, len(gamma), TOGETHER):
        some = slice(start, start + TOGETHER)
        residual = A.T @ beta[:, some]
        residual -= y[:, None]
        error[some] = np.mean(np.square(residual, out=residual), axis=0)
    return error


def _error_by_tokens(G: Array, y: Array, gamma: Array) -> Array:
    """Return E for each penalty by the n by n Gram matrix, which is overwritten."""
    residual = gamma * _solve(G, y, gamma)
    error: Array = np.mean(residual**2, axis=0)
    return error


def _solve(H: Array, b: Array, gamma: Array) -> Array:
    """Return the solutions of (H + gamma I) x = b, one column for each penalty.

    Of H the lower triangle is read, and all of it may be overwritten.
    """
    lost = gamma[gamma < np.finfo(np.float64).eps * H.diagonal().max()]
    if lost.size:
        raise _too_small(lost[0])
    if len(gamma) <= FEW or len(b) == 1:  # a single number is tridiagonal already
        return _solve_by_cholesky(H, b, gamma)
    return _solve_by_tridiagonal(H, b, gamma)


def _solve_by_cholesky(H: Array, b: Array, gamma: Array) -> Array:
    """Decompose H + gamma I anew for each penalty."""
    solutions = np.empty((len(b), len(gamma)))
    for column, penalty in enumerate(gamma):
        shifted = H.copy(order="F")
        shifted.flat[:: len(b) + 1] += penalty
        _, x, failed = lapack.dposv(shifted, b, lower=1, overwrite_a=1)
        solutions[:, column] = _sure(x, failed, penalty)
    return solutions


def _solve_by_tridiagonal(H: Array, b: Array, gamma: Array) -> Array:
    """Reduce H to P T P^T once, T tridiagonal, and solve with T + gamma I."""
    size = len(b)
    work, _ = lapack.dsytrd_lwork(size, lower=1)
    # Below its first subdiagonal, ``reflectors`` holds P, which leaves the first
    # coordinate alone.
    reflectors, main, off, tau, _ = lapack.dsytrd(
        H, lower=1, lwork=int(work), overwrite_a=1
    )
    reflectors = np.asfortranarray(reflectors[1:, :-1])

    def rotate(columns: Array, transpose: bytes) -> Array:
        lower = np.asfortranarray(columns[1:])
        room = 64 * size
        lower, _, _ = lapack.dormqr(b"L", transpose, reflectors, tau, lower, room)
        return np.concatenate([columns[:1], lower])

    rotated = rotate(b[:, None], b"T")
    solutions = np.empty((size, len(gamma)))
    for column, penalty in enumerate(gamma):
        _, _, x, failed = lapack.dptsv(main + penalty, off, rotated)
        solutions[:, column] = _sure(x, failed, penalty).ravel()
    return rotate(solutions, b"N")


def _sure(x: Array, failed: int, penalty: float) -> Array:
    if failed or not np.all(np.isfinite(x)):
        raise _too_small(penalty)
    return x


def _too_small(penalty: float) -> ValueError:
    return ValueError(
        "gamma must be larger than the rounding error of the Gram matrix, "
        f"got {float(penalty)!r}"
    )


def _checked(
    tokens: ArrayLike, labels: ArrayLike, gamma: ArrayLike
) -> tuple[Array, Array, Array]:
    """Return tokens, labels and the penalties in one row."""
    X = as_tokens("tokens", tokens)
    return X, as_labels(labels, X.shape[1]), as_positive("gamma", gamma).ravel()


def _like(gamma: ArrayLike, errors: Array) -> float | Array:
    """Return the errors in the shape of gamma, as a float where that is a number."""
    shaped = errors.reshape(np.shape(gamma))
    return float(shaped) if shaped.ndim == 0 else shaped
