"""What holds of all tests: they have no repository but the ones they make."""

import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _no_repository_from_outside():
    """Take from the environment what git hooks and users set for git.

    With GIT_DIR set, a test that commits in a folder of its own would commit to that
    repository instead.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("GIT_")]:
            patch.delenv(name)
        yield
