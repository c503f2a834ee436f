"""Predicted interpolation error of nonlinear attention: Theorem 1 of the paper.

Everything here is a limit for many tokens n and a large embedding dimension p at a
fixed ratio c = p/n. All points asked for are computed together as one batch, from a
fixed point at each of them (:mod:`interpolation_error.theory.fixed_point`;
docs/theory.md, sections 4 and 6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from interpolation_error.model.checks import (
    Array,
    as_finite,
    as_non_negative,
    as_positive,
    broadcast,
    plain,
)
from interpolation_error.theory.fixed_point import (
    TOLERANCE,
    Points,
    inverse,
    require,
    scaled_solution,
    solve,
    solve_linear,
    solve_on_the_cut,
    symmetric,
    transpose,
)

_UNDERFLOW = float(np.sqrt(np.finfo(np.float64).tiny))
_BATCH = 16384  # points at a time, to bound the memory


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
        mm, mk, mq, kk, qq, kq = broadcast(products)
        rounding = 1e-9
        for name, product, left, right in (
            ("mu_wk", mk, mm, kk),
            ("mu_wq", mq, mm, qq),
            ("wk_wq", kq, kk, qq),
        ):
            largest = np.sqrt(left) * np.sqrt(right)
            # Norms below the root of the smallest number vanish when squared.
            above = np.abs(product) > largest * (1 + rounding) + _UNDERFLOW
            if np.any(above):
                raise ValueError(
                    "inner products must be those of three vectors, got "
                    f"{name} = {float(product[above][0])!r} where the product of the "
                    f"norms is {float(largest[above][0])!r}"
                )
        # Cosines rather than products, so that long and short vectors count alike.
        norms = np.sqrt(np.stack([mm, kk, qq], axis=-1))
        norms = np.where(norms > 0, norms, 1.0)
        gram = symmetric(np.stack([mm, mk, mq, kk, kq, qq], axis=-1))
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
        m, k, q = broadcast(vectors)
        pairs = ((m, m), (m, k), (m, q), (k, k), (q, q), (k, q))
        return cls(*(np.sum(left * right, axis=-1) for left, right in pairs))


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
    points, shape, inner = _points(
        gamma, aspect_ratio, a1, nu, diagonal_limit, products
    )
    error = np.empty(len(points.gamma))
    for start in range(0, len(error), _BATCH):
        part = slice(start, start + _BATCH)
        error[part] = _attention_error(points.at(part), inner[:, part])
    return plain(error.reshape(shape))


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
    points, shape, _ = _points(gamma, aspect_ratio, a1, nu, diagonal_limit, nothing)
    R, _ = solve(points)
    return plain(R[:, 0, 0].reshape(shape))


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
    points, shape, _ = _points(x, aspect_ratio, a1, nu, diagonal_limit, nothing)
    R, found = solve_on_the_cut(points)
    density = R[:, 0, 0].imag / np.pi
    require(found & (density >= -TOLERANCE / points.gamma), points)
    return plain(np.maximum(density, 0.0).reshape(shape))


def _points(
    gamma: ArrayLike,
    aspect_ratio: ArrayLike,
    a1: ArrayLike,
    nu: ArrayLike,
    diagonal_limit: ArrayLike,
    products: InnerProducts,
) -> tuple[Points, tuple[int, ...], Array]:
    """Check and broadcast the arguments: the points, their shape, inner products."""
    arguments = {
        "gamma": as_positive("gamma", gamma),
        "aspect_ratio": as_positive("aspect_ratio", aspect_ratio),
        "a1": as_finite("a1", a1),
        "nu": as_finite("nu", nu),
        "diagonal_limit": as_finite("diagonal_limit", diagonal_limit),
    }
    inner = {name: as_finite(name, value) for name, value in vars(products).items()}
    arrays = broadcast(arguments | inner)
    shape = arrays[0].shape
    gamma, c, a, v, d, *rest = (array.ravel() for array in arrays)
    return Points.of(gamma, c, a, v, d), shape, np.stack(rest)


def _label_form(points: Points, inner: Array) -> tuple[Array, Array]:
    """Return the limit of y^T Q y / n and its derivative in log gamma.

    T = mu^T P mu, with P that of W = I + w_K w_Q^T. Relative to W = I this adds
    U C U^T to N, where U holds w_Q on the row q and w_K on the row l, and
    C = -alpha [[0, 1], [1, 0]]. By the Woodbury identity, with G = (I - R N)^-1,
    H = G R, V = U^T G mu and M = U^T H U,

    T = (mu^T mu) N G + V^T (I - C M)^-1 C V.
    """
    mu_mu, mu_k, mu_q, k_k, q_q, k_q = inner
    tau, R, dR, E, L = scaled_solution(points)
    inverted = inverse(E - L @ R)  # N = E^-1 L
    G, P = transpose(inverted @ E), inverted @ L
    H = G @ R
    dG, dH, dP = G @ dR @ P, G @ dR @ transpose(G), P @ dR @ P
    weights = np.stack([mu_q, mu_k], axis=-1)[:, :, None]
    V, dV = weights * G[:, :2], weights * dG[:, :2]
    norms = np.stack([q_q, k_q, k_q, k_k], axis=-1).reshape(-1, 2, 2)
    M, dM = norms * H[:, :2, :2], norms * dH[:, :2, :2]
    C = -points.alpha[:, None, None] * np.array([[0.0, 1.0], [1.0, 0.0]])
    B = solve_linear(np.eye(2) - C @ M, C)
    dB = B @ dM @ B
    snr = mu_mu[:, None, None]
    cross = transpose(dV) @ B @ V
    T = snr * P + transpose(V) @ B @ V
    dT = snr * dP + transpose(V) @ dB @ V + cross + transpose(cross)

    # Y = (R^-1 - T)^-1 without inverting R.
    F = inverse(np.eye(3) - R @ T)
    Y = F @ R
    dY = F @ dR @ transpose(F) + Y @ dT @ Y
    return Y[:, 0, 0] / tau, dY[:, 0, 0] / tau


def _attention_error(points: Points, inner: Array) -> Array:
    """Return -gamma^2 d/dgamma of y^T Q y / n."""
    with np.errstate(all="ignore"):  # what overflows is caught below
        _, slope = _label_form(points, inner)
        error = -points.gamma * slope
    clipped = np.clip(error, 0.0, 1.0)
    # More than rounding outside [0, 1] would mean a wrong root.
    require(np.abs(error - clipped) <= TOLERANCE, points)
    return clipped
