"""Arrays on disk: HDF5 files that can prove what they are."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_info

from interpolation_error.run.identity import KEY_LENGTH, Identity, canonical_json

Array = NDArray[np.float64]

DAMAGED = (OSError, RuntimeError, KeyError, ValueError, TypeError)
"""What h5py raises of a damaged file, depending on where the damage is."""
DAY = 86400
"""Seconds without a change after which a draft of another machine is abandoned."""


class StoreError(Exception):
    """A cached file is not what it should be; the message is one line with a remedy."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary name beside ``path`` and move it there only on success.

    A process that is killed, or fails, leaves nothing that could be taken for the
    finished file.

    Parameters
    ----------
    path : Path
        The file to write; its folder is made when missing.

    Yields
    ------
    Path
        Where to write.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "a.txt"
    ...     with replacing(target) as draft:
    ...         _ = draft.write_text("done")
    ...     target.read_text()
    'done'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    host = socket.gethostname()
    for draft in path.parent.glob(f".{glob.escape(path.stem)}.*.draft{path.suffix}"):
        if _abandoned(draft, f".{path.stem}.{host}-"):
            draft.unlink(missing_ok=True)
    draft = path.with_name(f".{path.stem}.{host}-{os.getpid()}.draft{path.suffix}")
    try:
        yield draft
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _abandoned(draft: Path, prefix: str) -> bool:
    """Return whether the process that wrote a draft was killed.

    ``prefix`` begins the names of this machine's drafts; of another's nothing is known
    but their age.
    """
    process = draft.name.removeprefix(prefix).partition(".")[0]
    try:
        if draft.name.startswith(prefix) and process.isdigit():
            os.kill(int(process), 0)
        return time.time() - draft.stat().st_mtime > DAY
    except PermissionError:  # somebody else's, who still runs
        return False
    except FileNotFoundError:  # finished meanwhile
        return False
    except ProcessLookupError:
        return True


def write(path: Path, arrays: Mapping[str, Array], identity: Identity) -> None:
    """Write arrays with the identity that their file's name ends in.

    Parameters
    ----------
    path : Path
        Where; its stem must end in the first digits of the key.
    arrays : mapping of str to ndarray
        The arrays by name; a slash in a name makes a group.
    identity : Identity
        What they were computed from.

    Raises
    ------
    StoreError
        If the name does not end in the key.
    OSError
        If it cannot be written, for want of room, say.

    Notes
    -----
    Nothing volatile is written (no clock, host or user), so that the same
    computation gives the same bytes.
    """
    check_name(path, identity)
    try:
        with replacing(path) as draft, _open(draft, "w") as file:
            for name in sorted(arrays):
                file.create_dataset(name, data=arrays[name], track_times=False)
            file.attrs["spec"] = identity.spec
            file.attrs["code"] = identity.code
            file.attrs["versions"] = identity.versions
            file.attrs["schema"] = identity.schema
            file.attrs["key"] = identity.key
            file.attrs["blas"] = blas()
            file.attrs["checksum"] = checksum(arrays)
    except OSError as error:
        # HDF5 says it in many words and several lines.
        said = re.search(r"errno = (\d+)", str(error))
        number = int(said[1]) if said else error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from None


def read(path: Path) -> dict[str, Array]:
    """Return the arrays of a file after checking that they are what its name says.

    Parameters
    ----------
    path : Path
        A file that :func:`write` wrote.

    Returns
    -------
    dict of str to ndarray

    Raises
    ------
    StoreError
        If the file is missing, damaged, altered, or was made from something else
        than its name says; one line, with the command that mends it.
    """
    arrays, identity, checksum_then = _load(path)
    if not path.stem.endswith(f"-{identity.key[:KEY_LENGTH]}"):
        raise StoreError(_fault(path, "it holds something else than its name says"))
    if checksum(arrays) != checksum_then:
        raise StoreError(_fault(path, "its arrays do not match their checksum"))
    return arrays


def read_identity(path: Path) -> Identity:
    """Return the identity that a file carries.

    Raises
    ------
    StoreError
        If the file cannot be read or lacks it.
    """
    try:
        with _open(path, "r") as file:
            return _identity(path, file)
    except DAMAGED as error:
        raise _unreadable(path, error) from None


def read_attributes(path: Path) -> dict[str, Any]:
    """Return all that a file says of itself beside its arrays.

    Raises
    ------
    StoreError
        If the file cannot be read.
    """
    try:
        with _open(path, "r") as file:
            return dict(file.attrs)
    except DAMAGED as error:
        raise _unreadable(path, error) from None


def check_name(path: Path, identity: Identity) -> None:
    """Refuse to compute under a name that does not end in the key of its identity.

    Raises
    ------
    StoreError
        One line that names the key and says why it differs.
    """
    key = identity.key[:KEY_LENGTH]
    if not path.stem.endswith(f"-{key}"):
        raise StoreError(
            f"{path}: its name should end in {key}, the key of its specification, "
            "code and library versions here; code or libraries changed since the run "
            "was planned: run the same command again"
        )


def checksum(arrays: Mapping[str, Array]) -> str:
    """Return a sha256 over names, types, shapes and values of arrays.

    Examples
    --------
    >>> a = {"x": np.zeros(2)}
    >>> checksum(a) == checksum({"x": np.zeros(2)})
    True
    >>> checksum(a) == checksum({"x": np.zeros((2, 1))})
    False
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the sha256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def blas() -> str:
    """Return the BLAS kernels in use and their threads, as canonical JSON."""
    kept = ("internal_api", "version", "architecture", "num_threads")
    kernels = [
        canonical_json({name: library.get(name) for name in kept})
        for library in threadpool_info()
        if library.get("user_api") == "blas"
    ]
    # In the order of their text: the order of loading differs from run to run.
    return f"[{','.join(sorted(kernels))}]"


def _load(path: Path) -> tuple[dict[str, Array], Identity, str]:
    arrays: dict[str, Array] = {}

    def collect(name: str, item: h5py.Group | h5py.Dataset) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    if not path.is_file():
        raise StoreError(f"{path}: does not exist; make it with: snakemake '{path}'")
    try:
        with _open(path, "r") as file:
            identity = _identity(path, file)
            file.visititems(collect)
            return arrays, identity, str(file.attrs["checksum"])
    except DAMAGED as error:
        raise _unreadable(path, error) from None


def _open(path: Path, mode: str) -> h5py.File:
    # Locks are refused on many a shared file system, and of no use here: a file is
    # written under a name of its own, moved when it is whole and never changed again.
    return h5py.File(path, mode, locking=False)


def _identity(path: Path, file: h5py.File) -> Identity:
    wanted = ("spec", "code", "versions", "schema", "key", "checksum")
    missing = [name for name in wanted if name not in file.attrs]
    if missing:
        raise StoreError(_fault(path, f"it lacks the attribute {missing[0]!r}"))
    identity = Identity(
        str(file.attrs["spec"]),
        str(file.attrs["code"]),
        str(file.attrs["versions"]),
        int(file.attrs["schema"]),
    )
    if identity.key != str(file.attrs["key"]):
        raise StoreError(_fault(path, "its attributes do not match its key"))
    return identity


def _unreadable(path: Path, error: Exception) -> StoreError:
    reason = (str(error).splitlines() or [""])[0].strip("'\"")
    if "unable to lock file" in reason:  # the file is none the worse for it
        return StoreError(
            f"{path}: the file system refuses a lock ({reason}); HDF5 asks for one "
            "only where HDF5_USE_FILE_LOCKING says so: unset it, or set it to FALSE"
        )
    return StoreError(_fault(path, f"it cannot be read as HDF5 ({reason})"))


def _fault(path: Path, what: str) -> str:
    return f"{path}: {what}; delete it (rm '{path}') and run the same command again"
