"""Lines: curves at more values, so that a prediction can be drawn between points."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np

from interpolation_error.model.curve import WHOLE, Curve

BETWEEN = 3
"""How many predictions a line has between two simulated points."""


def line(curve: Curve, x_scale: str, row_scale: str | None = None) -> Curve:
    """Return a curve at more values.

    Parameters
    ----------
    curve : Curve
        Its own values are among those of the line.
    x_scale : {"linear", "log"}
        How the :data:`BETWEEN` further values between neighbours are spaced.
    row_scale : {"linear", "log"}, optional
        The same for the rows, which otherwise stay as they are.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from interpolation_error.model.setting import Setting
    >>> base = Setting("regression", tokens=64, dimension=16, snr=0.5, gamma=0.1)
    >>> line(Curve(base, "snr", (1.0, 5.0)), "linear").values
    (1.0, 2.0, 3.0, 4.0, 5.0)
    """
    rows = curve.rows
    if row_scale is not None and curve.row_parameter is not None:
        rows = _finer(rows, curve.row_parameter, row_scale)
    values = _finer(curve.values, curve.parameter, x_scale)
    return dataclasses.replace(curve, values=values, rows=rows)


def _finer(values: tuple[float, ...], parameter: str, scale: str) -> tuple[float, ...]:
    """Return sorted values with more between neighbours; heads come one by one."""
    points = sorted(values)
    if parameter == "heads":
        return tuple(points)
    spaced = np.geomspace if scale == "log" else np.linspace
    finer = points[:1]
    for left, right in itertools.pairwise(points):
        # Zero, such as the atom of a spectrum or no signal, is infinitely far from its
        # neighbour on this scale, so there is nothing between them.
        if scale == "log" and left == 0:
            finer.append(right)
            continue
        between = [float(x) for x in spaced(left, right, BETWEEN + 2)[1:-1]]
        if parameter in WHOLE:
            between = [round(x) for x in between if left < round(x) < right]
        finer += [*dict.fromkeys(between), right]
    return tuple(finer)
