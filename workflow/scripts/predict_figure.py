"""Predict every curve of a figure."""

import argparse
from pathlib import Path

from _job import Stopwatch, read_spec, run

from interpolation_error.figures.prediction import predict_line
from interpolation_error.model.curve import Curve
from interpolation_error.run import store
from interpolation_error.run.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Predict, store, and say what it took."""
    stopwatch = Stopwatch()
    identity = Identity.of(arguments.spec, "theory")
    store.check_name(arguments.output, identity)
    predicted = {
        f"{name}/{array}": values
        for name, one in arguments.spec["curves"].items()
        for array, values in predict_line(
            Curve.from_spec(one["curve"]),
            one["x_scale"],
            one["row_scale"],
            finite_size=one["finite_size"],
        ).items()
    }
    store.write(arguments.output, predicted, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")
    run(main, parser)
