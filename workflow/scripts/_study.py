"""What the scripts of a study share: its weights and words, held to their hashes."""

import argparse
from pathlib import Path

from _job import read_spec, run  # noqa: F401  puts this clone's package on the path

from interpolation_error import download, pretrained, word_tokens


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a part and what it reads."""
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--weights", type=Path, required=True, help="safetensors")
    parser.add_argument("--vocabulary", type=Path, help="vocab.txt, for words")
    parser.add_argument("--output", type=Path, required=True, help="HDF5 to write")


def read_weights(arguments: argparse.Namespace) -> pretrained.AttentionWeights:
    """Return the weights, if the file is the one of the specification."""
    model = arguments.spec["model"]
    checked(arguments.weights, model["sha256"])
    return pretrained.read_attention(arguments.weights, model["layout"], model["heads"])


def read_words(arguments: argparse.Namespace):
    """Return the embeddings of the words and their labels."""
    spec = arguments.spec
    checked(arguments.vocabulary, spec["vocabulary"])
    return word_tokens.word_tokens(
        arguments.weights, arguments.vocabulary, spec["words"], spec["model"]["layout"]
    )


def checked(path: Path, sha256: str) -> None:
    """Refuse a file that is another one than the run was planned with."""
    try:
        download.check_sha256(path, sha256)
    except download.DownloadError as error:
        raise ValueError(f"{error}; remove it, or start the run again") from None
