"""Signal-plus-noise tokens, their labels, and the vectors of attention weights."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interpolation_error.model.checks import (
    as_finite,
    as_labels,
    as_non_negative,
    as_tokens,
    as_vector,
    as_whole,
)

Array = NDArray[np.float64]

# First part of every spawn key: what is drawn.
NOISE, DIRECTIONS, LABELS, SUBSETS = 0, 1, 2, 3


def noise(
    seed: int,
    replicate: int,
    dimension: int,
    tokens: int,
    law: str = "gaussian",
    degrees_of_freedom: float | None = None,
    correlation: float = 0.0,
) -> Array:
    r"""Return one draw of the noise :math:`Z`, of zero mean and unit variance.

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
    law : {"gaussian", "rademacher", "uniform", "student_t"}, optional
        Of every entry.
    degrees_of_freedom : float, optional
        Of Student's t, more than 2.
    correlation : float, optional
        :math:`r` in :math:`E z_i z_j = r^{|i - j|}` for dimensions i and j of one
        token, from 0 to below 1.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        If an argument is not in its range.

    Examples
    --------
    >>> large = noise(1, 0, dimension=8, tokens=10)
    >>> bool(np.all(noise(1, 0, dimension=3, tokens=4) == large[:3, :4]))
    True
    """
    seed, replicate = as_whole("seed", seed), as_whole("replicate", replicate)
    dimension = as_whole("dimension", dimension, least=1)
    tokens = as_whole("tokens", tokens, least=1)
    if not 0 <= correlation < 1:
        raise ValueError(f"correlation must be from 0 to below 1, got {correlation!r}")
    draw = np.empty((dimension, tokens))
    for row in range(dimension):
        generator = _generator(seed, NOISE, replicate, row)
        _fill(draw[row], generator, law, degrees_of_freedom)
    if correlation:
        innovation = sqrt((1 - correlation) * (1 + correlation))
        for row in range(1, dimension):
            draw[row] *= innovation
            draw[row] += correlation * draw[row - 1]
    return draw


def _fill(
    row: Array,
    generator: np.random.Generator,
    law: str,
    degrees_of_freedom: float | None,
) -> None:
    """Fill a row with independent entries of zero mean and unit variance."""
    match law:
        case "gaussian":
            generator.standard_normal(out=row)
        case "rademacher":
            row[:] = np.where(generator.random(len(row)) < 0.5, -1.0, 1.0)
        case "uniform":
            row[:] = sqrt(12) * (generator.random(len(row)) - 0.5)
        case "student_t":
            if degrees_of_freedom is None or not degrees_of_freedom > 2:
                raise ValueError(
                    "degrees_of_freedom must be more than 2 for a finite variance, "
                    f"got {degrees_of_freedom!r}"
                )
            row[:] = generator.standard_t(degrees_of_freedom, len(row))
            row /= sqrt(degrees_of_freedom / (degrees_of_freedom - 2))
        case _:
            raise ValueError(
                "noise law must be one of gaussian, rademacher, uniform, student_t, "
                f"got {law!r}"
            )


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
    return even_labels(tokens, 0.5)


def even_labels(tokens: int, positive_share: float) -> Array:
    """Return labels with a given share of +1, spread as evenly as can be.

    Parameters
    ----------
    tokens : int
        Number of tokens n, positive.
    positive_share : float
        Between 0 and 1.

    Returns
    -------
    ndarray of float64, shape (tokens,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> even_labels(5, 0.8)
    array([ 1.,  1.,  1.,  1., -1.])
    """
    tokens = as_whole("tokens", tokens, least=1)
    if not 0 < positive_share < 1:
        raise ValueError(f"positive_share must be in (0, 1), got {positive_share!r}")
    # Rounded, or 5 times 0.8 might fall short of 4.
    count = np.ceil(np.round(np.arange(tokens + 1) * positive_share, 9))
    return np.where(np.diff(count) > 0, 1.0, -1.0)


def random_labels(
    seed: int, replicate: int, tokens: int, positive_share: float = 0.5
) -> Array:
    """Return labels that are drawn one by one; fewer tokens have the first of them.

    Parameters
    ----------
    seed, replicate : int
        Root seed and number of the draw, not negative.
    tokens : int
        Number of tokens n, positive.
    positive_share : float, optional
        Probability of the label +1.

    Returns
    -------
    ndarray of float64, shape (tokens,)

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> random_labels(1, 0, 4)
    array([ 1., -1.,  1., -1.])
    """
    seed, replicate = as_whole("seed", seed), as_whole("replicate", replicate)
    tokens = as_whole("tokens", tokens, least=1)
    if not 0 < positive_share < 1:
        raise ValueError(f"positive_share must be in (0, 1), got {positive_share!r}")
    draw = _generator(seed, LABELS, replicate, 0).random(tokens)
    return np.where(draw < positive_share, 1.0, -1.0)


def subset(seed: int, replicate: int, labels: ArrayLike, size: int) -> NDArray[np.intp]:
    """Return the places of some tokens at random, of both labels in proportion.

    Parameters
    ----------
    seed, replicate : int
        Root seed and number of the draw, not negative.
    labels : array_like, shape (tokens,)
        Each +1 or -1.
    size : int
        How many tokens to take, positive.

    Returns
    -------
    ndarray of int, shape (size,)
        Sorted.

    Raises
    ------
    ValueError
        If there are fewer tokens, or an argument is out of range.

    Examples
    --------
    >>> subset(1, 0, [1, -1, 1, -1], 2).shape
    (2,)
    """
    seed, replicate = as_whole("seed", seed), as_whole("replicate", replicate)
    labels = as_labels(labels, np.size(labels))
    size = as_whole("size", size, least=1)
    if size > len(labels):
        raise ValueError(f"cannot take {size} of {len(labels)} tokens")
    shuffled = _generator(seed, SUBSETS, replicate, 0).permutation(len(labels))
    positive, negative = (shuffled[labels[shuffled] == sign] for sign in (1, -1))
    many = round(size * len(positive) / len(labels))
    return np.sort(np.concatenate([positive[:many], negative[: size - many]]))


def standardized(tokens: Array, labels: Array, *, scale: bool) -> Array:
    r"""Return tokens centred between the means of their classes, and scaled.

    Then the classes stand at :math:`\pm\hat\mu`. Scaled, every dimension is divided by
    its standard deviation within the classes, so that the noise has unit variance
    there; it may still be correlated between dimensions.

    Parameters
    ----------
    tokens : ndarray of float64, shape (dimension, tokens)
    labels : ndarray of float64, shape (tokens,)
        Each +1 or -1, and both there.
    scale : bool
        Whether to scale too.

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        If a dimension that is to be scaled is constant within the classes.

    Examples
    --------
    >>> X, y = np.array([[5.0, 3.0, -1.0, 1.0]]), np.array([1.0, 1.0, -1.0, -1.0])
    >>> standardized(X, y, scale=True)
    array([[ 3.,  1., -3., -1.]])
    """
    means = [tokens[:, labels == sign].mean(axis=1) for sign in (1, -1)]
    X: Array = tokens - (means[0] + means[1])[:, None] / 2
    if not scale:
        return X
    within = X - np.outer((means[0] - means[1]) / 2, labels)
    deviation = within.std(axis=1)
    constant = np.flatnonzero(deviation <= 1e-12 * np.abs(X).max())
    if constant.size:
        raise ValueError(
            f"dimension {constant[0]} is constant within the classes"
            + (f", as are {constant.size - 1} more" if constant.size > 1 else "")
        )
    X /= deviation[:, None]
    return X


def directions(seed: int, replicate: int, dimension: int, count: int = 3) -> Array:
    r"""Return orthonormal random directions: of the signal, the key, the query, more.

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
        Embedding dimension p, at least ``count``.
    count : int, optional
        How many.

    Returns
    -------
    ndarray of float64, shape (count, dimension)

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
    dimension = as_whole("dimension", dimension, least=count)
    gaussian = [
        _generator(seed, DIRECTIONS, replicate, row).standard_normal(dimension)
        for row in range(count)
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
    Z = as_tokens("noise", noise)
    p, n = Z.shape
    y = as_labels(labels, n)
    mu = as_vector("mu", mu, p, "noise")
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
