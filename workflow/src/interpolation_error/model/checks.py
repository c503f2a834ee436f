"""Argument checks shared by the library: one clear line for each mistake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Arrays = NDArray[Any]  # float64, or complex128 for the spectral density


def unmasked(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return ``value`` as an array, refusing masked ones.

    NumPy drops the mask on the way, and what it hid would be computed with.

    Parameters
    ----------
    name : str
        What the caller calls the argument; it opens the message.
    value : array_like

    Returns
    -------
    ndarray

    Raises
    ------
    ValueError
        If ``value`` is a masked array, or a sequence that holds one.

    Examples
    --------
    >>> unmasked("gamma", np.ma.masked_equal([1.0, -9.0], -9.0))
    Traceback (most recent call last):
        ...
    ValueError: gamma must not be a masked array; choose what stands for masked values
    """
    within = value if isinstance(value, list | tuple) else ()
    if any(np.ma.isMaskedArray(part) for part in (value, *within)):
        raise ValueError(
            f"{name} must not be a masked array; choose what stands for masked values"
        )
    return np.asarray(value)


def as_finite(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as a float64 array, refusing empty, masked and non-finite ones.

    Parameters
    ----------
    name : str
        What the caller calls the argument; it opens the message.
    value : array_like
        Real numbers of any shape.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    ValueError
        If ``value`` is not numeric, is masked or empty, or holds a NaN or an infinity.

    Examples
    --------
    >>> as_finite("gamma", [1, 2])
    array([1., 2.])
    """
    given = unmasked(name, value)
    if given.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, got {given.dtype}")
    array = given.astype(np.float64, copy=False)
    if array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got a NaN or an infinity")
    return array


def as_positive(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as a float64 array, refusing anything not above zero.

    Parameters
    ----------
    name : str
        What the caller calls the argument; it opens the message.
    value : array_like
        Real numbers of any shape.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    ValueError
        As :func:`as_finite`, and if an element is zero or negative.

    Examples
    --------
    >>> as_positive("gamma", 0.0)
    Traceback (most recent call last):
        ...
    ValueError: gamma must be positive, got 0.0
    """
    array = as_finite(name, value)
    if np.any(array <= 0):
        raise ValueError(f"{name} must be positive, got {float(array.min())!r}")
    return array


def as_non_negative(name: str, value: ArrayLike) -> Array:
    """Return ``value`` as a float64 array, refusing anything below zero.

    Parameters
    ----------
    name : str
        What the caller calls the argument; it opens the message.
    value : array_like
        Real numbers of any shape.

    Returns
    -------
    ndarray of float64

    Raises
    ------
    ValueError
        As :func:`as_finite`, and if an element is negative.

    Examples
    --------
    >>> as_non_negative("snr", 0.0)
    array(0.)
    """
    array = as_finite(name, value)
    if np.any(array < 0):
        raise ValueError(f"{name} must not be negative, got {float(array.min())!r}")
    return array


def as_whole(name: str, value: Any, least: int = 0) -> int:
    """Return ``value`` as an int, refusing fractions and anything below ``least``.

    Parameters
    ----------
    name : str
        What the caller calls the argument; it opens the message.
    value : int
        As it was given; True is no number.
    least : int, optional
        The smallest that is allowed.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If ``value`` is not a whole number, or is below ``least``.

    Examples
    --------
    >>> as_whole("tokens", 0, least=1)
    Traceback (most recent call last):
        ...
    ValueError: tokens must be a whole number from 1, got 0
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not (whole and value >= least):
        raise ValueError(f"{name} must be a whole number from {least}, got {value!r}")
    return int(value)


def as_labels(value: ArrayLike, tokens: int) -> Array:
    """Return labels as a float64 array, refusing anything but +1 and -1.

    Parameters
    ----------
    value : array_like, shape (tokens,)
        Labels y.
    tokens : int
        Number of tokens n.

    Returns
    -------
    ndarray of float64, shape (tokens,)

    Raises
    ------
    ValueError
        As :func:`as_finite`, and if there is not one label for each of ``tokens``
        tokens, or one is neither +1 nor -1.

    Examples
    --------
    >>> as_labels([1, -1], 2)
    array([ 1., -1.])
    """
    labels = as_finite("labels", value)
    if labels.shape != (tokens,):
        raise ValueError(
            f"labels must be one for each token, shape ({tokens},), got {labels.shape}"
        )
    wrong = labels[np.abs(labels) != 1]
    if wrong.size:
        raise ValueError(f"labels must be +1 or -1, got {float(wrong[0])!r}")
    return labels


def as_tokens(name: str, value: ArrayLike) -> Array:
    """Return tokens, noise or features as a float64 array of two axes.

    Parameters
    ----------
    name : str
        What the caller calls the argument.
    value : array_like, shape (dimension, tokens)

    Returns
    -------
    ndarray of float64, shape (dimension, tokens)

    Raises
    ------
    ValueError
        As :func:`as_finite`, and if there are not two axes.

    Examples
    --------
    >>> as_tokens("noise", [1.0, 2.0])
    Traceback (most recent call last):
        ...
    ValueError: noise must have shape (dimension, tokens), got (2,)
    """
    array = as_finite(name, value)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must have shape (dimension, tokens), got {array.shape}"
        )
    return array


def as_vector(name: str, value: ArrayLike, dimension: int, rows: str) -> Array:
    """Return a signal or a vector of the weights as a float64 array.

    Parameters
    ----------
    name : str
        What the caller calls the argument.
    value : array_like, shape (dimension,)
    dimension : int
        Embedding dimension p.
    rows : str
        What the caller calls the argument that has as many rows.

    Returns
    -------
    ndarray of float64, shape (dimension,)

    Raises
    ------
    ValueError
        As :func:`as_finite`, and if the shape is another.

    Examples
    --------
    >>> as_vector("mu", [1.0, 2.0], 3, "noise")
    Traceback (most recent call last):
        ...
    ValueError: mu must have one entry for each row of noise, shape (3,), got (2,)
    """
    vector = as_finite(name, value)
    if vector.shape != (dimension,):
        raise ValueError(
            f"{name} must have one entry for each row of {rows}, shape ({dimension},), "
            f"got {vector.shape}"
        )
    return vector


def as_key_and_query(
    w_k: ArrayLike | None, w_q: ArrayLike | None, dimension: int, rows: str = "tokens"
) -> tuple[Array, Array] | None:
    """Return the vectors of the weights as float64 arrays, or None without them.

    Parameters
    ----------
    w_k, w_q : array_like, shape (dimension,), or None
        Both or neither.
    dimension : int
        Embedding dimension p.
    rows : str, optional
        What the caller calls the argument that has as many rows.

    Returns
    -------
    tuple of (ndarray, ndarray), or None

    Raises
    ------
    ValueError
        As :func:`as_vector`, and if one is given without the other.

    Examples
    --------
    >>> as_key_and_query([1.0, 2.0], None, 2)
    Traceback (most recent call last):
        ...
    ValueError: w_k and w_q must be given together, got w_k without w_q
    """
    if w_k is None and w_q is None:
        return None
    if w_k is None or w_q is None:
        given, missing = ("w_q", "w_k") if w_k is None else ("w_k", "w_q")
        raise ValueError(
            f"w_k and w_q must be given together, got {given} without {missing}"
        )
    return (
        as_vector("w_k", w_k, dimension, rows),
        as_vector("w_q", w_q, dimension, rows),
    )


def broadcast(arguments: Mapping[str, Arrays]) -> tuple[Arrays, ...]:
    """Broadcast named arrays, naming their shapes where that cannot be done.

    Parameters
    ----------
    arguments : mapping of str to ndarray
        By the names that the caller gives them.

    Returns
    -------
    tuple of ndarray
        In the order of the mapping, all of one shape.

    Raises
    ------
    ValueError
        If the shapes do not broadcast.

    Examples
    --------
    >>> [array.shape for array in broadcast({"a": np.ones(2), "b": np.ones((3, 1))})]
    [(3, 2), (3, 2)]
    """
    try:
        return tuple(np.broadcast_arrays(*arguments.values()))
    except ValueError:
        shapes = ", ".join(f"{k} {v.shape}" for k, v in arguments.items() if v.shape)
        raise ValueError(f"arguments must broadcast, got shapes {shapes}") from None


def plain(array: Array) -> float | Array:
    """Return a Python number in place of an array without axes.

    Parameters
    ----------
    array : ndarray of float64

    Returns
    -------
    float or ndarray of float64

    Examples
    --------
    >>> plain(np.array(2.0))
    2.0
    """
    return float(array) if array.ndim == 0 else array
