"""Every plotted number, with an interval that covers as often as it says."""

import numpy as np
import pytest
from scipy import stats

from interpolation_error.figures.tables import (
    COLUMNS,
    Series,
    combine,
    mean_interval,
    power_law,
    tabulate,
)


def series(simulated, predicted=(0.5,), x=(1.0,)):
    draws = np.array(simulated)
    return Series("gamma", "tanh", "gamma", x, x, draws, np.array(predicted))


def test_interval_is_the_one_of_the_t_test():
    draws = np.random.default_rng(0).normal(size=(7, 3))
    mean, low, high = mean_interval(draws)
    expected = stats.ttest_1samp(draws, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose(mean, draws.mean(axis=0))
    np.testing.assert_allclose(low, expected.low)
    np.testing.assert_allclose(high, expected.high)


def test_interval_covers_the_mean_in_95_percent_of_cases():
    draws = np.random.default_rng(1).normal(size=(5, 20_000))
    _, low, high = mean_interval(draws)
    covered = np.mean((low < 0) & (high > 0))
    assert covered == pytest.approx(0.95, abs=3 * np.sqrt(0.95 * 0.05 / 20_000))


def test_a_row_for_each_point_in_the_order_of_the_sweep():
    table = tabulate([series([[0.1, 0.2], [0.3, 0.4]], (0.2, 0.2), (1.0, 2.0))])
    assert tuple(table.columns) == COLUMNS
    assert table["x"].tolist() == [1.0, 2.0]
    assert table["replicates"].tolist() == [2, 2]
    np.testing.assert_allclose(table["simulated_mean"], [0.2, 0.3])


def test_residual_is_in_standard_errors_of_the_mean():
    table = tabulate([series([[0.4], [0.8]], (0.5,))])
    # mean 0.6, standard deviation 0.2828, standard error 0.2
    assert table.loc[0, "residual_in_standard_errors"] == pytest.approx(0.5)


def test_a_line_goes_on_between_the_simulated_points():
    draws = np.array([[0.1, 0.3], [0.2, 0.4]])
    predicted = np.array([0.1, 0.2, 0.3])
    one = Series("a", "b", "snr", (1.0, 4.0), (1.0, 2.0, 4.0), draws, predicted)
    table = tabulate([one])
    assert table["x"].tolist() == [1.0, 2.0, 4.0]
    assert table["predicted"].tolist() == [0.1, 0.2, 0.3]
    assert table["simulated_mean"].isna().tolist() == [False, True, False]
    assert table["residual_in_standard_errors"].isna().tolist() == [False, True, False]


def test_a_simulated_point_without_prediction_is_refused():
    one = series([[0.1], [0.2]])._replace(line=(2.0,))
    with pytest.raises(ValueError, match="1 simulated and 1 predicted values"):
        tabulate([one])


def test_one_draw_has_no_interval():
    with pytest.raises(ValueError, match="two draws or more, got 1"):
        tabulate([series([[0.1]])])


def test_lengths_that_differ_are_refused_by_name():
    with pytest.raises(ValueError, match="gamma/tanh: 1 simulated and 1 predicted"):
        tabulate([series([[0.1, 0.2], [0.1, 0.2]])])


def test_rows_of_a_second_parameter_follow_each_other():
    draws = np.arange(8.0).reshape(2, 4)
    one = series(draws, np.arange(4.0), (1.0, 2.0))
    one = one._replace(row_parameter="gamma", rows=(0.1, 1.0), line_rows=(0.1, 1.0))
    table = tabulate([one])
    assert table["row"].tolist() == [0.1, 0.1, 1.0, 1.0]
    assert table["simulated_mean"].tolist() == [2.0, 3.0, 4.0, 5.0]
    assert set(table["row_parameter"]) == {"gamma"}


def test_a_map_has_rows_that_are_predicted_alone():
    one = series([[1.0], [3.0]], np.arange(3.0))
    one = one._replace(row_parameter="snr", rows=(2.0,), line_rows=(1.0, 2.0, 3.0))
    table = tabulate([one])
    assert table["simulated_mean"].isna().tolist() == [True, False, True]
    assert table["predicted"].tolist() == [0.0, 1.0, 2.0]


def test_what_a_panel_shows_of_two_curves():
    own, other = np.array([1.0, 3.0]), np.array([2.0, 2.0])
    assert combine("error", own).tolist() == [1.0, 3.0]
    assert combine("difference", own, other).tolist() == [-1.0, 1.0]
    assert combine("shortfall", own, other).tolist() == [1.0, -1.0]
    with pytest.raises(ValueError, match="a ratio needs something to compare with"):
        combine("ratio", own)


def test_a_power_law_covers_its_exponent_as_often_as_it_says():
    rng = np.random.default_rng(3)
    x = np.array([1.0, 2.0, 4.0, 8.0])
    covered = 0
    for _ in range(500):
        shared = 1 + 0.1 * rng.standard_normal((10, 1))
        draws = x**-0.5 * (shared + 0.1 * rng.standard_normal((10, 4)))
        _, low, high = power_law(x, draws)
        covered += low < -0.5 < high
    assert covered / 500 == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / 500) ** 0.5)


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_a_power_law_needs_two_draws_and_two_points(shape):
    with pytest.raises(ValueError, match="two draws and two points or more"):
        power_law(np.arange(1.0, shape[1] + 1), np.ones(shape))


def test_a_fit_stands_at_every_point_of_its_row():
    x = (1.0, 4.0)
    one = series([[1.0, 2.0], [1.1, 2.2]], (1.0, 1.0), x)._replace(fit=True)
    table = tabulate([one])
    np.testing.assert_allclose(table["slope"], 0.5)
    assert (table["slope_low"] <= table["slope_high"]).all()


def test_means_that_change_sign_have_no_exponent():
    x = np.array([1.0, 2.0, 4.0])
    draws = np.array([[-0.2, 0.1, 0.1], [-0.1, 0.2, 0.1], [-0.3, 0.1, 0.2]])
    assert np.isnan(power_law(x, draws)).all()
    assert np.isnan(power_law(x, -draws)).all()
    # Positive on the whole, but not without the second draw.
    draws = np.array([[-0.1, 0.1, 0.1], [0.5, 0.2, 0.1], [-0.1, 0.1, 0.2]])
    assert np.isnan(power_law(x, draws)).all()
    assert np.isfinite(power_law(x, draws + 1)).all()
