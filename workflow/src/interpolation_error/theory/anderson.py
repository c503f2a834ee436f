r"""Anderson's acceleration of fixed-point iterations, for many problems at once.

D. G. Anderson, "Iterative procedures for nonlinear integral equations", J. ACM 12
(1965); as in H. F. Walker and P. Ni, SIAM J. Numer. Anal. 49 (2011).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from interpolation_error.model.checks import Array

# At most so many differences of earlier steps are combined.
DEPTH = 10


def accelerated(
    image: Callable[[Array, NDArray[np.intp]], Array],
    start: Array,
    tolerance: float,
    steps: int,
) -> tuple[Array, Array]:
    r"""Return fixed points :math:`x = g(x)` and the residuals that are left.

    With residuals :math:`f_k = g(x_k) - x_k`, the next iterate is :math:`g(x_k)` less
    the combination of differences of earlier images whose differences of residuals come
    nearest to :math:`f_k`. On a linear problem these are about the steps of GMRES.

    Parameters
    ----------
    image : callable
        :math:`g`: takes iterates of some of the problems and the places of these among
        all, and returns their images.
    start : ndarray of float64, shape (problems, unknowns)
        In units in which all unknowns are moderate.
    tolerance : float
        A problem is done once no entry of its residual is larger.
    steps : int
        At most so many images are taken of each.

    Returns
    -------
    x : ndarray of float64, shape (problems, unknowns)
        The images of the iterates with the smallest residual.
    residual : ndarray of float64, shape (problems,)
        The largest entry of that residual; infinite where there is none.

    Examples
    --------
    >>> x, residual = accelerated(lambda x, _: np.cos(x), np.array([[0.5]]), 1e-12, 20)
    >>> x.round(6), bool(residual[0] < 1e-12)
    (array([[0.739085]]), True)
    """
    best, smallest = start.copy(), np.full(len(start), np.inf)
    left = np.arange(len(start))
    images: list[Array] = []
    residuals: list[Array] = []
    for _ in range(steps):
        with np.errstate(all="ignore"):  # one that runs away is left behind
            x = start if not images else _next(images, residuals)
            images = [*images[-DEPTH:], image(x, left)]
            residuals = [*residuals[-DEPTH:], images[-1] - x]
            size = np.max(np.abs(residuals[-1]), axis=-1)
        better = size < smallest[left]  # never where it is not a number
        smallest[left[better]] = size[better]
        best[left[better]] = images[-1][better]
        going = (smallest[left] > tolerance) & np.isfinite(size)
        if not np.any(going):
            break
        left = left[going]
        images = [one[going] for one in images]
        residuals = [one[going] for one in residuals]
    return best, smallest


def _next(images: list[Array], residuals: list[Array]) -> Array:
    """Return where to go from the last of some iterates."""
    if len(images) == 1:
        return images[-1] - residuals[-1] / 2  # half a step
    # No more of them than there are unknowns.
    images, residuals = (
        some[-1 - images[-1].shape[-1] :] for some in (images, residuals)
    )
    changes = np.stack([b - a for a, b in pairwise(residuals)], axis=-1)
    scale = np.linalg.norm(changes, axis=1, keepdims=True)
    scale[scale == 0] = 1.0
    Q, triangle = np.linalg.qr(changes / scale)
    # A direction that earlier ones contain already would get a huge factor.
    diagonal = np.einsum("bkk->bk", triangle)
    diagonal[np.abs(diagonal) < 1e-14] = 1.0
    sides = Q.transpose(0, 2, 1) @ residuals[-1][..., None]
    factors = np.linalg.solve(triangle, sides) / scale.transpose(0, 2, 1)
    moved = np.stack([b - a for a, b in pairwise(images)], axis=-1)
    return np.asarray(images[-1] - (moved @ factors)[..., 0])
