r"""Interpolation error of the ridge probe, from features and labels.

For features :math:`A \in R^{p \times n}` (the tokens themselves, or the attention
output) and labels :math:`y`, the probe is

.. math:: \beta = (A A^T + n \gamma I_p)^{-1} A y

and its interpolation error :math:`E = \|y - A^T \beta\|^2 / n` (docs/theory.md,
section 1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import blas, eigvalsh, lapack

from interpolation_error.model.checks import as_labels, as_positive, as_tokens

Array = NDArray[np.float64]

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
    X, y, penalties = checked(tokens, labels, gamma)
    p, n = X.shape
    if p < n:
        return like(gamma, error_by_features(X, y, penalties))
    return like(gamma, error_by_tokens(gram(X.T, 1 / n), y, penalties))


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
    G = gram(A if p < n else A.T, 1 / n)
    eigenvalues: Array = eigvalsh(G, lower=True, overwrite_a=True)
    return np.maximum(eigenvalues, 0.0)


def gram(rows: Array, factor: float) -> Array:
    """Return the lower triangle of the Gram matrix of the rows, times a factor."""
    # The routine takes arrays by columns; others transposed, so that none is copied.
    by_columns = rows.flags.f_contiguous
    gram: Array = blas.dsyrk(
        factor, rows if by_columns else rows.T, trans=not by_columns, lower=1
    )
    return gram


# Both of these give the residual y - A^T beta = gamma Q y with no cancellation beyond
# what its own size brings; E is its mean square.


def error_by_features(A: Array, y: Array, gamma: Array) -> Array:
    """Return E for each penalty by the p by p Gram matrix."""
    n = len(y)
    beta = _solve(gram(A, 1 / n), A @ y / n, gamma)
    error = np.empty(len(gamma))
    for start in range(0, len(gamma), TOGETHER):
        some = slice(start, start + TOGETHER)
        residual = A.T @ beta[:, some]
        residual -= y[:, None]
        error[some] = np.mean(np.square(residual, out=residual), axis=0)
    return error


def error_by_tokens(G: Array, y: Array, gamma: Array) -> Array:
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


def checked(
    tokens: ArrayLike, labels: ArrayLike, gamma: ArrayLike
) -> tuple[Array, Array, Array]:
    """Return tokens, labels and the penalties in one row."""
    X = as_tokens("tokens", tokens)
    return X, as_labels(labels, X.shape[1]), as_positive("gamma", gamma).ravel()


def like(gamma: ArrayLike, errors: Array) -> float | Array:
    """Return the errors in the shape of gamma, as a float where that is a number."""
    shaped = errors.reshape(np.shape(gamma))
    return float(shaped) if shaped.ndim == 0 else shaped
