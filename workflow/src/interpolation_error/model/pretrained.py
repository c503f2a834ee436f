r"""Attention weights and word embeddings of pretrained transformers.

They are read from safetensors files and from nothing else; a pickle, which can run
code, is not opened. Biases and the gains of layer norms are left out: the model of the
paper has scores :math:`x_i^T W x_j` with :math:`W = W_K^T W_Q` and no more.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from interpolation_error.model.checks import as_whole
from interpolation_error.model.weights import AttentionWeights

Array = NDArray[np.float64]

# Element types that become float64 exactly.
DTYPES = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class Layout:
    """Names and shapes by which a family of transformers keeps its weights.

    A name may have any prefix in the file, such as ``transformer.`` or ``bert.``.

    Parameters
    ----------
    query, key : str
        Names of the weights of a layer, with ``{layer}`` for its number from 0. Of
        shape (heads * head dimension, p) and used as ``weight @ x``; or, where both are
        the same name, one tensor of shape (p, 3p), ``[W_q | W_k | W_v]``, used as
        ``x @ weight``. Head h has the h-th block of rows, or of columns of each third.
    embedding : str
        Name of the input embeddings, of shape (words, p).
    """

    query: str
    key: str
    embedding: str

    @property
    def fused(self) -> bool:
        """Whether query and key weights share a tensor."""
        return self.query == self.key


LAYOUTS = {
    "gpt2": Layout(
        "h.{layer}.attn.c_attn.weight", "h.{layer}.attn.c_attn.weight", "wte.weight"
    ),
    "bert": Layout(
        "encoder.layer.{layer}.attention.self.query.weight",
        "encoder.layer.{layer}.attention.self.key.weight",
        "embeddings.word_embeddings.weight",
    ),
    # Its rotary positions stand between query and key; W is what is left of them for
    # two tokens at the same place.
    "llama": Layout(
        "layers.{layer}.self_attn.q_proj.weight",
        "layers.{layer}.self_attn.k_proj.weight",
        "embed_tokens.weight",
    ),
}


def read_attention(
    path: str | Path, layout: str | Layout, heads: int
) -> AttentionWeights:
    """Read the query and key weights of every layer from a safetensors file.

    Parameters
    ----------
    path : str or Path
        The file. It must hold all layers.
    layout : {"gpt2", "bert", "llama"} or Layout
        How it names them.
    heads : int
        Number of heads of a layer, which the file does not say.

    Returns
    -------
    AttentionWeights

    Raises
    ------
    ValueError
        If the file is missing, is not a whole safetensors file, lacks the tensors, or
        they have wrong shapes, grouped queries (fewer key than query heads), values
        that are not finite or an element type other than float64, float32, float16 or
        bfloat16; or if ``layout`` is unknown or ``heads`` does not fit; one line.
    """
    names = _names(layout)
    heads = as_whole("heads", heads, least=1)
    file = _File(path)
    pairs: list[tuple[Array, Array]] = []
    query: str | None = file.need(names.query.format(layer=0))
    while query is not None:
        key = file.need(names.key.format(layer=len(pairs)))
        pairs.append(_layer(file, query, key, names.fused, heads))
        if pairs[-1][0].shape != pairs[0][0].shape:
            raise ValueError(
                f"{file.path}: {query} must have the shape that it has in layer 0"
            )
        query = file.find(names.query.format(layer=len(pairs)))
    queries, keys = (np.stack(one) for one in zip(*pairs, strict=True))
    return AttentionWeights(queries, keys)


def word_embeddings(
    path: str | Path,
    vocabulary: str | Path,
    words: Sequence[str],
    layout: str | Layout = "bert",
) -> Array:
    """Return the input embeddings of words that are one token each.

    The rows of the table of input embeddings: no positions, no layer norm.

    Parameters
    ----------
    path : str or Path
        Safetensors file of the model.
    vocabulary : str or Path
        The tokenizer's ``vocab.txt``, one token a line in the order of the table. A
        token that continues a word has ``##`` in front and is none of these words.
    words : sequence of str
        As they are in the vocabulary; lower case for an uncased model.
    layout : {"gpt2", "bert", "llama"} or Layout, optional
        How the file names the table.

    Returns
    -------
    ndarray of float64, shape (p, number of words)

    Raises
    ------
    ValueError
        As :func:`read_attention`, and if a word is not one token of the vocabulary, or
        vocabulary and table are not of one length.
    """
    names = _names(layout)
    try:
        tokens = Path(vocabulary).read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{vocabulary}: cannot be read ({error})") from None
    if tokens[-1] == "":
        tokens.pop()
    numbers = {token: number for number, token in enumerate(tokens)}
    unknown = [word for word in words if word not in numbers]
    if unknown:
        raise ValueError(
            f"{vocabulary}: {len(unknown)} of {len(words)} words are not one token of "
            f"it, such as {unknown[0]!r}"
        )
    file = _File(path)
    table = file.read(file.need(names.embedding))
    if table.ndim != 2 or len(table) != len(tokens):
        raise ValueError(
            f"{path}: {names.embedding} must have a row for each of the {len(tokens)} "
            f"tokens of {vocabulary}, got shape {table.shape}"
        )
    return np.ascontiguousarray(table[[numbers[word] for word in words]].T)


def _names(layout: str | Layout) -> Layout:
    if isinstance(layout, Layout):
        return layout
    if layout not in LAYOUTS:
        raise ValueError(
            f"layout must be one of {', '.join(LAYOUTS)} or a Layout, got {layout!r}"
        )
    return LAYOUTS[layout]


def _layer(
    file: _File, query: str, key: str, fused: bool, heads: int
) -> tuple[Array, Array]:
    """Return the query and key weights of a layer, each (heads, d, p)."""
    W_q = file.read(query)
    if fused:
        if W_q.ndim != 2 or W_q.shape[1] != 3 * W_q.shape[0]:
            raise ValueError(
                f"{file.path}: {query} must have shape (p, 3p), got {W_q.shape}"
            )
        W_q, W_k, _ = np.split(W_q.T, 3)
    else:
        W_k = file.read(key)
        grouped = W_q.ndim == W_k.ndim == 2 and W_q.shape[1] == W_k.shape[1]
        if grouped and len(W_k) < len(W_q) and len(W_q) % len(W_k) == 0:
            raise ValueError(
                f"{file.path}: {key} serves {len(W_q) // len(W_k)} query heads at a "
                "time (grouped queries), which is not supported: a key head for each "
                "query head is"
            )
        if W_q.ndim != 2 or W_q.shape != W_k.shape:
            raise ValueError(
                f"{file.path}: {query} and {key} must be matrices of one shape, got "
                f"{W_q.shape} and {W_k.shape}"
            )
    if len(W_q) % heads:
        raise ValueError(
            f"heads must divide the {len(W_q)} rows of the query weights in "
            f"{file.path}, got {heads}"
        )
    shape = (heads, len(W_q) // heads, W_q.shape[1])
    return W_q.reshape(shape), W_k.reshape(shape)


class _File:
    """The tensors of a safetensors file by name."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            file: Any = safe_open(self.path, framework="numpy")
            self.file, self.names = file, list(file.keys())
        except OSError as error:
            reason = error.strerror or "it does not exist"
            raise ValueError(f"{path}: cannot be read ({reason})") from None
        except SafetensorError as error:
            raise ValueError(
                f"{path}: is not a whole safetensors file ({error}); nothing else is "
                "read, and one that was cut short must be fetched again"
            ) from None

    def find(self, name: str) -> str | None:
        """Return the one name that is this but for a prefix that ends in a dot."""
        found = [one for one in self.names if one == name or one.endswith(f".{name}")]
        if len(found) > 1:
            raise ValueError(
                f"{self.path}: holds {name!r} more than once, as "
                f"{' and '.join(sorted(found))}"
            )
        return found[0] if found else None

    def need(self, name: str) -> str:
        found = self.find(name)
        if found is None:
            raise ValueError(
                f"{self.path}: holds no tensor {name!r}, with or without a prefix; is "
                "its layout another one, or the file one part of several?"
            )
        return found

    def read(self, name: str) -> Array:
        """Return a tensor as float64, exactly."""
        dtype = self.file.get_slice(name).get_dtype()
        if dtype not in DTYPES:
            raise ValueError(
                f"{self.path}: {name} must be of type float64, float32, float16 or "
                f"bfloat16, got {dtype}"
            )
        tensor = self._bfloat16(name) if dtype == "BF16" else self.file.get_tensor(name)
        if not np.all(np.isfinite(tensor)):
            raise ValueError(
                f"{self.path}: {name} must be finite, got a NaN or infinity"
            )
        return np.asarray(tensor, dtype=np.float64)

    def _bfloat16(self, name: str) -> NDArray[np.float32]:
        """Return a tensor of a type that numpy lacks: the upper half of a float32.

        The file is a length, a JSON header with places after it, and the values.
        """
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entry = json.loads(file.read(length))[name]
            start, stop = entry["data_offsets"]
            file.seek(8 + length + start)
            halves = np.frombuffer(file.read(stop - start), dtype="<u2")
        bits = halves.astype(np.uint32) << 16
        return bits.view(np.float32).reshape(entry["shape"])
