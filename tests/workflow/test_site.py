"""The audit pages in Chromium, from disk: whole, silent, sortable, for everybody."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pandas as pd
import pytest
import yaml

from tests.workflow.conftest import ROOT, copy_project

pytestmark = pytest.mark.site

SITE = ROOT / "tests/site"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FIGURES = ("nonlinear_attention", "random_inputs", "spectrum")
PAGES = ("index", *FIGURES)
PRESET = {
    "figures": list(FIGURES),
    "replicates_per_job": "all",
    "size_divisor": 4,
    "at_most": {"panels": 1, "curves": 2, "points": 4, "replicates": 3},
}


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A finished run with a sweep, a map and a histogram, and its audit pages."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"needs {CHROMIUM}; make test-site installs it as root on Debian")
    if not (shutil.which("node") and (SITE / "node_modules").is_dir()):
        pytest.skip("needs node and the packages in tests/site; make test-site")
    clone = copy_project(tmp_path_factory.mktemp("site") / "clone")
    preset = clone.folder / "config/presets/miniature.yaml"
    preset.write_text(yaml.safe_dump(PRESET))
    clone.build()
    command = [sys.executable, "workflow/scripts/audit.py", "--preset", "miniature"]
    subprocess.run(command, cwd=clone.folder, check=True)
    return clone.run_folder


@pytest.fixture(scope="session")
def seen(run):
    """What Chromium saw on each page."""
    pages = [str(run / f"audit/{name}.html") for name in PAGES]
    command = ["node", str(SITE / "check.mjs"), *pages]
    environment = {**os.environ, "CHROMIUM": CHROMIUM}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=PAGES)
def page(request, seen):
    return seen[f"{request.param}.html"]


def test_a_page_loads_without_an_error_and_asks_nothing_of_a_network(page):
    assert page["errors"] == []
    assert page["outside"] == []


def test_a_page_has_no_serious_fault_of_accessibility(page):
    assert {view: faults for view, faults in page["faults"].items() if faults} == {}
    assert len(page["faults"]) == 4


def test_a_page_is_no_wider_than_a_phone(page):
    assert set(page["wider"].values()) == {0}


def test_nothing_is_folded_away_in_print(page):
    assert page["folded"] == 0


def test_every_link_resolves(page, seen):
    assert len(page["links"]) > 5
    for link in page["links"]:
        address, anchor = urldefrag(link)
        file = Path(unquote(urlsplit(address).path))
        assert urlsplit(address).scheme == "file"
        assert file.is_file(), link
        if anchor:
            assert anchor in seen[file.name]["targets"], link


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def test_tables_sort_by_every_column(page):
    assert page["tables"]
    for table in page["tables"]:
        for column in table["columns"]:
            before, up = column["before"], column["ascending"]
            assert Counter(up) == Counter(before) == Counter(column["descending"])
            assert column["said ascending"] == "ascending"
            assert column["said descending"] == "descending"
            filled = [text for text in up if text]
            numbers = [number(text) for text in filled]
            assert up == filled + [""] * (len(up) - len(filled))
            if None not in numbers:
                assert numbers == sorted(numbers)
                down = [number(text) for text in column["descending"] if text]
                assert down == sorted(numbers, reverse=True)
            elif numbers.count(None) == len(numbers):
                assert filled == sorted(filled)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_page_holds_the_numbers_of_its_csv(figure, run, seen):
    table = pd.read_csv(run / f"tables/{figure}.csv", dtype=str, keep_default_na=False)
    shown = {}
    for one in seen[f"{figure}.html"]["tables"]:
        if re.match("Simulated points|Theory between", one["caption"]):
            columns = {column["name"]: column["before"] for column in one["columns"]}
            for row in zip(*columns.values(), strict=True):
                cells = dict(zip(columns, row, strict=True))
                place = tuple(cells.get(k, "") for k in ("panel", "curve", "row", "x"))
                shown[place] = cells
    assert len(shown) == len(table)
    for row in table.to_dict("records"):
        known = {k.replace("_", " "): rounded(text) for k, text in row.items()}
        place = tuple(known[k] for k in ("panel", "curve", "row", "x"))
        kept = {name: text for name, text in known.items() if text}
        assert {k: text for k, text in shown[place].items() if text} == kept


def rounded(text):
    """Return a cell of the CSV as the page writes it."""
    value = number(text)
    return text if value is None else f"{value:.6g}"


def test_a_figure_page_says_what_a_point_is_worth(run, seen):
    table = pd.read_csv(run / "tables/random_inputs.csv").dropna(
        subset="simulated_mean"
    )
    said = seen["random_inputs.html"]["text"]
    for mean in table["simulated_mean"]:
        assert f"simulated {mean:.4g} (" in said
