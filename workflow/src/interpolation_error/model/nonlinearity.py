"""Entry-wise nonlinearities of attention: registered, of the user's, and mixes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial, isfinite, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from interpolation_error.model.checks import unmasked

Array = NDArray[np.float64]

PARITIES = (None, "odd", "even")


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
        values = finite(self, points)
        if not np.allclose(self(points[1:, 1:]), values[1:, 1:], rtol=1e-9, atol=1e-12):
            raise ValueError(
                f"nonlinearity {self.name!r} must act on each entry by itself, but its "
                "value at one entry depends on the others"
            )
        if self.parity is not None:
            mirrored = self(-points) * (-1.0 if self.parity == "odd" else 1.0)
            if not np.allclose(mirrored, values, rtol=1e-9, atol=1e-12):
                raise ValueError(f"nonlinearity {self.name!r} is not {self.parity}")


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


def finite(nonlinearity: Nonlinearity, points: Array) -> Array:
    """Return the values at points, and refuse those that are not finite."""
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
