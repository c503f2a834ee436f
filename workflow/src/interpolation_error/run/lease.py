"""One run at a time in a results folder, also over several machines.

The first byte of a file in the folder is locked by the process that runs there, the
second one is shared by its jobs. The file system gives locks back when a process ends,
however it ends, so that none is left behind. Who runs is written into a second file,
since a process that closes a file gives up all its locks on it.
"""

from __future__ import annotations

import errno
import fcntl
import getpass
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from interpolation_error.run.store import replacing

LOCK = ".run.lock"
RECORD = ".run.json"
REFUSAL = ".run-{run}.refused"
"""Where a job of a run writes why the run should end."""
VARIABLE = "INTERPOLATION_ERROR_RUN"
"""Tells jobs which run they belong to: its number, a blank, and the folder."""
RUN, JOBS = 0, 1  # the bytes
WRITTEN = {"run", "user", "host", "process", "since", "identity"}
UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)

_held: list[IO[str]] = []  # closing a file gives its locks back


class LeaseError(Exception):
    """A run or a job may not work in a results folder; the message is one line."""


def take(
    folder: Path, identity: Mapping[str, str], tell: Callable[[str], None]
) -> None:
    """Take a results folder for this process and the jobs that it starts.

    Jobs of an earlier run that was killed may still be computing; they are waited for,
    since what they make is kept. Those that have not begun end by themselves.

    Parameters
    ----------
    folder : Path
        The results folder; made when missing.
    identity : mapping of str to str
        What jobs must agree with: versions of libraries, and ``code``.
    tell : callable
        Gets a line when there is something to wait for, or locks are not to be had.

    Raises
    ------
    LeaseError
        If another process runs there, or the folder cannot be written to.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as name:
    ...     take(Path(name), {"numpy": "2.4.6"}, print)
    ...     check({"numpy": "2.4.6"})
    ...     _held.pop().close()
    ...     del os.environ[VARIABLE]
    """
    lock = folder.absolute() / LOCK
    run = uuid.uuid4().hex
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("a+")
        if lock.stat().st_uid == os.getuid():  # who may write beside it may run next
            lock.chmod(lock.parent.stat().st_mode & 0o666 | 0o600)
        if not _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB, RUN, tell):
            raise LeaseError(
                f"{folder}: {_tenant(lock.parent)}; wait until it ends, or name "
                "another results folder: --config results=FOLDER"
            )
        for earlier in lock.parent.glob(REFUSAL.format(run="*")):
            earlier.unlink(missing_ok=True)
        _write_record(lock.parent, run, identity)
    except OSError as error:
        raise LeaseError(
            f"{folder}: a run must write here and cannot ({error.strerror}"
            f"{_owner(lock.parent)}); make room or make it writable, or name a results "
            "folder of your own: --config results=FOLDER"
        ) from None
    _held.append(file)
    os.environ[VARIABLE] = f"{run} {lock.parent}"
    told = False
    while not _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB, JOBS, tell):
        if not told:
            tell(
                f"{folder}: jobs of a run that was killed still compute here; waiting "
                "for them, to keep what they make (or cancel them in the scheduler)"
            )
            told = True
        time.sleep(1)
    _unlock(file, JOBS)


def check(identity: Mapping[str, str] | None = None) -> None:
    """Refuse to work for a run that has ended, or with something else than it has.

    Outside of a run, where a script is called by hand, anything goes.

    Parameters
    ----------
    identity : mapping of str to str, optional
        As for :func:`take`, of this job.

    Raises
    ------
    LeaseError
        If another run has taken the folder since, or the identity is another.
    """
    run, folder = _mine()
    if folder is None:
        return
    record = _record(folder)
    if record.get("run") != run:
        raise LeaseError(
            "the run that started this job has ended and another one has taken its "
            "results folder; nothing was computed"
        )
    for name, wanted in record["identity"].items():
        got = wanted if identity is None else identity.get(name)
        if got == wanted:
            continue
        if name == "code":
            raise LeaseError(
                "the code changed since the run was planned: run the same command again"
            )
        raise LeaseError(
            f"{name} is {got} here and {wanted} where the run was planned, so that the "
            "numbers might differ: give this node the environment of the other"
        )


@contextmanager
def working() -> Iterator[None]:
    """Let a later run know, while this lasts, that a job of this one computes.

    Raises
    ------
    LeaseError
        If a later run has begun already.
    """
    _, folder = _mine()
    if folder is None:
        yield
        return
    with (folder / LOCK).open() as file:
        _lock(file, fcntl.LOCK_SH, JOBS, lambda line: None)
        check()
        yield


def refused() -> str | None:
    """Return why a job of this run asks for its end, None if none does."""
    run, folder = _mine()
    if folder is None or not (path := folder / REFUSAL.format(run=run)).exists():
        return None
    return path.read_text("utf-8").strip()


def _write_record(folder: Path, run: str, identity: Mapping[str, str]) -> None:
    record = {
        "run": run,
        "user": _user(),
        "host": socket.gethostname(),
        "process": os.getpid(),
        "since": time.strftime("%Y-%m-%d %H:%M"),
        "identity": dict(identity),
    }
    with replacing(folder / RECORD) as draft:
        draft.write_text(json.dumps(record) + "\n", "utf-8")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have users without a name
        return f"user {os.getuid()}"


def _mine() -> tuple[str, Path | None]:
    run, _, folder = os.environ.get(VARIABLE, "").partition(" ")
    return run, Path(folder) if folder else None


def _record(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / RECORD).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    whole = isinstance(found, dict) and found.keys() >= WRITTEN
    return found if whole and isinstance(found["identity"], dict) else {}


def _tenant(folder: Path) -> str:
    """Return who runs in a folder, in words."""
    time.sleep(1)  # whoever took it this very moment writes its name next
    record = _record(folder)
    if not record:
        return "another run has just begun here"
    return "{user} runs here since {since}, process {process} on {host}".format(
        **record
    )


def _owner(folder: Path) -> str:
    """Return whose a folder is, in words."""
    try:
        return f"; the folder is {folder.owner()}'s"
    except (OSError, KeyError):
        return ""


def _lock(file: IO[str], kind: int, byte: int, tell: Callable[[str], None]) -> bool:
    """Lock a byte of a file, and return whether nobody else has it."""
    try:
        fcntl.lockf(file, kind, 1, byte)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
        tell(
            f"{file.name}: this file system gives no locks ({error.strerror}); see to "
            "it that nobody else runs in this folder"
        )
    return True


def _unlock(file: IO[str], byte: int) -> None:
    try:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)
    except OSError as error:
        if error.errno not in UNSUPPORTED:
            raise
