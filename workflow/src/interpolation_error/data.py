"""Signal-plus-noise tokens, their labels, and the vectors of attention weights."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interpolation_error._checks import as_finite, as_labels, as_non_negative, as_whole

Array = NDArray[np.float64]

# First part of every spawn key: what is drawn.
NOISE, DIRECTIONS = 0, 1


def noise(seed: int, replicate: int, dimension: int, tokens: int) -> Array:
    r"""Return one draw of the noise :math:`Z`, with independent N(0, 1) entries.

    Every row has a seed of its own, so that a draw with fewer tokens or a smaller
    embedding dimension is the leading block of a larger one.

    Parameters
    ----------
    seed : int
        Root seed, not negative.
    replicate : int
        Number of the draw, not negative.
    dimension : int
        Embedding dimension p, positive.
    tokens : int
        Number of tokens n, positive.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        If an argument is not a whole number in its range.

    Examples
    --------
    >>> large = noise(1, 0, dimension=8, tokens=10)
    >>> bool(np.all(noise(1, 0, dimension=3, tokens=4) == large[:3, :4]))
    True
    """
    seed, replicate = as_whole("seed", seed), as_whole("replicate", replicate)
    dimension = as_whole("dimension", dimension, least=1)
    tokens = as_whole("tokens", tokens, least=1)
    draw = np.empty((dimension, tokens))
    for row in range(dimension):
        _generator(seed, NOISE, replicate, row).standard_normal(out=draw[row])
    return draw


def alternating_labels(tokens: int) -> Array:
    r"""Return labels :math:`y = (+1, -1, +1, \dots)`.

    Parameters
    ----------
    tokens : int
        Number of tokens n, positive.

    Returns
    -------
    ndarray of float64, shape (tokens,)

    Raises
    ------
    ValueError
        If ``tokens`` is not a positive whole number.

    Examples
    --------
    >>> alternating_labels(3)
    array([ 1., -1.,  1.])
    """
    labels = np.ones(as_whole("tokens", tokens, least=1))
    labels[1::2] = -1
    return labels


def directions(seed: int, replicate: int, dimension: int) -> Array:
    r"""Return three orthonormal random directions: of the signal, the key, the query.

    Dense Gaussian vectors, orthonormalized in this order (Gram-Schmidt) within the
    dimension asked for, so that every cosine built from them is exact. The first is
    the normalized prefix of the same stream for every dimension.

    Parameters
    ----------
    seed : int
        Root seed, not negative.
    replicate : int
        Number of the draw, not negative.
    dimension : int
        Embedding dimension p, at least 3.

    Returns
    -------
    ndarray of float64, shape (3, dimension)

    Raises
    ------
    ValueError
        If an argument is not a whole number in its range.

    Examples
    --------
    >>> d = directions(1, 0, dimension=64)
    >>> bool(np.allclose(d @ d.T, np.eye(3), atol=1e-15))
    True
    """
    seed, replicate = as_whole("seed", seed), as_whole("replicate", replicate)
    dimension = as_whole("dimension", dimension, least=3)
    gaussian = [
        _generator(seed, DIRECTIONS, replicate, row).standard_normal(dimension)
        for row in range(3)
    ]
    # Gram-Schmidt is the QR decomposition whose R has a positive diagonal.
    Q, R = np.linalg.qr(np.column_stack(gaussian))
    return np.ascontiguousarray((Q * np.sign(np.diag(R))).T)


def signal_plus_noise(noise: ArrayLike, labels: ArrayLike, mu: ArrayLike) -> Array:
    r"""Return tokens :math:`X = \mu y^T + Z` (docs/theory.md, section 1).

    Parameters
    ----------
    noise : array_like, shape (dimension, tokens)
        :math:`Z`.
    labels : array_like, shape (tokens,)
        :math:`y`, each +1 or -1.
    mu : array_like, shape (dimension,)
        Signal; its squared norm is the signal-to-noise ratio.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        If shapes do not match, a value is not finite or a label is not +1 or -1.

    Examples
    --------
    >>> signal_plus_noise(np.zeros((2, 3)), [1, -1, 1], [0.5, 2.0])
    array([[ 0.5, -0.5,  0.5],
           [ 2. , -2. ,  2. ]])
    """
    Z = as_finite("noise", noise)
    if Z.ndim != 2:
        raise ValueError(f"noise must have shape (dimension, tokens), got {Z.shape}")
    p, n = Z.shape
    y = as_labels(labels, n)
    mu = as_finite("mu", mu)
    if mu.shape != (p,):
        raise ValueError(
            f"mu must have one entry for each row of noise, shape ({p},), "
            f"got {mu.shape}"
        )
    X = np.outer(mu, y)
    X += Z
    return X


def aligned_weights(
    direction_mu: ArrayLike, direction_other: ArrayLike, norm: float, alignment: float
) -> Array:
    r"""Return a weight vector of given norm and alignment with the signal.

    .. math:: w = \|w\| \left(\cos\theta \, \hat\mu + \sin\theta \, \hat d \right),

    parallel to the signal for an alignment :math:`\cos\theta` of 1, orthogonal to it
    for 0 and opposed to it for -1.

    Parameters
    ----------
    direction_mu : array_like, shape (dimension,)
        Unit vector :math:`\hat\mu` of the signal.
    direction_other : array_like, shape (dimension,)
        Unit vector :math:`\hat d` orthogonal to it.
    norm : float
        :math:`\|w\|`, not negative.
    alignment : float
        Cosine of the angle with the signal, from -1 to 1.

    Returns
    -------
    ndarray of float64, shape (dimension,)

    Raises
    ------
    ValueError
        If the directions are not orthonormal vectors of one dimension, or norm or
        alignment is out of range.

    Examples
    --------
    >>> aligned_weights([1.0, 0.0], [0.0, 1.0], norm=2.0, alignment=0.6)
    array([1.2, 1.6])
    """
    mu = as_finite("direction_mu", direction_mu)
    other = as_finite("direction_other", direction_other)
    if mu.ndim != 1 or mu.shape != other.shape:
        raise ValueError(
            "direction_mu and direction_other must be vectors of one dimension, "
            f"got shapes {mu.shape} and {other.shape}"
        )
    norm = _scalar("norm", as_non_negative("norm", norm))
    cosine = _scalar("alignment", as_finite("alignment", alignment))
    if abs(cosine) > 1:
        raise ValueError(f"alignment is a cosine, from -1 to 1, got {cosine!r}")
    products = np.array([mu @ mu, other @ other, mu @ other])
    if not np.allclose(products, [1, 1, 0], rtol=0, atol=1e-9):
        raise ValueError(
            "direction_mu and direction_other must be unit vectors orthogonal to each "
            f"other, got squared norms {products[0]:.6g} and {products[1]:.6g} and "
            f"inner product {products[2]:.6g}"
        )
    sine = sqrt((1 - cosine) * (1 + cosine))
    weights: Array = norm * (cosine * mu + sine * other)
    return weights


def _generator(seed: int, what: int, replicate: int, row: int) -> np.random.Generator:
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(what, replicate, row))
    )


def _scalar(name: str, value: Array) -> float:
    if value.ndim:
        raise ValueError(f"{name} must be one number, got shape {value.shape}")
    return float(value)
