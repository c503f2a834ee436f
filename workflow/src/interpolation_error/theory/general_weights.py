r"""Predicted interpolation error of attention for any attention weights.

Theorem 1 has :math:`W = I + w_K w_Q^T`. Here W is any p by p matrix, such as that of a
head of a pretrained transformer, and the averages over it are taken as they are: the
fixed point is still a symmetric 3 by 3 matrix R, but P in it is made of nine p by p
blocks (docs/theory.md, the section on general weights).

Where W is a multiple of the identity plus a matrix of low rank, as a head is, all of
it acts within the span of that matrix, and p by p shrinks to twice the rank.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg

from interpolation_error.model.checks import Array, Arrays, as_finite, as_positive
from interpolation_error.model.hermite import diagonal_limit, hermite_coefficients
from interpolation_error.model.nonlinearity import Nonlinearity, get, rescaled
from interpolation_error.theory import fixed_point
from interpolation_error.theory.correlated_scores import product_mean
from interpolation_error.theory.fixed_point import ConvergenceError

DIAGONALS = ("zero", "keep")

# The six entries of a symmetric 3 by 3 matrix, and the matrices that go with them.
_ROW = np.array([0, 0, 0, 1, 1, 2])
_COLUMN = np.array([0, 1, 2, 1, 2, 2])
_BASIS = np.zeros((6, 3, 3))
_BASIS[range(6), _ROW, _COLUMN] = _BASIS[range(6), _COLUMN, _ROW] = 1.0

# R is accepted when a further Newton step moves no entry by more than the first,
# relative to its row and column, and is moved on until that is the second, or rounding.
_TOLERANCE = 1e-9
_SETTLED = 1e-12


def _at_one(of_many: Callable[..., Arrays]) -> Callable[..., Array]:
    """Return a function of a batch of points as one of a single point."""
    return lambda *given: of_many(*(np.asarray(x)[None] for x in given))[0]


_tau = _at_one(fixed_point.tau_of)
_scaled = _at_one(fixed_point.scaled_by)
_sizes = _at_one(fixed_point.sizes)
_moved = _at_one(fixed_point.moved)
_extrapolated = _at_one(fixed_point.extrapolated)


def attention_error_general_weights(
    gamma: ArrayLike,
    aspect_ratio: ArrayLike,
    nonlinearity: str | Nonlinearity,
    weights: ArrayLike,
    mu: ArrayLike,
    diagonal: str = "zero",
) -> float | Array:
    r"""Return the predicted interpolation error of attention for any weights W.

    With :math:`s = \|W\|_F / \sqrt p`, f(s t) in place of f(t) and W / s in place of W,
    :math:`\alpha = a_1 / c`, :math:`\sigma^2 = (\nu - a_1^2)/c`,
    :math:`\chi = \frac1c \sum_{k \ge 2} a_k^2 r^k` at :math:`r = \mathrm{tr}\, W^2/p`,
    :math:`h = d - a_1 \mathrm{tr}\, W / p` and

    .. math:: A = \begin{pmatrix} \gamma & h & 0 \\ h & 0 & -1 \\ 0 & -1 & 0
        \end{pmatrix}, \qquad
        N = \begin{pmatrix} 0 & -\alpha W^T & 0 \\ -\alpha W & 0 & 0 \\ 0 & 0 & -I_p
        \end{pmatrix},

    the symmetric 3 by 3 matrix R and the 3p by 3p matrix P solve

    .. math:: R = (A - \Sigma)^{-1}, \quad P = N (I - (R \otimes I_p) N)^{-1}, \quad
        \Sigma_{ab} = \frac1n \mathrm{tr} P_{ab} + \begin{pmatrix}
        \sigma^2 R_{22} & \chi R_{12} & 0 \\ \chi R_{12} & \sigma^2 R_{11} & 0 \\
        0 & 0 & 0 \end{pmatrix}_{ab},

    and with :math:`T_{ab} = \mu^T P_{ab} \mu`

    .. math:: E = -\gamma^2 \frac{d}{d\gamma} \left[(R^{-1} - T)^{-1}\right]_{11}

    (docs/theory.md, the section on general weights). The derivative is that of the
    fixed point. W may be singular, and :math:`a_1 = 0` is no special case.

    Parameters
    ----------
    gamma : array_like
        Regularization :math:`\gamma`, positive; the ridge penalty is
        :math:`n\gamma`.
    aspect_ratio : array_like
        :math:`c = p/n`, positive.
    nonlinearity : str or Nonlinearity
        f, by its registered name or as an object. Its mean under the law of the scores,
        N(0, s^2), is subtracted.
    weights : array_like, shape (p, p)
        W, of any scale but not zero.
    mu : array_like, shape (..., p)
        Signals :math:`\mu`; leading axes broadcast against ``gamma``. Many signals cost
        little more than one.
    diagonal : {"zero", "keep"}, default "zero"
        Whether the diagonal of the attention matrix is set to zero (d = 0) or kept
        (:math:`d = (f(\mathrm{tr}\, W/\sqrt p) - a_0)/\sqrt p`).

    Returns
    -------
    float or ndarray of float64
        E between 0 and 1, of the shape to which ``gamma``, ``aspect_ratio`` and the
        leading axes of ``mu`` broadcast.

    Raises
    ------
    ValueError
        If an argument is out of its range or not finite, shapes do not match, or the
        nonlinearity is unknown, has no finite variance on scores of this size, is too
        rough to integrate, or grows too fast for a diagonal that is kept.
    ConvergenceError
        If the fixed point is not found; the message names the first such gamma.

    Notes
    -----
    One step costs QR decompositions of two 2p by p matrices and five products of p by p
    matrices; a value of gamma takes about 10 steps, or 5 after another one. At p = 768
    that is 4 s on one core, and 0.2 s for a W of rank 64. Memory is about 20 p by p
    matrices.

    Examples
    --------
    W = I is Theorem 1 without a low-rank part:

    >>> from interpolation_error.theory.limit import InnerProducts, attention_error
    >>> mu = np.array([1.0, 0.0, 0.0, 0.0])
    >>> error = attention_error_general_weights(0.1, 0.25, "relu", np.eye(4), mu)
    >>> _, a1, _, nu = hermite_coefficients("relu")
    >>> theorem = attention_error(0.1, 0.25, a1, nu, inner_products=InnerProducts(1.0))
    >>> abs(error / theorem - 1) < 1e-9
    True
    """
    W, signals = _matrix(weights), as_finite("mu", mu)
    p = len(W)
    if signals.shape[-1:] != (p,):
        raise ValueError(
            f"mu must have shape (..., {p}) for weights of shape {W.shape}, got "
            f"{signals.shape}"
        )
    if diagonal not in DIAGONALS:
        raise ValueError(
            f"diagonal must be one of {', '.join(DIAGONALS)}, got {diagonal!r}"
        )
    penalties = as_positive("gamma", gamma)
    ratios = as_positive("aspect_ratio", aspect_ratio)
    try:
        shape = np.broadcast_shapes(penalties.shape, ratios.shape, signals.shape[:-1])
    except ValueError:
        raise ValueError(
            "gamma, aspect_ratio and the leading axes of mu must broadcast, got shapes "
            f"{penalties.shape}, {ratios.shape} and {signals.shape[:-1]}"
        ) from None
    layer = _layer(get(nonlinearity), W, diagonal)
    vectors = signals.reshape(-1, p)
    parts = _parts(W / layer.scale, vectors)
    numbers = np.arange(len(vectors)).reshape(signals.shape[:-1])
    which = np.broadcast_to(numbers, shape).ravel()
    at_c = np.broadcast_to(ratios, shape).ravel()
    at_gamma = np.broadcast_to(penalties, shape).ravel()
    error = np.empty(len(which))
    for c in np.unique(at_c):
        path = _Path(layer, float(c), parts)
        for value in np.unique(at_gamma[at_c == c])[::-1]:
            chosen = (at_c == c) & (at_gamma == value)
            error[chosen] = path.errors(float(value))[which[chosen]]
    return float(error[0]) if not shape else error.reshape(shape)


class _Layer(NamedTuple):
    """What the nonlinearity and the weights bring, whatever gamma and p/n."""

    scale: float  # s = ||W||_F / sqrt(p)
    a1: float
    rest: float  # nu - a_1^2
    reciprocal: float  # sum over k >= 2 of a_k^2 r^k
    h: float  # d - a_1 tr W / p, W of unit scale


def _layer(f: Nonlinearity, W: Array, diagonal: str) -> _Layer:
    p = len(W)
    scale = float(np.linalg.norm(W)) / sqrt(p)
    unit = W / scale
    trace = float(np.trace(unit)) / p
    # Correlation of score ij with score ji: at most 1, but for rounding.
    r = float(np.clip(np.sum(unit * unit.T) / p, -1.0, 1.0))
    scaled = rescaled(f, scale)
    a0, a1, _, nu = hermite_coefficients(scaled)
    # A difference within rounding is none: next to a gamma of 1e-8 it would count.
    rest = nu - a1 * a1 if nu - a1 * a1 > 16 * np.finfo(float).eps * nu else 0.0
    reciprocal = product_mean(scaled, r) - a1 * a1 * r
    limit = 0.0
    if diagonal == "keep":
        diagonal_limit(f, p)  # refuses what grows without limit
        limit = (float(scaled(trace * sqrt(p))) - a0) / sqrt(p)
    h = limit - a1 * trace
    return _Layer(scale, a1, rest, float(np.clip(reciprocal, -rest, rest)), h)


def _matrix(weights: ArrayLike) -> Array:
    W = as_finite("weights", weights)
    if W.ndim != 2 or W.shape[0] != W.shape[1]:
        raise ValueError(f"weights must be a square matrix, got shape {W.shape}")
    if not np.linalg.norm(W) > 0:
        raise ValueError("weights must not be zero, and not of a norm that rounds to 0")
    return W


class _Part(NamedTuple):
    """One of the orthogonal subspaces on which W acts by itself."""

    W: Array  # (m, m)
    times: float  # how many copies of it W holds
    mu: Array  # (m, signals), components of the signals there


def _parts(W: Array, signals: Array) -> list[_Part]:
    r"""Split W = \tau I + low rank into its core and \tau on all that is left.

    Where W is not of that form, it is a part by itself.
    """
    p = len(W)
    whole = [_Part(W, 1.0, signals.T)]
    for tau in (0.0, _repeated_eigenvalue(W)):
        U, singular, V = np.linalg.svd(W - tau * np.eye(p))
        rank = int(np.sum(singular > p * np.finfo(float).eps * singular[0]))
        if 4 * rank <= p:
            break
    else:
        return whole
    rest = _Part(np.array([[tau]]), float(p), np.linalg.norm(signals.T, axis=0)[None])
    if rank == 0:
        return [rest]
    basis = linalg.orth(np.concatenate([U[:, :rank], V[:rank].T], axis=1))
    inside = basis.T @ signals.T
    outside = np.linalg.norm(signals.T - basis @ inside, axis=0)[None]
    return [
        _Part(basis.T @ W @ basis, 1.0, inside),
        rest._replace(times=float(p - basis.shape[1]), mu=outside),
    ]


def _repeated_eigenvalue(W: Array) -> float:
    r"""Return \tau of W = \tau I + low rank; any number where W is not of that form.

    A block off the diagonal knows nothing of \tau, so that a vector it sends to zero
    is, continued by zeros, an eigenvector to the eigenvalue \tau.
    """
    half = len(W) // 2
    if half == 0:
        return float(W[0, 0])
    x = np.linalg.svd(W[half:, :half])[2][-1]
    return float(x @ W[:half, :half] @ x)


class _Solution(NamedTuple):
    """R at one gamma, with the variable k exchanged for k - shift q.

    For c < 1 and small gamma the tokens that X sends to 0 lock k to h q, and for c > 1
    to 0: R is a part of rank one and little else, which the exchange with shift =
    R_qk / R_qq takes away. So R_qk is 0 in here, and no digits are lost to it.
    """

    R: Array
    shift: float
    slope: Array  # of R in log gamma at this shift, in units of _sizes(R)


def _centred(R: Array, shift: float) -> tuple[Array, float]:
    """Return R and the shift after the exchange of k that leaves R_qk = 0."""
    more = R[0, 2] / R[0, 0]
    exchange = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-more, 0.0, 1.0]])
    R = exchange @ R @ exchange.T
    R[0, 2] = R[2, 0] = 0.0
    return R, shift + more


class _Path:
    """The fixed point R at one p/n, followed from one gamma to the next below it."""

    def __init__(self, layer: _Layer, c: float, parts: list[_Part]) -> None:
        self.layer, self.c, self.parts = layer, c, parts
        self.dimension = sum(part.times * len(part.W) for part in parts)
        self.alpha = layer.a1 / c
        self.last: tuple[float, _Solution] | None = None

    def errors(self, gamma: float) -> Array:
        """Return the error for every signal at one gamma."""
        with np.errstate(all="ignore"):  # what runs away is caught below
            found = self._from_last(gamma) or self._afresh(gamma)
            found = found or self._from_above(gamma)
            if found is None:
                raise self._lost(gamma)
            self.last = (gamma, found)
            error = -gamma * self._slopes_of_label_form(found)
        clipped = np.clip(error, 0.0, 1.0)
        # More than rounding outside [0, 1] would mean a wrong root.
        if not np.all(np.abs(error - clipped) <= _TOLERANCE):
            raise self._lost(gamma)
        return clipped

    def _lost(self, gamma: float) -> ConvergenceError:
        return ConvergenceError(
            f"no fixed point found at gamma = {gamma:.6g}, aspect_ratio = "
            f"{self.c:.6g} for these weights"
        )

    def _from_last(self, gamma: float) -> _Solution | None:
        """Go from the last gamma to this one in a stride, if that leads there."""
        if self.last is None:
            return None
        before, last = self.last
        R = _extrapolated(last.R, last.slope, np.log(gamma / before))
        return self._newton(R, last.shift, gamma, 10)

    def _afresh(self, gamma: float) -> _Solution | None:
        """Take a few damped steps from where Sigma is next to 0, and then Newton's."""
        return self._newton(*self._damped(gamma, 8), gamma, 25)

    def _from_above(self, gamma: float) -> _Solution | None:
        """Follow R from a gamma above the eigenvalues of A^T A / n."""
        edge = (1 + sqrt(self.c)) ** 2
        norm = max(float(np.linalg.norm(part.W, 2)) for part in self.parts)
        size = abs(self.alpha) * edge * norm + abs(self.layer.h)
        here = max(gamma, edge * (size**2 + self.layer.rest / self.c))
        found = self._newton(*self._damped(here, 30), here, 10)
        stride = 1.0
        while found is not None and here > gamma:
            there = max(gamma, here * np.exp(-stride))
            start = _extrapolated(found.R, found.slope, np.log(there / here))
            further = self._newton(start, found.shift, there, 5, first=0.3)
            if further is None:
                stride /= 2
                if stride < 1e-3:
                    return None
            else:
                found, here, stride = further, there, 2 * stride
        return found

    def _damped(self, gamma: float, steps: int) -> tuple[Array, float]:
        # A^-1, but for an entry at ll, which only has to be negative.
        R = np.array(
            [[1 / gamma, 0.0, 0.0], [0.0, -1e-6 * gamma, -1.0], [0.0, -1.0, 0.0]]
        )
        shift = self.layer.h
        for _ in range(steps):
            tau = float(_tau(R))
            image = self._image(_scaled(R, tau), shift, gamma, tau)[0]
            R, shift = _centred((R + _scaled(image, 1 / tau)) / 2, shift)
        return R, shift

    def _newton(
        self, R: Array, shift: float, gamma: float, steps: int, first: float = np.inf
    ) -> _Solution | None:
        """Return where Newton's steps settle, or None if they go astray.

        Steps are in units of :func:`fixed_point.sizes`, 2 at most, the first at most
        ``first``.
        """
        size = np.inf
        for number in range(steps):
            R, shift = _centred(R, shift)
            step, slope = self._step(R, shift, gamma)
            before, size = size, np.max(np.abs(step))
            if not size <= (first if number == 0 else np.inf):
                return None
            if size <= _SETTLED or before / 4 < size <= _TOLERANCE:
                # R_11 falls with gamma; at a wrong root it may not.
                right = R[0, 0] > 0 and R[1, 1] < 0 and slope[0] < 0
                return _Solution(R, shift, slope) if right else None
            R = _moved(R, step * min(1.0, 2 / size))
        return None

    def _step(self, R: Array, shift: float, gamma: float) -> tuple[Array, Array]:
        """Return Newton's step and the slope in log gamma, in units of _sizes(R).

        The derivative of R = (A - Sigma)^-1 is dR = R (dSigma - dA) R, and that of P is
        P (dR x I) P.
        """
        tau = float(_tau(R))
        R = _scaled(R, tau)
        image, P = self._image(R, shift, gamma, tau)
        products = np.zeros((3, 3, 3, 3))
        for part, blocks in zip(self.parts, P, strict=True):
            products += part.times * _traces_of_products(blocks)
        products *= self.c / self.dimension
        changes = np.einsum("acdb,kcd->kab", products, _BASIS)
        changes += np.array([self._noise(change) for change in _BASIS])
        columns = (image @ changes @ image)[:, _ROW, _COLUMN].T
        units = _sizes(R)
        # dA = gamma E_11 for d log gamma, with gamma / tau in these units of A.
        forcing = -gamma / tau * np.outer(image[:, 0], image[0])[_ROW, _COLUMN]
        sides = np.stack([(image - R)[_ROW, _COLUMN], forcing], axis=1)
        try:
            solution = np.linalg.solve(
                (np.eye(6) - columns) * units / units[:, None], sides / units[:, None]
            )
        except np.linalg.LinAlgError:
            solution = np.full((6, 2), np.nan)
        return solution[:, 0], solution[:, 1]

    def _noise(self, R: Array) -> Array:
        own, mutual = self.layer.rest / self.c, self.layer.reciprocal / self.c
        noise = np.zeros((3, 3))
        noise[0, 0], noise[1, 1] = own * R[1, 1], own * R[0, 0]
        noise[0, 1] = noise[1, 0] = mutual * R[0, 1]
        return noise

    def _image(
        self, R: Array, shift: float, gamma: float, tau: float
    ) -> tuple[Array, list[Array]]:
        """Return (A - Sigma(R))^-1, equal to R at the fixed point, and P by parts."""
        Sigma, P = self._noise(R), []
        for part in self.parts:
            P.append(_blocks(part.W, R, self.alpha, shift, tau))
            traces = np.trace(P[-1], axis1=2, axis2=3)
            Sigma += self.c * part.times / self.dimension * traces
        free = self.layer.h - shift
        A = np.array([[gamma / tau, free, 0.0], [free, 0.0, -1.0], [0.0, -1.0, 0.0]])
        try:
            return np.asarray(np.linalg.inv(A - (Sigma + Sigma.T) / 2)), P
        except np.linalg.LinAlgError:
            return np.full((3, 3), np.nan), P

    def _slopes_of_label_form(self, found: _Solution) -> Array:
        """Return the derivative in log gamma of y^T Q y / n for every signal."""
        tau = float(_tau(found.R))
        R = _scaled(found.R, tau)
        dR = np.zeros((3, 3))
        dR[_ROW, _COLUMN] = dR[_COLUMN, _ROW] = found.slope * _sizes(R)
        signals = self.parts[0].mu.shape[1]
        T, dT = np.zeros((2, signals, 3, 3))
        for part in self.parts:
            P = _blocks(part.W, R, self.alpha, found.shift, tau)
            # P_ab mu; P is symmetric, so that mu^T P_ac is the transpose of P_ca mu.
            Pmu = P @ part.mu
            T += np.einsum("is,abis->sab", part.mu, Pmu)
            dT += np.einsum("cais,cd,dbis->sab", Pmu, dR, Pmu, optimize=True)
        # Y = (R^-1 - T)^-1 without inverting R.
        F = np.linalg.inv(np.eye(3) - R @ T)
        Y = F @ R
        dY = F @ dR @ F.swapaxes(1, 2) + Y @ dT @ Y
        return np.asarray(dY[:, 0, 0] / tau)


def _blocks(W: Array, R: Array, alpha: float, shift: float, tau: float) -> Array:
    r"""Return the nine m by m blocks of P, with rows and columns q, l, k.

    R_qk is 0. With V = alpha W and S = (R_qq^{-1/2}, -(-R_ll)^{-1/2}, e^{-1/2}), where
    e = 1 + R_kk, or tau + R_kk in the scaling by tau, let C be the stack of

    C_q = (I + R_ql V) / sqrt(R_qq),  C_l = sqrt(-R_ll) V,
    C_k = (R_lk V - shift I) / sqrt(e).

    Then P = -S (I - C (C^T C)^{-1} C^T) S, but for P_ll = V (C^T C)^{-1} V^T.

    As gamma goes to 0, entries of S grow without limit while little is left of the
    projector, so that to subtract from I loses all digits, and to square C half of
    them. But C lies in the span of I and V: C = U F with orthonormal columns, which x
    completes, and as F_1 and F_2 commute the projector is a sum of squares,

    x x^T + U Z^T Z U^T,  Z = L^{-1} (F_2, -F_1),  L L^T = F_1 F_1^T + F_2 F_2^T,

    with L^T from a QR decomposition. F_1 is along C_k, so that P_kk takes one square.
    """
    m, V = len(W), alpha * W
    qq, ql, _, ll, lk, kk = R[_ROW, _COLUMN]
    root_q, root_l, root_k = np.sqrt([qq, -ll, tau + kk])
    S = np.array([1 / root_q, -1 / root_l, 1 / root_k])

    # In coordinates of I and V; x is the cross product of the columns of C.
    C_q = np.array([1.0, ql]) / root_q
    C_l = np.array([0.0, root_l])
    C_k = np.array([-shift, lk]) / root_k
    across = -(lk + shift * ql) / (root_q * root_k)
    x = np.array([shift * root_l / root_k, across, root_l / root_q])
    x /= np.linalg.norm(x)
    u = np.hypot(x[0], x[1])
    U = np.array([[-x[0] * x[2], -x[1]], [-x[1] * x[2], x[0]], [u * u, 0.0]]) / u
    span = np.array([C_k, x[0] * C_l - x[1] * C_q]) / u
    F_1, F_2 = span[:, :1, None] * np.eye(m) + span[:, 1:, None] * V

    left = np.linalg.qr(np.concatenate([F_1.T, F_2.T]), mode="r")
    right = np.linalg.qr(np.concatenate([F_1, F_2]), mode="r")
    try:
        Z = linalg.solve_triangular(
            left, np.concatenate([F_2, -F_1], axis=1), trans=1, check_finite=False
        )
        Y = linalg.solve_triangular(right, V.T, trans=1, check_finite=False)
    except linalg.LinAlgError:
        return np.full((3, 3, m, m), np.nan)
    inner = np.reshape(Z.T @ Z, (2, m, 2, m))
    D, g = S[:, None] * U, S * x
    P: Array = -np.einsum("ai,bj,iujv->abuv", D, D, inner, optimize=True)
    P[..., range(m), range(m)] -= np.outer(g, g)[..., None]
    P[1, 1] = Y.T @ Y
    return P


def _traces_of_products(P: Array) -> Array:
    """Return tr P_ac P_db with indices a, c, d, b; P_db is the transpose of P_bd."""
    flat = P.reshape(9, -1)
    # tr(P_ac P_db) = sum of P_ac * P_bd.
    products: Array = (flat @ flat.T).reshape(3, 3, 3, 3)
    return products.swapaxes(2, 3)
