"""Where the clone and its results lie makes no difference to what is computed."""

import pytest

from tests.workflow.conftest import copy_project
from tests.workflow.test_pipeline import files

pytestmark = pytest.mark.workflow


def test_spaces_other_letters_and_results_elsewhere_give_the_same_bytes(
    pristine, tmp_path
):
    clone = copy_project(tmp_path / "a b" / "ü")
    clone.results = tmp_path / "größer & ferner" / "结果"
    clone.edit(
        "config/config.yaml", lambda config: config.update(results=str(clone.results))
    )
    clone.build()
    assert files(clone.results) == files(pristine.results)
    assert not (clone.folder / "results").exists()
    assert "Nothing to be done" in clone.build()
