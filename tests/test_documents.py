"""What the documents say runs, and what they point to exists."""

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted(
    path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md")]
    if path.is_file()
)


def test_the_readme_example_runs_as_shown():
    results = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert results.attempted >= 8
    assert results.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_link_inside_the_project_resolves(path):
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text()):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_every_figure_has_a_caption_and_a_reference():
    for definition in ROOT.glob("figures/*/figure.yaml"):
        for name in ("caption.rst", "reference.csv", "reference.png"):
            assert (definition.parent / name).stat().st_size > 0
