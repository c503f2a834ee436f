"""Compare two runs of one preset: two machines, two versions of the code."""

import argparse
import sys
from pathlib import Path

from _job import run
from tabulate import tabulate

from interpolation_error.audit import comparison

SHOWN = 40


def main(arguments: argparse.Namespace) -> None:
    """Compare, print the counts and what differs most."""
    if "" in (arguments.a, arguments.b):
        raise ValueError(
            "name two results folders: make compare A=results B=other/results"
        )
    a, b = Path(arguments.a), Path(arguments.b)
    shared = comparison.presets(a), comparison.presets(b)
    both = [name for name in shared[0] if name in shared[1]]
    if not (arguments.preset or both):
        raise ValueError(
            f"{a} has runs of {', '.join(shared[0]) or 'no preset'} and {b} of "
            f"{', '.join(shared[1]) or 'no preset'}: there is nothing to compare"
        )
    agrees = True
    for preset in [arguments.preset] if arguments.preset else both:
        report = comparison.compare(a, b, preset)
        agrees &= report.agrees
        print(f"{preset}: A = {a}, B = {b}\n")
        for place, origins in report.origins.items():
            for origin in origins:
                print(f"{place}: {origin}")
        print()
        print(tabulate(report.counts(), ("what", *comparison.OUTCOMES)), end="\n\n")
        apart = [row for row in report.rows if row.outcome not in comparison.AGREE]
        for row in apart[:SHOWN]:
            print(f"{row.kind}: {row.name}: {row.what or row.outcome}")
        if len(apart) > SHOWN:
            print(f"... and {len(apart) - SHOWN} more")
        print(report.conclusion())
    if not agrees:
        sys.exit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("a", metavar="A", help="a results folder")
    parser.add_argument("b", metavar="B", help="another one")
    parser.add_argument("--preset", help="compare this preset alone, not all in both")
    run(main, parser)
