"""Interpolation error of nonlinear attention versus linear regression."""
