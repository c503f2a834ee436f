"""Attention weights of the heads of a transformer, wherever they are from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AttentionWeights:
    r"""Query and key weights of every head of a transformer.

    Parameters
    ----------
    query, key : ndarray of float64, shape (layers, heads, head dimension, p)
        :math:`W_Q` and :math:`W_K` of each head.

    Examples
    --------
    >>> weights = AttentionWeights(np.ones((2, 3, 4, 12)), np.ones((2, 3, 4, 12)))
    >>> weights.matrix(layer=0, head=1).shape
    (12, 12)
    >>> weights.together().query.shape
    (2, 1, 12, 12)
    """

    query: Array
    key: Array

    def together(self) -> AttentionWeights:
        """Return the same with the heads of each layer taken as one."""
        layers, heads, d, p = self.query.shape
        shape = (layers, 1, heads * d, p)
        return AttentionWeights(self.query.reshape(shape), self.key.reshape(shape))

    def matrix(self, layer: int, head: int) -> Array:
        r"""Return :math:`W = W_K^T W_Q` of one head, counted from 0.

        Raises
        ------
        ValueError
            If there is no such layer or head.
        """
        layers, heads = self.query.shape[:2]
        if not (0 <= layer < layers and 0 <= head < heads):
            raise ValueError(
                f"layer must be from 0 to {layers - 1} and head from 0 to {heads - 1}, "
                f"got {layer} and {head}"
            )
        return np.asarray(self.key[layer, head].T @ self.query[layer, head])
