"""A user's own tokens and labels, read, checked and standardized."""

from __future__ import annotations

import hashlib
import tokenize
import zipfile
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from interpolation_error.model import data
from interpolation_error.model.setting import TokensFile

Array = NDArray[np.float64]

STANDARDIZE = ("none", "centre", "scale")
FORMATS = (".npy", ".h5")


def locate(
    file: str, labels: str, tokens: str | None = None, standardize: str = "scale"
) -> TokensFile:
    """Return tokens by the place of their file, with the digest that it has now.

    Parameters
    ----------
    file : str
        A ``.npy`` file of tokens, shape (dimension, tokens), or an ``.h5`` file.
    labels : str
        A ``.npy`` file of labels, or the name of labels in the ``.h5`` file.
    tokens : str, optional
        Name of the tokens in the ``.h5`` file.
    standardize : {"none", "centre", "scale"}, optional
        What :func:`load` does to every dimension.

    Returns
    -------
    TokensFile

    Raises
    ------
    ValueError
        If a file cannot be read, or the arguments do not fit its kind.
    """
    if standardize not in STANDARDIZE:
        raise ValueError(
            f"standardize must be one of {', '.join(STANDARDIZE)}, got {standardize!r}"
        )
    suffix = Path(file).suffix
    if suffix not in FORMATS:
        raise ValueError(f"{file}: must be a file of the kind {' or '.join(FORMATS)}")
    if (suffix == ".h5") != (tokens is not None):
        raise ValueError(
            f"{file}: tokens names an array of an .h5 file, and only there"
        )
    digest = hashlib.sha256()
    for path in (file, labels) if suffix == ".npy" else (file,):
        try:
            digest.update(Path(path).read_bytes())
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    return TokensFile(file, tokens, labels, standardize, digest.hexdigest())


def load(source: TokensFile) -> tuple[Array, Array]:
    r"""Return the tokens, standardized, and their labels as +1 and -1.

    The larger of the two label values becomes +1. To centre is to subtract, in every
    dimension, the mean of the two class means, so that the classes stand at
    :math:`\pm\hat\mu`; to scale divides by the standard deviation within the classes.

    Parameters
    ----------
    source : TokensFile
        As :func:`locate` returns it.

    Returns
    -------
    tokens : ndarray of float64, shape (dimension, tokens)
    labels : ndarray of float64, shape (tokens,)

    Raises
    ------
    ValueError
        If the file changed, holds no such arrays, has wrong shapes, values that are
        not finite, other than two labels, or a constant dimension that is to be
        scaled.
    """
    now = locate(source.file, source.labels, source.tokens, source.standardize)
    if now.sha256 != source.sha256:
        raise ValueError(f"{source.file}: changed while the run went on; start again")
    where = source.file
    if source.tokens is None:
        X, given = _npy(source.file), _npy(source.labels)
    else:
        X, given = _h5(source.file, source.tokens), _h5(source.file, source.labels)
    if X.ndim != 2:
        raise ValueError(
            f"{where}: tokens must have shape (dimension, tokens), got {X.shape}"
        )
    if given.shape != X.shape[1:]:
        raise ValueError(
            f"{where}: labels must have shape ({X.shape[1]},), got {given.shape}"
        )
    if not (np.all(np.isfinite(X)) and np.all(np.isfinite(given))):
        raise ValueError(f"{where}: tokens and labels must be finite")
    kinds = np.unique(given)
    if len(kinds) != 2:
        raise ValueError(f"{where}: labels must have two values, got {len(kinds)}")
    labels = np.where(given == kinds[1], 1.0, -1.0)
    if source.standardize == "none":
        return X, labels
    try:
        scale = source.standardize == "scale"
        return data.standardized(X, labels, scale=scale), labels
    except ValueError as error:
        raise ValueError(f"{where}: {error}; leave such dimensions out") from None


def measured_signal(tokens: Array, labels: Array) -> tuple[Array, float]:
    r"""Return the direction of the signal in given tokens, and its squared norm.

    The mean :math:`\hat\mu` of :math:`y_i x_i` has the squared norm
    :math:`\|\mu\|^2 + \mathrm{tr}\, C / n` on average, with the covariance C of the
    noise, so that :math:`\mathrm{tr}\, \hat C / n` is subtracted.

    Parameters
    ----------
    tokens : ndarray of float64, shape (dimension, tokens)
    labels : ndarray of float64, shape (tokens,)

    Returns
    -------
    direction : ndarray of float64, shape (dimension,)
        A unit vector.
    snr : float
        Not negative.

    Raises
    ------
    ValueError
        If the classes have one mean.

    Examples
    --------
    >>> X = np.array([[2.0, -2.0, 2.0, -2.0], [1.0, 1.0, -1.0, -1.0]])
    >>> measured_signal(X, np.array([1.0, -1.0, 1.0, -1.0]))[0]
    array([1., 0.])
    """
    n = tokens.shape[1]
    mu = tokens @ labels / n
    length = float(mu @ mu)
    if not length > 0:
        raise ValueError("tokens of both labels have the same mean: there is no signal")
    noise = tokens - np.outer(mu, labels)
    excess = float(np.sum(noise**2)) / (n - 1) / n
    return mu / np.sqrt(length), max(length - excess, 0.0)


# What NumPy and h5py raise at bytes that are not what they should be.
_UNREADABLE = (
    *(OSError, ValueError, EOFError, RuntimeError, KeyError, MemoryError),
    *(tokenize.TokenError, zipfile.BadZipFile),
)


def _unreadable(path: str, kind: str, error: Exception) -> ValueError:
    reason = str(error).splitlines() or [type(error).__name__]
    return ValueError(f"{path}: cannot be read as {kind} ({reason[0]})")


def _npy(path: str) -> Array:
    try:
        found = np.load(path, allow_pickle=False)
    except _UNREADABLE as error:
        raise _unreadable(path, ".npy", error) from None
    if not isinstance(found, np.ndarray):
        found.close()
        raise ValueError(f"{path}: must hold one array, as .npy does; it is an archive")
    return _float(found, path)


def _h5(path: str, name: str) -> Array:
    try:
        # Without a lock, which many a shared file system refuses.
        with h5py.File(path, "r", locking=False) as file:
            names = ", ".join(sorted(file)) or "nothing"
            dataset = file.get(name)
            found = dataset[()] if isinstance(dataset, h5py.Dataset) else None
    except _UNREADABLE as error:
        raise _unreadable(path, "HDF5", error) from None
    if found is None:
        raise ValueError(f"{path}: has no array {name!r}; it has {names}")
    if isinstance(found, h5py.Empty):
        raise ValueError(f"{path}: the array {name!r} is empty")
    return _float(np.asarray(found), path)


def _float(array: NDArray[np.generic], path: str) -> Array:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path}: must hold real numbers, got {array.dtype}")
    return array.astype(np.float64)


def draw(
    source: TokensFile, tokens: int, *, seed: int, replicates: Sequence[int]
) -> dict[str, Array]:
    """Return random subsets of the tokens, one a replicate.

    Parameters
    ----------
    source : TokensFile
        Where they are.
    tokens : int
        How many each replicate takes.
    seed : int
        Root seed.
    replicates : sequence of int
        Number of each.

    Returns
    -------
    dict of str to ndarray
        ``tokens``, ``labels`` and ``signal`` as a simulation takes them; the signal is
        that of all tokens.

    Raises
    ------
    ValueError
        As :func:`load`, or if there are fewer tokens.
    """
    X, y = load(source)
    direction, _ = measured_signal(X, y)
    chosen = [data.subset(seed, replicate, y, tokens) for replicate in replicates]
    return {
        "tokens": np.stack([X[:, places] for places in chosen]),
        "labels": np.stack([y[places] for places in chosen]),
        "signal": np.tile(direction, (len(chosen), 1)),
    }
