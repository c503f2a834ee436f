"""What the documents say runs, and what they point to exists."""

import doctest
import re
from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
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


def words(text):
    return {word for word in ("supported", "contradicted", "undecided") if word in text}


def test_captions_say_what_the_verdicts_of_the_released_run_are():
    claims = pd.read_csv(ROOT / "figures/claims.csv")
    for figure, rows in claims.groupby("figure"):
        caption = (ROOT / f"figures/{figure}/caption.rst").read_text()
        said = caption.partition("of the released run:")[2]
        assert words(said) == words(" ".join(rows["verdict"])), figure


def test_the_page_of_verdicts_has_those_of_the_released_run():
    page = (ROOT / "docs/verdicts.md").read_text()
    table = page.partition("<!-- claims -->")[2].partition("<!-- end of claims")[0]
    shown = re.findall(r"\| \*\*([a-z ]+)\*\*", table)
    claims = pd.read_csv(ROOT / "figures/claims.csv")
    assert shown == claims["verdict"].tolist()
    assert all(region in table for region in claims["region"])


def test_every_figure_has_a_caption_and_a_reference():
    definitions = [
        *ROOT.glob("figures/*/figure.yaml"),
        *ROOT.glob("figures/*/study.yaml"),
    ]
    for definition in definitions:
        for name in ("caption.rst", "reference.csv", "reference.png"):
            assert (definition.parent / name).stat().st_size > 0
