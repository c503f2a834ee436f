"""The committed numbers of the released run still come out of this code.

Other processors and versions round differently, so they are compared with a tolerance.
"""

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interpolation_error import simulation, theory
from interpolation_error.figures import checked_yaml, definition, study_table
from interpolation_error.figures.figure import QUANTITIES
from interpolation_error.figures.prediction import predict_line
from interpolation_error.figures.tables import COLUMNS, combine, mean_interval
from interpolation_error.model import data
from interpolation_error.model.study import DIRECTIONS
from interpolation_error.simulation.experiment import simulate_curve

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def figure_and_table(name):
    folder = ROOT / "figures" / name
    figure = definition.read_figure(folder / "figure.yaml", ROOT, {})
    return figure, pd.read_csv(folder / "reference.csv")


def predicted_rows(panel, labelled):
    """Return x, row and prediction of a curve along its line, as its panel shows it."""
    asked = panel.line(labelled.curve)
    scales = asked["x_scale"], asked["row_scale"]
    own = predict_line(labelled.curve, *scales)
    other = None
    if QUANTITIES[panel.quantity].against_regression:
        other = predict_line(labelled.regression(), *scales)["predicted"]
    if panel.quantity in ("shortfall", "over_limit"):  # of simulation and limit
        other = np.full_like(own["predicted"], np.nan)
    shown = combine(panel.quantity, own["predicted"], other)
    rows = own.get("rows", [np.nan])
    return np.tile(own["x"], len(rows)), np.repeat(rows, len(own["x"])), shown


@pytest.mark.parametrize("name", NAMES)
def test_every_predicted_number(name):
    figure, table = figure_and_table(name)
    assert tuple(table.columns) == COLUMNS
    lengths = 0
    for panel in figure.panels:
        for labelled in panel.curves:
            rows = table[(table.panel == panel.name) & (table.curve == labelled.name)]
            x, row, predicted = predicted_rows(panel, labelled)
            np.testing.assert_allclose(rows["x"], x, rtol=1e-9)
            np.testing.assert_allclose(rows["row"], row, rtol=1e-9)
            # Where there are no eigenvalues the density is of the order of 1e-9.
            np.testing.assert_allclose(
                rows["predicted"], predicted, rtol=1e-8, atol=1e-9
            )
            points = math.prod(labelled.curve.shape)
            assert rows["simulated_mean"].notna().sum() == points
            assert set(rows["replicates"]) == {panel.replicates}
            lengths += len(x)
    assert len(table) == lengths


def test_the_simulated_numbers_of_figure_1a():
    figure, table = figure_and_table("linear_regression")
    panel = figure.panels[0]
    seed = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)["seed"]
    tokens, dimension = panel.largest
    (curve,) = panel.curves
    errors = np.concatenate(
        [
            simulate_curve(
                curve.curve,
                {"noise": data.noise(seed, draw, dimension, tokens)[None]},
                seed=seed,
                replicates=[draw],
            )["error"]
            for draw in range(panel.replicates)
        ]
    )
    rows = table[table.panel == panel.name].dropna(subset="simulated_mean")
    columns = ["simulated_mean", "simulated_low", "simulated_high"]
    for column, values in zip(columns, mean_interval(errors), strict=True):
        np.testing.assert_allclose(rows[column], values, rtol=1e-6)


def test_the_numbers_of_the_study_hang_together():
    folder = ROOT / "figures/pretrained_weights"
    table = pd.read_csv(folder / "reference.csv")
    assert tuple(table.columns) == study_table.COLUMNS
    heads = table[table["part"] == "heads"]
    assert set(heads["model"]) == {"GPT-2"}
    assert len(heads) == 12 * 12 * len(DIRECTIONS)
    regression = table[(table["weights"] == "regression") & (table["part"] == "sweep")]
    ratio = regression["dimension"] / regression["tokens"]
    limit = theory.linear_regression_error(
        regression["gamma"], ratio, regression["snr"]
    )
    np.testing.assert_allclose(regression["predicted"], limit, rtol=1e-9)
    claims = pd.read_csv(ROOT / "figures/claims.csv")
    claims = claims[claims["claim"] == "real_heads"].set_index("region")
    residual = heads["simulated_mean"] / heads["predicted"] - 1
    found = residual.groupby(heads["signal"]).mean()
    wanted = claims.loc["random signal", "estimate"]
    np.testing.assert_allclose(found["random"], wanted, rtol=1e-5)


def test_the_simulated_numbers_of_real_regression_in_the_study():
    """Regression of the study needs no weights but for the direction of a signal."""
    table = pd.read_csv(ROOT / "figures/pretrained_weights/reference.csv")
    at = (table["weights"] == "regression") & (table["signal"] == "random")
    at &= (table["swept"] == "gamma") & (table["tokens"] == 384)
    rows = table[at].dropna(subset="simulated_mean")
    seed = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)["seed"]
    y = data.alternating_labels(384)
    errors = []
    for draw in range(5):
        mu = math.sqrt(2) * data.directions(seed, draw, 768, count=1)[0]
        X = data.signal_plus_noise(data.noise(seed, draw, 768, 384), y, mu)
        errors.append(simulation.linear_regression_error(X, y, rows["gamma"]))
    mean, _, _ = mean_interval(np.stack(errors))
    np.testing.assert_allclose(rows["simulated_mean"], mean, rtol=1e-6)
