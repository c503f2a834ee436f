"""Simulate one curve on a block of draws."""

import argparse
from pathlib import Path

from _job import Stopwatch, read_spec, run

from interpolation_error.model.curve import Curve
from interpolation_error.run import store
from interpolation_error.run.identity import Identity
from interpolation_error.simulation.experiment import simulate_curve


def main(arguments: argparse.Namespace) -> None:
    """Read the draws, simulate, store, and say what it took."""
    stopwatch = Stopwatch()
    spec = arguments.spec
    identity = Identity.of(spec, "simulation")
    store.check_name(arguments.output, identity)
    measured = simulate_curve(
        Curve.from_spec(spec["curve"]),
        store.read(arguments.dataset),
        seed=spec["seed"],
        replicates=spec["replicates"],
    )
    store.write(arguments.output, measured, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--dataset", type=Path, required=True, help="HDF5 to read")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")
    run(main, parser)
