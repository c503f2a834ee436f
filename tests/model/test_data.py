"""Draws that a smaller problem shares with a larger one, and exact cosines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from interpolation_error.model import data
from interpolation_error.model.data import (
    aligned_weights,
    alternating_labels,
    directions,
    noise,
    signal_plus_noise,
)

sizes = st.integers(1, 12)

REFERENCE_NOISE = [
    [-1.2301989163361726, 0.28456923571454273],
    [1.4949979349503164, 1.221198603768421],
]


@given(sizes, sizes)
def test_a_smaller_draw_is_the_leading_block_of_a_larger_one(dimension, tokens):
    large = noise(7, 3, 12, 12)
    np.testing.assert_array_equal(
        noise(7, 3, dimension, tokens), large[:dimension, :tokens]
    )


def test_noise_is_seeded_row_by_row_as_documented():
    sequence = np.random.SeedSequence(5, spawn_key=(0, 2, 1))
    expected = np.random.default_rng(sequence).standard_normal(6)
    np.testing.assert_array_equal(noise(5, 2, 3, 6)[1], expected)


def test_noise_of_these_seeds_never_changes():
    # Every released number stands on these draws.
    np.testing.assert_allclose(
        noise(20250618, 0, 2, 2),
        REFERENCE_NOISE,
        rtol=1e-15,
    )


def test_noise_is_standard_normal():
    draw = noise(1, 0, 100, 1000)
    assert stats.kstest(draw.ravel(), "norm").pvalue > 1e-3
    # Rows, columns and draws are uncorrelated: 5 standard deviations.
    for other in (
        np.roll(draw, 1, axis=0),
        np.roll(draw, 1, axis=1),
        noise(1, 1, 100, 1000),
    ):
        assert abs(np.mean(draw * other)) < 5 / np.sqrt(draw.size)


def test_seed_replicate_and_stream_all_matter():
    draws = [noise(1, 0, 1, 4)[0], noise(2, 0, 1, 4)[0], noise(1, 1, 1, 4)[0]]
    draws.append(directions(1, 0, 4)[0])
    assert len({tuple(draw) for draw in draws}) == 4


def test_labels_alternate():
    np.testing.assert_array_equal(alternating_labels(5), [1, -1, 1, -1, 1])
    assert alternating_labels(1).dtype == np.float64


@pytest.mark.parametrize("dimension", [3, 4, 64, 1001])
def test_directions_are_orthonormal_in_every_dimension(dimension):
    d = directions(1, 2, dimension)
    np.testing.assert_allclose(d @ d.T, np.eye(3), atol=4e-15)


def test_directions_are_gram_schmidt_of_their_streams():
    def stream(row):
        sequence = np.random.SeedSequence(9, spawn_key=(1, 4, row))
        return np.random.default_rng(sequence).standard_normal(50)

    expected = []
    for row in range(3):
        vector = stream(row)
        for other in expected:
            vector = vector - (vector @ other) * other
        expected.append(vector / np.linalg.norm(vector))
    np.testing.assert_allclose(directions(9, 4, 50), expected, atol=1e-14)


def test_signal_direction_is_a_prefix_of_one_stream():
    small, large = directions(1, 0, 10)[0], directions(1, 0, 100)[0][:10]
    np.testing.assert_allclose(small, large / np.linalg.norm(large), rtol=1e-13)


def test_tokens_are_signal_plus_noise():
    Z, y, mu = noise(1, 0, 4, 6), alternating_labels(6), np.arange(4.0)
    X = signal_plus_noise(Z, y, mu)
    np.testing.assert_array_equal(X[:, 0], mu + Z[:, 0])
    np.testing.assert_array_equal(X[:, 1], -mu + Z[:, 1])
    np.testing.assert_array_equal(Z, noise(1, 0, 4, 6))


@given(st.floats(0, 10), st.floats(-1, 1))
def test_weights_have_the_norm_and_the_alignment_asked_for(norm, alignment):
    mu, key, _ = directions(1, 0, 20)
    w = aligned_weights(mu, key, norm, alignment)
    assert np.linalg.norm(w) == pytest.approx(norm, rel=1e-13)
    assert mu @ w == pytest.approx(norm * alignment, abs=1e-14 * (1 + norm))


@pytest.mark.parametrize("alignment", [1.0, -1.0])
def test_parallel_weights_are_exactly_parallel(alignment):
    mu, key, _ = directions(1, 0, 20)
    np.testing.assert_array_equal(
        aligned_weights(mu, key, 2.0, alignment), 2 * alignment * mu
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise(-1, 0, 2, 2), "seed must be a whole number from 0, got -1"),
        (lambda: noise(1.0, 0, 2, 2), "seed must be a whole number from 0, got 1.0"),
        (lambda: noise(1, -1, 2, 2), "replicate must be a whole number from 0, got -1"),
        (lambda: noise(1, 0, 0, 2), "dimension must be a whole number from 1, got 0"),
        (lambda: noise(1, 0, 2, 0), "tokens must be a whole number from 1, got 0"),
        (
            lambda: noise(1, 0, 2, True),
            "tokens must be a whole number from 1, got True",
        ),
        (lambda: data.random_labels(-1, 0, 4), "seed must be a whole number from 0"),
        (lambda: data.random_labels(1, 0.5, 4), "replicate must be a whole number"),
        (lambda: data.subset(-1, 0, [1, -1], 1), "seed must be a whole number from 0"),
        (lambda: data.subset(1, -1, [1, -1], 1), "replicate must be a whole number"),
        (lambda: data.subset(1, 0, [1, -1], 0), "size must be a whole number from 1"),
        (lambda: data.subset(1, 0, [1, -1], 1.0), "size must be a whole number"),
        (lambda: data.subset(1, 0, [0, 1, 2], 3), r"labels must be \+1 or -1, got 0.0"),
        (lambda: data.subset(1, 0, [[1, -1]], 1), "labels must be one for each token"),
        (lambda: alternating_labels(0), "tokens must be a whole number from 1, got 0"),
        (lambda: directions(1, 0, 2), "dimension must be a whole number from 3, got 2"),
    ],
)
def test_sizes_and_seeds_are_whole_numbers(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": np.zeros(3)}, r"noise must have shape \(dimension, tokens\)"),
        ({"noise": np.full((2, 3), np.nan)}, "noise must be finite"),
        ({"noise": np.zeros((2, 0))}, "noise must not be empty"),
        ({"labels": [1, -1]}, r"labels must be one for each token, shape \(3,\)"),
        ({"labels": [1, 0, 1]}, r"labels must be \+1 or -1, got 0.0"),
        ({"mu": [1, 2, 3]}, r"mu must have one entry for each row of noise"),
        ({"mu": [1, np.inf]}, "mu must be finite"),
    ],
)
def test_tokens_of_bad_parts_are_refused(change, message):
    arguments = {"noise": np.zeros((2, 3)), "labels": [1, -1, 1], "mu": [1, 2]}
    with pytest.raises(ValueError, match=message):
        signal_plus_noise(**{**arguments, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"norm": -1.0}, "norm must not be negative, got -1.0"),
        ({"norm": [1.0, 2.0]}, r"norm must be one number, got shape \(2,\)"),
        ({"alignment": 1.01}, "alignment is a cosine, from -1 to 1, got 1.01"),
        ({"alignment": np.nan}, "alignment must be finite"),
        ({"direction_mu": [2.0, 0.0]}, "must be unit vectors orthogonal to each other"),
        ({"direction_mu": [0.6, 0.8]}, "inner product 0.8"),
        ({"direction_mu": [1.0]}, r"vectors of one dimension, got shapes \(1,\)"),
    ],
)
def test_weights_of_bad_parts_are_refused(change, message):
    arguments = {
        "direction_mu": [1.0, 0.0],
        "direction_other": [0.0, 1.0],
        "norm": 1.0,
        "alignment": 0.5,
    }
    with pytest.raises(ValueError, match=message):
        aligned_weights(**{**arguments, **change})


@pytest.mark.parametrize(
    "law",
    [{"law": "rademacher"}, {"law": "uniform"}, {"correlation": 0.6}]
    + [{"law": "student_t", "degrees_of_freedom": df} for df in (2.5, 5)],
)
def test_other_noise_is_the_leading_block_of_a_larger_draw(law):
    large = data.noise(1, 2, 12, 15, **law)
    assert np.array_equal(data.noise(1, 2, 5, 9, **law), large[:5, :9])


@pytest.mark.parametrize(
    ("law", "fourth"), [("rademacher", 1.0), ("uniform", 1.8), ("gaussian", 3.0)]
)
def test_noise_has_zero_mean_unit_variance_and_its_own_fourth_moment(law, fourth):
    z = data.noise(1, 0, 40, 5000, law)
    np.testing.assert_allclose([z.mean(), z.var()], [0, 1], atol=0.02)
    np.testing.assert_allclose(np.mean(z**4), fourth, rtol=0.03)


def test_student_noise_has_unit_variance():
    z = data.noise(1, 0, 40, 5000, "student_t", 5)
    np.testing.assert_allclose(z.var(), 1, rtol=0.03)
    assert np.mean(z**4) > 5  # nine in the limit, of which few draws are seen


def test_correlated_noise_has_its_correlation():
    z = data.noise(1, 0, 30, 20000, correlation=0.6)
    covariance = z @ z.T / z.shape[1]
    distance = np.abs(np.subtract.outer(np.arange(30), np.arange(30)))
    np.testing.assert_allclose(covariance, 0.6**distance, atol=0.05)


@pytest.mark.parametrize(
    "law",
    [
        {"law": "cauchy"},
        {"law": "student_t"},
        {"law": "student_t", "degrees_of_freedom": 2},
        {"correlation": 1.0},
        {"correlation": -0.1},
    ],
)
def test_noise_that_cannot_be_is_refused(law):
    with pytest.raises(ValueError, match="must be"):
        data.noise(1, 0, 4, 4, **law)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_even_labels_have_their_share_in_every_beginning(share):
    y = data.even_labels(500, share)
    positive = np.cumsum(y > 0)
    assert np.all(np.abs(positive - share * np.arange(1, 501)) < 1)


def test_random_labels_begin_alike_and_have_their_share():
    y = data.random_labels(3, 1, 4000, 0.8)
    assert np.array_equal(data.random_labels(3, 1, 10, 0.8), y[:10])
    assert abs(np.mean(y > 0) - 0.8) < 0.03


def test_a_subset_keeps_the_proportion_of_labels():
    labels = np.repeat([1.0, -1.0], [80, 20])
    places = data.subset(1, 0, labels, 50)
    assert len(set(places)) == 50
    assert np.sum(labels[places] > 0) == 40
    with pytest.raises(ValueError, match="cannot take 101 of 100"):
        data.subset(1, 0, labels, 101)


def test_more_directions_begin_with_the_same():
    few, many = data.directions(1, 0, 20), data.directions(1, 0, 20, 6)
    np.testing.assert_allclose(many[:3], few, atol=1e-13)
    np.testing.assert_allclose(many @ many.T, np.eye(6), atol=1e-13)
