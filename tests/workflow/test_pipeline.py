"""Snakemake really runs: what is made, what is made again, and what is left alone."""

import shutil

import numpy as np
import pandas as pd
import pytest
from conftest import planned_jobs

from interpolation_error import store

pytestmark = pytest.mark.workflow

TABLE = "tables/nonlinear_attention.csv"
REDRAWN = {"draw_nonlinear_attention": 1}
RETABULATED = {"tabulate_nonlinear_attention": 1, **REDRAWN}


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


def test_the_miniature_has_at_most_eight_jobs(pristine):
    assert sum(planned_jobs(pristine.said).values()) + 1 <= 8


def test_the_table_holds_what_the_arrays_hold(pristine):
    table = pd.read_csv(pristine.run_folder / TABLE)
    simulated = [
        store.read(path)["error"]
        for path in sorted((pristine.results / "cache/simulation").glob("*tanh*.h5"))
    ]
    mean = np.concatenate(simulated).mean(axis=0)
    rows = table[table["curve"] == "tanh"]
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


@pytest.mark.parametrize("records", [True, False])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        # a parameter of every curve
        (
            lambda d: d["panels"]["gamma"]["setting"].update(snr=2),
            {"simulate": 2, "predict": 1, **RETABULATED},
        ),
        # another label is another picture and nothing else
        (lambda d: d["curves"]["tanh"].update(label="Tanh"), REDRAWN),
        # more draws: the block of draws is the job
        (
            lambda d: d["curves"]["tanh"]["weights"].update(norm=0.5),
            {"simulate": 1, "predict": 1, **RETABULATED},
        ),
    ],
    ids=["shared parameter", "label", "one curve's parameter"],
)
def test_a_changed_definition_reruns_what_depends_on_it(
    clone, change, expected, records
):
    if not records:
        shutil.rmtree(clone.folder / ".snakemake")
    clone.edit("figures/nonlinear_attention/figure.yaml", change)
    assert clone.planned() == expected


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


def test_two_swapped_parameters_are_noticed(clone):
    def swap(definition):
        setting = definition["panels"]["gamma"]["setting"]
        setting["tokens"], setting["dimension"] = (
            setting["dimension"],
            setting["tokens"],
        )

    clone.edit("figures/nonlinear_attention/figure.yaml", swap)
    assert clone.planned() == {
        "dataset": 1,
        "simulate": 2,
        "predict": 1,
        **RETABULATED,
    }


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        ("simulation", {"simulate": 2, **RETABULATED}),
        ("theory", {"predict": 1, **RETABULATED}),
        ("tables", RETABULATED),
        ("drawing", REDRAWN),
    ],
)
def test_an_edited_module_reruns_what_it_computed(clone, module, expected):
    path = clone.folder / f"workflow/src/interpolation_error/{module}.py"
    path.write_text(path.read_text() + "\n_EDITED = True\n")
    assert clone.planned() == expected


def test_an_edited_comment_reruns_nothing(clone):
    for module in ("simulation", "theory", "curve"):
        path = clone.folder / f"workflow/src/interpolation_error/{module}.py"
        path.write_text(path.read_text() + "\n# a thought\n")
    assert "Nothing to be done" in clone.build()


def test_an_edited_style_redraws_without_simulating(clone):
    clone.replace(
        "figures/paper.mplstyle", "lines.linewidth: 1.2", "lines.linewidth: 2"
    )
    assert clone.planned() == REDRAWN
    before = (clone.run_folder / "figures/nonlinear_attention.png").read_bytes()
    clone.build()
    after = (clone.run_folder / "figures/nonlinear_attention.png").read_bytes()
    assert after != before


def test_an_added_curve_simulates_that_curve_alone(clone):
    clone.edit("config/presets/miniature.yaml", lambda p: p["at_most"].update(curves=3))
    expected = {"simulate": 1, "predict": 1, **RETABULATED}
    assert clone.planned() == expected


def test_an_added_curve_brings_back_a_dataset_and_touches_no_other_curve(clone):
    for path in (clone.results / "cache/data").glob("*.h5"):
        path.unlink()
    assert "Nothing to be done" in clone.build()
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
        env={"PATH": "", "PYTHONPATH": str(pristine.folder / "workflow/src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "not from this clone" in done.stdout + done.stderr
