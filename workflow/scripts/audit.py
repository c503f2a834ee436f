"""Write the audit pages of a finished run: results/<preset>/audit/index.html."""

import argparse

import matplotlib as mpl

mpl.use("Agg")

from _finished import ROOT, add_run, load_plan
from _job import run

from interpolation_error.audit.pages import site


def main(arguments: argparse.Namespace) -> None:
    """Build the pages and say where they begin."""
    print(f"Audit: {site.build(load_plan(arguments), ROOT)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_run(parser)
    run(main, parser)
