"""Say what a preset costs from nothing: jobs, core-hours, memory and disk by stage."""

import argparse
from pathlib import Path

from _job import run
from tabulate import tabulate

from interpolation_error import configuration, resources
from interpolation_error.plan import Plan

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: argparse.Namespace) -> None:
    """Add up the estimates of every job of a plan."""
    config = configuration.read_yaml(ROOT / "config/config.yaml", ROOT)
    config["preset"] = arguments.preset
    plan = Plan(configuration.load(config, ROOT, "config/config.yaml"), "")
    rows = [
        (stage, cost.jobs, cost.seconds / 3600, cost.memory, cost.disk)
        for stage, cost in resources.costs(plan).items()
    ]
    rows.append(
        ("all", *(sum(x) for x in list(zip(*rows, strict=True))[1:3]))
        + (max(row[3] for row in rows), sum(row[4] for row in rows))
    )
    headers = ("stage", "jobs", "core-hours", "largest job (MB)", "disk (MB)")
    print(tabulate(rows, headers, floatfmt=("", ".0f", ".2f", ".0f", ".0f")))
    print("\nCore-hours are estimates, within a factor of two on a machine of 2024.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", required=True, help="what would run")
    run(main, parser)
