r"""Embeddings of real words as tokens, of two classes.

They are the rows of a transformer's table of input embeddings: real, and without the
positions and layer norms that follow it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from interpolation_error.model import data
from interpolation_error.model.pretrained import word_embeddings

Array = NDArray[np.float64]


def read_words(path: Path) -> tuple[tuple[str, int], ...]:
    """Return words and their labels from a list.

    Parameters
    ----------
    path : Path
        Comma-separated, with the columns ``word`` and ``label``, which is 1 or -1.

    Returns
    -------
    tuple of (str, int)

    Raises
    ------
    ValueError
        If the list cannot be read, lacks a column, has another label, the same word
        twice, or words of one label alone; one line.
    """
    try:
        # "null" and "nan" are words here.
        table = pd.read_csv(path, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read ({error})") from None
    if list(table.columns) != ["word", "label"]:
        raise ValueError(f"{path}: must have the columns word and label")
    if set(table["label"]) != {1, -1}:
        raise ValueError(f"{path}: labels must be 1 and -1, and both must be there")
    twice = table["word"][table["word"].duplicated()]
    if len(twice):
        raise ValueError(f"{path}: the word {twice.iloc[0]!r} stands twice")
    pairs = zip(table["word"], table["label"], strict=True)
    return tuple((str(word), int(label)) for word, label in pairs)


def word_tokens(
    path: str | Path,
    vocabulary: str | Path,
    words: Sequence[tuple[str, int]],
    layout: str,
) -> tuple[Array, Array]:
    r"""Return the embeddings of words, centred and scaled, and their labels.

    Every dimension is centred at the mean of the two class means, so that the classes
    stand at :math:`\pm\hat\mu`, and divided by its standard deviation within the
    classes, so that the noise has unit variance in every dimension. It is still
    correlated between dimensions.

    Parameters
    ----------
    path : str or Path
        Safetensors file of the model.
    vocabulary : str or Path
        The tokenizer's ``vocab.txt``.
    words : sequence of (str, int)
        As :func:`read_words` returns them.
    layout : str
        As :func:`interpolation_error.model.pretrained.word_embeddings` takes it.

    Returns
    -------
    tokens : ndarray of float64, shape (p, words)
    labels : ndarray of float64, shape (words,)

    Raises
    ------
    ValueError
        As :func:`interpolation_error.model.pretrained.word_embeddings`, and if a
        dimension is constant within the classes.
    """
    X = word_embeddings(path, vocabulary, [word for word, _ in words], layout)
    y = np.array([float(label) for _, label in words])
    try:
        return data.standardized(X, y, scale=True), y
    except ValueError as error:
        raise ValueError(f"{path}: embeddings of {len(y)} words: {error}") from None
