"""What a verification found: faults with their remedy, counts, notes, a record."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interpolation_error.run import provenance
from interpolation_error.run.identity import canonical_json
from interpolation_error.run.plan import Plan

RECORD = "verification.json"
"""Where a run's folder keeps what was verified last."""
MISSING = "is missing"
"""How the description of a fault begins if there is no such file."""
ITSELF = "itself"
"""Target of a fault that is mended by asking for the very file, as a run that has table
and picture does not ask for the arrays behind them."""
REMOVE, REBUILD = "rm {file} && {make}", "{make}"
FETCH = "rm -f {file} && {make}"
OWN = "put back the file that config/config.yaml names"
COMMITTED = "git checkout {file}, or, if the run is meant to differ, make references"
SHOWN = 20
"""How many faults of a kind a summary lists."""


@dataclass(frozen=True)
class Fault:
    """Something that does not hold: which file, what is wrong, what mends it.

    Parameters
    ----------
    kind : str
        As in the table of what was checked.
    file : str
        Below the results folder; a committed file below the project's; of the user's
        own, its name.
    what : str
        What is wrong.
    target : str
        What a run must be asked for to mend it: a figure, :data:`ITSELF`, or, if
        empty, nothing in particular.
    remedy : str
        A command with ``{file}`` and ``{make}`` left open.
    """

    kind: str
    file: str
    what: str
    target: str
    remedy: str


@dataclass
class Count:
    """How many things of a kind there are, hold, and could not be checked."""

    named: int = 0
    hold: int = 0
    unchecked: int = 0


@dataclass
class Report:
    """What was verified of a run.

    Parameters
    ----------
    preset : str
        The run.
    results : Path
        Its results folder.
    counts : dict of str to Count
        By kind.
    faults : list of Fault
        What does not hold.
    notes : list of str
        What is worth knowing, and no fault.
    sample : dict
        What was recomputed: ``share``, ``seed``, and whether ``exact``.
    """

    preset: str
    results: Path
    counts: dict[str, Count] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    sample: dict[str, Any] = field(default_factory=dict)

    def count(self, kind: str) -> Count:
        """Return the count of a kind, which starts at nothing."""
        return self.counts.setdefault(kind, Count())

    def check(
        self, kind: str, file: str, what: str, *, target: str = "", remedy: str = ""
    ) -> bool:
        """Count one thing that was checked; it holds if nothing is said to be wrong."""
        count = self.count(kind)
        count.named += 1
        if what:
            remedy = remedy or (REBUILD if what.startswith(MISSING) else REMOVE)
            self.faults.append(Fault(kind, file, what, target, remedy))
        else:
            count.hold += 1
        return not what

    def skip(self, kind: str) -> None:
        """Count one thing that could not be checked for another fault."""
        self.count(kind).named += 1
        self.count(kind).unchecked += 1

    def rows(self) -> list[tuple[str | int, ...]]:
        """Return for each kind how many are named, hold, are faulty, and unchecked."""
        return [
            (kind, c.named, c.hold, c.named - c.hold - c.unchecked, c.unchecked)
            for kind, c in self.counts.items()
        ]

    def command(self, target: str, folder: Path | None = None) -> str:
        """Return the command that runs the preset, or one target of it alone.

        Parameters
        ----------
        target : str
            A figure or a file, quoted for a shell; empty for all.
        folder : Path, optional
            How the command calls the results folder, as it was given if left out.
        """
        folder = self.results if folder is None else folder
        if folder == Path("results"):
            return f"make PRESET={self.preset}" + (
                f" FIGURE={target}" if target else ""
            )
        return (
            f"snakemake {target}{' ' if target else ''}--cores all --config "
            f"preset={self.preset} results={shlex.quote(folder.as_posix())}"
        )

    def line(self, fault: Fault, results: Path | None = None) -> str:
        """Return a fault as one line: file, what is wrong, the command that mends it.

        Parameters
        ----------
        fault : Fault
            One of the report's.
        results : Path, optional
            How the line calls the results folder, as it was given if left out.
        """
        folder = self.results if results is None else results
        outside = fault.remedy in (COMMITTED, OWN)
        file = fault.file if outside else (folder / fault.file).as_posix()
        quoted = shlex.quote(file)
        target = quoted if fault.target == ITSELF else fault.target
        make = self.command(target, folder)
        remedy = fault.remedy.format(file=quoted, make=make)
        return f"{file}: {fault.what}; mend it: {remedy}"


def covered(plan: Plan) -> str:
    """Return a digest of all names that a plan gives, arrays and manifests alike.

    A record of a verification keeps it, so that it can be told from one of another
    state of code or parameters.
    """
    stems = [
        item.stem for one in plan.shown().values() for item in (one.table, one.picture)
    ]
    names = canonical_json([*plan.arrays(), *stems, plan.claims.stem])
    return hashlib.sha256(names.encode()).hexdigest()


def record(report: Report, plan: Plan, root: Path) -> dict[str, Any]:
    """Return what a verification found, for later readers: no names, no places.

    Parameters
    ----------
    report : Report
        What was found.
    plan : Plan
        What was verified.
    root : Path
        The project, for its commit.

    Returns
    -------
    dict
        Plain JSON.
    """
    # The folder may be anywhere; to a reader it is the results.
    folder = Path("results")
    return {
        "preset": report.preset,
        "time": provenance.now(),
        "covers": covered(plan),
        "checked": [list(row) for row in report.rows()],
        "faults": [report.line(fault, folder) for fault in report.faults],
        "notes": report.notes,
        "recomputed": report.sample,
        "git": provenance.git_state(root),
        "versions": provenance.versions(),
    }


def summary(report: Report) -> Iterator[str]:
    """Yield a report's faults, some of each kind, its notes and its outcome."""
    for kind in report.counts:
        mine = [fault for fault in report.faults if fault.kind == kind]
        for fault in mine[:SHOWN]:
            yield f"fault: {report.line(fault)}"
        if len(mine) > SHOWN:
            yield f"fault: {len(mine) - SHOWN} more of {kind}, all in {RECORD}"
    for note in report.notes:
        yield f"note: {note}"
    hold = sum(count.hold for count in report.counts.values())
    if report.faults:
        plural = "" if len(report.faults) == 1 else "s"
        yield f"{len(report.faults)} fault{plural}; {hold} other things hold."
    else:
        yield f"All that was checked holds: {hold} things."
