"""One run at a time has the folder of a preset, and gives it up when it ends."""

import errno
import os

import pytest

from interpolation_error import one_run


def test_a_folder_is_claimed_once_and_free_again_afterwards(tmp_path):
    folder = tmp_path / "results/paper"
    with one_run.claim(folder):
        with pytest.raises(ValueError, match="another run is at work here") as error:
            one_run.claim(folder)
        assert "\n" not in str(error.value)
        one_run.claim(tmp_path / "results/quick").close()
    one_run.claim(folder).close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(ValueError, match="a run must write here and cannot"):
        one_run.claim(tmp_path / "results/paper")


def test_a_file_system_without_locks_is_no_obstacle(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(one_run.fcntl, "flock", refuse)
    one_run.claim(tmp_path).close()
