"""Say what a preset costs from nothing, by stage, and what it took where it ran."""

import argparse
from collections.abc import Iterable

from _finished import add_run, load_plan
from _job import run
from tabulate import tabulate

from interpolation_error.run import costs

COLUMNS = ("stage", "jobs", "core-hours", "largest job (MB)", "disk (MB)")
FORMATS = ("", ".0f", ".2f", ".0f", ".0f", ".2f")


def main(arguments: argparse.Namespace) -> None:
    """Add up the estimates of all jobs, and the sidecars of those that ran."""
    plan = load_plan(arguments)
    results = plan.configuration.results
    jobs = list(costs.jobs(plan))
    print("From nothing:\n")
    print(tabulate(rows(jobs), COLUMNS, floatfmt=FORMATS))
    pairs = list(costs.measured(jobs, results))
    if pairs:
        expected, took = zip(*pairs, strict=True)
        compared = [
            (*row, estimate[2] / row[2] if row[2] else None)
            for estimate, row in zip(rows(expected), rows(took), strict=True)
        ]
        print(f"\nMeasured, of the jobs whose arrays are in {results}:\n")
        print(tabulate(compared, (*COLUMNS, "estimate"), floatfmt=FORMATS))
        print(
            "\nestimate: times the measured core-hours; tables and pictures keep none."
        )
    print("\nCore-hours are estimates, within a factor of two on a machine of 2024.")


def rows(jobs: Iterable[costs.Job]) -> list[tuple]:
    """Return what jobs cost, a row a stage and one for all."""
    stages = costs.by_stage(jobs)
    (total,) = costs.by_stage(job._replace(stage="all") for job in jobs).values()
    return [
        (stage, cost.jobs, cost.seconds / 3600, cost.memory, cost.disk)
        for stage, cost in [*stages.items(), ("all", total)]
    ]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_run(parser)
    run(main, parser)
