"""What a curve measures is what the library's functions give, point by point."""

import numpy as np
import pytest

from interpolation_error import simulation
from interpolation_error.model import data
from interpolation_error.model.curve import Curve
from interpolation_error.model.nonlinearity import hermite_mix
from interpolation_error.model.setting import (
    Direction,
    Heads,
    HermiteMix,
    Labels,
    Noise,
    Setting,
    TokensFile,
    Weights,
)
from interpolation_error.simulation import softmax
from interpolation_error.simulation.experiment import simulate_curve
from interpolation_error.simulation.linearization import remainder

SEED = 7
N, P = 60, 24
ALIGNED = Weights(Direction(1.5, 0.6))


def attention(**changes):
    given = {"tokens": N, "dimension": P, "snr": 2.0, "gamma": 0.5}
    return Setting("attention", **{"nonlinearity": "tanh", **given, **changes})


def measure(curve, n=N, p=P, draws=(0, 4), law=None):
    noise = np.stack([data.noise(SEED, draw, p, n, **(law or {})) for draw in draws])
    return simulate_curve(curve, {"noise": noise}, seed=SEED, replicates=draws)


def tokens(p=P, n=N, snr=2.0, draw=4, labels=None, law=None):
    labels = data.alternating_labels(n) if labels is None else labels
    axes = data.directions(SEED, draw, p)
    noise = data.noise(SEED, draw, p, n, **(law or {}))
    return data.signal_plus_noise(noise, labels, np.sqrt(snr) * axes[0]), labels, axes


def test_rows_and_values_are_every_pair_of_both():
    setting = attention(weights=ALIGNED)
    grid = measure(Curve(setting, "snr", (0.5, 2.0, 8.0), "gamma", (0.1, 1.0)))["error"]
    assert grid.shape == (2, 6)
    for row, gamma in enumerate((0.1, 1.0)):
        own = attention(weights=ALIGNED, gamma=gamma)
        one = measure(Curve(own, "snr", (0.5, 2.0, 8.0)))["error"]
        np.testing.assert_allclose(grid[:, 3 * row : 3 * row + 3], one, rtol=1e-12)


def test_turned_weights():
    curve = Curve(
        attention(weights=Weights(Direction(1.5, 1.0))), "alignment", (0.0, 0.6)
    )
    X, y, axes = tokens()
    for place, cosine in enumerate((0.0, 0.6)):
        w = data.aligned_weights(axes[0], axes[1], 1.5, cosine)
        expected = simulation.attention_error(X, y, 0.5, "tanh", w, w)
        np.testing.assert_allclose(measure(curve)["error"][1, place], expected)


def test_regression_is_not_turned():
    base = Setting("regression", tokens=N, dimension=P, snr=2.0, gamma=0.5)
    errors = measure(Curve(base, "alignment", (0.0, 0.5, 1.0)))["error"]
    assert np.ptp(errors, axis=1).max() == 0


def test_weights_with_the_norm_of_the_signal():
    setting = attention(weights=Weights(Direction("signal", 1.0)))
    X, y, axes = tokens()
    w = np.sqrt(2.0) * axes[0]
    expected = simulation.attention_error(X, y, 0.5, "tanh", w, w)
    found = measure(Curve(setting, "gamma", (0.5,)))["error"][1, 0]
    np.testing.assert_allclose(found, expected)


def test_a_mix_of_hermite_polynomials():
    setting = attention(nonlinearity=HermiteMix(3, 0.0))
    found = measure(Curve(setting, "linear_share", (0.0, 0.25)))["error"][1, 1]
    X, y, _ = tokens()
    expected = simulation.attention_error(X, y, 0.5, hermite_mix(3, 0.25))
    np.testing.assert_allclose(found, expected)


def test_sizes_at_one_ratio_and_ratios_at_one_size():
    sizes = Curve(attention(), "size", (8, 24))
    assert [(s.tokens, s.dimension) for s in sizes] == [(20, 8), (60, 24)]
    ratios = Curve(attention(tokens=40, dimension=40), "aspect_ratio", (0.25, 4.0))
    assert [(s.tokens, s.dimension) for s in ratios] == [(80, 20), (20, 80)]
    X, y, _ = tokens(p=8, n=20)
    expected = simulation.attention_error(X, y, 0.5, "tanh")
    np.testing.assert_allclose(measure(sizes)["error"][1, 0], expected)


def test_one_head_is_no_stack_and_shared_heads_share_the_penalty():
    setting = attention(weights=ALIGNED, heads=Heads(1, 1.0))
    errors = measure(Curve(setting, "heads", (1, 2)))["error"]
    halved = measure(Curve(attention(weights=ALIGNED, gamma=0.25), "gamma", (0.25,)))
    np.testing.assert_allclose(errors[:, 1], halved["error"][:, 0], rtol=1e-9)


def test_heads_of_different_directions_are_stacked():
    setting = attention(weights=ALIGNED, heads=Heads(2, 0.3))
    X, y, _ = tokens()
    axes = data.directions(SEED, 4, P, 4)
    outputs = []
    for own in axes[2:]:
        other = np.sqrt(0.3) * axes[1] + np.sqrt(0.7) * own
        w = data.aligned_weights(axes[0], other, 1.5, 0.6)
        outputs.append(simulation.attention_output(X, "tanh", w, w))
    expected = simulation.linear_regression_error(np.vstack(outputs), y, 0.5)
    found = measure(Curve(setting, "gamma", (0.5,)))["error"][1, 0]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("diagonal", ["zero", "keep"])
def test_softmax(diagonal):
    setting = Setting(
        "softmax", N, P, 2.0, 0.5, weights=ALIGNED, diagonal=diagonal, temperature=2.0
    )
    X, y, axes = tokens()
    w = data.aligned_weights(axes[0], axes[1], 1.5, 0.6)
    output = softmax.softmax_output(X, w, w, masked=diagonal == "zero", temperature=2.0)
    expected = simulation.linear_regression_error(output, y, 0.5)
    found = measure(Curve(setting, "gamma", (0.5,)))["error"][1, 0]
    np.testing.assert_allclose(found, expected)


def test_other_noise_and_labels():
    law = {"law": "uniform"}
    setting = attention(noise=Noise("uniform"), labels=Labels(0.8, random=True))
    X, y, _ = tokens(labels=data.random_labels(SEED, 4, N, 0.8), law=law)
    expected = simulation.attention_error(X, y, 0.5, "tanh")
    found = measure(Curve(setting, "gamma", (0.5,)), law=law)["error"][1, 0]
    np.testing.assert_allclose(found, expected)


def test_a_function_that_is_not_centred():
    setting = attention(nonlinearity="sigmoid", centred=False)
    X, y, _ = tokens()
    K = 1 / (1 + np.exp(-X.T @ X / np.sqrt(P))) / np.sqrt(P)
    expected = simulation.linear_regression_error(X @ (K - np.diag(np.diag(K))), y, 0.5)
    found = measure(Curve(setting, "gamma", (0.5,)))["error"][1, 0]
    np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("shape", [(N, P), (P, N)])
def test_trace_and_spectrum_are_those_of_the_gram_matrix(shape):
    n, p = shape
    setting = attention(tokens=n, dimension=p)
    X, _, _ = tokens(p, n)
    A = simulation.attention_output(X, "tanh")
    eigenvalues = np.linalg.eigvalsh(A.T @ A / n)
    curve = Curve(setting, "gamma", (0.1, 1.0), measure="trace")
    expected = [np.mean(g / (eigenvalues + g)) for g in (0.1, 1.0)]
    np.testing.assert_allclose(measure(curve, n, p)["trace"][1], expected, rtol=1e-8)

    bins = (0.0, *np.geomspace(1e-3, 1e3, 13))
    curve = Curve(setting, "eigenvalue", bins, measure="spectrum")
    density = measure(curve, n, p)["density"][1]
    assert density[0] == max(0, n - p) / n
    np.testing.assert_allclose(density[0] + density[1:].sum() * np.log(10**0.5), 1)


def test_the_remainder_of_lemma_1():
    curve = Curve(attention(weights=ALIGNED), "size", (24,), measure="linearization")
    found = measure(curve)
    _, y, axes = tokens()
    w = data.aligned_weights(axes[0], axes[1], 1.5, 0.6)
    noise = data.noise(SEED, 4, P, N)
    difference, norm = remainder(noise, y, np.sqrt(2) * axes[0], "tanh", w, w)
    np.testing.assert_allclose(found["remainder"][1], difference)
    np.testing.assert_allclose(found["relative_remainder"][1], difference / norm)


def test_tokens_of_the_users_own():
    source = TokensFile("x.npy", None, "y.npy", "scale", "0" * 64)
    setting = attention(data=source, weights=Weights(Direction(1.0, 1.0)))
    X, y, axes = tokens()
    draws = {"tokens": X[None], "labels": y[None], "signal": axes[:1]}
    found = simulate_curve(
        Curve(setting, "gamma", (0.5,)), draws, seed=SEED, replicates=[4]
    )
    expected = simulation.attention_error(X, y, 0.5, "tanh", axes[0], axes[0])
    np.testing.assert_allclose(found["error"][0, 0], expected)


def test_draws_that_are_too_small_or_too_few_are_refused():
    with pytest.raises(ValueError, match=r"needs draws of shape \(24, 60\)"):
        measure(Curve(attention(), "gamma", (0.5,)), n=50)
    curve = Curve(attention(), "gamma", (0.5,))
    draws = {"noise": data.noise(SEED, 0, P, N)[None]}
    with pytest.raises(ValueError, match="2 replicates named, noise has 1"):
        simulate_curve(curve, draws, seed=SEED, replicates=[0, 1])
