"""Predicted interpolation errors: Proposition 2 and Theorem 1 of the paper.

Everything here is a limit for many tokens n and a large embedding dimension p at a
fixed ratio c = p/n. Linear regression has a closed form. Attention has a fixed point in
a symmetric 3 by 3 matrix R at each point asked for, and all points are computed
together as one batch (docs/theory.md, sections 4 and 6).

The rows of R belong to the three places where the tokens enter the linear pencil of the
attention matrix, called q, l and k in docs/theory.md. R_11 is the limit of the trace of
the resolvent; R_22 is negative and goes to 0 with gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from interpolation_error._checks import (
    Array,
    as_finite,
    as_non_negative,
    as_positive,
)

Arrays = NDArray[Any]  # float64, or complex128 for the spectral density

# The six free entries of a symmetric 3 by 3 matrix, in the order of the 6-vectors.
_ROW = np.array([0, 0, 0, 1, 1, 2])
_COLUMN = np.array([0, 1, 2, 1, 2, 2])
_POSITION = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])
_IDENTITY = np.eye(3)
# What the symmetric noise puts into Sigma: R_22 at 11, R_11 at 22 and R_12 at 12.
_NOISE = np.zeros((6, 6))
_NOISE[0, 3] = _NOISE[3, 0] = _NOISE[1, 1] = 1.0

# R is accepted when a further Newton step moves no entry by more than this, relative
# to its row and column: the residual of the fixed point, seen through the Jacobian.
_TOLERANCE = 1e-9
UNDERFLOW = float(np.sqrt(np.finfo(np.float64).tiny))
_BATCH = 16384  # points at a time, to bound the memory
# The density is taken at gamma = x exp(-i (pi - _ANGLE)).
_ANGLE = 1e-9


class ConvergenceError(ArithmeticError):
    """The fixed point of Theorem 1 was not found at some point."""


@dataclass(frozen=True, eq=False)
class InnerProducts:
    r"""Inner products of the signal and of the low-rank attention weights.

    Theorem 1 sees the signal :math:`\mu` and the weights
    :math:`W = I + w_K w_Q^T` through these six numbers only. They broadcast against
    each other and against the other arguments.

    Parameters
    ----------
    mu_mu : array_like
        Signal-to-noise ratio :math:`\rho = \|\mu\|^2`.
    mu_wk, mu_wq : array_like
        :math:`\mu^T w_K` and :math:`\mu^T w_Q`.
    wk_wk, wq_wq : array_like
        :math:`\|w_K\|^2` and :math:`\|w_Q\|^2`.
    wk_wq : array_like
        :math:`w_K^T w_Q`.

    Raises
    ------
    ValueError
        If a number is not finite, the shapes do not broadcast, or no three vectors
        have these inner products: their 3 by 3 Gram matrix has a negative eigenvalue,
        beyond rounding.

    Examples
    --------
    Weights along the signal, both of norm 1, at a signal-to-noise ratio of 4:

    >>> aligned = InnerProducts(4.0, 2.0, 2.0, 1.0, 1.0, 1.0)

    >>> InnerProducts(mu_mu=1.0, mu_wk=3.0, wk_wk=1.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: inner products must be those of three vectors, got mu_wk = 3.0 ...
    """

    mu_mu: ArrayLike = 0.0
    mu_wk: ArrayLike = 0.0
    mu_wq: ArrayLike = 0.0
    wk_wk: ArrayLike = 0.0
    wq_wq: ArrayLike = 0.0
    wk_wq: ArrayLike = 0.0

    def __post_init__(self) -> None:
        """Refuse what no vectors can have."""
        products = {name: as_finite(name, value) for name, value in vars(self).items()}
        for name in ("mu_mu", "wk_wk", "wq_wq"):
            as_non_negative(name, products[name])
        mm, mk, mq, kk, qq, kq = _broadcast(products)
        rounding = 1e-9
        for name, product, left, right in (
            ("mu_wk", mk, mm, kk),
            ("mu_wq", mq, mm, qq),
            ("wk_wq", kq, kk, qq),
        ):
            largest = np.sqrt(left) * np.sqrt(right)
            # Norms below the root of the smallest number vanish when squared.
            above = np.abs(product) > largest * (1 + rounding) + UNDERFLOW
            if np.any(above):
                raise ValueError(
                    "inner products must be those of three vectors, got "
                    f"{name} = {float(product[above][0])!r} where the product of the "
                    f"norms is {float(largest[above][0])!r}"
                )
        # Cosines rather than products, so that long and short vectors count alike.
        norms = np.sqrt(np.stack([mm, kk, qq], axis=-1))
        norms = np.where(norms > 0, norms, 1.0)
        gram = _symmetric(np.stack([mm, mk, mq, kk, kq, qq], axis=-1))
        cosines = gram / norms[..., :, None] / norms[..., None, :]
        lowest = float(np.linalg.eigvalsh(cosines).min())
        if lowest < -rounding:
            raise ValueError(
                "inner products must be those of three vectors, got a matrix of "
                f"cosines with the negative eigenvalue {lowest:.3g}"
            )

    @classmethod
    def from_vectors(
        cls, mu: ArrayLike, w_k: ArrayLike, w_q: ArrayLike
    ) -> InnerProducts:
        r"""Return the inner products of given vectors.

        Parameters
        ----------
        mu, w_k, w_q : array_like, shape (..., p)
            Signal :math:`\mu` and low-rank attention weights :math:`w_K`,
            :math:`w_Q`; leading axes broadcast.

        Returns
        -------
        InnerProducts
            Arrays of the leading shape.

        Raises
        ------
        ValueError
            If an entry is not finite or the shapes do not agree.

        Examples
        --------
        >>> products = InnerProducts.from_vectors([2.0, 0.0], [1.0, 0.0], [0.0, 3.0])
        >>> float(products.mu_wk), float(products.wq_wq)
        (2.0, 9.0)
        """
        vectors = {
            name: np.atleast_1d(as_finite(name, value))
            for name, value in (("mu", mu), ("w_k", w_k), ("w_q", w_q))
        }
        if len({vector.shape[-1] for vector in vectors.values()}) > 1:
            raise ValueError(
                "mu, w_k and w_q must have one length, got shapes "
                + ", ".join(str(vector.shape) for vector in vectors.values())
            )
        m, k, q = _broadcast(vectors)
        pairs = ((m, m), (m, k), (m, q), (k, k), (q, q), (k, q))
        return cls(*(np.sum(left * right, axis=-1) for left, right in pairs))


def marchenko_pastur_stieltjes(
    z: ArrayLike, aspect_ratio: ArrayLike
) -> float | complex | Arrays:
    r"""Return the Stieltjes transform of the Marchenko-Pastur law.

    .. math:: m(z) = \int \frac{d\mathrm{MP}(\lambda)}{\lambda - z}, \qquad
        z m^2 + (z + 1 - c) m + 1 = 0,

    where the law is that of the eigenvalues of :math:`Z^T Z / n`, Z of shape (p, n)
    with independent standard normal entries. It has an atom :math:`\max(0, 1 - c)` at
    0 (docs/theory.md, section 3).

    Parameters
    ----------
    z : array_like of float or complex
        Where to evaluate; outside the support of the law.
    aspect_ratio : array_like
        :math:`c = p/n`, positive. Broadcasts against ``z``.

    Returns
    -------
    float, complex or ndarray
        Real if ``z`` is.

    Raises
    ------
    ValueError
        If ``z`` is not finite or lies in the support, ``aspect_ratio`` is not positive,
        or the shapes do not broadcast.

    Examples
    --------
    >>> round(marchenko_pastur_stieltjes(-1.0, 1.0), 6)
    0.618034
    """
    given = np.asarray(z)
    is_complex = given.dtype.kind == "c"
    if is_complex:
        point: Arrays = as_finite("z", given.real) + 1j * as_finite("z", given.imag)
    else:
        point = as_finite("z", z).astype(np.complex128)
    c = as_positive("aspect_ratio", aspect_ratio)
    point, c = _broadcast({"z": point, "aspect_ratio": c})
    lower, upper = _edges(c)
    x = point.real
    inside = ((x >= lower) & (x <= upper)) | ((x == 0) & (c < 1))
    inside &= point.imag == 0
    if np.any(inside):
        raise ValueError(
            "z must lie outside the support of the Marchenko-Pastur law, got "
            f"{float(x[inside][0])!r}"
        )
    # The product of two roots, not the root of a product, is on the right branch.
    s, b = np.sqrt(point - lower) * np.sqrt(point - upper), point + 1 - c
    # Of the two forms of m, take the one that does not cancel.
    first = np.abs(s - b) > np.abs(s + b)
    m = np.where(first, s - b, -2.0) / np.where(first, 2 * point, s + b)
    if not is_complex:
        return _plain(m.real)
    return complex(m) if m.ndim == 0 else m


def linear_regression_error(
    gamma: ArrayLike, aspect_ratio: ArrayLike, snr: ArrayLike
) -> float | Array:
    r"""Return the limiting interpolation error of linear regression.

    Proposition 2 of the paper (docs/theory.md, section 3):

    .. math:: E = -\gamma^2 \frac{d}{d\gamma} \frac{m (1 + m)}{1 + m + \rho m},
        \qquad m = m(-\gamma),

    m being :func:`marchenko_pastur_stieltjes`. With the derivative taken by hand,
    :math:`\kappa = 1 + \rho` and :math:`\lambda_\pm = (1 \pm \sqrt c)^2`,

    .. math:: E = \gamma^2 \frac{1 + 2m + \kappa m^2}{(1 + \kappa m)^2}
        \frac{m (1 + m)}{\sqrt{(\gamma + \lambda_-)(\gamma + \lambda_+)}}.

    Every factor is positive, so this is right to rounding for every gamma.

    Parameters
    ----------
    gamma : array_like
        Regularization :math:`\gamma`, positive; the ridge penalty is
        :math:`n\gamma`.
    aspect_ratio : array_like
        :math:`c = p/n`, positive.
    snr : array_like
        Signal-to-noise ratio :math:`\rho = \|\mu\|^2`, not negative.

    Returns
    -------
    float or ndarray of float64
        E between 0 and 1, of the shape to which the arguments broadcast.

    Raises
    ------
    ValueError
        If an argument is out of its range or not finite, or the shapes do not
        broadcast.

    Examples
    --------
    >>> round(linear_regression_error(1e-9, 0.25, 1.0), 6)  # (1 - c) / (1 + rho)
    0.375
    >>> linear_regression_error([1e-3, 1.0], 0.25, 1.0).shape
    (2,)
    """
    gamma, c, rho = _broadcast(
        {
            "gamma": as_positive("gamma", gamma),
            "aspect_ratio": as_positive("aspect_ratio", aspect_ratio),
            "snr": as_non_negative("snr", snr),
        }
    )
    lower, upper = _edges(c)
    root = np.sqrt(gamma + lower) * np.sqrt(gamma + upper)
    # g = gamma m, by the form of the quadratic's root that does not cancel.
    b = gamma + c - 1
    half = np.abs(b) / 2 + root / 2
    g = np.where(b > 0, gamma / half, half)
    # p = m / (1 + kappa m) and q = 1 / (1 + kappa m), without m, which may overflow.
    kappa = 1 + rho
    p, q = g / (gamma + kappa * g), gamma / (gamma + kappa * g)
    error = (q * q + 2 * p * q + kappa * p * p) * g * ((gamma + g) / root)
    return _plain(np.clip(error, 0.0, 1.0))


def attention_error(
    gamma: ArrayLike,
    aspect_ratio: ArrayLike,
    a1: ArrayLike,
    nu: ArrayLike,
    *,
    inner_products: InnerProducts | None = None,
    diagonal_limit: ArrayLike = 0.0,
) -> float | Array:
    r"""Return the limiting interpolation error of nonlinear attention.

    Theorem 1 of the paper, in the form of docs/theory.md, section 4. With
    :math:`\alpha = a_1/c`, :math:`\sigma^2 = (\nu - a_1^2)/c`, :math:`h = d - a_1`
    and

    .. math:: A = \begin{pmatrix} \gamma & h & 0 \\ h & 0 & -1 \\ 0 & -1 & 0
        \end{pmatrix}, \qquad
        N = \begin{pmatrix} 0 & -\alpha & 0 \\ -\alpha & 0 & 0 \\ 0 & 0 & -1
        \end{pmatrix},

    the symmetric 3 by 3 matrices R and P solve

    .. math:: R = (A - \Sigma)^{-1}, \quad P = N (I - R N)^{-1}, \quad
        \Sigma = c P + \sigma^2 \begin{pmatrix} R_{22} & R_{12} & 0 \\
        R_{12} & R_{11} & 0 \\ 0 & 0 & 0 \end{pmatrix},

    and with T the value of P at the signal, W = I + w_K w_Q^T in place of I,

    .. math:: E = -\gamma^2 \frac{d}{d\gamma} \left[(R^{-1} - T)^{-1}\right]_{11}.

    The derivative is that of the fixed point, a linear system of six equations.
    Nothing is special at :math:`a_1 = 0`, :math:`\nu = a_1^2` or c = 1.

    Parameters
    ----------
    gamma : array_like
        Regularization :math:`\gamma`, positive; the ridge penalty is
        :math:`n\gamma`.
    aspect_ratio : array_like
        :math:`c = p/n`, positive.
    a1, nu : array_like
        First Hermite coefficient :math:`a_1` and variance :math:`\nu \ge a_1^2` of
        the nonlinearity.
    inner_products : InnerProducts, optional
        Those of :math:`\mu`, :math:`w_K` and :math:`w_Q`. None is no signal and
        no low-rank part.
    diagonal_limit : array_like, default 0
        Limit d of the diagonal of the attention matrix, 0 where it is zeroed.

    Returns
    -------
    float or ndarray of float64
        E between 0 and 1, of the shape to which all arguments broadcast.

    Raises
    ------
    ValueError
        If an argument is out of its range or not finite, or the shapes do not
        broadcast.
    ConvergenceError
        If the fixed point is not found at some point; the message names the first.

    Notes
    -----
    For c in 1/16 ... 16 and gamma in 1e-8 ... 1e4 the relative error stayed below 1e-10
    at every point compared with 50 digits, and is near rounding at most of them. There,
    what limits it is nu - a1^2, which is only as good as the two numbers given.

    Examples
    --------
    Random inputs, with the coefficients of tanh:

    >>> round(attention_error(0.1, 0.25, 0.6057055803, 0.3942944501), 4)
    0.7687

    Weights along the signal, at two values of gamma:

    >>> aligned = InnerProducts(2.25, 1.5, 1.5, 1.0, 1.0, 1.0)
    >>> attention_error([0.01, 0.1], 0.75, 0.5, 1.0, inner_products=aligned).round(4)
    array([0.095, 0.131])
    """
    products = InnerProducts() if inner_products is None else inner_products
    model, shape, inner = _model(gamma, aspect_ratio, a1, nu, diagonal_limit, products)
    error = np.empty(len(model.gamma))
    for start in range(0, len(error), _BATCH):
        part = slice(start, start + _BATCH)
        error[part] = _attention_error(model.at(part), inner[:, part])
    return _plain(error.reshape(shape))


def attention_resolvent_trace(
    gamma: ArrayLike,
    aspect_ratio: ArrayLike,
    a1: ArrayLike,
    nu: ArrayLike,
    *,
    diagonal_limit: ArrayLike = 0.0,
) -> float | Array:
    r"""Return the limit of the normalized trace of the nonlinear resolvent.

    Proposition 1 of the paper: :math:`\frac1n \mathrm{tr}\, Q(\gamma)`,
    :math:`Q = (A^T A/n + \gamma I)^{-1}` with A the attention output, tends to
    :math:`R_{11}` of the fixed point in :func:`attention_error`. Neither the signal
    nor the low-rank part of the weights moves it.

    Parameters
    ----------
    gamma, aspect_ratio, a1, nu, diagonal_limit : array_like
        As in :func:`attention_error`.

    Returns
    -------
    float or ndarray of float64
        Between 0 and :math:`1/\gamma`.

    Raises
    ------
    ValueError, ConvergenceError
        As in :func:`attention_error`.

    Examples
    --------
    >>> round(attention_resolvent_trace(100.0, 0.5, 0.6057, 0.3943), 5)
    0.0099
    """
    nothing = InnerProducts()
    model, shape, _ = _model(gamma, aspect_ratio, a1, nu, diagonal_limit, nothing)
    R, _ = _fixed_point(model)
    return _plain(R[:, 0, 0].reshape(shape))


def attention_spectral_density(
    x: ArrayLike,
    aspect_ratio: ArrayLike,
    a1: ArrayLike,
    nu: ArrayLike,
    *,
    diagonal_limit: ArrayLike = 0.0,
) -> float | Array:
    r"""Return the limiting spectral density of the attention output's Gram matrix.

    The density of the eigenvalues of :math:`A^T A/n` at x > 0,

    .. math:: \frac1\pi \mathrm{Im} R_{11} \quad\text{at}\quad \gamma = -x - i0,

    with R the fixed point in :func:`attention_error`, followed from
    :math:`\gamma = x` along the half circle. The imaginary part of gamma is -1e-9 x,
    which an eigenvalue law smooths over that width: within the bulk the density is
    right to about 1e-8 relative, less close to an edge, and where there are no
    eigenvalues it is of the order of 1e-9 rather than 0. The atom at 0, of mass
    1 - c for c < 1, is not part of it.

    Parameters
    ----------
    x : array_like
        Where to evaluate, positive.
    aspect_ratio, a1, nu, diagonal_limit : array_like
        As in :func:`attention_error`.

    Returns
    -------
    float or ndarray of float64
        Not negative.

    Raises
    ------
    ValueError, ConvergenceError
        As in :func:`attention_error`.

    Examples
    --------
    >>> attention_spectral_density([0.1, 1.0, 100.0], 0.5, 0.6057, 0.3943).round(4)
    array([0.3608, 0.052 , 0.    ])
    """
    nothing, x = InnerProducts(), as_positive("x", x)
    model, shape, _ = _model(x, aspect_ratio, a1, nu, diagonal_limit, nothing)
    R, _ = _fixed_point(model)
    here = np.log(model.gamma).astype(np.complex128)
    goal = here - 1j * (np.pi - _ANGLE)
    turned = model._replace(gamma=np.exp(goal))
    with np.errstate(all="ignore"):
        R = _continue(R.astype(np.complex128), model, here, goal)
        R, _ = _iterate(R, turned, 4)
        step, _ = _newton(R, turned)
    density = R[:, 0, 0].imag / np.pi
    _require((_size(step) <= 1e-6) & (density >= -_TOLERANCE / model.gamma), model)
    return _plain(np.maximum(density, 0.0).reshape(shape))


class _Model(NamedTuple):
    """A batch of points in the terms of the pencil, each of shape (points,)."""

    gamma: Arrays
    c: Array
    alpha: Array  # a_1 / c
    variance: Array  # sigma^2 = (nu - a_1^2) / c
    h: Array  # d - a_1

    def at(self, chosen: NDArray[Any] | slice) -> _Model:
        """Return the chosen points."""
        return _Model(*(x[chosen] for x in self))

    @property
    def shift(self) -> Array:
        """Return the share of h that the pencil keeps on the side of the dimension.

        To exchange the variable k for k + h q turns A and N into a pencil of the same
        form without h in A, and leaves the q corner alone. For c < 1 the tokens that X
        sends to 0 lock q and k together by h, and for small gamma R loses its digits
        to a part of rank one, which the exchange removes. For c >= 1 it is the plain
        pencil that is well conditioned.
        """
        return np.where(self.c < 1, self.h, 0.0)


def _broadcast(arguments: dict[str, Arrays]) -> tuple[Arrays, ...]:
    """Broadcast named arrays, naming their shapes where that cannot be done."""
    try:
        return tuple(np.broadcast_arrays(*arguments.values()))
    except ValueError:
        shapes = ", ".join(f"{k} {v.shape}" for k, v in arguments.items() if v.shape)
        raise ValueError(f"arguments must broadcast, got shapes {shapes}") from None


def _plain(array: Array) -> float | Array:
    """Return a Python number in place of an array without axes."""
    return float(array) if array.ndim == 0 else array


def _edges(c: Array) -> tuple[Array, Array]:
    """Return the edges (1 -+ sqrt c)^2 of the Marchenko-Pastur law."""
    root = np.sqrt(c)
    return ((1 - c) / (1 + root)) ** 2, (1 + root) ** 2


def _model(
    gamma: ArrayLike,
    aspect_ratio: ArrayLike,
    a1: ArrayLike,
    nu: ArrayLike,
    diagonal_limit: ArrayLike,
    products: InnerProducts,
) -> tuple[_Model, tuple[int, ...], Array]:
    """Check and broadcast the arguments: the points, their shape, inner products."""
    arguments = {
        "gamma": as_positive("gamma", gamma),
        "aspect_ratio": as_positive("aspect_ratio", aspect_ratio),
        "a1": as_finite("a1", a1),
        "nu": as_finite("nu", nu),
        "diagonal_limit": as_finite("diagonal_limit", diagonal_limit),
    }
    inner = {name: as_finite(name, value) for name, value in vars(products).items()}
    arrays = _broadcast(arguments | inner)
    shape = arrays[0].shape
    gamma, c, a, v, d, *rest = (array.ravel() for array in arrays)
    with np.errstate(over="ignore"):  # a huge a1 is refused below
        square = a * a
    low = v < square * (1 - 1e-9)
    if np.any(low):
        raise ValueError(
            f"nu must be at least a1^2, got nu = {float(v[low][0])!r} and "
            f"a1 = {float(a[low][0])!r}"
        )
    variance = np.maximum(v - square, 0.0) / c
    return _Model(gamma, c, a / c, variance, d - a), shape, np.stack(rest)


def _solve(matrix: Arrays, right: Arrays) -> Arrays:
    """Solve a batch of linear systems, with NaN where a matrix is singular."""
    try:
        return np.asarray(np.linalg.solve(matrix, right))
    except np.linalg.LinAlgError:
        if len(matrix) == 1:
            return np.full((1, *right.shape[-2:]), np.nan)
        half = len(matrix) // 2
        right = np.broadcast_to(right, (len(matrix), *right.shape[-2:]))
        parts = (slice(half), slice(half, None))
        return np.concatenate([_solve(matrix[part], right[part]) for part in parts])


def _inverse(matrix: Arrays) -> Arrays:
    """Invert a batch of 3 by 3 matrices, with NaN where one is singular."""
    return _solve(matrix, _IDENTITY)


def _transpose(matrix: Arrays) -> Arrays:
    """Transpose a batch of matrices."""
    return matrix.swapaxes(-1, -2)


def _symmetric(entries: Arrays) -> Arrays:
    """Return the symmetric 3 by 3 matrices with the given six entries."""
    return entries[..., _POSITION]


def _entries(matrix: Arrays) -> Arrays:
    """Return the six entries of symmetric 3 by 3 matrices."""
    return matrix[..., _ROW, _COLUMN]


def _congruence(matrix: Arrays) -> Arrays:
    """Return the 6 by 6 matrix of S -> M S M on symmetric S, for symmetric M."""
    i, j = _ROW[:, None], _COLUMN[:, None]
    result: Arrays = (
        matrix[..., i, _ROW] * matrix[..., j, _COLUMN]
        + matrix[..., i, _COLUMN] * matrix[..., j, _ROW]
    )
    result[..., _ROW == _COLUMN] *= 0.5  # counted twice on the diagonal
    return result


def _pencil(model: _Model, tau: Array) -> tuple[Arrays, Arrays, Arrays]:
    """Return A, E and L with N = E^-1 L, rows scaled by (tau^-1/2, tau^1/2, tau^-1/2).

    N itself holds the large 1/tau in up to four places, E and L do not.
    """
    points, shift = len(model.c), model.shift
    A = np.zeros((points, 3, 3), dtype=model.gamma.dtype)
    A[:, 0, 0] = model.gamma / tau
    A[:, 0, 1] = A[:, 1, 0] = model.h - shift
    A[:, 1, 2] = A[:, 2, 1] = -1.0
    E = np.zeros((points, 3, 3))
    E[:, 0, 0] = E[:, 1, 1] = 1.0
    E[:, 0, 2] = -shift
    E[:, 2, 2] = tau
    L = np.zeros((points, 3, 3))
    L[:, 0, 1] = L[:, 1, 0] = -model.alpha
    L[:, 2, 0] = -shift
    L[:, 2, 2] = -1.0
    return A, E, L


def _scaled(R: Arrays, tau: Array) -> Arrays:
    """Return R in the scaling of :func:`_pencil`; 1/tau undoes it."""
    root = np.sqrt(tau)
    rows = np.stack([root, 1 / root, root], axis=-1)
    scaled: Arrays = R * rows[:, :, None] * rows[:, None, :]
    return scaled


def _tau(R: Arrays) -> Array:
    """Return the tau that scales R_11 to 1, or leaves it where it is below 1."""
    return np.asarray(1 / np.maximum(np.abs(R[:, 0, 0]), 1.0))


def _equations(
    R: Arrays, model: _Model, A: Arrays, E: Arrays, L: Arrays
) -> tuple[Arrays, Arrays]:
    """Return (A - Sigma(R))^-1, equal to R at the fixed point, and P(R).

    With N = E^-1 L, P = N (I - R N)^-1 = (E - L R)^-1 L.
    """
    P = _solve(E - L @ R, L)
    Sigma = model.c[:, None, None] * P
    Sigma[:, 0, 0] += model.variance * R[:, 1, 1]
    Sigma[:, 1, 1] += model.variance * R[:, 0, 0]
    Sigma[:, 0, 1] += model.variance * R[:, 0, 1]
    Sigma[:, 1, 0] += model.variance * R[:, 0, 1]
    return _inverse(A - (Sigma + _transpose(Sigma)) / 2), P


def _weights(R: Arrays) -> Array:
    """Return the sizes against which the six entries of R are measured."""
    first, second = np.sqrt(np.abs(R[:, 0, 0])), np.sqrt(np.abs(R[:, 1, 1]))
    third = np.maximum(np.sqrt(np.abs(R[:, 2, 2])), np.abs(R[:, 1, 2]) / second)
    rows = np.stack([first, second, third], axis=-1)
    return np.asarray(rows[:, _ROW] * rows[:, _COLUMN])


def _newton(R: Arrays, model: _Model) -> tuple[Arrays, Arrays]:
    """Return the Newton step of the fixed point and its slope in log gamma.

    Both are (points, 6) arrays in units of :func:`_weights`. The derivative of
    R = (A - Sigma)^-1 is dR = R (dSigma - dA) R, with dP = P dR P in dSigma.
    """
    tau = _tau(R)
    R = _scaled(R, tau)
    A, E, L = _pencil(model, tau)
    image, P = _equations(R, model, A, E, L)
    c, variance = model.c[:, None, None], model.variance[:, None, None]
    around = _congruence(image)
    jacobian = np.eye(6) - around @ (c * _congruence(P) + variance * _NOISE)
    weights = _weights(R)
    residual = _entries(image - R)
    forcing = -around[:, :, 0] * A[:, :1, 0]  # dA = gamma E_11 for d log gamma
    sides = np.stack([residual, forcing], axis=-1) / weights[:, :, None]
    jacobian *= weights[:, None, :] / weights[:, :, None]
    solution = _solve(jacobian, sides)
    return solution[..., 0], solution[..., 1]


def _move(R: Arrays, step: Arrays) -> Arrays:
    """Return R moved by a step in units of its weights, R_11 and R_22 in logarithm."""
    r = _entries(R)
    change = step * _weights(R)
    moved = r + change
    for k in (0, 3):  # keeps their signs
        moved[:, k] = r[:, k] * np.exp(change[:, k] / r[:, k])
    return _symmetric(moved)


def _extrapolate(R: Arrays, slope: Arrays, length: Arrays) -> Arrays:
    """Return R a length in log gamma further, as a power law with this slope.

    That is how R goes with small gamma: the diagonal moves in its logarithm, and the
    other entries move relative to it.
    """
    r, weights = _entries(R), _weights(R)
    change = slope * weights
    growth = change[:, [0, 3, 5]] / r[:, [0, 3, 5]]
    # R_33 may be zero: then it moves as it is.
    growth[:, 2] = np.where(np.abs(r[:, 5]) > 0.5 * weights[:, 5], growth[:, 2], 0.0)
    rate = (growth[:, _ROW] + growth[:, _COLUMN]) / 2
    length = length[:, None]
    return _symmetric((r + (change - rate * r) * length) * np.exp(rate * length))


def _size(step: Arrays) -> Array:
    """Return the largest entry of each step, infinite where it is not a number."""
    size = np.max(np.abs(step), axis=-1)
    return np.where(np.isfinite(size), size, np.inf)


def _damped(model: _Model, steps: int) -> Arrays:
    """Return R after some steps of damped iteration from A^-1, where Sigma is 0."""
    A, _, _ = _pencil(model, np.ones_like(model.c))  # not scaled
    R = _inverse(A)
    for _ in range(steps):
        tau = _tau(R)
        image, _ = _equations(_scaled(R, tau), model, *_pencil(model, tau))
        R = (R + _scaled(image, 1 / tau)) / 2
    return R


def _iterate(R: Arrays, model: _Model, steps: int) -> tuple[Arrays, NDArray[np.bool_]]:
    """Take Newton steps, of size 2 at most, until one is below the tolerance.

    Returns R and which points got there.
    """
    R, done = R.copy(), np.zeros(len(R), dtype=bool)
    active = np.arange(len(R))
    for _ in range(steps):
        step, _ = _newton(R[active], model.at(active))
        size = _size(step)
        R[active] = _move(R[active], step * np.minimum(1, 2 / size)[:, None])
        done[active] = size < _TOLERANCE
        active = active[(size >= _TOLERANCE) & np.isfinite(size)]
        if len(active) == 0:
            break
    return R, done


def _continue(R: Arrays, model: _Model, here: Arrays, goal: Arrays) -> Arrays:
    """Follow the fixed point from log gamma = here to log gamma = goal.

    Each point goes straight there at a stride of its own: an extrapolation is kept when
    Newton's first correction is small and its last one negligible, and tried again at
    half the stride otherwise. A point that gets lost turns into NaN.
    """
    R, here = R.copy(), here.copy()
    _, slope = _newton(R, model._replace(gamma=np.exp(here)))
    stride = np.full(len(R), 0.5)
    active = np.flatnonzero(here != goal)
    while len(active):
        way = goal[active] - here[active]
        share = np.minimum(1, stride[active] / np.abs(way))
        there = np.where(share == 1, goal[active], here[active] + share * way)
        there_model = model.at(active)._replace(gamma=np.exp(there))
        trial = _extrapolate(R[active], slope[active], share * way)
        step, _ = _newton(trial, there_model)
        kept = _size(step) < 0.3
        for _ in range(3):
            trial = _move(trial, np.where(kept[:, None], step, 0.0))
            step, new_slope = _newton(trial, there_model)
        kept &= _size(step) < 1e-6
        R[active[kept]], here[active[kept]] = trial[kept], there[kept]
        slope[active[kept]] = new_slope[kept]
        stride[active] *= np.where(kept, 2.0, 0.5)
        lost = stride[active] < 1e-6 * np.abs(way)
        R[active[lost]] = np.nan
        active = active[(here[active] != goal[active]) & ~lost]
    return R


def _fixed_point(model: _Model) -> tuple[Arrays, Arrays]:
    """Return R and its slope in log gamma, in units of :func:`_weights`.

    Raises ConvergenceError where R is not found.
    """
    with np.errstate(all="ignore"):  # a point that runs away is caught below
        R, found = _iterate(_damped(model, 8), model, 30)
        stalled = ~(found & (R[:, 0, 0] > 0) & (R[:, 1, 1] < 0))
        if np.any(stalled):
            R[stalled] = _from_above(model.at(stalled))
        step, slope = _newton(R, model)
    # R_11 falls with gamma; only where numbers underflow does it not.
    _require((_size(step) <= _TOLERANCE) & (slope[:, 0] < 0), model)
    return R, slope


def _from_above(model: _Model) -> Arrays:
    """Return R followed down from a gamma above the eigenvalues of A^T A / n."""
    edge = (1 + np.sqrt(model.c)) ** 2
    size = edge * ((np.abs(model.alpha) * edge + np.abs(model.h)) ** 2 + model.variance)
    above = model._replace(gamma=np.maximum(model.gamma, size))
    R, _ = _iterate(_damped(above, 30), above, 8)
    R = _continue(R, model, np.log(above.gamma), np.log(model.gamma))
    return _iterate(R, model, 8)[0]


def fixed_point(
    gamma: float, aspect_ratio: float, a1: float, nu: float, h: float
) -> Array:
    """Return the 3 by 3 matrix R of section 4 at one point, in the plain pencil.

    Parameters
    ----------
    gamma, aspect_ratio, a1, nu : float
        As in :func:`attention_error`.
    h : float
        What is left on the diagonal beside the linear part.

    Returns
    -------
    ndarray of float64, shape (3, 3)

    Raises
    ------
    ValueError, ConvergenceError
        As in :func:`attention_error`.

    Examples
    --------
    >>> fixed_point(1.0, 0.5, 0.0, 1.0, 0.0).shape
    (3, 3)
    """
    model, _, _ = _model(gamma, aspect_ratio, a1, nu, h + a1, InnerProducts())
    R, _ = _fixed_point(model)
    # The pencil may have exchanged k for k + h q, see _Model.shift.
    back = np.eye(3)
    back[2, 0] = float(model.shift[0])
    return np.asarray(back @ R[0] @ back.T)


def _require(found: NDArray[np.bool_], model: _Model) -> None:
    """Raise a ConvergenceError unless the fixed point is found at every point."""
    failed = np.flatnonzero(~found)
    if len(failed):
        gamma, c, alpha, variance, h = (x[failed[0]] for x in model)
        a1 = alpha * c
        raise ConvergenceError(
            f"no fixed point found at gamma = {gamma:.6g}, aspect_ratio = {c:.6g}, "
            f"a1 = {a1:.6g}, nu = {c * variance + a1 * a1:.6g}, diagonal_limit = "
            f"{h + a1:.6g}"
        )


def _label_form(model: _Model, inner: Array) -> tuple[Array, Array]:
    """Return the limit of y^T Q y / n and its derivative in log gamma.

    T = mu^T P mu, with P that of W = I + w_K w_Q^T. Relative to W = I this adds
    U C U^T to N, where U holds w_Q on the row q and w_K on the row l, and
    C = -alpha [[0, 1], [1, 0]]. By the Woodbury identity, with G = (I - R N)^-1,
    H = G R, V = U^T G mu and M = U^T H U,

    T = (mu^T mu) N G + V^T (I - C M)^-1 C V.
    """
    mu_mu, mu_k, mu_q, k_k, q_q, k_q = inner
    R, slope = _fixed_point(model)
    tau = _tau(R)
    R = _scaled(R, tau)
    _, E, L = _pencil(model, tau)
    dR = _symmetric(slope * _weights(R))

    inverse = _inverse(E - L @ R)  # N = E^-1 L
    G, P = _transpose(inverse @ E), inverse @ L
    H = G @ R
    dG, dH, dP = G @ dR @ P, G @ dR @ _transpose(G), P @ dR @ P
    weights = np.stack([mu_q, mu_k], axis=-1)[:, :, None]
    V, dV = weights * G[:, :2], weights * dG[:, :2]
    norms = np.stack([q_q, k_q, k_q, k_k], axis=-1).reshape(-1, 2, 2)
    M, dM = norms * H[:, :2, :2], norms * dH[:, :2, :2]
    C = -model.alpha[:, None, None] * np.array([[0.0, 1.0], [1.0, 0.0]])
    B = _solve(np.eye(2) - C @ M, C)
    dB = B @ dM @ B
    snr = mu_mu[:, None, None]
    cross = _transpose(dV) @ B @ V
    T = snr * P + _transpose(V) @ B @ V
    dT = snr * dP + _transpose(V) @ dB @ V + cross + _transpose(cross)

    # Y = (R^-1 - T)^-1 without inverting R.
    F = _inverse(_IDENTITY - R @ T)
    Y = F @ R
    dY = F @ dR @ _transpose(F) + Y @ dT @ Y
    return Y[:, 0, 0] / tau, dY[:, 0, 0] / tau


def _attention_error(model: _Model, inner: Array) -> Array:
    """Return -gamma^2 d/dgamma of y^T Q y / n."""
    with np.errstate(all="ignore"):  # what overflows is caught below
        _, slope = _label_form(model, inner)
        error = -model.gamma * slope
    clipped = np.clip(error, 0.0, 1.0)
    # More than rounding outside [0, 1] would mean a wrong root.
    _require(np.abs(error - clipped) <= _TOLERANCE, model)
    return clipped
