"""Nonlinearities and their Hermite coefficients, which ``model`` defines."""

from interpolation_error.model.hermite import (
    HermiteCoefficients,
    diagonal_limit,
    hermite_coefficients,
)
from interpolation_error.model.nonlinearity import (
    Nonlinearity,
    from_file,
    get,
    hermite_mix,
    names,
    rescaled,
)

__all__ = [
    "HermiteCoefficients",
    "Nonlinearity",
    "diagonal_limit",
    "from_file",
    "get",
    "hermite_coefficients",
    "hermite_mix",
    "names",
    "rescaled",
]
