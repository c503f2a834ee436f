"""What is known of cached arrays without reading them: checksum, size, cost, origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from interpolation_error.audit.array_check import job_record
from interpolation_error.run import provenance
from interpolation_error.run.plan import Item, Plan
from interpolation_error.run.store import StoreError, read_attributes


def facts(item: Item, results: Path) -> dict[str, Any]:
    """Return checksum, size and cost of a cached array.

    Parameters
    ----------
    item : Item
        The array.
    results : Path
        Results folder.

    Returns
    -------
    dict
        ``file``, ``draws``, ``bytes``, ``checksum``, ``seconds`` and ``memory`` in MB;
        None for what is not known, since draws need not be kept and a job's record may
        be gone.

    Raises
    ------
    StoreError
        If the file cannot be read.
    """
    path = results / item.cached
    record = job_record(path) or {}
    there = path.is_file()
    return {
        "file": item.cached,
        "draws": item.spec.get("replicates"),
        "bytes": path.stat().st_size if there else None,
        "checksum": attributes(path)["checksum"] if there else None,
        "seconds": record.get("seconds"),
        "memory": record.get("peak_memory_mb"),
    }


def attributes(path: Path) -> dict[str, str]:
    """Return what a cached file says of itself.

    Raises
    ------
    StoreError
        If it cannot be read, or says nothing; one line.
    """
    try:
        said = read_attributes(path)
        return {key: str(said[key]) for key in ("checksum", "versions", "blas")}
    except (StoreError, KeyError):
        raise StoreError(
            f"{path}: is no whole array of this project; make verify says what holds"
        ) from None


def made_with(plan: Plan) -> dict[str, list[str]]:
    """Return what the arrays of a run say of where they were computed.

    Parameters
    ----------
    plan : Plan
        The run.

    Returns
    -------
    dict of str to list of str
        Library versions, BLAS kernels, and from the records of the jobs the kinds of
        machine and versions of Python; several where jobs ran on several machines.

    Raises
    ------
    StoreError
        If an array cannot be read.
    """
    found: dict[str, set[str]] = {}
    for array in plan.arrays():
        path = plan.configuration.results / array
        if not path.is_file():
            continue
        said = attributes(path)
        for library, version in json.loads(said["versions"]).items():
            found.setdefault(library, set()).add(version)
        found.setdefault("BLAS", set()).update(provenance.kernels(said["blas"]))
        record = job_record(path) or {}
        for key in ("machine", "python"):
            if key in record:
                found.setdefault(key, set()).add(str(record[key]))
    return {key: sorted(values) for key, values in sorted(found.items())}
