"""Settings and curves check themselves and survive a trip through JSON."""

import json

import pytest

from interpolation_error.curve import Curve, Direction, Setting, UserFunction, Weights
from interpolation_error.prediction import inner_products

BASE = {"tokens": 64, "dimension": 16, "snr": 1.0, "gamma": 0.1}
WEIGHTS = Weights(Direction(1.0, 0.5), Direction(2.0, 0.0))


@pytest.fixture
def user_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("import numpy as np\ndef cube(t):\n    return np.tanh(t) ** 3\n")
    return path


@pytest.mark.parametrize(
    "setting",
    [
        Setting("regression", **BASE),
        Setting("attention", **BASE, nonlinearity="tanh"),
        Setting("attention", **BASE, nonlinearity="relu", weights=WEIGHTS),
        Setting(
            "attention",
            **BASE,
            nonlinearity=UserFunction("mine.py", "cube", (0.0, 1.0), "0" * 64),
            weights=Weights(Direction(1.0, 1.0)),
            diagonal="keep",
        ),
    ],
)
@pytest.mark.parametrize(
    ("parameter", "values"), [("gamma", (0.1, 1.0)), ("dimension", (8, 16))]
)
def test_a_curve_survives_a_trip_through_json(setting, parameter, values):
    first = {parameter: values[0]}
    curve = Curve(Setting(**{**setting.__dict__, **first}), parameter, values)
    assert Curve.from_spec(json.loads(json.dumps(curve.spec()))) == curve


def test_a_regression_curve_names_nothing_that_it_does_not_depend_on():
    spec = Curve(Setting("regression", **BASE), "snr", (1.0,)).spec()
    assert set(spec) == {"estimator", "tokens", "dimension", "gamma", "sweep"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gamma": 0.0}, "gamma must be positive, got 0.0"),
        ({"gamma": float("nan")}, "gamma must be positive"),
        ({"snr": -1.0}, "snr must not be negative"),
        ({"tokens": 0}, "tokens must be a whole number from 4"),
        ({"dimension": 16.5}, "dimension must be a whole number from 4"),
        ({"estimator": "ridge"}, "estimator must be one of regression, attention"),
        ({"diagonal": "drop"}, "diagonal must be one of zero, keep"),
        ({"nonlinearity": "tanh"}, "regression takes no nonlinearity"),
        ({"estimator": "attention"}, "attention needs a nonlinearity"),
    ],
)
def test_a_bad_setting_is_one_clear_line(change, message):
    with pytest.raises(ValueError, match=message) as error:
        Setting(**{"estimator": "regression", **BASE, **change})
    assert "\n" not in str(error.value)


def test_a_bad_value_within_a_sweep_is_refused():
    with pytest.raises(ValueError, match=r"gamma must be positive, got 0\.0"):
        Curve(Setting("regression", **BASE), "gamma", (0.1, 0.0))


@pytest.mark.parametrize("alignment", [-1.1, 1.0001, float("nan")])
def test_an_alignment_is_a_cosine(alignment):
    with pytest.raises(ValueError, match="alignment is a cosine"):
        Direction(1.0, alignment)


def test_inner_products_are_those_of_the_simulated_vectors():
    import numpy as np

    from interpolation_error import data

    signal, key, query = data.directions(1, 0, 16)
    for weights in (WEIGHTS, Weights(Direction(1.5, -0.25))):
        setting = Setting("attention", **BASE, nonlinearity="tanh", weights=weights)
        other = weights.query or weights.key
        w_k = data.aligned_weights(signal, key, weights.key.norm, weights.key.alignment)
        w_q = data.aligned_weights(
            signal, query if weights.query else key, other.norm, other.alignment
        )
        mu = np.sqrt(setting.snr) * signal
        expected = [mu @ mu, mu @ w_k, mu @ w_q, w_k @ w_k, w_q @ w_q, w_k @ w_q]
        np.testing.assert_allclose(inner_products(setting), expected, atol=1e-14)


def test_a_user_function_is_loaded_and_a_changed_file_noticed(user_file):
    function = UserFunction.from_file(str(user_file), "cube")
    assert function.load()([0.0, 1.0])[1] == pytest.approx(0.4417, abs=1e-4)
    user_file.write_text(user_file.read_text().replace("** 3", "** 5"))
    with pytest.raises(ValueError, match="changed while the run went on"):
        function.load()
    assert UserFunction.from_file(str(user_file), "cube") != function


def test_a_missing_user_file_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"none\.py: cannot be read"):
        UserFunction.from_file(str(tmp_path / "none.py"), "f")
