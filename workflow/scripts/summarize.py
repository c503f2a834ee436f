"""Say where a run's figures are, how far theory holds, and what the run cost."""

import argparse
from collections.abc import Sequence

import pandas as pd
from _finished import add_run, load_plan
from _job import run
from tabulate import tabulate

from interpolation_error.figures.tables import expected_share
from interpolation_error.run import costs


def main(arguments: argparse.Namespace) -> None:
    """Read tables and sidecars of a finished run."""
    plan = load_plan(arguments)
    results = plan.configuration.results
    folder = results / plan.configuration.preset
    names = list(plan.shown())
    tables = [folder / "tables" / f"{name}.csv" for name in names]
    rows = [
        row
        for name, path in zip(names, tables, strict=True)
        if path.is_file()
        for row in shares(name, pd.read_csv(path))
    ]
    print("Points within 3 standard errors of theory:\n")
    headers = ("figure", "points", "limit", "finite size", "if exact")
    print(tabulate(rows, headers, floatfmt=".0%"))
    claims = folder / "claims.csv"
    if claims.is_file():
        counts = pd.read_csv(claims)["verdict"].value_counts()
        words = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        print(f"\nVerdicts on statements and regions: {words}")
    print()
    measured = costs.measured(costs.jobs(plan), results)
    took = costs.by_stage(job for _, job in measured)
    total = sum(cost.seconds for cost in took.values())
    for stage, cost in took.items():
        print(f"{stage}: {cost.seconds / total:.0%} of the jobs' time")
    print(f"\nFigures: {folder / 'figures'}\nTables:  {folder / 'tables'}")
    if claims.is_file():
        print(f"Claims:  {folder / 'claims.md'}")


def shares(name: str, table: pd.DataFrame, by: Sequence[str] = ()):
    """Yield how many points are within 3 standard errors of theory, and should be.

    ``by`` names columns of the table that are told apart.
    """
    table = table.dropna(subset="residual_in_standard_errors")
    groups = table.groupby([*by], sort=False) if by else [((), table)]
    for words, rows in groups:
        if len(rows):
            expected = rows["replicates"].map(expected_share).mean()
            limit = within(rows["residual_in_standard_errors"])
            # Which a study has for a few of its points only, and not in this table.
            finite_size = None
            if "residual_at_finite_size" in rows:
                finite_size = within(rows["residual_at_finite_size"])
            yield name, *words, len(rows), limit, finite_size, expected


def within(residual: pd.Series):
    """Return the share of residuals of at most 3 standard errors, None without any."""
    residual = residual.dropna()
    return (residual.abs() <= 3).mean() if len(residual) else None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_run(parser)
    run(main, parser)
