"""Predicted interpolation errors: everything that the theories say, in one place.

The limits of the paper are in :mod:`interpolation_error.theory.regression` and
:mod:`interpolation_error.theory.limit`. Beyond it,
:mod:`interpolation_error.theory.at_finite_size` has what holds at finite size, and
:mod:`interpolation_error.theory.general_weights` the limit for any attention weights.
"""

from __future__ import annotations

from interpolation_error.theory.at_finite_size import (
    FiniteSize,
    attention_error_finite_size,
    errors_that_settle,
    finite_size,
)
from interpolation_error.theory.fixed_point import ConvergenceError
from interpolation_error.theory.general_weights import attention_error_general_weights
from interpolation_error.theory.limit import (
    InnerProducts,
    attention_error,
    attention_resolvent_trace,
    attention_spectral_density,
)
from interpolation_error.theory.regression import (
    linear_regression_error,
    marchenko_pastur_stieltjes,
)

__all__ = [
    "ConvergenceError",
    "FiniteSize",
    "InnerProducts",
    "attention_error",
    "attention_error_finite_size",
    "attention_error_general_weights",
    "attention_resolvent_trace",
    "attention_spectral_density",
    "errors_that_settle",
    "finite_size",
    "linear_regression_error",
    "marchenko_pastur_stieltjes",
]
