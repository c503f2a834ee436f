"""The study of a transformer: its heads, simulated and predicted, are what they say."""

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from interpolation_error import simulation, theory
from interpolation_error.figures import study_drawing, study_prediction, study_table
from interpolation_error.model import data, study, word_tokens
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.study import DIRECTIONS, WEIGHTS, WORDS, Matrix
from interpolation_error.model.weights import AttentionWeights
from interpolation_error.simulation import study_simulation
from interpolation_error.simulation.general_weights import (
    attention_error_general_weights,
)
from interpolation_error.theory import at_finite_size

P, LAYERS, HEADS, ROWS = 24, 2, 3, 4
SPEC = {
    "layer": 1,
    "snr": 2.0,
    "gamma": 0.1,
    "aspect_ratio": 0.5,
    "nonlinearity": "tanh",
    "diagonal": "zero",
    "seed": 3,
    "replicates": [0, 1, 2],
}
SWEPT = {**SPEC, "penalties": [0.1, 1.0], "signals": [0.5, 2.0], "replicates": [0, 1]}


@pytest.fixture(scope="module")
def weights():
    generator = np.random.default_rng(5)
    return AttentionWeights(*generator.standard_normal((2, LAYERS, HEADS, ROWS, P)))


@pytest.fixture(scope="module")
def noise():
    return np.stack([data.noise(3, draw, P, 2 * P) for draw in range(3)])


@pytest.fixture(scope="module")
def predicted(weights):
    """Return the predictions of a sweep, which take seconds at finite size."""
    return study_prediction.predict_sweeps(SWEPT, weights)


def dense(X, y, gamma, f, W, diagonal):
    """Return the error by the formulas of docs/theory.md, section 1, as they stand."""
    p, n = X.shape
    K = f(X.T @ W @ X / sqrt(p)) / sqrt(p)
    if diagonal == "zero":
        K -= np.diag(np.diag(K))
    A = X @ K
    beta = np.linalg.solve(A @ A.T + n * gamma * np.eye(p), A @ y)
    return np.mean((y - A.T @ beta) ** 2)


@pytest.mark.parametrize("n", [10, 40])
@pytest.mark.parametrize("diagonal", ["zero", "keep"])
def test_the_error_with_any_weights_is_the_dense_formula(n, diagonal):
    generator = np.random.default_rng(n)
    X, W = generator.standard_normal((P, n)), generator.standard_normal((P, P))
    y = data.alternating_labels(n)
    found = attention_error_general_weights(
        X, y, [0.1, 2.0], "tanh", W, np.eye(P), diagonal
    )
    wanted = [dense(X, y, gamma, np.tanh, W, diagonal) for gamma in (0.1, 2.0)]
    np.testing.assert_allclose(found, wanted, rtol=1e-10)


def test_the_error_with_any_weights_meets_the_fast_one_of_assumption_1():
    generator = np.random.default_rng(1)
    X = generator.standard_normal((P, 50))
    w_k, w_q = generator.standard_normal((2, P)) / sqrt(P)
    y = data.alternating_labels(50)
    W = np.eye(P) + np.outer(w_k, w_q)
    one = attention_error_general_weights(X, y, 0.1, "relu", W, np.eye(P))
    other = simulation.attention_error(X, y, 0.1, "relu", w_k, w_q)
    np.testing.assert_allclose(one, other, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokens": np.ones(3)}, "tokens must have shape"),
        ({"query": np.ones((2, 5))}, "query and key must have one shape"),
        ({"key": np.ones((3, P))}, "query and key must have one shape"),
        ({"key": np.full((2, P), np.nan)}, "key must be finite"),
        ({"diagonal": "drop"}, "diagonal must be one of"),
        ({"gamma": 0.0}, "gamma must be positive"),
        ({"nonlinearity": "exp", "diagonal": "keep"}, "exp"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    given = {"tokens": np.ones((P, 6)), "labels": data.alternating_labels(6)}
    given |= {"gamma": 0.1, "nonlinearity": "tanh"}
    given |= {"query": np.ones((2, P)), "key": np.ones((2, P))}
    with pytest.raises(ValueError, match=message) as error:
        attention_error_general_weights(**{**given, **change})
    assert "\n" not in str(error.value)


def test_a_head_is_scaled_and_its_leading_vectors_are_those_of_the_matrix(weights):
    matrix = study.scaled(weights, 1, 2)
    W = weights.matrix(1, 2)
    np.testing.assert_allclose(
        matrix.whole, W * sqrt(P) / np.linalg.norm(W), atol=1e-12
    )
    left, right = study.leading(matrix)
    U, singular, V = np.linalg.svd(matrix.whole)
    np.testing.assert_allclose(matrix.whole @ right, singular[0] * left, atol=1e-12)
    assert abs(right @ V[0]) == pytest.approx(1)
    assert right[np.argmax(np.abs(right))] > 0


def test_signals_are_unit_vectors_and_one_is_not_seen(weights):
    matrix = study.scaled(weights, 0, 1)
    singular, random, unseen = study.signal_directions(matrix, seed=1, replicate=2)
    for direction in (singular, random, unseen):
        assert direction @ direction == pytest.approx(1)
    np.testing.assert_allclose(matrix.whole @ unseen, 0, atol=1e-12)
    np.testing.assert_allclose(matrix.whole.T @ unseen, 0, atol=1e-12)
    assert np.linalg.norm(matrix.whole @ random) > 0.1


def test_a_head_that_sees_everything_is_refused():
    matrix = Matrix(np.eye(6), np.eye(6))
    with pytest.raises(ValueError, match="sees every direction"):
        study.signal_directions(matrix, 1, 0)


def test_the_stand_ins_of_a_head(weights):
    matrix = study.scaled(weights, 0, 0)
    found = study.variants(matrix)
    assert {*found, "regression"} == set(WEIGHTS)
    assert np.linalg.norm(found["fit"].whole) ** 2 == pytest.approx(P)
    low = found["low_rank"].whole - np.eye(P)
    assert np.linalg.svd(low, compute_uv=False)[:2] == pytest.approx([1, 0], abs=1e-12)


def test_heads_are_simulated_as_the_dense_formula_has_them(weights, noise):
    error = study_simulation.simulate_heads(SPEC, weights, noise)["error"]
    assert error.shape == (3, HEADS, len(DIRECTIONS))
    head, draw, direction = 2, 1, 1
    W = weights.matrix(1, head)
    mu = sqrt(2) * data.directions(3, draw, P, count=1)[0]
    y = data.alternating_labels(2 * P)
    X = np.outer(mu, y) + noise[draw]
    W *= sqrt(P) / np.linalg.norm(W)
    wanted = dense(X, y, 0.1, np.tanh, W, "zero")
    assert error[draw, head, direction] == pytest.approx(wanted)


def test_sweeps_have_the_heads_errors_where_they_meet(weights, noise):
    layer, head = study.median_head(weights)
    spec = {**SPEC, "layer": layer}
    heads = study_simulation.simulate_heads(spec, weights, noise)["error"]
    found = study_simulation.simulate_sweeps(SWEPT, weights, noise)
    own = WEIGHTS.index("real")
    np.testing.assert_allclose(found["against_gamma"][:, own, :, 0], heads[:2, head])
    np.testing.assert_allclose(found["against_snr"][:, own, :, 1], heads[:2, head])
    regression = found["against_gamma"][:, WEIGHTS.index("regression")]
    assert np.all(np.diff(regression, axis=-1) > 0)


def test_heads_are_predicted_by_the_theories_that_are_named(weights):
    found = study_prediction.predict_heads(SPEC, weights)
    matrix = study.scaled(weights, 1, 0)
    mu = sqrt(2) * np.stack([study.signal_directions(matrix, 3, d) for d in range(3)])
    wanted = theory.attention_error_general_weights(0.1, 0.5, "tanh", matrix.whole, mu)
    np.testing.assert_allclose(found["any_weights"][0], wanted.mean(axis=0), rtol=1e-9)
    assert found["theorem_1"].shape == (HEADS, len(DIRECTIONS))
    # What a head does not see it can use through the multiple of the identity alone.
    assert np.all((found["fit"] > 0) & (found["fit"] < 1))


@pytest.mark.parametrize("diagonal", ["zero", "keep"])
def test_theorem_1_of_a_head_takes_the_diagonal_as_it_is(weights, diagonal):
    """With W = I it is Theorem 1, with the limit of the diagonal where it is kept."""
    identity = AttentionWeights(*np.tile(np.eye(P), (2, 1, 1, 1, 1)))
    spec = {**SPEC, "layer": 0, "diagonal": diagonal}
    directions = np.tile(np.eye(P)[0], (3, 1))
    with pytest.MonkeyPatch.context() as patch:
        # The identity sees every direction, so that there is none that it does not.
        patch.setattr(study_prediction, "signal_directions", lambda *_: directions)
        found = study_prediction.predict_heads(spec, identity)
    _, a1, _, nu = hermite_coefficients("tanh")
    wanted = theory.attention_error(
        *(0.1, 0.5, a1, nu),
        inner_products=theory.InnerProducts(2.0),
        diagonal_limit=diagonal_limit("tanh", P) if diagonal == "keep" else 0.0,
    )
    np.testing.assert_allclose(found["theorem_1"], wanted, rtol=1e-6)
    np.testing.assert_allclose(found["any_weights"], wanted, rtol=1e-6)


def test_lines_go_through_the_simulated_points_and_meet(predicted):
    found = predicted
    assert found["gamma"][[0, -1]].tolist() == [0.1, 1.0]
    assert found["snr"][[0, -1]].tolist() == [0.5, 2.0]
    np.testing.assert_allclose(
        found["against_gamma"][:, :, 0], found["against_snr"][:, :, -1], rtol=1e-7
    )
    one, other = (found[f"finite_size_against_{x}"] for x in ("gamma", "snr"))
    assert one[0] == pytest.approx(other[-1], rel=1e-6)
    regression = theory.linear_regression_error(0.1, 0.5, found["snr"])
    np.testing.assert_allclose(
        found["against_snr"][WEIGHTS.index("regression"), 0], regression
    )


def test_one_penalty_that_does_not_settle_leaves_the_rest_of_a_line(
    weights, monkeypatch
):
    def errors(gamma, *_):
        return np.where(gamma == 0.1, np.nan, 0.5), np.zeros(len(gamma))

    monkeypatch.setattr(at_finite_size, "_errors", errors)
    spec = {**SWEPT, "penalties": [1e-3, 0.1, 1.0], "gamma": 1.0, "replicates": [0]}
    line = study_prediction.predict_sweeps(spec, weights)["finite_size_against_gamma"]
    np.testing.assert_array_equal(line, [0.5, np.nan, 0.5])


def test_low_rank_stand_ins_are_predicted_as_theorem_1_has_them_for_large_p(
    weights, predicted
):
    matrix = study.scaled(weights, *study.median_head(weights))
    left, right = study.leading(matrix)
    mu = sqrt(2) * right
    _, a1, _, nu = study_prediction.hermite_coefficients("tanh")
    products = theory.InnerProducts(2.0, mu @ left, mu @ right, 1, 1, left @ right)
    limit = theory.attention_error(1.0, 0.5, a1, nu, inner_products=products)
    # The traces of a low rank count as 1/p in the theory for any weights.
    own = predicted["against_gamma"][WEIGHTS.index("low_rank"), 0, -1]
    assert own == pytest.approx(float(limit), rel=0.1)


def test_a_description_names_the_median_head(weights):
    found = study_prediction.describe(weights)
    left = found["heads/left"][..., 0]
    chosen = tuple(found["representative"].astype(int))
    assert np.sum(left < left[chosen]) == (left.size - 1) // 2
    assert found["layers/norm"].shape == (LAYERS, 1)
    W = weights.matrix(1, 1)
    moduli = np.sort(np.abs(np.linalg.eigvals(W)))[::-1][:ROWS]
    np.testing.assert_allclose(found["eigenvalues"][1, 1], moduli, rtol=1e-6)


# Words.


def test_word_tokens_are_centred_and_of_unit_variance(tmp_path):
    generator = np.random.default_rng(2)
    vocabulary = [f"word{i}" for i in range(40)]
    table = (generator.standard_normal((40, 6)) * 3 + 1).astype(np.float32)
    save_file({"embeddings.word_embeddings.weight": table}, tmp_path / "m.safetensors")
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    words = [(word, 1 if i % 4 else -1) for i, word in enumerate(vocabulary)]
    X, y = word_tokens.word_tokens(
        tmp_path / "m.safetensors", tmp_path / "vocab.txt", words, "bert"
    )
    means = [X[:, y == sign].mean(axis=1) for sign in (1, -1)]
    np.testing.assert_allclose(means[0], -means[1], atol=1e-12)
    noise = X - np.outer(means[0], y)
    np.testing.assert_allclose(noise.std(axis=1), 1)


def test_a_dimension_in_which_all_words_agree_is_refused(tmp_path):
    table = np.random.default_rng(2).standard_normal((8, 3)).astype(np.float32)
    table[:, 1] = 0.25
    path, vocabulary = tmp_path / "m.safetensors", tmp_path / "vocab.txt"
    save_file({"embeddings.word_embeddings.weight": table}, path)
    vocabulary.write_text("\n".join(f"word{i}" for i in range(8)) + "\n")
    words = [(f"word{i}", 1 if i % 2 else -1) for i in range(8)]
    with pytest.raises(ValueError, match="dimension 1 is constant within the classes"):
        word_tokens.word_tokens(path, vocabulary, words, "bert")


def test_shuffled_words_keep_means_and_lose_correlations():
    generator = np.random.default_rng(4)
    y = data.alternating_labels(4000)
    common = generator.standard_normal(4000)
    X = np.stack([common + y, common - y])
    mixed = study_simulation.shuffled(X, y, seed=1, replicate=0)
    np.testing.assert_allclose((mixed * y).mean(axis=1), (X * y).mean(axis=1))
    assert np.corrcoef(X - np.outer([1, -1], y))[0, 1] > 0.99
    assert abs(np.corrcoef(mixed - np.outer([1, -1], y))[0, 1]) < 0.1
    again = study_simulation.shuffled(X, y, seed=1, replicate=0)
    assert np.array_equal(mixed, again)
    assert not np.array_equal(
        mixed, study_simulation.shuffled(X, y, seed=1, replicate=1)
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read"),
        ("word,kind\na,1\n", "must have the columns word and label"),
        ("word,label\na,1\nb,2\n", "labels must be 1 and -1"),
        ("word,label\na,1\nb,1\n", "both must be there"),
        ("word,label\na,1\na,-1\n", "'a' stands twice"),
    ],
)
def test_a_wrong_list_of_words_is_refused(tmp_path, text, message):
    path = tmp_path / "words.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        word_tokens.read_words(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_words_are_simulated_and_predicted(weights):
    generator = np.random.default_rng(8)
    y = data.alternating_labels(120)
    X = np.outer(generator.standard_normal(P) / 4, y)
    X += generator.standard_normal((P, 120))
    spec = {**SPEC, "aspect_ratios": [0.5, 1.0], "replicates": [0, 1]}
    error = study_simulation.simulate_words(spec, weights, X, y)["error"]
    assert error.shape == (2, len(WORDS), 2, 1 + LAYERS * HEADS)
    chosen = data.subset(3, 1, y, 2 * P)
    regression = simulation.linear_regression_error(X[:, chosen], y[chosen], 0.1)
    assert error[1, 0, 0, 0] == pytest.approx(regression)
    found = study_prediction.predict_words(spec, weights, X, y)
    assert found["predicted"].shape == (2, 1 + LAYERS * HEADS)
    wanted = theory.linear_regression_error(0.1, 0.5, float(found["snr"]))
    assert found["predicted"][0, 0] == pytest.approx(wanted)


# Tables.


def test_a_table_has_every_number(weights, noise, predicted):
    heads = {key: SPEC[key] for key in ("aspect_ratio", "snr", "gamma")}
    arrays = {"description": study_prediction.describe(weights)}
    parts = []
    for layer in range(LAYERS):
        spec = {**SPEC, "layer": layer}
        arrays[f"s{layer}"] = study_simulation.simulate_heads(spec, weights, noise)
        arrays[f"t{layer}"] = study_prediction.predict_heads(spec, weights)
        files = {"simulation": f"s{layer}", "theory": f"t{layer}"}
        parts.append({"part": "heads", **files})
    arrays["s"] = study_simulation.simulate_sweeps(SWEPT, weights, noise)
    arrays["t"] = predicted
    sweep = {"part": "sweeps", "aspect_ratio": 0.5, "simulation": "s", "theory": "t"}
    spec = {
        "model": "made up",
        "dimension": P,
        "heads": heads,
        "sweeps": {"gamma": SWEPT["penalties"], "snr": SWEPT["signals"]},
        "parts": [*parts, sweep],
        "description": "description",
    }
    table = study_table.tabulate(spec, arrays.__getitem__)
    assert tuple(table.columns) == study_table.COLUMNS
    mine = table[(table["part"] == "heads") & (table["signal"] == "random")]
    mine = mine.set_index(["layer", "head"])
    errors = arrays["s1"]["error"][:, 2, 1]
    assert mine.loc[(1, 2), "simulated_mean"] == pytest.approx(errors.mean())
    predicted = arrays["t1"]["any_weights"][2, 1]
    assert mine.loc[(1, 2), "predicted"] == pytest.approx(predicted)
    deviation = errors.std(ddof=1) / sqrt(3)
    residual = (errors.mean() - predicted) / deviation
    assert mine.loc[(1, 2), "residual_in_standard_errors"] == pytest.approx(residual)
    swept = table[(table["part"] == "sweep") & table["simulated_mean"].notna()]
    assert len(swept) == len(WEIGHTS) * len(DIRECTIONS) * 4
    fits, spectra = study_table.describe(spec, arrays.__getitem__)
    assert len(fits) == LAYERS * (HEADS + 1)
    assert fits["representative"].sum() == 1
    assert len(spectra) == LAYERS * HEADS * ROWS
    squares = spectra.groupby(["layer", "head"])["singular_value"].apply(
        lambda values: np.sum(values**2)
    )
    np.testing.assert_allclose(squares, 1)


def test_the_band_of_the_picture_is_the_margin_of_the_claims():
    path = Path(__file__).parents[2] / "config/claims.yaml"
    claims = yaml.safe_load(path.read_text("utf-8"))["claims"]
    margins = [
        claim["claimed"]
        for claim in claims.values()
        if claim["figure"] == "pretrained_weights"
        and claim["statistic"]["kind"] == "residual"
    ]
    margin = study_drawing.MARGIN
    assert margins
    assert all(one == {"above": -margin, "below": margin} for one in margins)


def test_the_picture_has_a_look_for_every_aspect_ratio_of_words():
    path = Path(__file__).parents[2] / "config/schemas/study.schema.yaml"
    schema = yaml.safe_load(path.read_text("utf-8"))
    ratios = schema["properties"]["words"]["properties"]["aspect_ratios"]
    assert len(set(study_drawing.RATIOS)) == ratios["maxItems"]
