r"""Interpolation error of attention with any weights, computed from tokens.

:mod:`interpolation_error.simulation.attention` takes weights of the form
:math:`W = I + w_K w_Q^T` and is fast for them. Here W is that of a head of a
transformer, or any other matrix, and the attention matrix is held as it is.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from interpolation_error.model.checks import Array, as_finite, as_tokens
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get
from interpolation_error.simulation.attention import DIAGONALS
from interpolation_error.simulation.probe import linear_regression_error


def attention_error_general_weights(
    tokens: ArrayLike,
    labels: ArrayLike,
    gamma: ArrayLike,
    nonlinearity: str | Nonlinearity,
    query: ArrayLike,
    key: ArrayLike,
    diagonal: str = "zero",
) -> float | Array:
    r"""Return the interpolation error of attention with :math:`W = W_K^T W_Q`.

    .. math:: E = \frac1n \|y - A^T \beta\|^2, \quad A = X K, \quad
        K = f(X^T W_K^T W_Q X / \sqrt p) / \sqrt p,

    with the ridge probe :math:`\beta` of docs/theory.md, section 1, and f less its mean
    under the normal law, as scores of unit variance have it: scale W to
    :math:`\|W\|_F = \sqrt p`. Its limit is in docs/theory.md, section 9.

    Parameters
    ----------
    tokens : array_like, shape (dimension, tokens)
        :math:`X`.
    labels : array_like, shape (tokens,)
        :math:`y`, each +1 or -1.
    gamma : float or array_like
        Ridge penalty, positive.
    nonlinearity : str or Nonlinearity
        f, by its registered name or as an object.
    query, key : array_like, shape (rows, dimension)
        :math:`W_Q` and :math:`W_K`. A whole W is ``query=W, key=np.eye(p)``.
    diagonal : {"zero", "keep"}, optional
        Whether the diagonal of :math:`K` is set to zero or kept.

    Returns
    -------
    float or ndarray of float64, of the shape of ``gamma``
        From 0 to 1.

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite or out of range, or f is unknown
        or not finite on the scores.

    Examples
    --------
    With W = I it is plain attention:

    >>> from interpolation_error.simulation import attention_error
    >>> X = np.random.default_rng(0).standard_normal((6, 10))
    >>> y, identity = np.tile([1.0, -1.0], 5), np.eye(6)
    >>> error = attention_error_general_weights(X, y, 0.1, "tanh", identity, identity)
    >>> bool(np.isclose(error, attention_error(X, y, 0.1, "tanh")))
    True
    """
    X = as_tokens("tokens", tokens)
    Q, K = as_finite("query", query), as_finite("key", key)
    if Q.ndim != 2 or Q.shape != K.shape or Q.shape[1] != len(X):
        raise ValueError(
            f"query and key must have one shape (rows, {len(X)}), got {Q.shape} and "
            f"{K.shape}"
        )
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    f, p = get(nonlinearity), len(X)
    if diagonal == "keep":
        diagonal_limit(f, p)  # refuses what grows without limit
    scores = (K @ X / sqrt(p)).T @ (Q @ X)
    attention = f(scores) - hermite_coefficients(f).a0
    if not np.all(np.isfinite(attention)):
        raise ValueError(
            f"nonlinearity {f.name!r} must be finite on the scores, got a NaN or an "
            "infinity"
        )
    if diagonal == "zero":
        np.fill_diagonal(attention, 0.0)
    return linear_regression_error(X @ attention / sqrt(p), labels, gamma)
