"""Settings and curves check themselves and survive a trip through JSON."""

import json

import pytest

from interpolation_error.figures.prediction import inner_products
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import (
    Direction,
    Heads,
    HermiteMix,
    Labels,
    Noise,
    Setting,
    TokensFile,
    UserFunction,
    Weights,
)

BASE = {"tokens": 64, "dimension": 16, "snr": 1.0, "gamma": 0.1}
ONE_VECTOR = Weights(Direction(1.0, 1.0))
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
        Setting("softmax", **BASE, temperature=2.0, weights=Weights(Direction(1, 1))),
        Setting(
            "attention",
            **BASE,
            nonlinearity=HermiteMix(3, 0.5),
            weights=Weights(Direction("signal", 0.0)),
            heads=Heads(4, 0.5),
            centred=False,
            noise=Noise("student_t", 5.0),
            labels=Labels(0.8),
        ),
        Setting(
            "attention",
            **BASE,
            nonlinearity="tanh",
            data=TokensFile("x.npy", None, "y.npy", "scale", "0" * 64),
        ),
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
    ("parameter", "values"), [("gamma", (0.1, 1.0)), ("dimension", (16, 8))]
)
@pytest.mark.parametrize("rows", [(None, ()), ("alignment", (0.0, 1.0))])
def test_a_curve_survives_a_trip_through_json(setting, parameter, values, rows):
    curve = Curve(setting, parameter, values, *rows)
    again = Curve.from_spec(json.loads(json.dumps(curve.spec())))
    assert again == curve
    assert list(again) == list(curve)


def test_a_setting_names_what_differs_from_the_default_alone():
    spec = Setting("attention", **BASE, nonlinearity="tanh").spec()
    assert set(spec) == {"estimator", "nonlinearity", *BASE}


@pytest.mark.parametrize(
    ("parameter", "values", "measure", "message"),
    [
        ("colour", (1.0,), "error", "a curve sweeps one of gamma, dimension"),
        ("gamma", (), "error", "at least one value of gamma"),
        ("gamma", (1.0,), "colour", "measure must be one of error, trace"),
        ("gamma", (1.0,), "spectrum", "a spectrum sweeps the eigenvalue"),
        ("eigenvalue", (1.0,), "error", "a spectrum sweeps the eigenvalue"),
    ],
)
def test_a_bad_curve_is_one_clear_line(parameter, values, measure, message):
    setting = Setting("regression", **BASE)
    with pytest.raises(ValueError, match=message):
        Curve(setting, parameter, values, measure=measure)


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (Direction, {"norm": "unit", "alignment": 1.0}, "norm must be a number from 0"),
        (Heads, {"number": 0}, "number of heads must be a whole number from 1"),
        (Heads, {"number": 2, "overlap": 1.5}, "overlap must be from 0 to 1"),
        (Noise, {"law": "cauchy"}, "noise law must be one of gaussian"),
        (Noise, {"law": "student_t"}, "degrees_of_freedom belongs to"),
        (Noise, {"degrees_of_freedom": 5.0}, "degrees_of_freedom belongs to"),
        (
            Noise,
            {"law": "student_t", "degrees_of_freedom": 2.0},
            "more than 2 for a finite variance",
        ),
        (Noise, {"correlation": 1.0}, "correlation must be from 0 to below 1"),
        (Labels, {"positive_share": 1.0}, "positive_share must be between 0 and 1"),
    ],
)
def test_a_bad_part_of_a_setting_is_one_clear_line(kind, arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        kind(**arguments)
    assert "\n" not in str(error.value)


def test_a_regression_curve_names_nothing_that_it_does_not_depend_on():
    spec = Curve(Setting("regression", **BASE), "snr", (1.0,)).spec()
    sizes = {"tokens", "dimension"}
    assert set(spec) == {"estimator", "gamma", "sweep", "measure", *sizes}


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
        ({"temperature": 2.0}, "regression takes no temperature"),
        ({"heads": Heads(2)}, "regression takes no heads"),
        ({"temperature": 0.0}, "temperature must be positive"),
        (
            {"estimator": "softmax", "nonlinearity": "tanh"},
            "softmax takes no nonlinearity",
        ),
        (
            {"estimator": "softmax", "heads": Heads(2), "weights": ONE_VECTOR},
            "several heads are of entry-wise attention only",
        ),
        (
            {"estimator": "attention", "nonlinearity": "tanh", "heads": Heads(2)},
            "several heads need weights",
        ),
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

    from interpolation_error.model import data

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
