"""Snakemake really runs: what is made, what is made again, and what is left alone."""

import json
import os
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import yaml

from interpolation_error.run import store
from tests.workflow.conftest import planned_jobs

pytestmark = pytest.mark.workflow

TABLE = "tables/nonlinear_attention.csv"
REDRAWN = {"draw_nonlinear_attention": 1}
# The verdicts are read from the same arrays as the table.
RETABULATED = {"tabulate_nonlinear_attention": 1, "claims": 1, **REDRAWN}


def files(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix in {".h5", ".csv", ".png", ".pdf", ".svg"}
    }


def test_a_run_makes_pictures_table_and_arrays(pristine):
    made = {path.as_posix() for path in files(pristine.results)}
    for kind in ("pdf", "png", "svg"):
        assert f"miniature/figures/nonlinear_attention.{kind}" in made
    assert f"miniature/{TABLE}" in made
    assert sum(name.startswith("cache/simulation/") for name in made) == 2
    assert sum(name.startswith("cache/data/") for name in made) == 1
    assert sum(name.startswith("cache/theory/") for name in made) == 1


def test_verdicts_are_given_in_three_forms(pristine):
    found = json.loads((pristine.run_folder / "claims.json").read_text())["claims"]
    table = pd.read_csv(pristine.run_folder / "claims.csv")
    page = (pristine.run_folder / "claims.md").read_text()
    assert table["verdict"].tolist() == [one["verdict"] for one in found]
    assert page.count("**") == 2 * len(found)
    tested = table[table["verdict"] != "not tested"]
    assert set(tested["figure"]) == {"nonlinear_attention"}


def test_an_edited_claim_is_judged_again_from_the_same_arrays(clone):
    clone.edit(
        "config/claims.yaml",
        lambda d: d["claims"]["theorem_1"]["claimed"].update(below=0.1),
    )
    assert clone.planned() == {"claims": 1}


def test_the_miniature_has_at_most_eight_jobs(pristine):
    assert sum(planned_jobs(pristine.said).values()) + 1 <= 8


def test_the_table_holds_what_the_arrays_hold(pristine):
    table = pd.read_csv(pristine.run_folder / TABLE)
    simulated = [
        store.read(path)["error"]
        for path in sorted((pristine.results / "cache/simulation").glob("*tanh*.h5"))
    ]
    mean = np.concatenate(simulated).mean(axis=0)
    rows = table[table["curve"] == "tanh"].dropna(subset="simulated_mean")
    np.testing.assert_allclose(rows["simulated_mean"], mean, rtol=1e-11)
    assert set(table["replicates"]) == {2}


def test_a_second_run_does_nothing(pristine):
    assert "Nothing to be done" in pristine.build()


def test_a_second_run_does_nothing_without_snakemakes_records(clone):
    shutil.rmtree(clone.folder / ".snakemake")
    assert "Nothing to be done" in clone.build()


def test_one_or_two_cores_give_the_same_bytes(pristine, clone):
    shutil.rmtree(clone.results)
    clone.build(cores=1)
    assert files(clone.results) == files(pristine.results)


def test_a_changed_parameter_is_noticed_without_snakemakes_records(clone):
    shutil.rmtree(clone.folder / ".snakemake")
    clone.edit(
        "figures/nonlinear_attention/figure.yaml",
        lambda d: d["curves"]["tanh"]["weights"].update(norm=0.5),
    )
    assert clone.planned() == {"simulate": 1, "predict": 1, **RETABULATED}


def test_a_change_taken_back_is_noticed_too(clone):
    before = (clone.run_folder / TABLE).read_bytes()
    definition = clone.figure.read_text()
    clone.edit(
        "figures/nonlinear_attention/figure.yaml",
        lambda d: d["panels"]["gamma"]["setting"].update(snr=2),
    )
    clone.build()
    assert (clone.run_folder / TABLE).read_bytes() != before
    clone.figure.write_text(definition)
    assert clone.planned() == RETABULATED
    clone.build()
    assert (clone.run_folder / TABLE).read_bytes() == before


def test_an_edited_module_reruns_what_it_computed(clone):
    path = clone.folder / "workflow/src/interpolation_error/theory/limit.py"
    path.write_text(path.read_text() + "\n_EDITED = True\n")
    assert clone.planned() == {"predict": 1, **RETABULATED}


def test_an_edited_style_redraws_without_simulating(clone):
    clone.replace(
        "figures/paper.mplstyle", "lines.linewidth: 1.2", "lines.linewidth: 2"
    )
    assert clone.planned() == REDRAWN
    before = (clone.run_folder / "figures/nonlinear_attention.png").read_bytes()
    clone.build()
    after = (clone.run_folder / "figures/nonlinear_attention.png").read_bytes()
    assert after != before


def test_an_added_curve_brings_back_a_dataset_and_touches_no_other_curve(clone):
    for path in (clone.results / "cache/data").glob("*.h5"):
        path.unlink()
    assert clone.planned() == {}
    clone.edit("config/presets/miniature.yaml", lambda p: p["at_most"].update(curves=3))
    expected = {"dataset": 1, "simulate": 1, "predict": 1, **RETABULATED}
    assert clone.planned() == expected


def test_a_damaged_array_is_named_with_the_remedy(clone):
    path = next((clone.results / "cache/simulation").glob("*tanh*.h5"))
    content = bytearray(path.read_bytes())
    values = store.read(path)["error"].tobytes()
    content[content.index(values)] ^= 1
    path.write_bytes(content)
    done = clone.snakemake("--forcerun", "tabulate_nonlinear_attention")
    assert done.returncode != 0
    lines = [line for line in done.stdout.splitlines() if "checksum" in line]
    assert lines
    assert f"delete it (rm 'results/cache/simulation/{path.name}')" in lines[0]
    assert "Traceback" not in done.stdout


def test_a_figure_can_be_rebuilt_by_name_from_arrays_that_hold(clone):
    shutil.rmtree(clone.run_folder / "figures")
    assert clone.planned("nonlinear_attention") == REDRAWN


def test_a_killed_run_goes_on_at_the_next_call(clone):
    before = files(clone.results)
    shutil.rmtree(clone.results)
    clone.kill_when(lambda: any(clone.results.glob("cache/data/*.h5")))
    assert files(clone.results) != before
    clone.build()
    assert files(clone.results) == before
    assert not list(clone.results.rglob("*.draft*"))
    assert "Nothing to be done" in clone.build()


def test_a_function_of_the_users_as_the_manual_shows_it(clone):
    manual = (clone.folder / "config/README.md").read_text()
    (function,) = re.findall(r"```python\n(.*?)```", manual, re.DOTALL)
    config, curves = (
        yaml.safe_load(block)
        for block in re.findall(r"```yaml\n(.*?)```", manual, re.DOTALL)
    )
    definition = config["nonlinearities"]["softsign"]
    (clone.folder / definition["file"]).write_text(function)
    clone.edit("config/config.yaml", lambda c: c.update(config))
    clone.edit(
        "figures/nonlinear_attention/figure.yaml",
        lambda d: d.update(curves={**curves["curves"], **d["curves"]}),
    )
    clone.edit("config/presets/miniature.yaml", lambda p: p["at_most"].update(curves=3))
    expected = {"simulate": 1, "predict": 1, **RETABULATED}
    assert clone.planned() == expected
    clone.build()
    table = pd.read_csv(clone.run_folder / TABLE)
    assert "softsign" in set(table["curve"])
    (clone.folder / definition["file"]).write_text(function.replace("1 +", "2 +"))
    assert clone.planned() == expected


def test_bad_configuration_stops_before_any_job(clone):
    clone.edit(
        "figures/nonlinear_attention/figure.yaml",
        lambda d: d["curves"]["tanh"].update(nonlinearity="tan"),
    )
    done = clone.snakemake()
    assert done.returncode != 0
    assert "figure.yaml: panels.gamma.curves.tanh: nonlinearity: there is no 'tan'" in (
        done.stdout
    )
    assert "Traceback" not in done.stdout


def test_another_clones_package_is_refused(clone, monkeypatch, pristine):
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "1", "--dry-run"],
        cwd=clone.folder,
        env={"PATH": os.defpath, "PYTHONPATH": str(pristine.folder / "workflow/src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "not from this clone" in done.stdout + done.stderr
