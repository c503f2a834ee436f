"""Verify a finished run without simulating it: what holds, and what does not.

Every array must be what the plan of the run asks for: its name, its attributes and its
checksum fit the specification, code and versions here, and its shapes those that the
specification implies. Tables and verdicts are then made again from these arrays in
memory, pictures on demand, and the files of the run must be just that. So a number that
was edited is found wherever it stands, and no record of Snakemake's is needed.
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from interpolation_error.audit import agreement, array_check, recomputation, study_audit
from interpolation_error.audit.report import (
    COMMITTED,
    FETCH,
    ITSELF,
    MISSING,
    OWN,
    SHOWN,
    Report,
)
from interpolation_error.figures import study_table, tables
from interpolation_error.figures.gather import Reader, gather
from interpolation_error.run import provenance, store
from interpolation_error.run.plan import FigurePlan, Item, Plan, StudyPlan
from interpolation_error.verdicts import claims_table
from interpolation_error.verdicts.claims import verdicts

Array = NDArray[np.float64]

DRAWS = "draws"
ARRAYS = {
    "data": DRAWS,
    "tokens": DRAWS,
    "simulation": "simulated curves",
    "theory": "predicted figures",
    "study_simulation": "simulated parts of studies",
    "study_theory": "predicted parts of studies",
}
"""What a report calls each kind of cached array."""
TABLES: dict[str, Callable[[Mapping[str, Any], Reader], dict[str, pd.DataFrame]]] = {
    "table": lambda spec, read: {"": tables.tabulate(gather(spec, read))},
    "study_table": study_table.tables,
}
"""What makes the tables of a figure or a study, by what their names end in."""
Shown = FigurePlan | StudyPlan
NAMED = 5
"""How many files of one kind a note names."""


def verify(
    plan: Plan,
    root: Path,
    *,
    figures: Sequence[str] = (),
    redraw: bool = False,
    recompute: float = 0.0,
    seed: int = 0,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Return what holds of a finished run.

    Parameters
    ----------
    plan : Plan
        What the run was asked for; its configuration names preset and results folder.
    root : Path
        Folder that holds ``figures``, with style sheet and references.
    figures : sequence of str, optional
        Verify these alone; if left out, all figures and the verdicts.
    redraw : bool, optional
        Whether pictures are drawn again, instead of held against their manifests alone.
    recompute : float, optional
        Which share of the curves is computed again from seeds, up to 1.
    seed : int, optional
        Chooses which.
    say : callable, optional
        Is told what is going on.

    Returns
    -------
    Report

    Raises
    ------
    ValueError
        If there is no such run at all, or no such figure; one line.
    """
    results, preset = plan.configuration.results, plan.configuration.preset
    if not (results / "cache").is_dir():
        raise ValueError(
            f"{results}: is no results folder (it has no folder cache); make it, with "
            f"make PRESET={preset}, or name the one that holds cache and the presets"
        )
    if not (results / preset).is_dir():
        raise ValueError(
            f"{results / preset}: does not exist, so this preset was not run; run it: "
            f"make PRESET={preset}"
        )
    for name in figures:
        if name not in plan.shown():
            raise ValueError(
                f"the preset {preset} has no figure {name!r}; "
                f"it has {', '.join(plan.shown())}"
            )
    verifier = _Verifier(plan, root, list(figures) or list(plan.shown()), say)
    # The attribute of an array says one thread, and so must BLAS here.
    with threadpool_limits(limits=1):
        verifier.arrays()
        for figure in verifier.figures:
            verifier.table(figure)
            verifier.pictures(figure, redraw)
        if not figures:
            verifier.claims()
        verifier.references()
        if recompute:
            verifier.recompute(recompute, seed)
    verifier.leftovers()
    return verifier.report


class _Verifier:
    """One verification: what was read so far, and what was found."""

    def __init__(
        self, plan: Plan, root: Path, figures: list[str], say: Callable[[str], None]
    ) -> None:
        self.plan, self.root, self.say = plan, root, say
        self.figures = [plan.shown()[name] for name in figures]
        self.results = plan.configuration.results
        self.preset = plan.configuration.preset
        self.report = Report(self.preset, self.results)
        self.stored: dict[str, Mapping[str, Array]] = {}
        self.exact = True  # whether the arrays come from this kind of processor
        self.texts: dict[str, str] = {}  # tables as the arrays give them
        self.verdicts: list[dict[str, Any]] | None = None

    def arrays(self) -> None:
        """Hold every array against what the plan asks for, and keep the small ones."""
        self.say("arrays")
        items = {
            item.cached: item for figure in self.figures for item in figure.items()
        }
        # Of a figure whose table is there a run would not ask for the arrays.
        tabulated = {
            item.cached
            for figure in self.figures
            if self._manifest_path(figure.table).is_file()
            for item in figure.items()
        }
        absent, blas = [], set()
        unrecorded: dict[str, list[str]] = {}
        order = list(ARRAYS)
        for file, item in sorted(
            items.items(), key=lambda one: order.index(one[1].kind)
        ):
            kind, path = ARRAYS[item.kind], self.results / file
            explain = len(self.report.faults) < SHOWN
            checked = array_check.check(item, path, explain)
            if checked.missing and kind == DRAWS:
                self.report.skip(kind)
                absent.append(file)
                continue
            target = ITSELF if file in tabulated or not checked.missing else ""
            if self.report.check(kind, file, checked.fault, target=target):
                blas.add(checked.blas)
                if kind != DRAWS:
                    self.stored[file] = checked.arrays
                if checked.job:
                    unrecorded.setdefault(checked.job, []).append(file)
        self._note(
            absent,
            "not kept; draws come again from their seeds when a curve needs them",
        )
        for what, files in unrecorded.items():
            cost = "the array holds, what its job took is not known any more"
            self._note(files, f"{what}; {cost}")
        self.exact = provenance.same_processor(blas, store.blas())
        kernels = sorted({word for one in blas for word in provenance.kernels(one)})
        self.report.notes.append(
            f"computed with {'; '.join(kernels) or 'an unknown BLAS'}; "
            + (
                "the same here, so every bit must be the same"
                if self.exact
                else "another here, so last digits may differ"
            )
        )

    def _note(self, files: Sequence[str], what: str) -> None:
        """Note something of some files, and name the first few."""
        self.report.notes += [f"{file}: {what}" for file in files[:NAMED]]
        if len(files) > NAMED:
            self.report.notes.append(f"{len(files) - NAMED} more files: {what}")

    def table(self, figure: Shown) -> None:
        """Make tables again, and hold files and manifest against them."""
        name, spec = figure.name, figure.table.spec
        needed = {i.cached for i in figure.items() if ARRAYS[i.kind] != DRAWS}
        if not needed <= set(self.stored):
            self.report.skip("tables")
            self.report.skip("manifests")
            return
        made = TABLES[figure.table.kind](spec, self.stored.__getitem__)
        for ending, table in made.items():
            text = tables.text(table)
            file = f"{self.preset}/tables/{name}{ending}.csv"
            found = _text(self.results / file)
            if found is None:
                what = MISSING
            elif found == text:
                what = ""
            else:
                tolerance = 0.0 if self.exact else agreement.LAST_DIGITS
                what = agreement.table_fault(found, text, tolerance)
                # Last digits that another processor type made stand for the right ones.
                text = text if what else found
            self.report.check("tables", file, what, target=name)
            self.texts[f"{name}{ending}"] = text
        self._manifest(
            figure.table,
            {
                **spec,
                "key": figure.table.identity.key,
                "code": figure.table.identity.code,
                **self._digests(figure),
            },
            name,
        )

    def _digests(self, figure: Shown) -> dict[str, Any]:
        """Return what manifests say of the tables of a figure, or of a study."""
        if isinstance(figure, FigurePlan):
            return {"table_sha256": _digest(self.texts[figure.name])}
        texts = {f"{table}.csv": self.texts[table] for table in figure.tables}
        return {"tables": {name: _digest(text) for name, text in texts.items()}}

    def pictures(self, figure: Shown, redraw: bool) -> None:
        """Hold pictures against their manifest, and if asked for draw them again."""
        name, item = figure.name, figure.picture
        said = _json(self._manifest_path(item))
        vouched = said.get("pictures") if isinstance(said, dict) else None
        vouched = vouched if isinstance(vouched, dict) else {}
        endings = ("pdf", "png", "svg")
        drawn = {}
        if redraw and name in self.texts:
            self.say(f"draw {name}")
            drawn = self._drawn(figure, endings)
        digests = {}
        for ending in endings:
            short = f"{name}.{ending}"
            file = f"{self.preset}/figures/{short}"
            path = self.results / file
            found = store.file_digest(path) if path.is_file() else None
            right = drawn.get(ending) or vouched.get(short) or found
            what = ""
            if found is None:
                what = MISSING
            elif found != right and drawn:
                what = "is not what drawing its table again gives"
            elif found != right:
                what = "is not the picture that its manifest vouches for"
            self.report.check("pictures", file, what, target=name)
            digests[short] = right
        if name not in self.texts:
            self.report.skip("manifests")
            return
        self._manifest(
            item,
            {
                "figure": name,
                "key": item.identity.key,
                "code": item.identity.code,
                **self._digests(figure),
                "style_sha256": item.spec["style"],
                "pictures": digests,
            },
            name,
        )

    def _drawn(self, figure: Shown, endings: Sequence[str]) -> dict[str, str]:
        """Return the digests that drawing a table again gives, by kind of picture."""
        # Slow to import, and seldom needed.
        from interpolation_error.figures import drawing, study_drawing

        drawing.use_style(self.root / "figures/paper.mplstyle")
        spec = figure.picture.spec["drawing"]
        if isinstance(figure, FigurePlan):
            picture = drawing.draw(self._parsed(figure.name), spec)
        else:
            errors, fits, spectra = map(self._parsed, figure.tables)
            picture = study_drawing.draw(errors, fits, spectra, spec)
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            for ending in endings:
                path = Path(folder) / f"picture.{ending}"
                drawing.save(picture, path)
                found[ending] = store.file_digest(path)
        return found

    def _parsed(self, table: str) -> pd.DataFrame:
        return pd.read_csv(io.StringIO(self.texts[table]))

    def _manifest(
        self, item: Item, wanted: Mapping[str, Any], figure: str = ""
    ) -> None:
        """Hold a manifest against all that it should say."""
        path = self._manifest_path(item)
        file = path.relative_to(self.results).as_posix()
        what = ""
        if not path.is_file():
            what = MISSING
            for other in sorted(path.parent.glob(f"{item.name}-*.json"))[:1]:
                what += f"; {other.name} is of other parameters, code or versions"
        else:
            found = _json(path)
            found = found if isinstance(found, dict) else {}
            keys = sorted(found.keys() | wanted.keys())
            wrong = [key for key in keys if found.get(key) != wanted.get(key)]
            if wrong:
                what = f"its entries {', '.join(wrong)} are not what holds"
        self.report.check("manifests", file, what, target=figure)

    def _manifest_path(self, item: Item) -> Path:
        return self.results / self.preset / f"manifests/{item.stem}.json"

    def claims(self) -> None:
        """Judge every statement again, and hold the verdicts against that."""
        item = self.plan.claims
        if not set(item.spec["figures"]) <= set(self.texts):
            for kind in ("verdicts", "verdicts", "verdicts", "manifests"):
                self.report.skip(kind)
            return
        self.say("verdicts")
        shown = self.plan.shown()
        figures = {name: shown[name].table.spec for name in item.spec["figures"]}
        found = verdicts(item.spec["claims"], figures, self.stored.__getitem__)
        key, code = item.identity.key, item.identity.code
        said = _json(self.results / f"{self.preset}/claims.json")
        if not self.exact and agreement.json_agree(said, {"key": key, "claims": found}):
            # The other forms must follow from these very digits.
            found = agreement.in_order_of(found, said["claims"])
        self.verdicts = found
        texts = claims_table.texts(found, key)
        for name, text in texts.items():
            file = f"{self.preset}/{name}"
            there = _text(self.results / file)
            what = ""
            if there is None:
                what = MISSING
            elif there != text:
                what = "judging the arrays again gives something else: "
                what += agreement.first_line(there, text)
            self.report.check("verdicts", file, what)
        digests = {name: _digest(text) for name, text in texts.items()}
        self._manifest(item, {"key": key, "code": code, "files": digests})

    def references(self) -> None:
        """Hold the committed numbers, which are a paper run's, against this run."""
        kind = "committed references"
        if self.preset != "paper":
            self.report.notes.append(
                "the committed references are of the paper preset, so not compared here"
            )
            return
        others: set[str] = set()
        for name in (figure.name for figure in self.figures):
            if name not in self.texts:
                self.report.skip(kind)
                continue
            text = self.texts[name]
            file = f"figures/{name}/reference.csv"
            there = _text(self.root / file)
            what = MISSING
            if there is not None:
                reference, table = (pd.read_csv(io.StringIO(t)) for t in (there, text))
                if "model" in table and other_model(reference, table):
                    self.report.notes.append(
                        f"{file} shows {reference['model'][0]} and this run "
                        f"{table['model'][0]}, so they are not compared"
                    )
                    others.add(name)
                    continue
                what = agreement.reference_fault(reference, table)
            self.report.check(kind, file, what, remedy=COMMITTED)
        if self.verdicts is not None:
            file = "figures/claims.csv"
            there = _text(self.root / file)
            what = MISSING
            if there is not None:
                both = (
                    pd.read_csv(io.StringIO(there)),
                    claims_table.rows(self.verdicts),
                )
                there, text = (
                    claims_table.csv(table[~table["figure"].isin(others)])
                    for table in both
                )
                # The last of six digits may be rounded otherwise.
                what = "" if there == text else agreement.table_fault(there, text, 2e-5)
            self.report.check(kind, file, what, remedy=COMMITTED)

    def recompute(self, part: float, seed: int) -> None:
        """Compute a part of all curves again from their seeds."""
        self.report.sample = {"share": part, "seed": seed, "exact": self.exact}
        for kind, found in recomputation.units(self.figures).items():
            chosen = recomputation.sample(found, part, seed)
            for done, unit in enumerate(chosen, 1):
                self.say(f"compute again {done} of {len(chosen)}: {unit.array}")
                if unit.array not in self.stored:
                    self.report.skip(kind)
                    continue
                stored = self.stored[unit.array]
                what = recomputation.fault(unit, stored, self.exact)
                self.report.check(kind, unit.array, what)
        for figure in self.figures:
            if isinstance(figure, StudyPlan):
                self._without_files(figure)

    def _without_files(self, study: StudyPlan) -> None:
        """Fault what was asked for and cannot be had: weights that are not there.

        Whichever parts the sample would have taken, it was not taken of these.
        """
        lost = study_audit.without_files(study)
        for (file, why), count in Counter(lost.values()).items():
            fetched = Path(file).is_relative_to(self.results)
            self.report.check(
                recomputation.STUDIES,
                Path(file).relative_to(self.results).as_posix()
                if fetched
                else Path(file).name,
                f"{count} of {len(study.parts)} parts of {study.name} were not "
                f"computed again: {why}",
                target=ITSELF,
                remedy=FETCH if fetched else OWN,
            )
            # One line for all of them.
            for _ in range(count - 1):
                self.report.skip(recomputation.STUDIES)

    def leftovers(self) -> None:
        """Name what killed jobs left behind."""
        self._note(
            [
                path.relative_to(self.results).as_posix()
                for folder in (self.results / "cache", self.results / self.preset)
                for path in sorted(folder.rglob(".*.draft*"))
            ],
            "left by a job that was killed, or of one that runs; it counts for nothing",
        )


def other_model(reference: pd.DataFrame, table: pd.DataFrame) -> bool:
    """Return whether a study's tables are of two transformers.

    Examples
    --------
    >>> one, other = (pd.DataFrame({"model": [name]}) for name in ("GPT-2", "MiniLM"))
    >>> other_model(one, other), other_model(one, one)
    (True, False)
    """
    return "model" not in reference or reference["model"][0] != table["model"][0]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(path: Path) -> str | None:
    """Return the text of a file, None where there is none."""
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _json(path: Path) -> Any:
    """Return what a JSON file holds, None where it is missing or holds no JSON."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
