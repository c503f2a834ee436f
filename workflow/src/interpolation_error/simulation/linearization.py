r"""The remainder of Lemma 1: how far the attention matrix is from its linearization.

.. math:: \tilde K = K_N + \frac{a_1}{p} (X^T W X - Z^T Z), \qquad
   K_N = f(Z^T Z / \sqrt p) / \sqrt p

(docs/theory.md, section 2).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interpolation_error.model.checks import (
    as_key_and_query,
    as_labels,
    as_tokens,
    as_vector,
)
from interpolation_error.model.hermite import hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get

Array = NDArray[np.float64]

# The largest singular value is the square root of an extreme eigenvalue, whose error is
# the square of the vector's: this is far more than the norm needs.
TOLERANCE = 1e-7


def remainder(
    noise: ArrayLike,
    labels: ArrayLike,
    mu: ArrayLike,
    nonlinearity: str | Nonlinearity,
    w_k: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
) -> tuple[float, float]:
    r"""Return :math:`\|K - \tilde K\|` and :math:`\|K\|` in operator norm.

    The diagonals of :math:`K` and :math:`K_N` are zero.

    Parameters
    ----------
    noise : array_like, shape (dimension, tokens)
        :math:`Z`.
    labels : array_like, shape (tokens,)
        :math:`y`, each +1 or -1.
    mu : array_like, shape (dimension,)
        Signal; tokens are :math:`X = \mu y^T + Z`.
    nonlinearity : str or Nonlinearity
        :math:`f`.
    w_k, w_q : array_like, shape (dimension,), optional
        :math:`w_K` and :math:`w_Q`; without them :math:`W = I_p`.

    Returns
    -------
    remainder, norm : float

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite, or only one of ``w_k`` and
        ``w_q`` is given.

    Examples
    --------
    Nothing is left of a linear function but the low-rank part's diagonal:

    >>> Z = np.random.default_rng(0).standard_normal((50, 30))
    >>> y = np.tile([1.0, -1.0], 15)
    >>> difference, norm = remainder(Z, y, np.full(50, 0.1), "linear")
    >>> difference < 0.05 * norm
    True
    """
    Z = as_tokens("noise", noise)
    p, n = Z.shape
    y = as_labels(labels, n)
    mu = as_vector("mu", mu, p, "noise")
    weights = as_key_and_query(w_k, w_q, p, "noise")
    f = get(nonlinearity)
    a0, a1, _, _ = hermite_coefficients(f)
    inner = Z.T @ Z
    # X^T W X - Z^T Z is of rank three at most: products of y, Z^T mu and X^T w.
    projected = Z.T @ mu
    low_rank = np.outer(y, projected)
    low_rank += low_rank.T
    low_rank += (mu @ mu) * np.outer(y, y)
    symmetric = True
    if weights is not None:
        key, query = weights
        keys = Z.T @ key + (mu @ key) * y
        queries = Z.T @ query + (mu @ query) * y
        low_rank += np.outer(keys, queries)
        symmetric = np.array_equal(keys, queries)

    def attention(products: Array) -> Array:
        K = products / sqrt(p)
        f.overwrite(K)
        K -= a0
        np.fill_diagonal(K, 0)
        K /= sqrt(p)
        return K

    K = attention(inner + low_rank)
    linearized = attention(inner)
    low_rank *= a1 / p
    linearized += low_rank
    norm = operator_norm(K, symmetric=symmetric)
    K -= linearized
    return operator_norm(K, symmetric=symmetric), norm


def operator_norm(matrix: Array, *, symmetric: bool) -> float:
    """Return the largest singular value of a square matrix, by Lanczos iteration.

    Parameters
    ----------
    matrix : ndarray of float64, shape (n, n)
        The matrix.
    symmetric : bool
        Whether it is symmetric, for which half the work does.

    Returns
    -------
    float

    Examples
    --------
    >>> round(operator_norm(np.diag([1.0, -3.0, 2.0, 0.5]), symmetric=True), 9)
    3.0
    """
    if not matrix.any():  # which no iteration starts from
        return 0.0
    # Here, since loading it takes longer than many a job that has no use for it.
    from scipy.sparse.linalg import eigsh, svds

    # A start that is the same every time keeps the bits; cosines favour no direction.
    start = np.cos(np.arange(1.0, len(matrix) + 1))
    if symmetric:
        value = eigsh(
            matrix, k=1, v0=start, tol=TOLERANCE, return_eigenvectors=False, which="LM"
        )
    else:
        value = svds(
            matrix, k=1, v0=start, tol=TOLERANCE, return_singular_vectors=False
        )
    return float(abs(value[0]))
