"""The transformer and the study are checked before anything runs: one line each."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from interpolation_error.figures.checked_yaml import ConfigurationError
from interpolation_error.model.pretrained import LAYOUTS
from interpolation_error.run import configuration, plan, resources

ROOT = Path(__file__).parents[2]
STUDY = "figures/pretrained_weights/study.yaml"


@pytest.fixture
def clone(tmp_path):
    """A folder with the project's config and figures, and weights of two layers."""
    shutil.copytree(ROOT / "config", tmp_path / "config")
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    names = LAYOUTS["bert"]
    tensors = {
        name.format(layer=layer): np.eye(12, 12, dtype=np.float32) + layer
        for layer in range(2)
        for name in (names.query, names.key)
    }
    save_file(tensors, tmp_path / "weights.safetensors")
    return tmp_path


def load(root, preset="quick", **pretrained):
    config = {"preset": preset, "seed": 1, "results": "results"}
    if pretrained:
        config["pretrained"] = pretrained
    return configuration.load(config, root, "config")


def by_path(root, **change):
    file = str(root / "weights.safetensors")
    return {"source": "path", "file": file, "layout": "bert", "heads": 6, **change}


def refusal(root, **pretrained):
    with pytest.raises(ConfigurationError) as error:
        load(root, **pretrained)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_minilm_is_shown_where_nothing_is_said():
    (study,) = load(ROOT).studies
    assert study.model.name == "MiniLM"
    assert study.model == study.words.model
    assert (study.model.layers, study.model.heads, study.model.dimension) == (
        6,
        12,
        384,
    )


def test_gpt2_comes_from_the_hub_and_words_from_minilm():
    (study,) = load(ROOT, source="gpt2").studies
    assert (study.model.name, study.model.dimension) == ("GPT-2", 768)
    assert study.words.model.name == "MiniLM"


def test_a_file_of_ones_own(clone):
    (study,) = load(clone, **by_path(clone, name="mine", words=False)).studies
    size = study.model.layers, study.model.heads, study.model.dimension
    assert (study.model.name, *size) == ("mine", 2, 6, 12)
    assert study.words is None
    assert len(study.model.sha256) == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"layout": "t5"},
            "config: pretrained.layout: must be one of gpt2, bert, llam",
        ),
        ({"heads": 0}, "config: pretrained.heads: must be 1 or more; got 0"),
        ({"heads": 5}, "config: pretrained: heads must divide the 12 rows"),
        ({"heads": 2}, "a head has 6 rows; it must have fewer than half of the embedd"),
        ({"layout": "llama"}, "holds no tensor 'layers.0.self_attn.q_proj.weight'"),
        ({"file": "no-such.safetensors"}, "no-such.safetensors: cannot be read"),
        ({"colour": 1}, "config: pretrained: unknown key 'colour'; allowed: "),
        ({"source": "hub"}, "config: pretrained.source: must be one of minilm, gpt2, "),
        ({"source": "minilm"}, "config: pretrained: file: goes with the source path"),
    ],
)
def test_a_wrong_transformer_is_refused(clone, change, message):
    assert message in refusal(clone, **by_path(clone, **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a\nb"}, r"name: must be one line without $; got 'a\nb'"),
        ({"name": "a$_$"}, "name: must be one line without $; got 'a$_$'"),
        ({"file": ""}, "pretrained.file: "),
        ({"file": "."}, "file: . is a folder; name a safetensors file"),
        ({"heads": 6.0}, "pretrained.heads: must be of type integer; got 6.0"),
        ({"heads": float("nan")}, "pretrained.heads: must be a finite number; got nan"),
    ],
)
def test_wrong_values_of_the_transformer_s_keys_are_refused(clone, change, message):
    assert message in refusal(clone, **by_path(clone, **change))


def edit_weights(root, change):
    path = root / "weights.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


@pytest.mark.parametrize("missing", [0, 1])
def test_a_layer_that_is_missing_below_another_is_refused(clone, missing):
    names = LAYOUTS["bert"]

    def move(tensors):
        for name in (names.query, names.key)[missing:]:
            tensors[name.format(layer=2)] = tensors.pop(name.format(layer=1))
        if missing:
            del tensors[names.query.format(layer=1)]

    edit_weights(clone, move)
    said = refusal(clone, **by_path(clone))
    assert "and no query weights of layer 1; all layers must be there" in said


@pytest.mark.parametrize("factor", [0.0, 1e-200, 1e200])
def test_a_head_that_cannot_be_scaled_is_named(clone, factor):
    def shrink(tensors):
        for name in (LAYOUTS["bert"].query, LAYOUTS["bert"].key):
            whole = tensors[name.format(layer=1)].astype(np.float64)
            whole[6:8] *= factor
            tensors[name.format(layer=1)] = whole

    edit_weights(clone, shrink)
    assert "of layer 1, head 3 is zero, or its norm" in refusal(clone, **by_path(clone))


@pytest.mark.parametrize("key", ["file", "layout", "heads"])
def test_a_path_needs_all_its_keys(clone, key):
    given = by_path(clone)
    del given[key]
    assert f"the source path lacks the key {key!r}" in refusal(clone, **given)


def test_a_file_that_is_cut_short_is_refused(clone):
    path = clone / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-8])
    assert "is not a whole safetensors file" in refusal(clone, **by_path(clone))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tanh", "tan", "nonlinearity: there is no 'tan'; allowed: arctan"),
        ("diagonal: zero", "diagonal: drop", "diagonal: must be one of zero, keep"),
        ("tanh\ndiagonal: zero", "exp\ndiagonal: keep", "exp"),
        ("snr: 2,", "snr: 0,", "heads.snr: must be more than 0; got 0"),
        ("words.csv", "no-such.csv", "no-such.csv: cannot be read"),
        ("[0.5, 1, 2], gamma", "[0.1, 1], gamma", "0.1 needs 3840 words"),
        ("replicates: 10", "replicates: 1", "replicates: must be 2 or more; got 1"),
        ("replicates: 10", "replicates: 10.0", "must be of type integer; got 10.0"),
        ("snr: 2,", "snr: .nan,", "heads.snr: must be a finite number; got nan"),
        ("[1e-3, 1e-2,", "[.inf, 1e-2,", "sweeps.gamma.0: must be a finite number"),
        ("ratio: 0.5,", "ratio: 1e-300,", "heads.aspect_ratio: 1e-300 needs more than"),
        ("ratio: 0.5,", "ratio: 1e9,", "1e+09 leaves fewer than 2 tokens of dimen"),
        ("0.5, 1, 2]\n", "0.5, 0.5001, 2]\n", "0.5 and 0.5001 are both 768 tokens"),
        (
            *("[0.5, 1, 2], gamma", "[0.5, 0.7, 1, 2, 3], gamma"),
            "words.aspect_ratios: must have 4 values or fewer; got 5",
        ),
        ("[0.5, 1, 2], gamma", "[0.5, 1e9], gamma", "words.aspect_ratios: 1e+09 leav"),
    ],
)
def test_a_wrong_study_is_refused(clone, old, new, message):
    path = clone / STUDY
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    said = refusal(clone)
    assert said.startswith(STUDY)
    assert message in said


def test_a_list_of_words_that_is_none_is_refused_in_one_line(clone):
    (clone / "figures/pretrained_weights/words.csv").write_text("word\na\nb,c,d,e\n")
    assert "words.csv: cannot be read (" in refusal(clone)


def test_a_claim_on_a_signal_or_theory_that_is_not_there_is_refused(clone):
    path = clone / "config/claims.yaml"
    text = path.read_text()
    path.write_text(text.replace("panels: [unseen]", "panels: [hidden]"))
    assert "there is no panel 'hidden'; allowed: singular" in refusal(clone)
    path.write_text(text.replace("curves: [theorem_1]", "curves: [theorem_2]"))
    assert "has no curve 'theorem_2'; allowed: any_weights" in refusal(clone)


def test_another_transformer_is_another_array_and_its_name_is_not(clone):
    def stems(**pretrained):
        made = plan.Plan(load(clone, **pretrained), "style").studies
        return {item.stem for item in made["pretrained_weights"].items()}

    mine = by_path(clone, words=False)
    assert stems(**mine) == stems(**mine, name="other")
    first = stems(**mine)
    path = clone / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-4] + np.float32(9).tobytes())
    changed = {stem for stem in stems(**mine) - first}
    # All but the noise.
    assert len(changed) == len(first) - 1


def test_the_noise_of_all_parts_is_one_dataset_and_memory_counts_it(clone):
    made = plan.Plan(load(clone), "style").studies["pretrained_weights"]
    datasets = {part.dataset.stem for part in made.parts if part.dataset}
    assert len(datasets) == 1
    memory = {part.name: resources.study_memory(part) for part in made.parts}
    assert memory["6x12-heads-layer0"] > memory["6x12-description"]
