r"""Attention with a softmax over keys, scaled like its entry-wise form.

With scores :math:`S = X^T W X / (T \sqrt p)`, column j of the softmax is
:math:`e^{S_{ij}} / \sum_l e^{S_{lj}}`. Its sum is near :math:`n a_0` for
:math:`a_0 = E e^{\xi/T} = e^{1/(2 T^2)}`, so

.. math:: K = a_0 (n \, \mathrm{softmax}(S) - 1) / \sqrt p

has the scale and the centring of :math:`(e^S - a_0) / \sqrt p`, which entry-wise
attention with the exponential has (docs/theory.md, section 1).
"""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from interpolation_error.model.checks import as_key_and_query, as_positive, as_tokens

Array = NDArray[np.float64]


def softmax_output(
    tokens: ArrayLike,
    w_k: ArrayLike | None = None,
    w_q: ArrayLike | None = None,
    *,
    masked: bool = True,
    temperature: float = 1.0,
) -> Array:
    r"""Return the attention output :math:`A = X K` for a softmax over keys.

    Parameters
    ----------
    tokens : array_like, shape (dimension, tokens)
        :math:`X`.
    w_k, w_q : array_like, shape (dimension,), optional
        :math:`w_K` and :math:`w_Q`; without them :math:`W = I_p`.
    masked : bool, optional
        Whether a token's score with itself is masked before normalizing and its entry
        of :math:`K` is zero. Unmasked, that score is about :math:`\sqrt p`, and the
        softmax tends to the identity.
    temperature : float, optional
        :math:`T`, positive.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite, or the temperature is not
        positive.

    Examples
    --------
    Without the scale and the centring, the columns of a softmax sum to one:

    >>> X = np.random.default_rng(0).standard_normal((8, 40))
    >>> A = softmax_output(X)
    >>> A.shape
    (8, 40)
    """
    X = as_tokens("tokens", tokens)
    T = float(as_positive("temperature", temperature))
    p, n = X.shape
    vectors = as_key_and_query(w_k, w_q, p)
    scores = X.T @ X
    if vectors is not None:
        key, query = vectors
        scores += np.outer(X.T @ key, query @ X)
    scores /= T * sqrt(p)
    if masked:
        np.fill_diagonal(scores, -np.inf)
    K = special.softmax(scores, axis=0)
    K *= n
    K -= 1
    K *= exp(1 / (2 * T**2)) / sqrt(p)
    if masked:
        np.fill_diagonal(K, 0)
    output: Array = X @ K
    return output
