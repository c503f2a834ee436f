"""Simulated linear regression meets Proposition 2 on every panel of Figure 1.

All points of a panel are made from the same draws, so they are one observation a draw
and not one a point: the statistic of a draw is its mean relative deviation from the
limit over the panel's points, and Student's t is taken over draws. At finite size the
limit itself is off by O(1/n); ALLOWANCE / n is allowed for that and stated here. The
panels are the released ones at an eighth of their size.
"""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from interpolation_error.figures.definition import read_figure
from interpolation_error.figures.figure import Limits, resize
from interpolation_error.figures.prediction import predict_curve
from interpolation_error.figures.tables import expected_share, standard_error
from interpolation_error.model import data
from interpolation_error.simulation.experiment import simulate_curve

ROOT = Path(__file__).parents[2]
SEED = 1
ALLOWANCE = 3.0
FIGURE = resize(
    read_figure(ROOT / "figures/linear_regression/figure.yaml", ROOT, {}),
    Limits(size_divisor=8, points=9),
)


@pytest.mark.parametrize("panel", FIGURE.panels, ids=lambda panel: panel.name)
def test_simulation_meets_the_limit(panel, capsys):
    (curve,) = (labelled.curve for labelled in panel.curves)
    tokens, dimension = panel.largest
    draws = range(max(panel.replicates, 10))
    noise = np.stack([data.noise(SEED, draw, dimension, tokens) for draw in draws])
    draws_of = {"noise": noise}
    found = simulate_curve(curve, draws_of, seed=SEED, replicates=draws)
    simulated = found["error"]
    predicted = predict_curve(curve)

    deviation = (simulated / predicted - 1).mean(axis=1)
    error = deviation.std(ddof=1) / np.sqrt(len(draws))
    bound = stats.t.ppf(0.999, len(draws) - 1) * error + ALLOWANCE / tokens
    within = np.abs(simulated.mean(axis=0) - predicted) <= 3 * standard_error(simulated)
    with capsys.disabled():
        print(
            f"\n{panel.name}: mean relative deviation {deviation.mean():+.4f}, allowed "
            f"{bound:.4f}; {within.mean():.0%} of points within 3 standard errors, "
            f"expected {expected_share(len(draws)):.0%}"
        )
    assert abs(deviation.mean()) <= bound
