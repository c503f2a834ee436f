"""Draw the noise of a block of replicates and store it with its labels."""

import argparse
from pathlib import Path

import numpy as np
from _job import Stopwatch, read_spec, run

from interpolation_error import data, store
from interpolation_error.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Draw, store, and say what it took."""
    stopwatch = Stopwatch()
    spec = arguments.spec
    identity = Identity.of(spec, "data")
    store.check_name(arguments.output, identity)
    noise = np.empty((len(spec["replicates"]), spec["dimension"], spec["tokens"]))
    for block, replicate in zip(noise, spec["replicates"], strict=True):
        block[:] = data.noise(
            spec["seed"], replicate, spec["dimension"], spec["tokens"]
        )
    labels = data.alternating_labels(spec["tokens"])
    store.write(arguments.output, {"noise": noise, "labels": labels}, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")
    run(main, parser)
