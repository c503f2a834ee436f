"""Predict one part of a study of pretrained weights, or describe the weights."""

import argparse

from _job import Stopwatch, run
from _study import add_files, read_weights, read_words

from interpolation_error import store, study_prediction
from interpolation_error.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read the weights, predict, store, and say what it took."""
    stopwatch = Stopwatch()
    spec = arguments.spec
    identity = Identity.of(spec, "study_prediction")
    store.check_name(arguments.output, identity)
    weights = read_weights(arguments)
    match spec["part"]:
        case "description":
            found = study_prediction.describe(weights)
        case "heads":
            found = study_prediction.predict_heads(spec, weights)
        case "sweeps":
            found = study_prediction.predict_sweeps(spec, weights)
        case "words":
            words = read_words(arguments)
            found = study_prediction.predict_words(spec, weights, *words)
    store.write(arguments.output, found, identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_files(parser)
    run(main, parser)
