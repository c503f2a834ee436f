"""Store a block of draws: of the noise, or of a user's own tokens."""

import argparse
from pathlib import Path

import numpy as np
from _job import Stopwatch, read_spec, run

from interpolation_error.model import data, tokens_file
from interpolation_error.model.setting import TokensFile
from interpolation_error.run import store
from interpolation_error.run.identity import Identity


def noise(spec: dict) -> dict[str, np.ndarray]:
    """Return the noise of every replicate."""
    draws = np.empty((len(spec["replicates"]), spec["dimension"], spec["tokens"]))
    for block, replicate in zip(draws, spec["replicates"], strict=True):
        block[:] = data.noise(
            spec["seed"],
            replicate,
            spec["dimension"],
            spec["tokens"],
            **spec.get("noise", {}),
        )
    return {"noise": draws}


def user_tokens(spec: dict) -> dict[str, np.ndarray]:
    """Return a subset of the user's tokens for every replicate."""
    source = TokensFile(**spec["source"])
    return tokens_file.draw(
        source, spec["tokens"], seed=spec["seed"], replicates=spec["replicates"]
    )


def main(arguments: argparse.Namespace) -> None:
    """Draw, store, and say what it took."""
    stopwatch = Stopwatch()
    spec = arguments.spec
    own = "source" in spec
    identity = Identity.of(spec, "tokens" if own else "data")
    store.check_name(arguments.output, identity)
    store.write(arguments.output, user_tokens(spec) if own else noise(spec), identity)
    stopwatch.write(arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")
    run(main, parser)
