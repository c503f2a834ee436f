"""Nonlinearities by a short name; they live in ``model/nonlinearity.py``."""

from interpolation_error.model.nonlinearity import (
    HermiteCoefficients,
    Nonlinearity,
    diagonal_limit,
    from_file,
    get,
    hermite_coefficients,
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
