"""The committed numbers of the released run still come out of this code.

Other processors and versions round differently, so they are compared with a tolerance.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interpolation_error import configuration, data
from interpolation_error.experiment import simulate_curve
from interpolation_error.prediction import predict_curve
from interpolation_error.tables import COLUMNS, mean_interval

ROOT = Path(__file__).parents[1]
NAMES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def figure_and_table(name):
    folder = ROOT / "figures" / name
    figure = configuration.read_figure(folder / "figure.yaml", ROOT, {})
    return figure, pd.read_csv(folder / "reference.csv")


@pytest.mark.parametrize("name", NAMES)
def test_every_predicted_number(name):
    figure, table = figure_and_table(name)
    assert tuple(table.columns) == COLUMNS
    for panel in figure.panels:
        for curve in panel.curves:
            rows = table[(table.panel == panel.name) & (table.curve == curve.name)]
            line = panel.line(curve.curve)
            np.testing.assert_allclose(rows["x"], line.values, rtol=1e-9)
            np.testing.assert_allclose(
                rows["predicted"], predict_curve(line), rtol=1e-8
            )
            assert rows["simulated_mean"].notna().sum() == len(curve.curve.values)
            assert set(rows["replicates"]) == {panel.replicates}
    assert len(table) == sum(
        len(panel.line(curve.curve).values)
        for panel in figure.panels
        for curve in panel.curves
    )


def test_the_simulated_numbers_of_figure_1a():
    figure, table = figure_and_table("linear_regression")
    panel = figure.panels[0]
    seed = configuration.read_yaml(ROOT / "config/config.yaml", ROOT)["seed"]
    tokens, dimension = panel.largest
    (curve,) = panel.curves
    errors = np.concatenate(
        [
            simulate_curve(
                curve.curve,
                data.noise(seed, draw, dimension, tokens)[None],
                seed=seed,
                replicates=[draw],
            )
            for draw in range(panel.replicates)
        ]
    )
    rows = table[table.panel == panel.name].dropna(subset="simulated_mean")
    columns = ["simulated_mean", "simulated_low", "simulated_high"]
    for column, values in zip(columns, mean_interval(errors), strict=True):
        np.testing.assert_allclose(rows[column], values, rtol=1e-6)
