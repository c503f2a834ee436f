"""Predict a curve: the limit of the interpolation error at each of its points."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from interpolation_error import theory
from interpolation_error.curve import Curve, Setting
from interpolation_error.nonlinearity import diagonal_limit, hermite_coefficients

Array = NDArray[np.float64]


def predict_curve(curve: Curve) -> Array:
    """Return the interpolation error that theory predicts at every point.

    Proposition 2 for linear regression and Theorem 1 for attention
    (docs/theory.md, sections 3 and 4), in one array computation.

    Parameters
    ----------
    curve : Curve
        What is predicted.

    Returns
    -------
    ndarray of float64, shape (points,)

    Raises
    ------
    theory.ConvergenceError
        Where a point has no prediction to full accuracy.

    Examples
    --------
    >>> from interpolation_error.curve import Setting
    >>> setting = Setting("regression", tokens=512, dimension=128, snr=1.0, gamma=1e-9)
    >>> predict_curve(Curve(setting, "snr", (1.0, 3.0))).round(4)
    array([0.375 , 0.1875])
    """
    settings = list(curve)
    gamma = np.array([setting.gamma for setting in settings])
    aspect_ratio = np.array(
        [setting.dimension / setting.tokens for setting in settings]
    )
    if curve.setting.estimator == "regression":
        snr = np.array([setting.snr for setting in settings])
        return np.asarray(theory.linear_regression_error(gamma, aspect_ratio, snr))
    function = curve.setting.function()
    hermite = hermite_coefficients(function)
    kept = [
        diagonal_limit(function, setting.dimension)
        if setting.diagonal == "keep"
        else 0.0
        for setting in settings
    ]
    products = np.array([inner_products(setting) for setting in settings]).T
    return np.asarray(
        theory.attention_error(
            gamma,
            aspect_ratio,
            hermite.a1,
            hermite.nu,
            inner_products=theory.InnerProducts(*products),
            diagonal_limit=np.array(kept),
        )
    )


def inner_products(setting: Setting) -> tuple[float, float, float, float, float, float]:
    r"""Return the inner products of signal and weights that a setting implies.

    Parameters
    ----------
    setting : Setting
        Gives the signal-to-noise ratio, and norm and alignment of the weights.

    Returns
    -------
    tuple of float
        :math:`\mu^T\mu, \mu^T w_K, \mu^T w_Q, w_K^T w_K, w_Q^T w_Q, w_K^T w_Q`, in
        the order of :class:`theory.InnerProducts`.

    Examples
    --------
    >>> from interpolation_error.curve import Direction, Weights
    >>> weights = Weights(Direction(norm=2.0, alignment=1.0))
    >>> inner_products(Setting("attention", 64, 64, 4.0, 1.0, "tanh", weights))
    (4.0, 4.0, 4.0, 4.0, 4.0, 4.0)
    """
    weights = setting.weights
    if weights is None:
        return setting.snr, 0.0, 0.0, 0.0, 0.0, 0.0
    key, query = weights.key, weights.query or weights.key
    # Apart from the signal the two vectors share all (one vector) or nothing.
    cosine = key.alignment * query.alignment
    if weights.query is None:
        cosine = 1.0
    mu = sqrt(setting.snr)
    return (
        setting.snr,
        mu * key.norm * key.alignment,
        mu * query.norm * query.alignment,
        key.norm**2,
        query.norm**2,
        key.norm * query.norm * cosine,
    )
