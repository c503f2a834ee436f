"""What the audit page of a figure shows, part by part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from docutils.core import publish_parts

from interpolation_error.audit.pages import array_facts, equations, tooltips
from interpolation_error.audit.pages.parameters import WHO_SAYS, of_study, parameters
from interpolation_error.figures.figure import Figure
from interpolation_error.figures.tables import expected_share
from interpolation_error.run.plan import FigurePlan, Plan, StudyPlan

LARGEST_SVG = 2**21
"""A picture whose SVG has more bytes than that is shown as PNG."""
OF_CURVES = ("tips", "parameters", "curves", "replicates", "residuals", "between")
"""Parts that only a figure of simulated and predicted curves has."""


def parts(one: FigurePlan | StudyPlan, plan: Plan, root: Path) -> dict[str, Any]:
    """Return all that the page of a figure shows.

    Parameters
    ----------
    one : FigurePlan or StudyPlan
        The figure.
    plan : Plan
        The run.
    root : Path
        The project.

    Returns
    -------
    dict
        What the template ``figure.html`` asks for. What only a figure of curves has
        is None where the table is of another kind.

    Raises
    ------
    StoreError
        If an array cannot be read.
    """
    figure, name = one.definition, one.name
    run = plan.configuration.results / plan.configuration.preset
    table = pd.read_csv(run / "tables" / f"{name}.csv")
    svg = run / "figures" / f"{name}.svg"
    caption = (root / "figures" / name / "caption.rst").read_text("utf-8")
    arrays = [
        array_facts.facts(item, plan.configuration.results) for item in one.items()
    ]
    content: dict[str, Any] = {
        "name": name,
        "title": figure.title,
        "paper": figure.paper,
        "equation": figure.equation,
        "picture": f"{name}.{'svg' if svg.stat().st_size < LARGEST_SVG else 'png'}",
        "caption": html(caption),
        "arrays": arrays,
        "seconds": sum(array["seconds"] or 0 for array in arrays),
        "memory": max((array["memory"] or 0 for array in arrays), default=0),
        "numbers": cells(table),
        **dict.fromkeys(OF_CURVES),
    }
    if isinstance(one, FigurePlan):
        defined = plan.configuration.defined[name]
        return content | _of_curves(one, defined, table, root)
    return content | {
        "parameters": of_study(one.definition),
        "sources": WHO_SAYS,
        "curves": [
            {"curves": [role], "sources": found}
            for role, found in equations.of_study(theory_text(root))
        ],
    }


def theory_text(root: Path) -> str:
    """Return the document whose tables join equations and functions."""
    return (root / "docs/theory.md").read_text("utf-8")


def _of_curves(
    one: FigurePlan, defined: Figure, table: pd.DataFrame, root: Path
) -> dict[str, Any]:
    """Return the parts of a figure of simulated and predicted curves."""
    figure = one.definition
    points = table["simulated_mean"].notna()
    theory = theory_text(root)
    return {
        "tips": tooltips.tips(table, one.picture.spec["drawing"]),
        "parameters": parameters(figure, defined),
        "sources": WHO_SAYS,
        "curves": _curves(figure, theory),
        "replicates": {panel.title: panel.replicates for panel in figure.panels},
        "residuals": residuals(table),
        "numbers": cells(table[points]),
        "between": cells(table[~points]) if not points.all() else None,
    }


def html(text: str) -> str:
    """Return a caption in reStructuredText as HTML.

    Parameters
    ----------
    text : str
        Nothing in it can read a file or pass raw HTML.

    Returns
    -------
    str

    Examples
    --------
    >>> html("**Two** words.")
    '<p><strong>Two</strong> words.</p>'
    """
    settings = {"raw_enabled": False, "file_insertion_enabled": False}
    parts = publish_parts(text, writer="html5", settings_overrides=settings)
    return str(parts["body"]).strip()


def residuals(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how far theory and simulation agree, curve by curve.

    Parameters
    ----------
    table : DataFrame
        A figure's table.

    Returns
    -------
    list of dict
        ``panel``, ``curve``, ``points`` and ``expected``, the share within 3 standard
        errors of an exact theory; and for the limit and the theory at finite size the
        share within 3, the root mean square and the largest, None where there is none.
    """
    found = []
    groups = table.dropna(subset="simulated_mean").groupby(
        ["panel", "curve"], sort=False
    )
    for (panel, curve), rows in groups:
        row: dict[str, Any] = {
            "panel": panel,
            "curve": curve,
            "points": len(rows),
            "expected": rows["replicates"].map(expected_share).mean(),
        }
        for key, column in (
            ("limit", "residual_in_standard_errors"),
            ("finite_size", "residual_at_finite_size"),
        ):
            values = rows[column].replace([np.inf, -np.inf], np.nan).dropna().abs()
            row[key] = None
            if len(values):
                row[key] = {
                    "within": (values <= 3).mean(),
                    "rms": float(np.sqrt((values**2).mean())),
                    "largest": values.max(),
                }
        found.append(row)
    return found


def cells(table: pd.DataFrame) -> dict[str, Any]:
    """Return a table's columns that hold anything, and its cells as text.

    Parameters
    ----------
    table : DataFrame
        Of any columns.

    Returns
    -------
    dict
        ``columns``, and ``rows`` with six digits of every number.

    Examples
    --------
    >>> cells(pd.DataFrame({"x_of": [0.1, None], "word": ["a", "b"], "no": [None] * 2}))
    {'columns': ['x of', 'word'], 'rows': [['0.1', 'a'], ['', 'b']]}
    """
    shown = table.dropna(axis="columns", how="all")
    return {
        "columns": [name.replace("_", " ") for name in shown.columns],
        "rows": [
            [_cell(value) for value in row] for row in shown.itertuples(index=False)
        ],
    }


def _cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "" if pd.isna(value) else f"{value:.6g}"


def _curves(figure: Figure, theory: str) -> list[dict[str, Any]]:
    """Return each curve's equations, functions and lines of code; alike ones once."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for panel in figure.panels:
        for labelled in panel.curves:
            found = equations.sources(panel, labelled, theory)
            row = rows.setdefault(found, {"sources": found, "curves": []})
            row["curves"].append(f"{panel.name}/{labelled.name}")
    return list(rows.values())
