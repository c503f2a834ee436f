"""Simulate one part of a study of pretrained weights."""

import argparse
from pathlib import Path

from _job import Stopwatch, run
from _study import add_files, read_weights, read_words

from interpolation_error import store, study_simulation
from interpolation_error.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read weights and tokens, simulate, store, and say what it took."""
    stopwatch = Stopwatch()
    spec = arguments.spec
    identity = Identity.of(spec, "study_simulation")
    store.check_name(arguments.output, identity)
    weights = read_weights(arguments)
    if spec["part"] == "words":
        found = study_simulation.simulate_words(spec, weights, *read_words(arguments))
    else:
        noise = store.read(arguments.dataset)["noise"]
        simulate = {
            "heads": study_simulation.simulate_heads,
            "sweeps": study_simulation.simulate_sweeps,
        }[spec["part"]]
        found = simulate(spec, weights, noise)
    store.write(arguments.output, found, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    parser.add_argument("--dataset", type=Path, help="HDF5 with the noise")
    run(main, parser)
