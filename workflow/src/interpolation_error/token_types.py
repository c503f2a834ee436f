r"""Types of tokens, and what a nonlinearity does between two of them.

The *type* t of a token is its coordinates within the span of the signal and of the
low-rank attention weights (docs/theory.md, section 8). Turning a token over,
:math:`(t, y) \to (-t, -y)`, changes nothing, so that functions of the type are even or
odd under it, averages of an even with an odd one vanish, and types with y = 1 do.
"""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy import special

from interpolation_error._checks import Array
from interpolation_error.nonlinearity import Nonlinearity, hermite_coefficients
from interpolation_error.shifted_scores import ShiftedMeans

# Nodes lighter than this share of the heaviest only cost time.
LIGHT = 1e-13
# Directions at random that the range of a kernel is sought in.
DIRECTIONS = 96


class Types(NamedTuple):
    """Nodes of the type of a token with the label 1.

    Parameters
    ----------
    coordinates : ndarray of float64, shape (types, r)
        t.
    weights : ndarray of float64, shape (types,)
        Of sum 1.
    omega : ndarray of float64, shape (types, types)
        The signal's share of the score of a row's with a column's type.
    """

    coordinates: Array
    weights: Array
    omega: Array


class Expansion(NamedTuple):
    """A kernel of two types as a sum of products, orthonormal over types.

    Parameters
    ----------
    left, right : ndarray of float64, shape (types, terms)
        Functions of the first and of the second type.
    values : ndarray of float64, shape (terms,)
        Positive, falling.
    """

    left: Array
    values: Array
    right: Array


class Kernels(NamedTuple):
    """What the theory needs of f, averaged over a token and the one turned over.

    Parameters
    ----------
    h : ndarray of float64, shape (types,)
        What is on the diagonal of K beside the part that is linear in the noise.
    variance, covariance : ndarray of float64, shape (types, types)
        Of the noise S, and of it with its transpose.
    even, odd : Expansion
        The two parts of F_1.
    mean : Expansion
        The odd part of F_0.
    """

    h: Array
    variance: Array
    covariance: Array
    even: Expansion
    odd: Expansion
    mean: Expansion


def span(gram: Array) -> Array:
    """Return vectors of given inner products, in as few coordinates as they span.

    Parameters
    ----------
    gram : ndarray of float64, shape (k, k)
        Inner products of the vectors.

    Returns
    -------
    ndarray of float64, shape (k, r)
        A vector in each row; r is at least 1.

    Examples
    --------
    >>> span(np.array([[4.0, 2.0], [2.0, 1.0]]))
    array([[2.],
           [1.]])
    """
    # Gram-Schmidt; what is left of length zero is dropped.
    basis = np.zeros((len(gram), 0))
    for vector, row in enumerate(gram):
        column = row - basis @ basis[vector]
        if column[vector] > 1e-12 * max(np.trace(gram), 1e-300):
            basis = np.column_stack([basis, column / sqrt(column[vector])])
    return basis if basis.shape[1] else np.zeros((len(gram), 1))


def types(vectors: Array, dimension: int, count: int) -> Types:
    r"""Return nodes of the types and :math:`\omega`, equation (8.1).

    Parameters
    ----------
    vectors : ndarray of float64, shape (3, r)
        Signal, key and query in the coordinates of their span.
    dimension : int
        Embedding dimension p.
    count : int
        Gauss-Hermite nodes in each coordinate.

    Returns
    -------
    Types

    Examples
    --------
    >>> found = types(np.array([[1.0], [0.0], [0.0]]), dimension=100, count=2)
    >>> found.coordinates.ravel(), found.weights
    (array([0., 2.]), array([0.5, 0.5]))
    """
    (mu, w_k, w_q), r = vectors, vectors.shape[1]
    nodes, weights = special.roots_hermitenorm(count)
    grid = np.meshgrid(*[nodes] * r, indexing="ij")
    z = np.stack([axis.ravel() for axis in grid], axis=-1)
    mass = np.prod(np.meshgrid(*[weights] * r, indexing="ij"), axis=0).ravel()
    kept = mass > LIGHT * mass.max()
    t, mass = mu + z[kept], mass[kept]
    omega = t @ (np.eye(r) + np.outer(w_k, w_q)) @ t.T / sqrt(dimension)
    return Types(t, mass / mass.sum(), omega)


def kernels(
    f: Nonlinearity, types: Types, dimension: int, keep: bool, rough: bool = False
) -> Kernels:
    """Return the functions of f of pairs of types, equations (8.3), (8.4) and (8.6).

    Parameters
    ----------
    f : Nonlinearity
        Acts on every score.
    types : Types
        Where they are taken.
    dimension : int
        Embedding dimension p.
    keep : bool
        Whether the diagonal of the attention matrix is kept.
    rough : bool, optional
        Take wider steps and fewer terms, to see what they matter.

    Returns
    -------
    Kernels

    Raises
    ------
    OverflowError
        If f is not finite on the shifted scores, or they are too large.

    Examples
    --------
    Without signal and weights, as many dimensions make the shift vanish, F_1 is a_1:

    >>> from interpolation_error.nonlinearity import get
    >>> p = 10**9
    >>> found = kernels(get("sign"), types(np.zeros((3, 1)), p, 6), p, keep=False)
    >>> found.even.values.round(4), found.odd.values.size
    (array([0.7979]), 0)
    """
    omega, weights = types.omega, types.weights
    a0, _, _, nu = hermite_coefficients(f)
    reach = float(np.abs(omega).max())
    means = ShiftedMeans(f, reach, coarseness=2.0 if rough else 1.0)
    own = np.diagonal(omega)
    h = -means.first(own)
    if keep:
        root = sqrt(dimension)
        h = h + (f(root + own) - a0) / root
    variance = (means.variance(omega) + means.variance(-omega)) / 2
    if np.allclose(omega, omega.T, rtol=0, atol=1e-12 * reach):
        covariance = variance
    else:
        upper = np.triu_indices(len(omega))
        one, other = omega[upper], omega.T[upper]
        both = means.covariance(one, other) + means.covariance(-one, -other)
        covariance = np.empty_like(omega)
        covariance[upper] = covariance.T[upper] = both / 2
    plus, minus = means.first(omega), means.first(-omega)
    odd_mean = (means.zeroth(omega) - means.zeroth(-omega)) / 2
    even, odd, mean = (
        # Down to a share of the largest term, and to what rounding leaves.
        _expansion(kernel, weights, 1e-6 if rough else 1e-8, 1e-14 * sqrt(nu))
        for kernel in ((plus + minus) / 2, (plus - minus) / 2, odd_mean)
    )
    return Kernels(h, variance, covariance, even, odd, mean)


def _expansion(kernel: Array, weights: Array, share: float, floor: float) -> Expansion:
    """Return the terms of a kernel above a share of the largest and above a floor."""
    root = np.sqrt(weights)
    matrix = root[:, None] * kernel * root
    columns = _range(matrix, share)
    left, values, right = np.linalg.svd(columns.T @ matrix, full_matrices=False)
    kept = values > max(share * values[0], floor)
    left = columns @ left[:, kept]
    return Expansion(left / root[:, None], values[kept], right[kept].T / root[:, None])


def _range(matrix: Array, share: float) -> Array:
    """Return orthonormal columns that span all of a matrix but a negligible part.

    Images of directions at random; the more the larger the part that they miss.
    """
    size, columns = len(matrix), DIRECTIONS
    while 3 * columns < size:
        generator = np.random.default_rng(0)
        images = matrix @ generator.standard_normal((size, columns))
        found, _ = np.linalg.qr(images)
        inside = found.T @ matrix
        missed = np.linalg.norm(matrix - found @ inside)
        if missed <= share / 10 * np.linalg.norm(inside, 2):
            return np.asarray(found)
        columns *= 2
    return np.eye(size)
