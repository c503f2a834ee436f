"""The job that draws the noise draws that of the curve: its law, seed and draws."""

import argparse
import dataclasses
import importlib
from pathlib import Path

import numpy as np
import pytest

from interpolation_error.figures import checked_yaml
from interpolation_error.model import data
from interpolation_error.model.setting import Noise
from interpolation_error.run import configuration, store
from interpolation_error.run.identity import Identity
from interpolation_error.run.plan import Item, Plan

ROOT = Path(__file__).parents[2]
SMALL = {"tokens": 40, "dimension": 5, "replicates": [1, 4]}


@pytest.fixture(scope="module")
def simulations():
    """A simulation of every law of the noise that a shipped figure asks for."""
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": "quick"}, ROOT, "config")
    figures = Plan(loaded, "").figures.values()
    return {
        simulation.curve.setting.noise: simulation
        for figure in figures
        for simulation in figure.simulations
        if simulation.curve.setting.data is None
    }


@pytest.fixture
def generated(tmp_path, monkeypatch):
    """Run the script for a dataset's specification, and return what it stored."""
    monkeypatch.syspath_prepend(str(ROOT / "workflow/scripts"))
    script = importlib.import_module("generate_dataset")

    def generate(spec):
        output = tmp_path / Item("data", "draws", spec).cached
        output.parent.mkdir(parents=True, exist_ok=True)
        script.main(argparse.Namespace(spec=spec, output=output))
        assert store.read_identity(output) == Identity.of(spec, "data")
        return store.read(output)["noise"]

    return generate


def test_every_law_of_a_figure_is_what_its_job_draws(simulations, generated):
    assert {noise.law for noise in simulations} == {
        *("gaussian", "rademacher", "uniform", "student_t")
    }
    assert any(noise.correlation for noise in simulations)
    drawn = {}
    for noise, simulation in simulations.items():
        spec = {**simulation.dataset.spec, **SMALL}
        drawn[noise] = generated(spec)
        for draw, replicate in zip(drawn[noise], SMALL["replicates"], strict=True):
            wanted = data.noise(
                spec["seed"], replicate, 5, 40, **dataclasses.asdict(noise)
            )
            np.testing.assert_array_equal(draw, wanted)
    # No two laws give the same numbers, or the above would say nothing.
    assert len({draws.tobytes() for draws in drawn.values()}) == len(drawn)


@pytest.mark.parametrize(
    ("noise", "holds"),
    [
        (Noise("rademacher"), lambda z: (abs(z) == 1).all()),
        (Noise("uniform"), lambda z: 1.5 < abs(z).max() < 3**0.5),
        (Noise("student_t", 2.5), lambda z: abs(z).max() > 6),
        (Noise(), lambda z: 2 < abs(z).max() < 5),
        # Of neighbouring dimensions, to within five standard errors.
        (
            Noise(correlation=0.5),
            lambda z: abs(np.mean(z[:, 1:] * z[:, :-1]) - 0.5) < 0.2,
        ),
    ],
    ids=lambda one: f"{one.law} {one.correlation}" if isinstance(one, Noise) else "",
)
def test_what_is_stored_has_the_look_of_its_law(generated, noise, holds):
    spec = {**SMALL, "seed": 3, "tokens": 200, "noise": dataclasses.asdict(noise)}
    assert holds(generated(spec))
