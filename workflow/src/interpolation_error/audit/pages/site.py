"""Audit pages of a finished run: static, one a figure, for a reader who doubts it."""

from __future__ import annotations

import json
import re
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from interpolation_error.audit.pages import array_facts, figure_page
from interpolation_error.audit.report import RECORD, covered
from interpolation_error.figures import drawing
from interpolation_error.run import provenance, store
from interpolation_error.run.plan import Plan
from interpolation_error.verdicts import claims_table

DRAWS = ("data", "tokens")
"""Kinds of array that a finished run need not keep."""


def build(plan: Plan, root: Path) -> Path:
    """Write the audit pages of a finished run.

    Parameters
    ----------
    plan : Plan
        The run; its configuration names preset and results folder.
    root : Path
        The project: definitions, captions, docs and commit.

    Returns
    -------
    Path
        The first page.

    Raises
    ------
    ValueError
        If the run is not finished; one line with the command that finishes it.
    StoreError
        If an array cannot be read.
    """
    check_finished(plan)
    run = plan.configuration.results / plan.configuration.preset
    site = run / "audit"
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("interpolation_error.audit.pages"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    shared = {
        "preset": plan.configuration.preset,
        "seed": plan.configuration.seed,
        "git": provenance.git_state(root),
        "figures": [(p.name, p.definition.title) for p in plan.shown().values()],
    }
    verdicts = _verdicts(run)
    drawing.use_style(root / "figures/paper.mplstyle")
    pages = {
        name: {
            **figure_page.parts(one, plan, root),
            "verdicts": [v for v in verdicts if v["figure"] == name],
        }
        for name, one in plan.shown().items()
    }
    for name, page in pages.items():
        text = environment.get_template("figure.html").render(**shared, **page)
        _write(site / f"{name}.html", text)
    first = environment.get_template("index.html").render(
        **shared,
        verdicts=verdicts,
        record=_record(plan, run),
        pages=pages,
        made_with=array_facts.made_with(plan),
        pages_with=provenance.versions(),
    )
    _write(site / "index.html", first)
    for name in ("style.css", "script.js"):
        _write(site / name, _template(name))
    # Pages of figures that are no longer part of the preset would mislead.
    for path in site.glob("*.html"):
        if path.stem != "index" and path.stem not in pages:
            path.unlink()
    return site / "index.html"


def check_finished(plan: Plan) -> None:
    """Refuse a run that lacks an array, table, picture or verdict of its plan.

    Parameters
    ----------
    plan : Plan
        The run.

    Raises
    ------
    ValueError
        One line with the file and the command that finishes the run.
    """
    results, preset = plan.configuration.results, plan.configuration.preset
    run = results / preset
    wanted = []
    for name, one in plan.shown().items():
        kept = (item for item in one.items() if item.kind not in DRAWS)
        wanted += [results / item.cached for item in kept]
        wanted += [run / "tables" / f"{table}.csv" for table in one.tables]
        wanted += [run / "figures" / f"{name}.{kind}" for kind in drawing.FORMATS]
        # A table or picture of another state has a manifest of another name.
        wanted += [run / f"manifests/{o.stem}.json" for o in (one.table, one.picture)]
    wanted += [run / f"claims.{kind}" for kind in ("json", "csv", "md")]
    wanted += [run / f"manifests/{plan.claims.stem}.json"]
    for path in wanted:
        if not path.is_file():
            raise ValueError(
                f"{path}: is missing, so the run {preset} is not finished with these "
                f"parameters and this code; finish it: {_finish(results, preset)}"
            )


def _finish(results: Path, preset: str) -> str:
    """Return the command that finishes a run."""
    if results == Path("results"):
        return f"make PRESET={preset}"
    folder = shlex.quote(results.as_posix())
    return f"snakemake --cores all --config preset={preset} results={folder}"


def _verdicts(run: Path) -> list[dict[str, Any]]:
    """Return the verdicts, with what people read of each."""
    claims = json.loads((run / "claims.json").read_text("utf-8"))["claims"]
    return [
        {
            **one,
            "measure": claims_table.measure(one),
            "interval": claims_table.claimed(one),
        }
        for one in claims
    ]


def _record(plan: Plan, run: Path) -> dict[str, Any] | None:
    """Return what the last verification found; None without any."""
    path = run / RECORD
    if not path.is_file():
        return None
    record: dict[str, Any] = json.loads(path.read_text("utf-8"))
    record["current"] = record.get("covers") == covered(plan)
    return record


def _template(name: str) -> str:
    folder = resources.files("interpolation_error.audit.pages") / "templates"
    return (folder / name).read_text("utf-8")


def _write(path: Path, text: str) -> None:
    with store.replacing(path) as draft:
        draft.write_text(re.sub(r"\n{3,}", "\n\n", text), "utf-8")
