"""Predict one part of a study of pretrained weights, or describe the weights."""

import argparse
from pathlib import Path

from _job import Stopwatch, read_spec, run

from interpolation_error.run import store, study_parts
from interpolation_error.run.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read the weights, predict, store, and say what it took."""
    stopwatch = Stopwatch()
    identity = Identity.of(arguments.spec, "study_theory")
    store.check_name(arguments.output, identity)
    found = study_parts.predict(arguments.spec, arguments.weights)
    store.write(arguments.output, found, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")
    run(main, parser)
