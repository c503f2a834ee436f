"""Predict a curve: the limit of what it measures, at each of its points."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import cache, partial
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from interpolation_error import theory
from interpolation_error.figures.lines import line
from interpolation_error.model.curve import Curve, log_width
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.setting import Setting

Array = NDArray[np.float64]

BIN_NODES = 6
"""Gauss-Legendre nodes at which a density is averaged over a bin."""


def predict_line(
    curve: Curve,
    x_scale: str,
    row_scale: str | None = None,
    *,
    finite_size: bool = False,
) -> dict[str, Array]:
    """Return the prediction of a curve along a line through its points.

    Parameters
    ----------
    curve : Curve
        What is predicted.
    x_scale, row_scale : {"linear", "log"}
        As :func:`interpolation_error.figures.lines.line` takes them.
    finite_size : bool, optional
        Whether the theory at finite size is asked too, at the curve's own points.

    Returns
    -------
    dict of str to ndarray of float64
        ``x``, the values of the swept parameter, ``rows``, those of the second one if
        there is one, ``predicted``, of shape (rows * x,), and ``finite_size``, of shape
        (points,), if asked for.

    Raises
    ------
    theory.ConvergenceError
        Where a point has no prediction to full accuracy.

    Examples
    --------
    >>> setting = Setting("regression", tokens=512, dimension=128, snr=1.0, gamma=1e-9)
    >>> found = predict_line(Curve(setting, "snr", (1.0, 3.0)), "linear")
    >>> found["x"]
    array([1. , 1.5, 2. , 2.5, 3. ])
    """
    finer = line(curve, x_scale, row_scale)
    width = log_width(curve.values) if curve.measure == "spectrum" else None
    found = {
        "x": np.array(finer.values, float),
        "predicted": predict_curve(finer, width),
    }
    if finer.rows:
        found["rows"] = np.array(finer.rows, float)
    if finite_size:
        found["finite_size"] = predict_at_finite_size(curve)
    return found


@cache  # panels of errors and of their differences show the same curves
def predict_at_finite_size(curve: Curve) -> Array:
    """Return the error that the theory at finite size gives at every point.

    Parameters
    ----------
    curve : Curve
        Of entry-wise attention with one head; for anything else there is none.

    Returns
    -------
    ndarray of float64, shape (points,)
        NaN where there is no prediction, or none that has settled.

    Examples
    --------
    >>> setting = Setting("attention", 300, 100, 2.0, 0.1, nonlinearity="tanh")
    >>> predict_at_finite_size(Curve(setting, "gamma", (0.1, 1.0))).round(3)
    array([0.24, 0.27])
    """
    found = np.full(math.prod(curve.shape), np.nan)
    if curve.setting.estimator != "attention" or curve.measure != "error":
        return found
    # Penalties of one setting are followed from one to the next.
    alike: dict[Setting, list[int]] = {}
    gamma = np.array([setting.gamma for setting in curve])
    for place, setting in enumerate(curve):
        if setting.heads.number == 1:
            alike.setdefault(dataclasses.replace(setting, gamma=1.0), []).append(place)
    for setting, places in alike.items():
        found[places] = theory.errors_that_settle(
            gamma[places],
            *(setting.tokens, setting.dimension, setting.function()),
            theory.InnerProducts(*inner_products(setting)),
            setting.diagonal,
        )
    return found


def predict_curve(curve: Curve, width: float | None = None) -> Array:
    """Return the limit that theory gives at every point.

    Proposition 2 for linear regression, Theorem 1 for attention and Proposition 1 for
    its spectrum (docs/theory.md, sections 3 and 4), in one array computation. Softmax
    is predicted as the entry-wise exponential that it normalizes.

    Parameters
    ----------
    curve : Curve
        What is predicted.
    width : float, optional
        For a spectrum, the ratio of the ends of a bin, over which the density is
        averaged; without it that of the curve's own values.

    Returns
    -------
    ndarray of float64, shape (points,)
        NaN where the theory has nothing to say: for several heads, and for the
        remainder of Lemma 1, of which it says that it vanishes.

    Raises
    ------
    theory.ConvergenceError
        Where a point has no prediction to full accuracy.

    Examples
    --------
    >>> setting = Setting("regression", tokens=512, dimension=128, snr=1.0, gamma=1e-9)
    >>> predict_curve(Curve(setting, "snr", (1.0, 3.0))).round(4)
    array([0.375 , 0.1875])
    """
    settings = list(curve)
    if curve.measure == "linearization":
        return np.full(len(settings), np.nan)
    if curve.measure == "spectrum":
        return _density(curve, width or log_width(curve.values))
    gamma = np.array([setting.gamma for setting in settings])
    snr = np.array([setting.snr for setting in settings])
    ratio = _aspect_ratio(settings)
    if curve.setting.estimator == "regression":
        if curve.measure == "trace":
            stieltjes = theory.marchenko_pastur_stieltjes(-gamma, ratio)
            return np.asarray(gamma * stieltjes)
        return np.asarray(theory.linear_regression_error(gamma, ratio, snr))
    if curve.setting.estimator == "softmax" and curve.setting.diagonal == "keep":
        # The score of a token with itself takes all: K is a multiple of the identity.
        scale = [
            hermite_coefficients(s.function()).a0 * s.tokens / sqrt(s.dimension)
            for s in settings
        ]
        seen = gamma / np.square(scale)
        return np.asarray(theory.linear_regression_error(seen, ratio, snr))
    if curve.measure == "trace":
        return gamma * _theorem(theory.attention_resolvent_trace, settings)(gamma)
    products = np.array([inner_products(setting) for setting in settings]).T
    predict = _theorem(theory.attention_error, settings)
    error = predict(gamma, inner_products=theory.InnerProducts(*products))
    heads = np.array([setting.heads.number for setting in settings])
    return np.where(heads == 1, error, np.nan)


def _theorem(
    function: Callable[..., float | Array], settings: list[Setting]
) -> Callable[..., Array]:
    """Return a function of the theory with all but its first argument filled in."""
    # Quadrature is done once for a function that every point shares.
    known = {}
    for setting in settings:
        alike = setting.nonlinearity, setting.temperature, setting.estimator
        if alike not in known:
            known[alike] = setting.function()
    functions = [known[s.nonlinearity, s.temperature, s.estimator] for s in settings]
    coefficients = {f: hermite_coefficients(f) for f in set(functions)}
    kept = [
        diagonal_limit(f, setting.dimension)
        if setting.diagonal == "keep" and setting.estimator == "attention"
        else 0.0
        for f, setting in zip(functions, settings, strict=True)
    ]
    filled = partial(
        function,
        aspect_ratio=_aspect_ratio(settings),
        a1=np.array([coefficients[f].a1 for f in functions]),
        nu=np.array([coefficients[f].nu for f in functions]),
        diagonal_limit=np.array(kept),
    )
    return lambda *arguments, **more: np.asarray(filled(*arguments, **more))


def _aspect_ratio(settings: list[Setting]) -> Array:
    return np.array([setting.dimension / setting.tokens for setting in settings])


def _density(curve: Curve, width: float) -> Array:
    """Return the limiting share of eigenvalues per unit of their logarithm.

    Averaged over bins, as a histogram is; at zero, the share that is zero. The density
    with respect to the logarithm is the eigenvalue times the density.
    """
    values = np.array(curve.values)
    c = float(_aspect_ratio([curve.setting])[0])
    nodes, weights = np.polynomial.legendre.leggauss(BIN_NODES)
    inner = values[values > 0]
    x = inner[:, None] * width ** (nodes / 2)
    setting = [curve.setting]
    if curve.setting.estimator == "regression":
        m = np.asarray(theory.marchenko_pastur_stieltjes(x * (1 + 1e-12j), c))
        density = m.imag / np.pi
    else:
        density = _theorem(theory.attention_spectral_density, setting)(x)
    averaged = (x * density) @ weights / 2
    predicted = np.full(len(values), max(0.0, 1 - c))
    predicted[values > 0] = averaged
    return predicted


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
    >>> from interpolation_error.model.setting import Direction, Weights
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
    mu, w_k, w_q = (
        sqrt(setting.snr),
        key.length(setting.snr),
        query.length(setting.snr),
    )
    return (
        setting.snr,
        mu * w_k * key.alignment,
        mu * w_q * query.alignment,
        w_k**2,
        w_q**2,
        w_k * w_q * cosine,
    )
