"""Take a finished paper run as the reference: tables, pictures and verdicts."""

import argparse
import re
import shutil
from pathlib import Path

import pandas as pd
from _job import run
from summarize import shares
from tabulate import tabulate

from interpolation_error import checked_yaml, configuration

ROOT = Path(__file__).resolve().parents[2]
HEADERS = ("figure", "panel", "curve", "points", "limit", "finite size", "if exact")
"""Of the table that says how far theory and simulation agree."""
AGREEMENT = ("linear_regression", "nonlinear_attention")


def main(arguments: argparse.Namespace) -> None:
    """Copy what the run made beside the definitions, and its tables into documents."""
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": "paper"}, ROOT, "config")
    folder = loaded.results / "paper"
    for shown in (*loaded.figures, *loaded.studies):
        target = ROOT / "figures" / shown.name
        shutil.copy(folder / "tables" / f"{shown.name}.csv", target / "reference.csv")
        shutil.copy(folder / "figures" / f"{shown.name}.png", target / "reference.png")
    for study in loaded.studies:
        fits = folder / "tables" / f"{study.name}_fits.csv"
        shutil.copy(fits, ROOT / "figures" / study.name / "reference_fits.csv")
    shutil.copy(folder / "claims.csv", ROOT / "figures/claims.csv")
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
    run(main, argparse.ArgumentParser(description=__doc__))
