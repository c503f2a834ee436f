"""Verify a finished run without simulating it; with --recompute, a part of it anew."""

import argparse
import secrets
import sys

from _finished import ROOT, add_run, load_plan
from _job import run, write_json
from tabulate import tabulate

from interpolation_error.audit import recomputation, verification
from interpolation_error.audit.report import RECORD, record, summary

HEADERS = ("what", "named", "hold", "faulty", "not checked")


def main(arguments: argparse.Namespace) -> None:
    """Verify, print what was checked and every fault, and keep a record."""
    part = recomputation.share(arguments.recompute) if arguments.recompute else 0.0
    seed = sample_seed(arguments.sample)
    plan = load_plan(arguments)
    report = verification.verify(
        plan,
        ROOT,
        figures=arguments.figure,
        redraw=arguments.redraw,
        recompute=part,
        seed=seed,
        say=say if sys.stderr.isatty() else lambda text: None,
    )
    print(tabulate(report.rows(), HEADERS), end="\n\n")
    if part:
        how = "bit by bit" if report.sample["exact"] else "within rounding"
        again = f"for the same again: SAMPLE={seed}"
        print(f"{100 * part:g} % recomputed, compared {how}; {again}\n")
    for line in summary(report):
        print(line)
    if not arguments.figure:
        keep(record(report, plan, ROOT), plan)
    if report.faults:
        sys.exit(1)


def sample_seed(text: str | None) -> int:
    """Return the number that chooses what is recomputed, any one if none is given."""
    if text is None:
        return secrets.randbelow(10**6)
    if not text.isdecimal():
        raise ValueError(
            f"sample must be a whole number from 0, such as 7, got {text!r}"
        )
    return int(text)


def keep(content: dict, plan) -> None:
    """Keep the record beside the run, for its audit pages, where that can be done."""
    path = plan.configuration.results / plan.configuration.preset / RECORD
    try:
        write_json(path, content)
    except OSError as error:
        print(f"note: {path}: no record is kept ({error.strerror})")


def say(text: str) -> None:
    """Show what is going on in one line of a terminal."""
    print(f"\r\033[K{text}", end="\r", file=sys.stderr, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_run(parser)
    parser.add_argument(
        "--figure", nargs="+", default=[], help="these figures alone, without verdicts"
    )
    parser.add_argument("--redraw", action="store_true", help="draw pictures again too")
    parser.add_argument("--recompute", help="share to compute again, such as 5%%")
    parser.add_argument("--sample", help="whole number that chooses which; random")
    run(main, parser)
