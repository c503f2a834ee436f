"""What is volatile about a run: commit, versions, processor; never who or where."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = (
    "numpy",
    "scipy",
    "h5py",
    "pandas",
    "matplotlib",
    "threadpoolctl",
    "snakemake",
)
"""What a run computes, draws and is driven with."""
REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE"),
    *("GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX"),
)
"""Variables by which git takes another repository than that of the folder asked for."""


def now() -> str:
    """Return the time in UTC, to the second, as ISO 8601 writes it.

    Examples
    --------
    >>> len(now()), now()[-1]
    (20, 'Z')
    """
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def git_state(root: Path) -> dict[str, Any]:
    """Return which commit a folder is at, and whether it was changed since.

    Parameters
    ----------
    root : Path
        The top of a clone; a folder deeper in one, or outside of any, has no commit.

    Returns
    -------
    dict
        ``commit``, in hex or None, and ``changed``, whether a tracked file differs
        from it.
    """
    none = {"commit": None, "changed": False}
    top = _git(root, "rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() != root.resolve():
        return none
    commit = _git(root, "rev-parse", "HEAD")
    if commit is None:
        return none
    changes = _git(root, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "changed": bool(changes)}


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git says, None where there is no git or no repository."""
    # A hook sets them, and the commit told would be that of its repository.
    environment = {k: v for k, v in os.environ.items() if k not in REPOSITORY}
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(root), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter, and the machine.

    Examples
    --------
    >>> sorted(set(versions()) & {"machine", "numpy", "python"})
    ['machine', 'numpy', 'python']
    """
    found = {"python": platform.python_version(), "machine": machine()}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Return the kind of machine, such as ``Linux x86_64``, without its name."""
    return f"{platform.system()} {platform.machine()}"


def kernels(blas: str) -> frozenset[str]:
    """Return the BLAS kernels that an array's attribute ``blas`` names.

    Parameters
    ----------
    blas : str
        As :func:`interpolation_error.run.store.blas` writes it.

    Returns
    -------
    frozenset of str
        Library, version, kernel and number of threads of each; empty where the text is
        not of that kind.

    Examples
    --------
    >>> sorted(kernels('[{"architecture":"Zen","internal_api":"openblas",'
    ...                '"num_threads":1,"version":"0.3"}]'))
    ['openblas 0.3 Zen, 1 thread']
    """
    try:
        libraries = json.loads(blas)
        return frozenset(
            f"{one['internal_api']} {one['version']} {one['architecture']}, "
            f"{one['num_threads']} thread{'' if one['num_threads'] == 1 else 's'}"
            for one in libraries
        )
    except (ValueError, TypeError, KeyError):
        return frozenset()


def same_processor(blas: Iterable[str], here: str) -> bool:
    """Return whether arrays come from the kind of processor that this is.

    Parameters
    ----------
    blas : iterable of str
        Attributes ``blas`` of the arrays. One job may have loaded fewer libraries than
        another, so that each must name some of those that are in use here.
    here : str
        What :func:`interpolation_error.run.store.blas` says in this process.

    Returns
    -------
    bool
    """
    mine = kernels(here)
    named = [kernels(one) for one in set(blas)]
    return all(theirs and theirs <= mine for theirs in named)
