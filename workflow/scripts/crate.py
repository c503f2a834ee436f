"""Write a finished run as a Workflow Run RO-Crate: results/<preset>/crate.zip."""

import argparse

from _finished import ROOT, add_run, load_plan
from _job import run

from interpolation_error.audit import crate


def main(arguments: argparse.Namespace) -> None:
    """Write the crate and say where it is and how large."""
    path = crate.write(load_plan(arguments), ROOT)
    print(f"Crate: {path} ({path.stat().st_size / 2**20:.1f} MiB)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_run(parser)
    run(main, parser)
