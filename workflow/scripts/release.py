"""Take a finished paper run as the reference: tables, pictures and verdicts."""

import argparse
import re
import shutil

import pandas as pd
from _finished import add_results, load_plan
from _job import ROOT, run
from summarize import shares
from tabulate import tabulate

HEADERS = ("figure", "panel", "curve", "points", "limit", "finite size", "if exact")
"""Of the table that says how far theory and simulation agree."""
AGREEMENT = ("linear_regression", "nonlinear_attention")


def main(arguments: argparse.Namespace) -> None:
    """Copy what the run made beside the definitions, and its tables into documents."""
    plan = load_plan(arguments)
    folder = plan.configuration.results / "paper"
    copies = {folder / "claims.csv": ROOT / "figures/claims.csv"}
    for name in plan.shown():
        target = ROOT / "figures" / name
        copies[folder / "tables" / f"{name}.csv"] = target / "reference.csv"
        copies[folder / "figures" / f"{name}.png"] = target / "reference.png"
    for name in plan.studies:
        fits = folder / "tables" / f"{name}_fits.csv"
        copies[fits] = ROOT / "figures" / name / "reference_fits.csv"
    for path in (*copies, folder / "claims.md"):
        if not path.is_file():
            raise ValueError(f"{path} is missing; run: make")
    for source, target in copies.items():
        shutil.copy(source, target)
    page = (folder / "claims.md").read_text("utf-8")
    rows = [
        row
        for name in AGREEMENT
        for row in shares(
            name, pd.read_csv(folder / "tables" / f"{name}.csv"), ("panel", "curve")
        )
    ]
    agreement = tabulate(rows, HEADERS, tablefmt="github", floatfmt=".0%")
    pictures = r"(../figures/\1/reference.png)"
    page = re.sub(r"\(figures/(\w+)\.png\)", pictures, page)
    replace("README.md", "agreement", agreement)
    replace("docs/verdicts.md", "claims", page.strip())


def replace(document: str, name: str, content: str) -> None:
    """Put other content between the marks of a name in a document."""
    text = (ROOT / document).read_text("utf-8")
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    if begin not in text or end not in text:
        raise ValueError(f"{document}: lacks the marks of {name}")
    head, _, rest = text.partition(begin)
    new = head + begin + content + end + rest.partition(end)[2]
    (ROOT / document).write_text(new, "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.set_defaults(preset="paper")
    add_results(parser)
    run(main, parser)
