"""Entry-wise nonlinearities of attention and their Hermite coefficients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import asin, erfc, exp, factorial, isfinite, log, pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from interpolation_error.model.checks import as_whole, unmasked

Array = NDArray[np.float64]

PARITIES = (None, "odd", "even")

# Quadrature: Gauss-Legendre panels on [-LIMIT, LIMIT], outside of which the normal
# density is below 1e-280, halved until two widths agree.
LIMIT = 36.0
NODES = 20
WIDTHS = (1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64)
AGREEMENT = 1e-12
# Of a second moment, at most this share may come from the outermost units.
TAIL = 1e-12


@dataclass(frozen=True)
class Nonlinearity:
    r"""A function :math:`f` applied to every attention score.

    It is given as it stands. The model subtracts its mean :math:`a_0` wherever it
    uses it, so that :math:`E f(\xi) = 0` for :math:`\xi \sim N(0, 1)` (docs/theory.md,
    section 1).

    Parameters
    ----------
    name : str
        What messages call it.
    function : callable
        Takes a float64 array and returns one of the same shape, entry by entry.
    kinks : tuple of float, optional
        Where the function or a derivative of it jumps.
    parity : {None, "odd", "even"}, optional
        Symmetry under a change of sign, None if there is none or it is unknown.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind, or the function fails on a trial array,
        returns another shape or type or values that are not finite, mixes entries,
        or lacks the parity it is said to have.

    Examples
    --------
    >>> cube = Nonlinearity("cube", lambda t: t**3, parity="odd")
    >>> cube([0.0, 2.0])
    array([0., 8.])
    """

    name: str
    function: Callable[[Array], Array]
    kinks: tuple[float, ...] = ()
    parity: str | None = None

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise ValueError(f"name must be a text, got {self.name!r}")
        if not callable(self.function):
            raise ValueError(
                f"nonlinearity {self.name!r} must be a function, "
                f"got {type(self.function).__name__}"
            )
        if self.parity not in PARITIES:
            raise ValueError(f"parity must be None, odd or even, got {self.parity!r}")
        try:
            kinks = tuple(sorted({float(kink) for kink in self.kinks}))
        except (TypeError, ValueError):
            kinks = (float("nan"),)
        if not all(isfinite(kink) for kink in kinks):
            raise ValueError(f"kinks must be finite numbers, got {self.kinks!r}")
        object.__setattr__(self, "kinks", kinks)
        self._try()

    def __call__(self, values: ArrayLike) -> Array:
        """Return the function of every entry, as an array of the same shape.

        Raises
        ------
        ValueError
            If the values are masked, or the function fails or returns another shape
            or type.
        """
        # A copy, since a user's function may work in place.
        copy = np.array(unmasked("values", values), dtype=np.float64)
        return self._apply(np.atleast_1d(copy)).reshape(copy.shape)

    def overwrite(self, values: Array) -> None:
        """Put the function of every entry in its place, without a copy if possible.

        Parameters
        ----------
        values : ndarray of float64
            What is overwritten.

        Raises
        ------
        ValueError
            If the function fails or returns another shape or type.

        Examples
        --------
        >>> scores = np.array([-1.0, 2.0])
        >>> get("relu").overwrite(scores)
        >>> scores
        array([0., 2.])
        """
        if isinstance(self.function, np.ufunc) or self.function in _IN_PLACE:
            with np.errstate(all="ignore"):
                self.function(values, out=values)
        else:
            values[...] = self._apply(values)

    def _apply(self, values: Array) -> Array:
        shape = values.shape
        try:
            with np.errstate(all="ignore"):
                result: Any = self.function(values)
        except Exception as error:
            raise ValueError(
                f"nonlinearity {self.name!r} fails on an array: "
                f"{type(error).__name__}: {_first_line(error)}"
            ) from None
        given = unmasked(f"what nonlinearity {self.name!r} returns", result)
        if given.dtype != np.float64:
            raise ValueError(
                f"nonlinearity {self.name!r} must return float64, got {given.dtype}"
            )
        if given.shape != shape:
            raise ValueError(
                f"nonlinearity {self.name!r} must return the shape it is given, "
                f"{shape}, got {given.shape}"
            )
        return given

    def _try(self) -> None:
        """Refuse a function that is none of single entries."""
        points = np.linspace(-6.1, 6.3, 12).reshape(3, 4)
        values = _finite(self, points)
        if not np.allclose(self(points[1:, 1:]), values[1:, 1:], rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"nonlinearity {self.name!r} must act on each entry by itself, but its "
                "value at one entry depends on the others"
            )
        if self.parity is not None:
            mirrored = self(-points) * (-1.0 if self.parity == "odd" else 1.0)
            if not np.allclose(mirrored, values, rtol=1e-9, atol=1e-12):
                raise ValueError(f"nonlinearity {self.name!r} is not {self.parity}")


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


def get(nonlinearity: str | Nonlinearity) -> Nonlinearity:
    """Return a registered nonlinearity by its name, or the one that is given.

    Parameters
    ----------
    nonlinearity : str or Nonlinearity
        One of :func:`names`, or an object of the user's.

    Returns
    -------
    Nonlinearity

    Raises
    ------
    ValueError
        If no such name is registered.

    Examples
    --------
    >>> get("tanh").parity
    'odd'
    """
    if isinstance(nonlinearity, Nonlinearity):
        return nonlinearity
    if isinstance(nonlinearity, str) and nonlinearity in _REGISTRY:
        return _REGISTRY[nonlinearity]
    raise ValueError(
        f"nonlinearity must be one of {', '.join(names())} or a Nonlinearity, "
        f"got {nonlinearity!r}"
    )


def names() -> tuple[str, ...]:
    """Return the names of the registered nonlinearities, sorted.

    Examples
    --------
    >>> names()[:3]
    ('arctan', 'cos', 'erf')
    """
    return tuple(sorted(_REGISTRY))


def from_file(
    path: str | Path, name: str, kinks: tuple[float, ...] = ()
) -> Nonlinearity:
    """Return a function of a Python file as a nonlinearity.

    The file is run, as an import would run it.

    Parameters
    ----------
    path : str or Path
        The Python file.
    name : str
        The function's name in it.
    kinks : tuple of float, optional
        Where the function or a derivative of it jumps.

    Returns
    -------
    Nonlinearity

    Raises
    ------
    ValueError
        If the file cannot be read or run, has no such name, or the name is not a
        function that :class:`Nonlinearity` takes; one line.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "mine.py"
    ...     _ = path.write_text("def cube(t): return t**3")
    ...     from_file(path, "cube")(2.0)
    array(8.)
    """
    try:
        source = Path(path).read_text("utf-8")
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path}: cannot be read (it is not text)") from None
    # Not by import, which may run the stale byte code of a file that has just changed.
    scope: dict[str, Any] = {"__name__": Path(path).stem, "__file__": str(path)}
    try:
        exec(compile(source, str(path), "exec"), scope)
    except Exception as error:
        raise ValueError(
            f"{path}: cannot be run ({type(error).__name__}: {_first_line(error)})"
        ) from None
    if name not in scope:
        raise ValueError(f"{path}: defines no {name!r}")
    function = scope[name]
    if not callable(function):
        raise ValueError(
            f"{path}: {name!r} must be a function, got {type(function).__name__}"
        )
    try:
        return Nonlinearity(name, function, kinks)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def hermite_mix(degree: int, linear_share: float) -> Nonlinearity:
    r"""Return a mix of the linear with one higher Hermite polynomial.

    .. math:: f = \sqrt s \, h_1 + \sqrt{1 - s} \, h_k,

    with normalized Hermite polynomials, so that :math:`a_1^2 / \nu = s` while
    :math:`\nu = 1` stays as it is (docs/theory.md, section 1).

    Parameters
    ----------
    degree : int
        :math:`k`, from 2 to 6.
    linear_share : float
        :math:`s`, from 0 to 1.

    Returns
    -------
    Nonlinearity

    Raises
    ------
    ValueError
        If an argument is out of range.

    Examples
    --------
    >>> hermite_mix(2, 0.0)([0.0, 1.0]).round(6)
    array([-0.707107,  0.      ])
    """
    if degree not in range(2, 7):
        raise ValueError(f"degree must be a whole number from 2 to 6, got {degree!r}")
    if not 0 <= linear_share <= 1:
        raise ValueError(f"linear_share must be from 0 to 1, got {linear_share!r}")
    # In powers of t: one Horner scheme is faster than adding two functions.
    coefficients = np.zeros(degree + 1)
    coefficients[1] = sqrt(linear_share)
    coefficients[degree] = sqrt((1 - linear_share) / factorial(degree))
    powers = np.polynomial.hermite_e.herme2poly(coefficients)

    def mix(t: Array) -> Array:
        return np.asarray(np.polynomial.polynomial.polyval(t, powers))

    name = f"h1 and h{degree} at {linear_share:g}"
    return Nonlinearity(name, mix, parity="odd" if degree % 2 else None)


def rescaled(nonlinearity: Nonlinearity, factor: float) -> Nonlinearity:
    r"""Return :math:`t \mapsto f(s t)` for a factor s.

    Parameters
    ----------
    nonlinearity : Nonlinearity
        :math:`f`.
    factor : float
        :math:`s`, positive.

    Returns
    -------
    Nonlinearity

    Raises
    ------
    ValueError
        If the factor is not positive and finite.

    Examples
    --------
    >>> rescaled(get("relu"), 2.0)(1.5)
    array(3.)
    """
    if not 0 < factor < float("inf"):
        raise ValueError(f"factor must be positive, got {factor!r}")
    return Nonlinearity(
        f"{nonlinearity.name} of {factor:g} t",
        lambda t: nonlinearity(factor * t),
        tuple(kink / factor for kink in nonlinearity.kinks),
        nonlinearity.parity,
    )


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
    if nonlinearity == _REGISTRY.get(nonlinearity.name):
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
    value = float(_finite(nonlinearity, np.array([root]))[0])
    return (value - hermite_coefficients(nonlinearity).a0) / root


def _quadrature(nonlinearity: Nonlinearity) -> HermiteCoefficients:
    """Halve the panels until two widths agree on all four coefficients."""
    previous: Array | None = None
    for width in WIDTHS:
        nodes, weights = panels(width, nonlinearity.kinks)
        values = _finite(nonlinearity, nodes)
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


def _finite(nonlinearity: Nonlinearity, points: Array) -> Array:
    values = nonlinearity(points)
    if not np.all(np.isfinite(values)):
        where = float(points[~np.isfinite(values)][0])
        raise ValueError(
            f"nonlinearity {nonlinearity.name!r} must be finite, "
            f"got {float(values[~np.isfinite(values)][0])} at {where:.6g}"
        )
    return values


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0]


def _relu(t: Array, out: Array | None = None) -> Array:
    return np.maximum(t, 0.0, out=out)


def _truncated_exp(t: Array, out: Array | None = None) -> Array:
    # The exponent is cut, not the exponential, which could overflow.
    out = np.minimum(t, log(5), out=out)
    return np.exp(out, out=out)


_IN_PLACE = (_relu, _truncated_exp)

_REGISTRY = {
    one.name: one
    for one in (
        Nonlinearity("linear", np.positive, parity="odd"),
        Nonlinearity("tanh", np.tanh, parity="odd"),
        Nonlinearity("erf", special.erf, parity="odd"),
        Nonlinearity("arctan", np.arctan, parity="odd"),
        Nonlinearity("sigmoid", special.expit),
        Nonlinearity("sign", np.sign, kinks=(0.0,), parity="odd"),
        Nonlinearity("relu", _relu, kinks=(0.0,)),
        Nonlinearity("cos", np.cos, parity="even"),
        Nonlinearity("exp", np.exp),
        Nonlinearity("truncated_exp", _truncated_exp, kinks=(log(5),)),
    )
}


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
