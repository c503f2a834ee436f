"""Hermite coefficients of nonlinearities, and the quadrature that finds them."""

from __future__ import annotations

from math import asin, erfc, exp, log, pi, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model.checks import as_whole
from interpolation_error.model.nonlinearity import Nonlinearity, finite, get, names

Array = NDArray[np.float64]

# Quadrature: Gauss-Legendre panels on [-LIMIT, LIMIT], outside of which the normal
# density is below 1e-280, halved until two widths agree.
LIMIT = 36.0
NODES = 20
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
AGREEMENT = 1e-12
# Of a second moment, at most this share may come from the outermost units.
TAIL = 1e-12


class HermiteCoefficients(NamedTuple):
    r"""Mean, first two normalized Hermite coefficients and variance of a function.

    For :math:`\xi \sim N(0, 1)`: :math:`a_0 = E f(\xi)`, :math:`a_1 = E \xi f(\xi)`,
    :math:`a_2 = E (\xi^2 - 1) f(\xi) / \sqrt 2` and
    :math:`\nu = \mathrm{Var} f(\xi) \ge a_1^2` (docs/theory.md, section 1).
    """

    a0: float
    a1: float
    a2: float
    nu: float


def hermite_coefficients(nonlinearity: str | Nonlinearity) -> HermiteCoefficients:
    r"""Return :math:`a_0, a_1, a_2, \nu` of a nonlinearity (docs/theory.md, section 1).

    In closed form for the registered functions that have one; otherwise by
    Gauss-Legendre quadrature split at the kinks, refined until it agrees with itself,
    to about 1e-12 of the function's standard deviation.

    Parameters
    ----------
    nonlinearity : str or Nonlinearity
        A registered name or an object of the user's.

    Returns
    -------
    HermiteCoefficients

    Raises
    ------
    ValueError
        If the name is unknown, or the function is constant, is not finite, has no
        finite variance, or is too rough for the quadrature (a kink not declared).

    Examples
    --------
    >>> a0, a1, a2, nu = hermite_coefficients("relu")
    >>> a1, round(nu, 6)
    (0.5, 0.340845)
    """
    nonlinearity = get(nonlinearity)
    if nonlinearity.name in names() and nonlinearity == get(nonlinearity.name):
        closed_form = _CLOSED_FORMS.get(nonlinearity.name)
        if closed_form is not None:
            return closed_form
    return _quadrature(nonlinearity)


def diagonal_limit(nonlinearity: str | Nonlinearity, dimension: int) -> float:
    r"""Return :math:`d = (f(\sqrt p) - a_0) / \sqrt p` (docs/theory.md, section 1).

    A token's score with itself is about :math:`\sqrt p`, so this is what the diagonal
    of the attention matrix tends to where it is kept.

    Parameters
    ----------
    nonlinearity : str or Nonlinearity
        A registered name or an object of the user's.
    dimension : int
        Embedding dimension p, positive.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the function grows faster than linearly, so that the limit is infinite, or
        as :func:`hermite_coefficients`.

    Examples
    --------
    >>> diagonal_limit("linear", 100), round(diagonal_limit("tanh", 100), 6)
    (1.0, 0.1)
    """
    nonlinearity = get(nonlinearity)
    dimension = as_whole("dimension", dimension, least=1)
    far = 10.0 ** np.arange(2, 13)
    ratio = np.abs(nonlinearity(far) / far)
    if not np.all(np.isfinite(ratio)) or ratio[6:].max() > 1.5 * ratio[:6].max():
        raise ValueError(
            f"diagonal 'keep' needs f(t)/t bounded for large t, which "
            f"{nonlinearity.name!r} is not: its diagonal would grow without limit; "
            "use diagonal 'zero'"
        )
    root = sqrt(dimension)
    value = float(finite(nonlinearity, np.array([root]))[0])
    return (value - hermite_coefficients(nonlinearity).a0) / root


def _quadrature(nonlinearity: Nonlinearity) -> HermiteCoefficients:
    """Halve the panels until two widths agree on all four coefficients."""
    previous: Array | None = None
    for width in WIDTHS:
        nodes, weights = panels(width, nonlinearity.kinks)
        values = finite(nonlinearity, nodes)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = weights * values**2
            second_moment = squares.sum()
            outermost = squares[np.abs(nodes) > LIMIT - 1].sum()
        if not outermost <= TAIL * second_moment < np.inf:
            raise ValueError(
                f"nonlinearity {nonlinearity.name!r} must have a finite variance under "
                "the normal law; its tails are too heavy"
            )
        a0 = 0.0 if nonlinearity.parity == "odd" else float(weights @ values)
        # Of the centred function, so that a large constant costs no digits.
        centred = values - a0
        a1 = a2 = 0.0
        if nonlinearity.parity != "even":
            a1 = float(weights @ (nodes * centred))
        if nonlinearity.parity != "odd":
            a2 = float(weights @ ((nodes**2 - 1) * centred)) / sqrt(2)
        nu = float(weights @ centred**2)
        deviation = sqrt(nu)
        if deviation <= 1e-13 * sqrt(second_moment):
            raise ValueError(
                f"nonlinearity {nonlinearity.name!r} must not be constant: "
                "its variance is zero"
            )
        current = np.array([a0, a1, a2, deviation])
        if previous is not None:
            error = np.abs(current - previous)
            # a0 rounds with the size of the function, the rest with its deviation.
            scale = np.array([sqrt(second_moment), deviation, deviation, deviation])
            if np.all(error <= AGREEMENT * scale):
                # Rounding must not break nu >= a1^2.
                return HermiteCoefficients(a0, a1, a2, max(nu, a1**2))
        previous = current
    raise ValueError(
        f"nonlinearity {nonlinearity.name!r} is too rough to integrate: declare in "
        "kinks where it or a derivative of it jumps"
    )


def panels(width: float, kinks: tuple[float, ...]) -> tuple[Array, Array]:
    """Return nodes and weights of the normal law: panels of a width, cut at kinks.

    Parameters
    ----------
    width : float
        Of a Gauss-Legendre panel with :data:`NODES` nodes.
    kinks : tuple of float
        Where panels end, ever shorter towards it.

    Returns
    -------
    nodes, weights : ndarray of float64
        The weights hold the normal density.

    Examples
    --------
    >>> nodes, weights = panels(1.0, ())
    >>> round(float(weights @ nodes**2), 12)
    1.0
    """
    # Ever shorter panels towards a kink, which may be a cusp such as sqrt(|t|).
    short = 2.0 ** -np.arange(1, 50)
    edges = panel_edges(-LIMIT, LIMIT, round(2 * LIMIT / width), kinks, short)
    places, shares = np.polynomial.legendre.leggauss(NODES)
    nodes, weights = on_panels(edges, (1 + places) / 2, shares / 2)
    return nodes, weights * np.exp(-(nodes**2) / 2) / sqrt(2 * pi)


def panel_edges(
    start: float,
    stop: float,
    count: int,
    kinks: tuple[float, ...],
    short: NDArray[np.floating[Any]],
) -> Array:
    """Return the edges of panels that are shorter and shorter towards kinks.

    Parameters
    ----------
    start, stop : float
        Of all panels.
    count : int
        How many there are without kinks, all alike.
    kinks : tuple of float
        Each is an edge, and so is what lies at the distances ``short`` about it.
    short : ndarray of float
        Positive.

    Returns
    -------
    ndarray of float64
        Ascending, from ``start`` to ``stop``.

    Examples
    --------
    >>> panel_edges(0.0, 4.0, 2, (0.0,), np.array([0.5]))
    array([0. , 0.5, 2. , 4. ])
    """
    edges = np.linspace(start, stop, count + 1)
    for kink in kinks:
        edges = np.union1d(edges, kink + np.concatenate([-short, [0.0], short]))
    return np.asarray(edges[(edges >= start) & (edges <= stop)])


def on_panels(edges: Array, places: Array, shares: Array) -> tuple[Array, Array]:
    """Return nodes and weights of a quadrature that is repeated on every panel.

    Parameters
    ----------
    edges : ndarray of float64, shape (..., panels + 1)
        Ascending.
    places, shares : ndarray of float64, shape (nodes,)
        Nodes and weights of the quadrature from 0 to 1.

    Returns
    -------
    nodes, weights : ndarray of float64, shape (..., panels * nodes)

    Examples
    --------
    >>> on_panels(np.array([0.0, 2.0, 3.0]), np.array([0.5]), np.array([1.0]))
    (array([1. , 2.5]), array([2., 1.]))
    """
    widths = np.diff(edges, axis=-1)[..., None]
    nodes = edges[..., :-1, None] + widths * places
    shape = (*edges.shape[:-1], -1)
    return nodes.reshape(shape), (widths * shares).reshape(shape)


def _normal_cdf(t: float) -> float:
    return erfc(-t / sqrt(2)) / 2


def _truncated_exp_coefficients() -> HermiteCoefficients:
    """Return the coefficients of min(e^t, 5), by a_k = E f^(k) / sqrt(k!)."""
    cut = log(5)
    below = exp(1 / 2) * _normal_cdf(cut - 1)  # E e^xi on xi < cut
    above = 5 * _normal_cdf(-cut)
    density = exp(-(cut**2) / 2) / sqrt(2 * pi)
    a0 = below + above
    second_moment = exp(2) * _normal_cdf(cut - 2) + 5 * above
    a2 = (below - 5 * density) / sqrt(2)
    return HermiteCoefficients(a0, below, a2, second_moment - a0**2)


_CLOSED_FORMS = {
    "linear": HermiteCoefficients(0.0, 1.0, 0.0, 1.0),
    "erf": HermiteCoefficients(0.0, 2 / sqrt(3 * pi), 0.0, 2 / pi * asin(2 / 3)),
    "sign": HermiteCoefficients(0.0, sqrt(2 / pi), 0.0, 1.0),
    "relu": HermiteCoefficients(
        1 / sqrt(2 * pi), 1 / 2, 1 / (2 * sqrt(pi)), 1 / 2 - 1 / (2 * pi)
    ),
    "cos": HermiteCoefficients(
        exp(-1 / 2), 0.0, -exp(-1 / 2) / sqrt(2), (1 - exp(-1)) ** 2 / 2
    ),
    "exp": HermiteCoefficients(
        exp(1 / 2), exp(1 / 2), exp(1 / 2) / sqrt(2), exp(2) - exp(1)
    ),
    "truncated_exp": _truncated_exp_coefficients(),
}
