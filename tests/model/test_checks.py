"""What every public function refuses of its arrays, whatever else it does."""

import numpy as np
import pytest

from interpolation_error import simulation, theory
from interpolation_error.model import data, identity_fit, nonlinearity

P, N = 4, 6
X = np.random.default_rng(0).standard_normal((P, N))
Y = np.tile([1.0, -1.0], N // 2)
W = np.eye(P)
V = np.ones(P)


def hidden(values):
    """Return the values with the first one masked; below the mask it is what it was."""
    mask = np.zeros(np.shape(values), bool)
    mask.flat[0] = True
    return np.ma.masked_array(values, mask)


CALLS = {
    "linear_regression_error tokens": lambda: simulation.linear_regression_error(
        hidden(X), Y, 0.1
    ),
    "linear_regression_error labels": lambda: simulation.linear_regression_error(
        X, hidden(Y), 0.1
    ),
    "attention_error gamma": lambda: simulation.attention_error(
        X, Y, hidden([0.1, 1.0]), "tanh"
    ),
    "attention_error w_k": lambda: simulation.attention_error(
        X, Y, 0.1, "tanh", hidden(V), V
    ),
    "attention_error rows": lambda: simulation.attention_error(
        [hidden(X[0]), *X[1:]], Y, 0.1, "tanh"
    ),
    "gram_eigenvalues": lambda: simulation.gram_eigenvalues(hidden(X)),
    "softmax_output": lambda: simulation.softmax_output(hidden(X)),
    "attention_error_general_weights query": lambda: (
        simulation.attention_error_general_weights(X, Y, 0.1, "tanh", hidden(W), W)
    ),
    "signal_plus_noise": lambda: data.signal_plus_noise(X, Y, hidden(V)),
    "subset": lambda: data.subset(1, 0, hidden(Y), 2),
    "remainder": lambda: simulation.remainder(hidden(X), Y, V, "tanh"),
    "describe": lambda: identity_fit.describe(hidden(W + 1), W + 1),
    "nonlinearity": lambda: nonlinearity.get("tanh")(hidden([1.0, 2.0])),
    "stieltjes": lambda: theory.marchenko_pastur_stieltjes(hidden([-1.0, -2.0]), 1.0),
    "stieltjes, complex": lambda: theory.marchenko_pastur_stieltjes(
        hidden([-1.0 + 1j, -2.0]), 1.0
    ),
    "theory of regression": lambda: theory.linear_regression_error(
        0.1, hidden([0.5, 1.0]), 1.0
    ),
    "theory for general weights": lambda: theory.attention_error_general_weights(
        0.1, 0.5, "tanh", hidden(W), V
    ),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_masked_arrays_are_refused(call):
    with pytest.raises(ValueError, match=r"must not be a masked array; choose"):
        call()


def test_a_function_that_returns_a_masked_array_is_refused():
    with pytest.raises(ValueError, match="what nonlinearity 'log' returns must not be"):
        nonlinearity.Nonlinearity("log", np.ma.log)
