"""Reading attention weights and word embeddings from small files in every layout.

The real GPT-2 and MiniLM are read where INTERPOLATION_ERROR_GPT2 names a safetensors
file, and INTERPOLATION_ERROR_MINILM a folder with model.safetensors and vocab.txt.
"""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from interpolation_error.model import pretrained
from interpolation_error.model.identity_fit import describe
from interpolation_error.model.pretrained import Layout, read_attention, word_embeddings
from interpolation_error.theory.general_weights import attention_error_general_weights

ROOT = Path(__file__).parents[2]
LAYERS, HEADS, WIDTH, P = 3, 2, 4, 10
BERT = "encoder.layer.{}.attention.self.{}.weight"
LLAMA = "layers.{}.self_attn.{}_proj.weight"


def real(variable):
    """Return a mark that skips a test where a variable names no real weights."""
    absent = not os.environ.get(variable)
    return pytest.mark.skipif(absent, reason=f"{variable} names no real weights")


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def tensors(layout):
    """Return the tensors of a small model, all of width HEADS * WIDTH = 8 but GPT-2."""
    if layout == "gpt2":
        named = {
            f"h.{n}.attn.c_attn.weight": random(P, 3 * P, seed=n) for n in range(LAYERS)
        }
        named |= {f"h.{n}.attn.c_attn.bias": random(3 * P) for n in range(LAYERS)}
        return named | {"wte.weight": random(5, P)}
    name, query, key = (BERT, "query", "key") if layout == "bert" else (LLAMA, "q", "k")
    named = {}
    for n in range(LAYERS):
        named[name.format(n, query)] = random(HEADS * WIDTH, P, seed=2 * n)
        named[name.format(n, key)] = random(HEADS * WIDTH, P, seed=2 * n + 1)
    return named | {pretrained.LAYOUTS[layout].embedding: random(5, P)}


def saved(folder, named, prefix=""):
    path = folder / "model.safetensors"
    save_file({prefix + name: tensor for name, tensor in named.items()}, path)
    return path


def written(path, dtype, shape, content, name="h.0.attn.c_attn.weight"):
    """Write a safetensors file of one tensor by hand, of a type that numpy may lack."""
    entry = {"dtype": dtype, "shape": shape, "data_offsets": [0, len(content)]}
    header = json.dumps({name: entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)
    return path


@pytest.mark.parametrize("prefix", ["", "transformer.", "some.model."])
def test_scores_of_a_gpt2_layer(tmp_path, prefix):
    """x @ weight gives queries, keys and values; head h has its columns of each."""
    named = tensors("gpt2")
    weights = read_attention(saved(tmp_path, named, prefix), "gpt2", heads=HEADS)
    assert weights.query.shape == (LAYERS, HEADS, P // HEADS, P)
    X = random(6, P, seed=9).astype(np.float64)  # one token a row
    for layer in range(LAYERS):
        queries, keys, _ = np.split(X @ named[f"h.{layer}.attn.c_attn.weight"], 3, 1)
        for head in range(HEADS):
            columns = slice(5 * head, 5 * head + 5)
            scores = keys[:, columns] @ queries[:, columns].T
            W = weights.matrix(layer, head)
            np.testing.assert_allclose(X @ W @ X.T, scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("layout", "prefix"), [("bert", ""), ("bert", "bert."), ("llama", "model.")]
)
def test_scores_of_layers_with_separate_weights(tmp_path, layout, prefix):
    """Weight @ x gives queries and keys; head h has its rows of each."""
    named = tensors(layout)
    weights = read_attention(saved(tmp_path, named, prefix), layout, heads=HEADS)
    assert weights.key.shape == (LAYERS, HEADS, WIDTH, P)
    assert weights.key.dtype == np.float64
    X = random(P, 6, seed=9).astype(np.float64)  # one token a column
    names = pretrained.LAYOUTS[layout]
    for layer in range(LAYERS):
        queries = named[names.query.format(layer=layer)] @ X
        keys = named[names.key.format(layer=layer)] @ X
        for head in range(HEADS):
            rows = slice(WIDTH * head, WIDTH * head + WIDTH)
            scores = keys[rows].T @ queries[rows]
            W = weights.matrix(layer, head)
            np.testing.assert_allclose(X.T @ W @ X, scores, rtol=1e-12, atol=1e-12)


def test_heads_together_are_their_sum(tmp_path):
    weights = read_attention(saved(tmp_path, tensors("bert")), "bert", heads=HEADS)
    together = weights.together()
    assert together.query.shape == (LAYERS, 1, HEADS * WIDTH, P)
    total = sum(weights.matrix(1, head) for head in range(HEADS))
    np.testing.assert_allclose(together.matrix(1, 0), total, rtol=1e-12)
    with pytest.raises(
        ValueError, match="layer must be from 0 to 2 and head from 0 to"
    ):
        weights.matrix(0, HEADS)


def test_a_layout_of_the_user_s(tmp_path):
    path = saved(tmp_path, {"b.0.q": random(4, P), "b.0.k": random(4, P, seed=1)})
    weights = read_attention(path, Layout("b.{layer}.q", "b.{layer}.k", "e"), heads=1)
    assert weights.query.shape == (1, 1, 4, P)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_numpy_s_types_are_read_exactly(tmp_path, dtype):
    named = {name: one.astype(dtype) for name, one in tensors("llama").items()}
    weights = read_attention(saved(tmp_path, named), "llama", heads=HEADS)
    original = named[LLAMA.format(2, "q")].astype(np.float64)
    assert np.array_equal(weights.query[2].reshape(-1, P), original)


def test_bfloat16_is_read_exactly(tmp_path):
    """1 sign bit, 8 of the exponent and 7 of the fraction, worked out one by one."""
    halves = np.random.default_rng(0).integers(0, 2**16, 27).astype("<u2")
    halves[(halves >> 7) % 256 == 255] = 0x3F80  # no infinities
    halves[:3] = 0x0001, 0x8000, 0xC020  # the least number above 0, -0, -2.5
    path = written(tmp_path / "m", "BF16", [3, 9], halves.tobytes())
    sign = np.where(halves >> 15, -1.0, 1.0)
    exponent, fraction = (halves.astype(int) >> 7) % 256, halves % 128 / 128
    normal = (1 + fraction) * 2.0 ** (exponent - 127)
    value = sign * np.where(exponent > 0, normal, fraction * 2.0**-126)
    assert value[2] == -2.5
    weights = read_attention(path, "gpt2", heads=1)
    expected = value.reshape(3, 9)
    assert np.array_equal(weights.query[0, 0], expected[:, :3].T)
    assert np.array_equal(weights.key[0, 0], expected[:, 3:6].T)


def without(name):
    return {k: v for k, v in tensors("bert").items() if k != name}


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"other": random(2, 2)}, r"holds no tensor 'encoder.layer.0.*another one"),
        (without(BERT.format(1, "key")), r"holds no tensor 'encoder.layer.1.*key"),
        (
            tensors("bert") | {BERT.format(1, "key"): random(8, P - 1)},
            r"layer.1.*query.weight and .*key.weight must be .* \(8, 10\) and \(8, 9\)",
        ),
        (
            tensors("bert") | {BERT.format(0, "query"): random(8)},
            r"must be matrices of one shape, got \(8,\) and \(8, 10\)",
        ),
        (
            tensors("bert")
            | {BERT.format(2, k): random(8, 6) for k in ("query", "key")},
            r"layer.2.* must have the shape that it has in layer 0",
        ),
        (
            tensors("bert") | {BERT.format(0, "key"): random(4, P)},
            r"layer.0.*key.weight serves 2 query heads at a time \(grouped queries\)",
        ),
        (
            tensors("bert") | {"x." + BERT.format(0, "query"): random(8, P)},
            r"more than once, as encoder.*query.weight and x.encoder",
        ),
        (
            tensors("bert") | {BERT.format(0, "key"): random(8, P) * np.float32("nan")},
            r"layer.0.*key.weight must be finite",
        ),
        (
            tensors("bert") | {BERT.format(0, "key"): np.ones((8, P), np.int8)},
            r"layer.0.*key.weight must be of type float64, .* bfloat16, got I8",
        ),
    ],
)
def test_a_file_with_other_tensors_is_refused_in_one_line(tmp_path, named, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_attention(saved(tmp_path, named), "bert", heads=HEADS)
    assert "\n" not in str(caught.value)


def test_other_refusals_are_one_line(tmp_path):
    path = saved(tmp_path, {"h.0.attn.c_attn.weight": random(P, 2 * P)})
    with pytest.raises(ValueError, match=r"must have shape \(p, 3p\), got \(10, 20\)"):
        read_attention(path, "gpt2", heads=1)
    path = saved(tmp_path, tensors("bert"))
    with pytest.raises(ValueError, match="heads must divide the 8 rows .* got 3"):
        read_attention(path, "bert", heads=3)
    with pytest.raises(ValueError, match="heads must be a whole number from 1, got 0"):
        read_attention(path, "bert", heads=0)
    with pytest.raises(
        ValueError, match="layout must be one of gpt2, bert, llama or a"
    ):
        read_attention(path, "t5", heads=2)
    path = written(tmp_path / "m", "F8_E4M3", [1, 3], b"abc")
    with pytest.raises(ValueError, match="float16 or bfloat16, got F8_E4M3"):
        read_attention(path, "gpt2", heads=1)


@pytest.mark.parametrize("damage", ["cut", "header", "empty", "pickle"])
def test_what_is_no_whole_safetensors_file(tmp_path, damage):
    path = saved(tmp_path, tensors("gpt2"))
    content = path.read_bytes()
    path.write_bytes(
        {
            "cut": content[:-1],
            "header": content[:100],
            "empty": b"",
            "pickle": pickle.dumps({"h.0.attn.c_attn.weight": [1.0]}),
        }[damage]
    )
    with pytest.raises(ValueError, match="is not a whole safetensors file") as caught:
        read_attention(path, "gpt2", heads=HEADS)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path):
    with pytest.raises(ValueError, match="none.safetensors: cannot be read"):
        read_attention(tmp_path / "none.safetensors", "gpt2", heads=1)
    with pytest.raises(ValueError, match="cannot be read"):
        read_attention(tmp_path, "gpt2", heads=1)


def test_word_embeddings(tmp_path):
    path, vocabulary = saved(tmp_path, tensors("bert"), "bert."), tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\nred\n##s\nblue\ngreen\n", "utf-8")
    found = word_embeddings(path, vocabulary, ["green", "red"])
    table = tensors("bert")["embeddings.word_embeddings.weight"].astype(np.float64)
    assert np.array_equal(found, table[[4, 1]].T)
    with pytest.raises(
        ValueError, match="1 of 2 words .* one token of it, such as 's'"
    ):
        word_embeddings(path, vocabulary, ["red", "s"])
    vocabulary.write_text("red\nblue\n", "utf-8")
    with pytest.raises(ValueError, match=r"each of the 2 tokens .* shape \(5, 10\)"):
        word_embeddings(path, vocabulary, ["red"])
    with pytest.raises(ValueError, match="no-such.txt: cannot be read"):
        word_embeddings(path, tmp_path / "no-such.txt", ["red"])
    with pytest.raises(ValueError, match="holds no tensor 'wte.weight'"):
        word_embeddings(path, vocabulary, ["red"], layout="gpt2")


def word_list():
    return pd.read_csv(ROOT / "figures/pretrained_weights/words.csv")


def test_the_committed_words_are_two_classes_of_one_size():
    words = word_list()
    assert list(words.columns) == ["word", "label"]
    assert dict(words["label"].value_counts()) == {1: 400, -1: 400}
    assert words["word"].is_unique
    assert words["word"].str.fullmatch("[a-z]{4,}").all()
    assert words["word"][words["label"] == 1].str.endswith("ed").all()
    assert words["word"][words["label"] == -1].str.endswith("s").all()


@real("INTERPOLATION_ERROR_MINILM")
def test_the_real_minilm():
    folder = Path(os.environ["INTERPOLATION_ERROR_MINILM"])
    path = folder / "model.safetensors"
    weights = read_attention(path, "bert", heads=12)
    assert weights.query.shape == (6, 12, 32, 384)
    embeddings = word_embeddings(path, folder / "vocab.txt", word_list()["word"])
    assert embeddings.shape == (384, 800)


@real("INTERPOLATION_ERROR_GPT2")
def test_the_real_gpt2():
    """A head is of rank 64, and next to nothing of it is a multiple of the identity."""
    weights = read_attention(os.environ["INTERPOLATION_ERROR_GPT2"], "gpt2", heads=12)
    assert weights.query.shape == (12, 12, 64, 768)
    known = [-0.4738484, -0.26136586, -0.09780374]
    np.testing.assert_allclose(weights.query[0, 0, :3, 0], known, rtol=1e-6)
    query, key = weights.query[5, 3], weights.key[5, 3]
    description = describe(query, key, ranks=[1, 64])
    assert description.trace_share < 0.01
    assert description.left[0] > 0.9
    assert description.left[1] < 1e-9
    W = weights.matrix(5, 3)
    W *= np.sqrt(768) / np.linalg.norm(W)
    mu = np.eye(768)[0]
    errors = attention_error_general_weights([1e-3, 0.1, 10.0], 0.5, "tanh", W, mu)
    assert np.all(np.diff(errors) > 0)
