"""A part of a run computed again is the same bit by bit, whatever its tokens are."""

from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

from interpolation_error.audit import recomputation
from interpolation_error.figures import checked_yaml
from interpolation_error.model import tokens_file as tokens_files
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import TokensFile
from interpolation_error.run import configuration, store
from interpolation_error.run.plan import Plan
from interpolation_error.simulation.experiment import simulate_curve

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def figure():
    """The smallest figure of a user's own tokens."""
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    loaded = configuration.load({**config, "preset": "quick"}, ROOT, "config")
    return Plan(loaded, "").figures["digits"]


def test_draws_of_own_tokens_are_simulated_again_to_the_bit(figure, tmp_path):
    units = recomputation.units([figure])["curves on a draw, recomputed"]
    smallest = min(figure.simulations, key=lambda one: one.dataset.spec["tokens"])
    spec = smallest.dataset.spec
    drawn = tokens_files.draw(
        TokensFile(**spec["source"]),
        spec["tokens"],
        seed=spec["seed"],
        replicates=spec["replicates"],
    )
    file = tmp_path / smallest.dataset.cached
    store.write(file, drawn, smallest.dataset.identity)
    for simulation in figure.simulations:
        if simulation.dataset != smallest.dataset:
            continue
        item = simulation.item
        mine = [unit for unit in units if unit.array == item.cached]
        assert len(mine) == len(item.spec["replicates"])
        with threadpool_limits(limits=1):
            stored = simulate_curve(
                Curve.from_spec(item.spec["curve"]),
                store.read(file),
                seed=item.spec["seed"],
                replicates=item.spec["replicates"],
            )
            for unit in mine:
                assert recomputation.fault(unit, stored, exact=True) == ""
