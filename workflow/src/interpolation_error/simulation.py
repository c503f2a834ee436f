r"""Interpolation error of the ridge probe, computed from tokens.

For features :math:`A \in R^{p \times n}` (the tokens themselves, or the attention
output) and labels :math:`y`, the probe is

.. math:: \beta = (A A^T + n \gamma I_p)^{-1} A y

and its interpolation error :math:`E = \|y - A^T \beta\|^2 / n` (docs/theory.md,
section 1).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from interpolation_error._checks import as_finite, as_labels, as_positive
from interpolation_error.nonlinearity import (
    Nonlinearity,
    diagonal_limit,
    get,
    hermite_coefficients,
)

Array = NDArray[np.float64]

DIAGONALS = ("zero", "keep")

# Up to this many ridge penalties, a Cholesky decomposition for each; above it one
# tridiagonal decomposition for all, after which a penalty costs next to nothing. It
# took as long as 5.4, 5.0, 8.2 and 9.3 Cholesky decompositions at n = 512, 1024, 2048
# and 4096, and an eigendecomposition twice to five times longer.
FEW = 8


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
    return _like(gamma, _probe_error(X, y, penalties))


def attention_error(
    tokens: ArrayLike,
    labels: ArrayLike,
    gamma: ArrayLike,
    nonlinearity: str | Nonlinearity,
    w_k: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
    diagonal: str = "zero",
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
    f = get(nonlinearity)
    keys, queries = _weights(X, w_k, w_q)
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    if diagonal == "keep":
        diagonal_limit(f, len(X))
    A = X @ _attention_matrix(X, f, keys, queries, diagonal)
    return _like(gamma, _probe_error(A, y, penalties))


def peak_memory(tokens: int, dimension: int) -> int:
    """Return the bytes that one call holds at its peak, the tokens given included.

    Parameters
    ----------
    tokens, dimension : int
        Number of tokens n and embedding dimension p.

    Returns
    -------
    int

    Examples
    --------
    >>> peak_memory(tokens=512, dimension=2048) // 2**20
    36
    """
    n, p = tokens, dimension
    return 8 * (3 * n**2 + 3 * n * p + 3 * min(n, p) ** 2)


def _attention_matrix(
    X: Array, f: Nonlinearity, keys: Array | None, queries: Array | None, diagonal: str
) -> Array:
    """Return K, the centred nonlinearity of all scores over the root of p."""
    root = sqrt(len(X))
    scores = X.T @ X
    if keys is not None and queries is not None:
        scores += np.outer(keys, queries)
    scores /= root
    f.overwrite(scores)
    scores -= hermite_coefficients(f).a0
    if diagonal == "zero":
        np.fill_diagonal(scores, 0)
    if not np.all(np.isfinite(scores)):
        raise ValueError(
            f"nonlinearity {f.name!r} must be finite on the scores, got a NaN or an "
            "infinity"
        )
    scores /= root
    return scores


def _probe_error(A: Array, y: Array, gamma: Array) -> Array:
    """Return the interpolation error for each penalty, by the smaller Gram matrix."""
    p, n = A.shape
    # Both ways give the residual y - A^T beta = gamma Q y with no cancellation beyond
    # what its own size brings; E is its mean square.
    if p < n:
        beta = _solve(A @ A.T / n, A @ y / n, gamma)
        residual = y[:, None] - A.T @ beta
    else:
        residual = gamma * _solve(A.T @ A / n, y, gamma)
    error: Array = np.mean(residual**2, axis=0)
    return error


def _solve(H: Array, b: Array, gamma: Array) -> Array:
    """Return the solutions of (H + gamma I) x = b, one column for each penalty."""
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
        shifted = np.array(H, order="F")
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
        np.asfortranarray(H), lower=1, lwork=int(work)
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
    X = as_finite("tokens", tokens)
    if X.ndim != 2:
        raise ValueError(f"tokens must have shape (dimension, tokens), got {X.shape}")
    return X, as_labels(labels, X.shape[1]), as_positive("gamma", gamma).ravel()


def _weights(
    X: Array, w_k: ArrayLike | None, w_q: ArrayLike | None
) -> tuple[Array | None, Array | None]:
    """Return X^T w_K and X^T w_Q, or None for both."""
    if w_k is None and w_q is None:
        return None, None
    if w_k is None or w_q is None:
        given, missing = ("w_q", "w_k") if w_k is None else ("w_k", "w_q")
        raise ValueError(
            f"w_k and w_q must be given together, got {given} without {missing}"
        )
    vectors = []
    for name, value in (("w_k", w_k), ("w_q", w_q)):
        vector = as_finite(name, value)
        if vector.shape != X.shape[:1]:
            raise ValueError(
                f"{name} must have one entry for each row of tokens, shape "
                f"({len(X)},), got {vector.shape}"
            )
        vectors.append(X.T @ vector)
    return vectors[0], vectors[1]


def _like(gamma: ArrayLike, errors: Array) -> float | Array:
    """Return the errors in the shape of gamma, as a float where that is a number."""
    shaped = errors.reshape(np.shape(gamma))
    return float(shaped) if shaped.ndim == 0 else shaped
