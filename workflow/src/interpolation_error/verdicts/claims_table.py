"""The verdicts as a table that people read."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
from tabulate import tabulate

from interpolation_error.figures import tables
from interpolation_error.verdicts.claims import Verdict

HEAD = """\
Each point of a region is judged by its 95 % interval over draws, widened for the number
of points in the region (Bonferroni). The region supports a statement if it holds at the
claimed share of the points, contradicts it if it fails at more than that share leaves,
and is undecided otherwise: where it is undecided and 0 % fails, the draws are too few,
and nothing speaks against the statement. *Estimate* is the mean of the statistic over
the points with its 95 % interval; *theory* the share of points at which the limit
itself lies as claimed, left out where both sides have one and the same limit. A
difference of 0.1 between logarithms is about one of 10 %.
"""
SECTIONS = {False: "Statements of the paper", True: "Statements beyond the paper"}
VERDICTS = ("supported", "contradicted", "undecided", "not tested")

MEASURES = {
    "log_ratio": "ln of E over that of {against}",
    "gain": "ln of the fall of E since the first value{less}",
    "gap_change": "fall of ln of E over that of {against} since the first value",
    "between_panels": "ln of E over that of {against} in {other}, less that here",
    "residual": "simulation over {theory}, less 1",
    "distance": "largest distance of distribution functions",
    "slope": "exponent of p",
}
"""What each statistic is, for the table."""


DIGITS = 6
"""Significant digits of a number in the verdicts' table."""


def texts(verdicts: Sequence[Verdict], key: str) -> dict[str, str]:
    """Return the verdicts as the texts of their three files.

    Parameters
    ----------
    verdicts : sequence of Verdict
        As :func:`interpolation_error.verdicts.claims.verdicts` returns them.
    key : str
        Of all that they depend on.

    Returns
    -------
    dict of str to str
        By the name of the file.

    Examples
    --------
    >>> list(texts([], "0" * 64))
    ['claims.json', 'claims.csv', 'claims.md']
    """
    content = {"key": key, "claims": verdicts}
    return {
        "claims.json": json.dumps(content, indent=1, sort_keys=True) + "\n",
        "claims.csv": csv(rows(verdicts)),
        "claims.md": markdown(verdicts, "figures/{figure}.png"),
    }


def csv(table: pd.DataFrame) -> str:
    """Return the verdicts' table, or a part of it, as the text of a CSV file.

    Parameters
    ----------
    table : DataFrame
        As :func:`rows` returns it.

    Returns
    -------
    str
    """
    return tables.text(table, DIGITS)


def rows(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return the verdicts as a table, a row for each region, without the details.

    Parameters
    ----------
    verdicts : sequence of Verdict
        As :func:`interpolation_error.verdicts.claims.verdicts` returns them.

    Returns
    -------
    DataFrame
    """
    plain = []
    for one in verdicts:
        row = {
            key: value
            for key, value in one.items()
            if not isinstance(value, (dict, list))
        }
        for size in ("tokens", "dimension"):
            if size in one:
                row[f"{size}_smallest"], row[f"{size}_largest"] = one[size]
        plain.append({**row, "statistic": measure(one), "claimed": claimed(one)})
    return pd.DataFrame(plain)


def markdown(verdicts: Sequence[Verdict], figures: str) -> str:
    """Return the verdicts as a page in Markdown.

    Parameters
    ----------
    verdicts : sequence of Verdict
        As :func:`interpolation_error.verdicts.claims.verdicts` returns them.
    figures : str
        Where the pictures are, with ``{figure}`` for a figure's name.

    Returns
    -------
    str
    """
    parts = [HEAD]
    for is_beyond, title in SECTIONS.items():
        chosen = [one for one in verdicts if (one["paper"] == "beyond") is is_beyond]
        if chosen:
            parts += [f"### {title}: {counted(chosen)}\n", _table(chosen, figures)]
    return "\n".join(parts)


def counted(verdicts: Sequence[Verdict]) -> str:
    """Return how often each verdict was found, in words.

    Parameters
    ----------
    verdicts : sequence of Verdict
        As :func:`interpolation_error.verdicts.claims.verdicts` returns them.

    Returns
    -------
    str

    Examples
    --------
    >>> counted([{"verdict": "undecided"}, {"verdict": "supported"}])
    '1 supported, 1 undecided'
    """
    found = [one["verdict"] for one in verdicts]
    return ", ".join(
        f"{found.count(word)} {word}" for word in VERDICTS if word in found
    )


def _table(verdicts: Sequence[Verdict], figures: str) -> str:
    """Return verdicts as a table, with a statement at the first of its regions."""
    table = []
    previous = None
    for one in verdicts:
        first = one["claim"] != previous
        previous = one["claim"]
        link = f"[{one['figure']}]({figures.format(figure=one['figure'])})"
        table.append(
            {
                "statement": f"{one['statement']} {link}" if first else "",
                "region": one["region"],
                "verdict": f"**{one['verdict']}**",
                **_numbers(one),
            }
        )
    body = tabulate(table, headers="keys", tablefmt="github", disable_numparse=True)
    return f"{body}\n"


def _numbers(one: Verdict) -> dict[str, str]:
    """Return the cells that only a tested region has."""
    empty = (
        "statistic: claimed",
        "estimate",
        "holds, fails",
        "theory",
        "points × draws",
    )
    if one["verdict"] == "not tested":
        return dict.fromkeys((*empty, "sizes"), "")
    # A ratio of one limit to itself says nothing of the statement.
    same = one["statistic"]["kind"] == "log_ratio" and one["theory_estimate"] == 0
    theory = "" if one["theory"] is None or same else f"{one['theory']:.0%}"
    sizes = [_range(one[name]) for name in ("tokens", "dimension")]
    return {
        "statistic: claimed": f"{measure(one)}: {claimed(one)}",
        "estimate": f"{one['estimate']:.3g} ({one['low']:.3g} … {one['high']:.3g})",
        "holds, fails": f"{one['holds']:.0%}, {one['fails']:.0%} "
        f"(of {one['share']:.0%})",
        "theory": theory,
        "points × draws": f"{one['points']} × {one['draws']}",
        "sizes": f"n {sizes[0]}, p {sizes[1]}",
    }


def measure(one: Verdict) -> str:
    """Return what a verdict's statistic says, in words."""
    how = one["statistic"]
    against = str(how.get("against", "")).replace("_", " ")
    less = f", less that of {against}" if against else ""
    theory = how.get("theory", "limit").replace("_", "-")
    other = str(how.get("other_panel", "")).replace("_", " ")
    return MEASURES[how["kind"]].format(
        against=against, less=less, theory=theory, other=other
    )


def claimed(one: Verdict) -> str:
    """Return the interval that a statistic is said to lie in.

    Examples
    --------
    >>> claimed({"claimed": {"above": -0.05, "below": 0.05}})
    'above -0.05, below 0.05'
    """
    return ", ".join(f"{side} {value:g}" for side, value in one["claimed"].items())


def _range(sizes: Sequence[int]) -> str:
    low, high = sizes
    return f"{low}" if low == high else f"{low} … {high}"
