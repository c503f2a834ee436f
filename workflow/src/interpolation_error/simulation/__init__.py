"""Simulated interpolation errors: everything that is computed from tokens.

The probe is in :mod:`interpolation_error.simulation.probe`, what it sees of attention
in :mod:`interpolation_error.simulation.attention` and its neighbours.
"""

from __future__ import annotations

from interpolation_error.simulation.attention import (
    attention_error,
    attention_output,
    peak_memory,
)
from interpolation_error.simulation.general_weights import (
    attention_error_general_weights,
)
from interpolation_error.simulation.linearization import remainder
from interpolation_error.simulation.probe import (
    gram_eigenvalues,
    linear_regression_error,
)
from interpolation_error.simulation.softmax import softmax_output

__all__ = [
    "attention_error",
    "attention_error_general_weights",
    "attention_output",
    "gram_eigenvalues",
    "linear_regression_error",
    "peak_memory",
    "remainder",
    "softmax_output",
]
