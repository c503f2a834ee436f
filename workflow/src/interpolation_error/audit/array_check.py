"""Hold a cached array against the plan: identity, checksum, shapes, values."""

from __future__ import annotations

import glob
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.audit import study_audit
from interpolation_error.audit.report import MISSING
from interpolation_error.figures.lines import line
from interpolation_error.model.curve import Curve
from interpolation_error.run import provenance, store
from interpolation_error.run.identity import KEY_LENGTH, Identity
from interpolation_error.run.plan import Item

Array = NDArray[np.float64]
Shapes = Mapping[str, tuple[int, ...] | None]
"""Arrays of a file, by the shape of each."""

MEASURED = {
    "error": ("error",),
    "trace": ("trace",),
    "spectrum": ("density",),
    "linearization": ("remainder", "relative_remainder"),
}
"""The arrays of a simulation, by what its curve measures."""
ATTRIBUTES = {"spec", "code", "versions", "schema", "key", "blas", "checksum"}
"""What the store writes beside the arrays of a file."""


class Checked(NamedTuple):
    """A cached file after it was held against the plan.

    Parameters
    ----------
    fault : str
        What is wrong with it; empty if it holds.
    arrays : dict of str to ndarray
        Its content, empty if it does not hold.
    blas : str
        Its attribute of that name.
    missing : bool
        Whether there is no such file.
    job : str
        What is wrong with the record of its job, the ``.json`` beside it; no fault of
        the array.
    """

    fault: str
    arrays: Mapping[str, Array] = {}
    blas: str = ""
    missing: bool = False
    job: str = ""


def check(item: Item, path: Path, explain: bool = True) -> Checked:
    """Return what is wrong with a cached array, or its content.

    Parameters
    ----------
    item : Item
        What the plan asks for.
    path : Path
        Where it should be.
    explain : bool, optional
        Whether to look through the folder for what was made of the same specification
        by other code, if the file is missing.

    Returns
    -------
    Checked
    """
    if not path.is_file():
        why = _namesake(item, path) if explain else ""
        return Checked(f"{MISSING}{why}", missing=True)
    record = job_record(path)
    written = record.get("sha256") if record else None
    if written is not None and written != store.file_digest(path):
        # Said before HDF5 sees the file: damage in its structures can make that crash.
        return Checked(
            f"its bytes are not those that its job wrote (sha256 in {path.stem}.json)"
        )
    try:
        arrays = store.read(path)
        identity = store.read_identity(path)
        attributes = store.read_attributes(path)
    except (store.StoreError, *store.DAMAGED) as error:
        # The store names the file first and a remedy last; the report does so too.
        reason = str(error).removeprefix(f"{path}: ").partition("; delete it")[0]
        return Checked(reason)
    blas = str(attributes.get("blas", ""))
    fault = ""
    if identity != item.identity:
        fault = f"its attributes name {unlike(identity, item.identity)}"
    elif extra := sorted(attributes.keys() - ATTRIBUTES):
        fault = f"it has the attribute {extra[0]!r}, which the store does not write"
    elif not provenance.kernels(blas):
        fault = "its attribute 'blas' is not what the store writes"
    fault = fault or _content(item, arrays)
    if fault:
        return Checked(fault)
    lost = "the record of its job (.json beside it) is missing or cannot be read"
    return Checked("", arrays, blas, job="" if record else lost)


def job_record(path: Path) -> Mapping[str, Any] | None:
    """Return what the job that made an array wrote beside it.

    Parameters
    ----------
    path : Path
        Of the array.

    Returns
    -------
    dict or None
        None if there is no such record, or it cannot be read.
    """
    try:
        record = json.loads(path.with_suffix(".json").read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) else None


def shapes(item: Item) -> Shapes:
    """Return the arrays that a cached file must hold, by the shape of each.

    Parameters
    ----------
    item : Item
        An array of a plan.

    Returns
    -------
    dict of str to tuple of int

    Examples
    --------
    >>> spec = {"tokens": 8, "dimension": 4, "seed": 1, "replicates": [0, 1]}
    >>> shapes(Item("data", "n8-p4", spec))
    {'noise': (2, 4, 8)}
    """
    return SHAPES[item.kind](item.spec)


def _noise(spec: Mapping[str, Any]) -> Shapes:
    return {"noise": (len(spec["replicates"]), spec["dimension"], spec["tokens"])}


def _tokens(spec: Mapping[str, Any]) -> Shapes:
    draws, n, p = len(spec["replicates"]), spec["tokens"], spec["dimension"]
    return {"tokens": (draws, p, n), "labels": (draws, n), "signal": (draws, p)}


def _simulation(spec: Mapping[str, Any]) -> Shapes:
    curve = Curve.from_spec(spec["curve"])
    shape = len(spec["replicates"]), math.prod(curve.shape)
    return dict.fromkeys(MEASURED[curve.measure], shape)


def _theory(spec: Mapping[str, Any]) -> Shapes:
    return {
        f"{name}/{array}": shape
        for name, asked in spec["curves"].items()
        for array, shape in _line_shapes(asked).items()
    }


SHAPES: dict[str, Callable[[Mapping[str, Any]], Shapes]] = {
    "data": _noise,
    "tokens": _tokens,
    "simulation": _simulation,
    "theory": _theory,
    "study_simulation": study_audit.simulated_shapes,
    "study_theory": study_audit.predicted_shapes,
}
"""For each kind of array, what its specification implies."""


def _line_shapes(asked: Mapping[str, Any]) -> Shapes:
    """Return the shapes of one prediction."""
    curve = Curve.from_spec(asked["curve"])
    finer = line(curve, asked["x_scale"], asked["row_scale"])
    found: dict[str, tuple[int, ...] | None] = {
        "x": (len(finer.values),),
        "predicted": (math.prod(finer.shape),),
    }
    if finer.rows:
        found["rows"] = (len(finer.rows),)
    if asked["finite_size"]:
        found["finite_size"] = (math.prod(curve.shape),)
    return found


def _content(item: Item, arrays: Mapping[str, Array]) -> str:
    """Return what is wrong with the arrays of a file whose identity is right."""
    wanted = shapes(item)
    if odd := sorted(set(arrays) ^ set(wanted)):
        return f"its arrays are not those of its specification: {', '.join(odd)}"
    for name, shape in wanted.items():
        array = arrays[name]
        if not _has_shape(array, shape) or array.dtype != np.float64:
            return (
                f"{name} is {array.dtype} of shape {array.shape}, where its "
                f"specification has float64 of shape {shape}"
            )
        # Where theory has nothing to say, a prediction is NaN.
        if "theory" not in item.kind and not np.isfinite(array).all():
            return f"{name} holds a NaN or an infinity"
    return ""


def _has_shape(array: Array, shape: tuple[int, ...] | None) -> bool:
    """Return whether an array has a shape, some or all of which may be left open."""
    if shape is None:
        return True
    pairs = zip(array.shape, shape, strict=False)
    return array.ndim == len(shape) and all(b in (a, study_audit.ANY) for a, b in pairs)


def _namesake(item: Item, path: Path) -> str:
    """Say of a missing array whether the same was made by other code or versions."""
    for other in sorted(path.parent.glob(f"{glob.escape(item.name)}-*.h5")):
        if len(other.stem) != len(path.stem):
            continue  # a longer name that only begins like this one
        try:
            identity = store.read_identity(other)
        except store.StoreError:
            continue
        if identity.spec == item.identity.spec:
            how = unlike(identity, item.identity)
            return f"; {other.name} has its specification, but was made by {how}"
    return ""


def unlike(found: Identity, wanted: Identity) -> str:
    """Return in words what differs between two identities.

    Examples
    --------
    >>> one = Identity("{}", "a" * 64, '{"numpy":"1"}', 1)
    >>> unlike(one, Identity("{}", "b" * 64, '{"numpy":"2"}', 1))
    'other code (aaaaaaaaaaaaaaaa) and other versions (numpy 1)'
    """
    words = []
    if found.spec != wanted.spec:
        words.append("another specification")
    if found.code != wanted.code:
        words.append(f"other code ({found.code[:KEY_LENGTH]})")
    if found.versions != wanted.versions:
        there, here = json.loads(found.versions), json.loads(wanted.versions)
        changed = [f"{k} {there.get(k)}" for k in here if there.get(k) != here[k]]
        words.append(f"other versions ({', '.join(changed)})")
    if found.schema != wanted.schema:
        words.append("another layout")
    return " and ".join(words) or "the same"
