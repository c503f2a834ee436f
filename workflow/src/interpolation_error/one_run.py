"""One run at a time in the folder of a preset."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path
from typing import IO

CLAIM = ".running"
"""The file that a run holds while it lasts."""
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
"""What a file system says that has no locks; a run goes on without."""


def claim(folder: Path) -> IO[str]:
    """Claim the folder of a preset for as long as the returned file is open.

    The system gives the claim up with the process that holds it, so that a killed run
    never stands in the way of the next.

    Parameters
    ----------
    folder : Path
        Such as ``results/paper``; made when missing.

    Returns
    -------
    file
        To be kept open.

    Raises
    ------
    ValueError
        If another run has it, or nothing can be written there; one line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, claim(Path(folder)):
    ...     claim(Path(folder))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: ...: another run is at work here; ...
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / CLAIM).open("a")
    except OSError as error:
        raise ValueError(
            f"{folder}: a run must write here and cannot ({error.strerror}); make room "
            "or make it writable, or name another folder as results in "
            "config/config.yaml"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return file
        file.close()
        raise ValueError(
            f"{folder}: another run is at work here; let it end, or stop it, and run "
            "the same command again"
        ) from None
    return file
