"""Tokens of the user's own: read, checked, standardized, measured."""

import h5py
import numpy as np
import pytest

from interpolation_error.model import data, tokens_file
from interpolation_error.model.setting import TokensFile


@pytest.fixture
def mine(tmp_path):
    """Write tokens with a known signal and return how they are named."""
    rng = np.random.default_rng(0)
    labels = np.repeat([3, 7], [120, 80])
    y = np.where(labels == 7, 1.0, -1.0)
    mu = np.linspace(0.1, 0.6, 12)
    X = 5 + 2 * (np.outer(mu, y) + rng.standard_normal((12, 200)))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", labels)
    with h5py.File(tmp_path / "xy.h5", "w") as file:
        file["tokens"], file["labels"] = X, labels
    return tmp_path


def npy(folder, standardize="scale"):
    return tokens_file.locate(
        str(folder / "x.npy"), str(folder / "y.npy"), standardize=standardize
    )


def test_npy_and_hdf5_are_the_same(mine):
    from_npy = tokens_file.load(npy(mine))
    h5 = tokens_file.locate(str(mine / "xy.h5"), "labels", tokens="tokens")
    for one, other in zip(from_npy, tokens_file.load(h5), strict=True):
        assert np.array_equal(one, other)


def test_scaled_tokens_have_unit_variance_within_centred_classes(mine):
    X, y = tokens_file.load(npy(mine))
    means = [X[:, y == sign].mean(axis=1) for sign in (1, -1)]
    np.testing.assert_allclose(means[0], -means[1], atol=1e-12)
    within = X - np.outer(means[0], y)
    np.testing.assert_allclose(within.var(axis=1), 1, rtol=1e-12)


def test_no_standardization_leaves_tokens_alone(mine):
    X, _ = tokens_file.load(npy(mine, "none"))
    assert np.array_equal(X, np.load(mine / "x.npy"))


def test_the_measured_signal_is_not_biased_by_the_noise():
    p, n, snr = 60, 200, 0.5
    mu = np.sqrt(snr) * data.directions(1, 0, p)[0]
    y = data.alternating_labels(n)
    found = []
    for draw in range(200):
        X = data.signal_plus_noise(data.noise(1, draw, p, n), y, mu)
        found.append(tokens_file.measured_signal(X, y)[1])
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - snr) < 4 * error
    assert snr + p / n > np.mean(found) + 20 * error  # what the plain norm would say


def test_draws_are_subsets_with_the_signal_of_all(mine):
    source = npy(mine)
    X, y = tokens_file.load(source)
    draws = tokens_file.draw(source, 100, seed=1, replicates=[0, 3])
    assert draws["tokens"].shape == (2, 12, 100)
    places = data.subset(1, 3, y, 100)
    assert np.array_equal(draws["tokens"][1], X[:, places])
    assert np.array_equal(draws["labels"][1], y[places])
    np.testing.assert_allclose(np.linalg.norm(draws["signal"], axis=1), 1)


def spoil(folder, **arrays):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.arange(200)}, "two values, got 200"),
        ({"y": np.ones(200)}, "two values, got 1"),
        ({"y": np.ones(7)}, r"labels must have shape \(200,\), got \(7,\)"),
        ({"x": np.ones(200)}, "tokens must have shape"),
        ({"x": np.full((12, 200), np.nan)}, "must be finite"),
        ({"x": np.ones((12, 200))}, "constant within the classes, as are 11 more"),
        ({"x": np.full((12, 200), "a")}, "real numbers"),
        ({"x": np.full((12, 200), None)}, "cannot be read as .npy"),
    ],
)
def test_bad_tokens_are_refused_in_one_line(mine, change, message):
    spoil(mine, **change)
    with pytest.raises(ValueError, match=message) as refused:
        tokens_file.load(npy(mine))
    assert "\n" not in str(refused.value)


def test_missing_and_changed_files_are_refused(mine):
    source = npy(mine)
    np.save(mine / "x.npy", np.zeros((12, 200)))
    with pytest.raises(ValueError, match="changed while the run went on"):
        tokens_file.load(source)
    (mine / "x.npy").unlink()
    with pytest.raises(ValueError, match=r"x\.npy: cannot be read \(No such file"):
        npy(mine)
    with pytest.raises(ValueError, match="no array 'nothing'; it has labels, tokens"):
        tokens_file.load(
            tokens_file.locate(str(mine / "xy.h5"), "labels", tokens="nothing")
        )


@pytest.mark.parametrize(
    "arguments",
    [
        {"file": "x.txt", "labels": "y.npy"},
        {"file": "x.npy", "labels": "y.npy", "tokens": "a"},
        {"file": "x.h5", "labels": "y"},
        {"file": "x.npy", "labels": "y.npy", "standardize": "whiten"},
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments):
    with pytest.raises(ValueError, match="must be|only there"):
        tokens_file.locate(**arguments)


def test_complex_numbers_are_refused_and_their_file_named_once(mine):
    spoil(mine, x=np.full((12, 200), 1j))
    with pytest.raises(
        ValueError, match="must hold real numbers, got complex"
    ) as error:
        tokens_file.load(npy(mine))
    assert str(error.value).count("x.npy") == 1


def test_an_archive_of_arrays_is_refused_whole_and_cut(mine):
    path = mine / "y.npz"
    np.savez(path, labels=np.ones(200))
    for name in (path, mine / "y.npy"):  # whatever it is called
        name.write_bytes(path.read_bytes())
        with pytest.raises(ValueError, match=f"{name.name}: must hold one array"):
            tokens_file.load(tokens_file.locate(str(mine / "x.npy"), str(name)))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"y\.npz: cannot be read as \.npy \(File is"):
        tokens_file.load(tokens_file.locate(str(mine / "x.npy"), str(path)))


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"{'descr': '<f8', 'shape': (12, 200", "EOF in multi-line statement"),
        (
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (999999999, 99999), }",
            "Unable to allocate",
        ),
    ],
)
def test_a_spoilt_header_is_one_line(mine, header, reason):
    header += b" " * (117 - len(header)) + b"\n"
    (mine / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + b"\x76\x00" + header)
    with pytest.raises(
        ValueError, match=r"x\.npy: cannot be read as \.npy \("
    ) as error:
        tokens_file.load(npy(mine))
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def test_hdf5_without_numbers_or_with_spoilt_groups_is_one_line(mine):
    path = mine / "xy.h5"
    with h5py.File(path, "a") as file:
        file["empty"] = h5py.Empty("f8")
    source = tokens_file.locate(str(path), "empty", tokens="tokens")
    with pytest.raises(ValueError, match=r"xy\.h5: the array 'empty' is empty"):
        tokens_file.load(source)
    path.write_bytes(path.read_bytes().replace(b"TREE", b"EERT"))
    source = tokens_file.locate(str(path), "labels", tokens="tokens")
    with pytest.raises(ValueError, match=r"cannot be read as HDF5 \(.*B-tree"):
        tokens_file.load(source)


def test_truncated_hdf5_is_one_line(mine):
    path = mine / "xy.h5"
    path.write_bytes(path.read_bytes()[:100])
    source = tokens_file.locate(str(path), "labels", tokens="tokens")
    assert isinstance(source, TokensFile)
    with pytest.raises(ValueError, match="cannot be read as HDF5"):
        tokens_file.load(source)
