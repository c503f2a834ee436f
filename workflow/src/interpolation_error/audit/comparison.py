"""Compare two runs of a preset: what differs, by how much, and if only by rounding."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.audit.agreement import (
    CLOSE,
    NO_DENSITY,
    OTHER,
    ROUNDING,
    SAME,
    Difference,
    bin_unit,
    difference,
)
from interpolation_error.figures.gather import Arrays, Line, arrays
from interpolation_error.run import provenance, store
from interpolation_error.run.identity import KEY_LENGTH

Array = NDArray[np.float64]


class Compared(NamedTuple):
    """One thing that two runs have in common, or that one of them lacks.

    Parameters
    ----------
    kind : str
        Such as ``"simulated curves"``.
    name : str
        Which one.
    outcome : str
        One of :data:`OUTCOMES`.
    what : str
        How much it differs, in words.
    relative : float
        The largest relative difference of two numbers.
    """

    kind: str
    name: str
    outcome: str
    what: str = ""
    relative: float = 0.0


AGREE = (SAME, CLOSE)
OUTCOMES = (*AGREE, OTHER, "defined otherwise", "only in A", "only in B")


@dataclass
class Comparison:
    """All that was compared of two runs of a preset.

    Parameters
    ----------
    preset : str
        The preset.
    rows : list of Compared
        One by one.
    origins : dict of str to list of str
        For each folder what its arrays were made with: versions, kernels, code.
    """

    preset: str
    rows: list[Compared] = field(default_factory=list)
    origins: dict[str, list[str]] = field(default_factory=dict)

    @property
    def agrees(self) -> bool:
        """Whether all is there twice and differs by no more than rounding."""
        return all(row.outcome in AGREE for row in self.rows)

    def counts(self) -> list[tuple[str | int, ...]]:
        """Return a row for each kind: its name, and how many have each outcome."""
        kinds = dict.fromkeys(row.kind for row in self.rows)
        return [
            (kind, *(self._count(kind, outcome) for outcome in OUTCOMES))
            for kind in kinds
        ]

    def conclusion(self) -> str:
        """Return the outcome in one line."""
        apart = sum(row.outcome not in AGREE for row in self.rows)
        if apart:
            return f"{apart} of {len(self.rows)} differ by more than rounding."
        if all(row.outcome == SAME for row in self.rows):
            return "All numbers are identical, bit by bit."
        largest = max(row.relative for row in self.rows)
        return f"All agree within rounding: the largest difference is {largest:.2g}."

    def _count(self, kind: str, outcome: str) -> int:
        return sum(row.kind == kind and row.outcome == outcome for row in self.rows)


def presets(results: Path) -> list[str]:
    """Return the presets that a results folder holds runs of.

    Parameters
    ----------
    results : Path
        A results folder.

    Returns
    -------
    list of str

    Raises
    ------
    ValueError
        If it is none; one line.
    """
    if not (results / "cache").is_dir():
        raise ValueError(
            f"{results}: is no results folder (it has no folder cache); name the one "
            "that holds cache and the presets, such as results"
        )
    return sorted(path.parent.name for path in results.glob("*/manifests"))


def compare(first: Path, second: Path, preset: str) -> Comparison:
    """Return what two runs of a preset have in common and where they differ.

    Curves are matched by figure, panel and name, so that runs of two versions of the
    code, whose arrays have different keys, can be compared. Draws are not compared
    themselves: what was simulated on them is.

    Parameters
    ----------
    first, second : Path
        Two results folders, A and B.
    preset : str
        The preset that both ran.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        If a folder is no results folder, or did not run the preset; one line.
    StoreError
        If an array is damaged; one line.
    """
    for folder in (first, second):
        if preset not in (found := presets(folder)):
            raise ValueError(
                f"{folder}: has no run of the preset {preset!r}; "
                f"it has {', '.join(found) or 'none'}"
            )
    report = Comparison(preset)
    runs = [_Run(folder, preset) for folder in (first, second)]
    for place, run in zip("AB", runs, strict=True):
        report.origins[place] = run.origins()
    figures = dict.fromkeys([*runs[0].tables, *runs[1].tables])
    for figure in figures:
        report.rows += _figure(figure, *runs)
    for study in dict.fromkeys([*runs[0].studies, *runs[1].studies]):
        report.rows += _study(study, *runs)
    report.rows += _verdicts(*(run.verdicts() for run in runs))
    return report


class _Run:
    """A finished run: the specification of each table, by figure, and its arrays."""

    def __init__(self, results: Path, preset: str) -> None:
        self.results = results
        self.folder = results / preset
        manifests = sorted(self.folder.glob("manifests/*-table-*.json"))
        loaded = [_json(path) for path in manifests]
        self.tables = {one["figure"]: one for one in loaded if "figure" in one}
        self.studies = {one["study"]: one for one in loaded if "study" in one}

    def read(self, path: str) -> Mapping[str, Array]:
        return store.read(self.results / path)

    def curves(self, figure: str) -> dict[tuple[str, str], Mapping[str, Any]]:
        table = self.tables.get(figure, {"series": []})
        return {(one["panel"], one["curve"]): one for one in table["series"]}

    def parts(self, study: str) -> dict[str, str]:
        """Return the arrays of a study by readable name, of one transformer."""
        table = self.studies.get(study, {"parts": []})
        found = {}
        for one in table["parts"]:
            for kind in ("simulation", "theory"):
                # The name without the key at its end.
                name = one[kind].rpartition("/")[2].rpartition("-")[0]
                found[f"{one['model']}/{kind}/{name}"] = one[kind]
        return found

    def origins(self) -> list[str]:
        found = set()
        for table in self.tables.values():
            path = self.results / table["theory"]
            identity = store.read_identity(path)
            blas = str(store.read_attributes(path)["blas"])
            kernels = sorted(provenance.kernels(blas))
            versions = json.loads(identity.versions)
            words = [f"{name} {version}" for name, version in versions.items()]
            code = f"theory by code {identity.code[:KEY_LENGTH]}"
            found.add("; ".join([", ".join(words), *kernels, code]))
        return sorted(found)

    def verdicts(self) -> dict[tuple[str, str], Mapping[str, Any]]:
        path = self.folder / "claims.json"
        if not path.is_file():
            return {}
        claims = _json(path)["claims"]
        return {(one["claim"], one["region"]): one for one in claims}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{path}: cannot be read as JSON ({error}); see make verify"
        ) from None


def _figure(figure: str, first: _Run, second: _Run) -> Iterator[Compared]:
    """Yield how the curves of a figure compare, simulated and predicted."""
    left, right = first.curves(figure), second.curves(figure)
    predicted = [
        run.read(run.tables[figure]["theory"]) if figure in run.tables else {}
        for run in (first, second)
    ]
    for place in dict.fromkeys([*left, *right]):
        name = "/".join((figure, *place))
        if place not in left or place not in right:
            where = "only in A" if place in left else "only in B"
            yield Compared("simulated curves", name, where)
            continue
        one, other = left[place], right[place]
        if one["curve_spec"] != other["curve_spec"]:
            yield Compared("simulated curves", name, "defined otherwise")
            continue
        mine = arrays(one, first.read, predicted[0])
        theirs = arrays(other, second.read, predicted[1])
        pairs = [
            (name, (mine.own, theirs.own), (mine.line, theirs.line)),
            (f"{name}, regression", (mine.other, theirs.other), _lines(mine, theirs)),
        ]
        small = NO_DENSITY if mine.curve.measure == "spectrum" else 0.0
        for what, draws, lines in pairs:
            if draws[0] is None or draws[1] is None or lines is None:
                continue
            apart = difference(draws[0], draws[1], bin_unit(mine.curve))
            yield _compared("simulated curves", what, apart)
            apart = difference(_numbers(lines[0]), _numbers(lines[1]), small)
            yield _compared("predicted curves", what, apart)


def _study(study: str, first: _Run, second: _Run) -> Iterator[Compared]:
    """Yield how the parts of a study compare, simulated and predicted."""
    left, right = first.parts(study), second.parts(study)
    for name in dict.fromkeys([*left, *right]):
        title = f"{study}/{name}"
        if name not in left or name not in right:
            where = "only in A" if name in left else "only in B"
            yield Compared("parts of studies", title, where)
            continue
        mine, theirs = first.read(left[name]), second.read(right[name])
        for array in dict.fromkeys([*mine, *theirs]):
            where = f"{title}/{array}"
            if array not in mine or array not in theirs:
                yield Compared("parts of studies", where, "defined otherwise")
            else:
                apart = difference(mine[array], theirs[array])
                yield _compared("parts of studies", where, apart)


def _compared(kind: str, name: str, apart: Difference) -> Compared:
    return Compared(kind, name, apart.outcome, str(apart), apart.relative)


def _lines(mine: Arrays, theirs: Arrays) -> tuple[Line, Line] | None:
    """Return the predictions of the regression that a curve is shown against."""
    if mine.line_other is None or theirs.line_other is None:
        return None
    return mine.line_other, theirs.line_other


def _numbers(line: Line) -> Array:
    """Return all numbers of a prediction in a row."""
    more = [] if line.finite_size is None else [line.finite_size]
    return np.concatenate([np.array(line.x), line.predicted, *more])


def _verdicts(
    first: Mapping[tuple[str, str], Mapping[str, Any]],
    second: Mapping[tuple[str, str], Mapping[str, Any]],
) -> Iterator[Compared]:
    """Yield how the verdicts compare, and the estimates behind them."""
    for place in dict.fromkeys([*first, *second]):
        name = ": ".join(place)
        if place not in first or place not in second:
            where = "only in A" if place in first else "only in B"
            yield Compared("verdicts", name, where)
            continue
        one, other = first[place], second[place]
        if one["verdict"] != other["verdict"]:
            what = f"{one['verdict']} in A, {other['verdict']} in B"
            yield Compared("verdicts", name, OTHER, what)
            continue
        keys = ("low", "estimate", "high")
        mine, theirs = (
            np.array([x.get(k, np.nan) for k in keys]) for x in (one, other)
        )
        # An estimate near zero is known no better than the interval around it.
        size = float(np.nan_to_num(np.abs(mine).max()))
        apart = difference(mine, theirs, ROUNDING * size)
        what = f"both {one['verdict']}, estimates {apart}"
        yield Compared("verdicts", name, apart.outcome, what, apart.relative)
