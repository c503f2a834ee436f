"""What scripts about a run share: its plan, from wherever they are called."""

import argparse
import os
from pathlib import Path

from _job import ROOT

from interpolation_error.figures import checked_yaml
from interpolation_error.run import configuration, store
from interpolation_error.run.plan import Plan


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a run."""
    parser.add_argument("--preset", help="the preset; that of config.yaml")
    add_results(parser)


def add_results(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a results folder."""
    parser.add_argument(
        "--results", type=Path, help="results folder; that of config.yaml"
    )


def load_plan(arguments: argparse.Namespace) -> Plan:
    """Return the plan of the run that the options name, and go to the project."""
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    if arguments.preset:
        config["preset"] = arguments.preset
    if arguments.results:
        # As it was written where that leads to the same place.
        given = arguments.results
        config["results"] = str(given if Path.cwd() == ROOT else given.resolve())
    os.chdir(ROOT)  # files of the user's own are named from here
    loaded = configuration.load(config, ROOT, "config/config.yaml")
    return Plan(loaded, store.file_digest(ROOT / "figures/paper.mplstyle"))
