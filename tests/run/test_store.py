"""A cached file proves what it is, and says in one line what is wrong with it."""

import os
import shutil
import socket
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest

from interpolation_error.run import store
from interpolation_error.run.identity import KEY_LENGTH, Identity


@pytest.fixture
def identity():
    return Identity.of({"tokens": 4}, "data")


@pytest.fixture
def path(tmp_path, identity):
    path = tmp_path / f"noise-{identity.key[:KEY_LENGTH]}.h5"
    store.write(path, {"a/b": np.arange(6.0).reshape(2, 3), "c": np.ones(2)}, identity)
    return path


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    return text


def test_arrays_come_back_as_they_went(path, identity):
    arrays = store.read(path)
    assert sorted(arrays) == ["a/b", "c"]
    np.testing.assert_array_equal(arrays["a/b"], np.arange(6.0).reshape(2, 3))
    assert store.read_identity(path) == identity


def test_the_same_arrays_give_the_same_bytes(path, identity):
    before = path.read_bytes()
    arrays = {"c": np.ones(2), "a/b": np.arange(6.0).reshape(2, 3)}
    store.write(path, arrays, identity)
    assert path.read_bytes() == before


def test_nothing_volatile_is_in_the_file(path):
    with h5py.File(path) as file:
        assert set(file.attrs) == {
            "spec",
            "code",
            "versions",
            "schema",
            "key",
            "blas",
            "checksum",
        }


def test_a_name_without_the_key_is_refused_before_writing(tmp_path, identity):
    with pytest.raises(store.StoreError, match="its name should end in") as error:
        store.write(tmp_path / "noise-0123456789abcdef.h5", {}, identity)
    one_line(error)
    assert list(tmp_path.iterdir()) == []


def test_every_flipped_byte_of_an_array_is_noticed(path):
    values = np.arange(6.0).tobytes()
    content = bytearray(path.read_bytes())
    start = content.index(values)
    for offset in range(0, len(values), 7):
        content[start + offset] ^= 1
        path.write_bytes(content)
        with pytest.raises(store.StoreError, match="do not match their checksum"):
            store.read(path)
        content[start + offset] ^= 1


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_file_is_noticed(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(store.StoreError, match="cannot be read as HDF5") as error:
        store.read(path)
    assert f"rm '{path}'" in one_line(error)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(store.StoreError, match="does not exist") as error:
        store.read(tmp_path / "none.h5")
    one_line(error)


@pytest.mark.parametrize("name", ["spec", "code", "versions"])
def test_an_altered_attribute_is_noticed(path, name):
    with h5py.File(path, "a") as file:
        file.attrs[name] = "{}"
    with pytest.raises(store.StoreError, match="do not match its key"):
        store.read(path)


@pytest.mark.parametrize("name", ["spec", "key", "checksum"])
def test_a_missing_attribute_is_noticed(path, name):
    with h5py.File(path, "a") as file:
        del file.attrs[name]
    with pytest.raises(store.StoreError, match=f"lacks the attribute '{name}'"):
        store.read(path)


def test_one_file_under_the_name_of_another_is_noticed(path, tmp_path):
    other = Identity.of({"tokens": 5}, "data")
    swapped = tmp_path / f"noise-{other.key[:KEY_LENGTH]}.h5"
    shutil.copy(path, swapped)
    with pytest.raises(store.StoreError, match="something else than its name says"):
        store.read(swapped)


def test_a_failed_write_leaves_what_was_there_and_nothing_else(path, tmp_path):
    before = path.read_bytes()

    def failing():
        with store.replacing(path) as draft:
            draft.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_cleared_by_the_next(path, identity, tmp_path):
    arrays = store.read(path)
    ended = subprocess.Popen(["true"])
    ended.wait()
    here = f".{path.stem}.{socket.gethostname()}"
    (tmp_path / f"{here}-{ended.pid}.draft.h5").write_text("half")
    elsewhere = tmp_path / f".{path.stem}.a-node-1.draft.h5"
    elsewhere.write_text("half")
    two_days_ago = time.time() - 2 * store.DAY
    os.utime(elsewhere, (two_days_ago, two_days_ago))
    store.write(path, arrays, identity)
    assert list(tmp_path.iterdir()) == [path]


def test_what_others_are_writing_is_left_to_them(path, identity, tmp_path):
    arrays = store.read(path)
    here = tmp_path / f".{path.stem}.{socket.gethostname()}-{os.getppid()}.draft.h5"
    elsewhere = tmp_path / f".{path.stem}.a-node-1.draft.h5"
    for draft in (here, elsewhere):
        draft.write_text("half")
    store.write(path, arrays, identity)
    assert set(tmp_path.iterdir()) == {path, here, elsewhere}


def test_want_of_room_is_told_in_one_line(path, identity, monkeypatch):
    def full(*arguments, **options):
        raise OSError("Can't close file (file write failed:\n, errno = 28, error")

    monkeypatch.setattr(store.h5py, "File", full)
    with pytest.raises(OSError, match="No space left on device") as error:
        store.write(path, {}, identity)
    assert error.value.filename == str(path)


def test_values_types_shapes_and_names_are_all_in_the_checksum():
    base = {"x": np.arange(4.0)}
    others = [
        {"y": np.arange(4.0)},
        {"x": np.arange(4)},
        {"x": np.arange(4.0).reshape(2, 2)},
        {"x": np.arange(4.0) + 1e-15},
        {},
    ]
    assert len({store.checksum(arrays) for arrays in [base, *others]}) == 6


@pytest.fixture(scope="session")
def without_locks(tmp_path_factory):
    """A library that refuses every lock, as NFS does without its lock daemon."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("needs Linux and a C compiler")
    folder = tmp_path_factory.mktemp("without_locks")
    (folder / "flock.c").write_text(
        "#include <errno.h>\n"
        "int flock(int file, int how) { errno = ENOLCK; return -1; }\n"
    )
    library = folder / "flock.so"
    command = [compiler, "-shared", "-fPIC", "-o", library, folder / "flock.c"]
    subprocess.run(command, check=True)
    return library


def where_locks_are_refused(library, code, **setting):
    """Run Python without locks and return what it said."""
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    environment.pop("HDF5_USE_FILE_LOCKING", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | setting,
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


COPY = """
from pathlib import Path
from interpolation_error.run import store
path = Path({path!r})
try:
    identity, arrays = store.read_identity(path), store.read(path)
    store.write(path.with_name("copy-" + path.name), arrays, identity)
    print("read and written")
except store.StoreError as error:
    print(error)
"""


def test_arrays_are_read_and_written_where_locks_are_refused(path, without_locks):
    plain = f"import h5py; h5py.File({str(path)!r}, 'r')"
    assert "No locks available" in where_locks_are_refused(without_locks, plain)
    code = COPY.format(path=str(path))
    assert where_locks_are_refused(without_locks, code) == "read and written\n"
    copy = store.read(path.with_name(f"copy-{path.name}"))
    assert store.checksum(copy) == store.checksum(store.read(path))


def test_a_refused_lock_does_not_cost_the_file(path, without_locks):
    said = where_locks_are_refused(
        without_locks, COPY.format(path=str(path)), HDF5_USE_FILE_LOCKING="TRUE"
    )
    assert said.startswith(f"{path}: the file system refuses a lock (")
    assert said.endswith("unset it, or set it to FALSE\n")
    assert said.count("\n") == 1
    assert "delete" not in said
    assert path.exists()


def test_a_file_that_another_process_has_locked_is_read(path):
    fcntl = pytest.importorskip("fcntl")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="unable to lock file"):
            h5py.File(path, "r", locking=True)
        assert sorted(store.read(path)) == ["a/b", "c"]
