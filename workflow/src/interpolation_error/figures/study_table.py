"""Tables of the study of a pretrained transformer, and what its claims are about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from interpolation_error.figures.tables import mean_interval, standard_error
from interpolation_error.model.study import (
    DIRECTIONS,
    THEORIES,
    WEIGHTS,
    WORDS,
    tokens_at,
)

Array = NDArray[np.float64]
Reader = Callable[[str], Mapping[str, Array]]
COLUMNS = (
    "model",
    "part",
    "weights",
    "signal",
    "layer",
    "head",
    "tokens",
    "dimension",
    "snr",
    "gamma",
    "swept",
    "simulated_mean",
    "simulated_low",
    "simulated_high",
    "replicates",
    "predicted",
    "residual_in_standard_errors",
    "predicted_with_fit",
    "theorem_1_with_fit",
    "predicted_at_finite_size",
)


class AllHeads(NamedTuple):
    """Every head at one setting.

    Parameters
    ----------
    draws : ndarray, shape (replicates, heads of all layers, directions)
        Simulated errors.
    predicted : dict of str to ndarray, shape (heads of all layers, directions)
        By :data:`THEORIES`.
    heads : int
        Number of heads of a layer.
    tokens, dimension : int
        n and p.
    files : tuple of str
        The arrays that the draws come from.
    """

    draws: Array
    predicted: Mapping[str, Array]
    heads: int
    tokens: int
    dimension: int
    files: tuple[str, ...]


def all_heads(spec: Mapping[str, Any], read: Reader) -> AllHeads:
    """Return every head at one setting, simulated and predicted.

    Parameters
    ----------
    spec : mapping
        Specification of the study's table, as the plan writes it.
    read : callable
        Gives the arrays of a cached file by its path.

    Returns
    -------
    AllHeads
    """
    parts = [one for one in spec["parts"] if one["part"] == "heads"]
    simulated = [read(one["simulation"])["error"] for one in parts]
    theories = [read(one["theory"]) for one in parts]
    dimension = spec["dimension"]
    return AllHeads(
        draws=np.concatenate(simulated, axis=1),
        predicted={
            name: np.concatenate([theory[name] for theory in theories])
            for name in THEORIES
        },
        heads=simulated[0].shape[1],
        tokens=tokens_at(dimension, spec["heads"]["aspect_ratio"]),
        dimension=dimension,
        files=tuple(one["simulation"] for one in parts),
    )


def tabulate(spec: Mapping[str, Any], read: Reader) -> pd.DataFrame:
    """Return every error of the study, simulated beside predicted.

    Parameters
    ----------
    spec, read
        As :func:`all_heads` takes them.

    Returns
    -------
    DataFrame
        With the columns :data:`COLUMNS`; layers and heads are counted from 0.
    """
    tables = [_heads(spec, read)]
    for one in spec["parts"]:
        if one["part"] == "sweeps":
            tables += _sweeps(spec, one, read)
        if one["part"] == "words":
            tables += _words(spec, one, read)
    whole = pd.concat(tables, ignore_index=True)
    return whole.reindex(columns=list(COLUMNS))


ENDINGS = ("", "_fits", "_spectra")
"""What the names of the tables end in, after the study's own."""


def tables(spec: Mapping[str, Any], read: Reader) -> dict[str, pd.DataFrame]:
    """Return all tables of the study, by what their names end in.

    Parameters
    ----------
    spec, read
        As :func:`all_heads` takes them.

    Returns
    -------
    dict of str to DataFrame
        By :data:`ENDINGS`: errors, fits and spectra.
    """
    found = [tabulate(spec, read), *describe(spec, read)]
    return dict(zip(ENDINGS, found, strict=True))


def describe(
    spec: Mapping[str, Any], read: Reader
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return what the weights of every head are like.

    Parameters
    ----------
    spec, read
        As :func:`all_heads` takes them.

    Returns
    -------
    fits : DataFrame
        A row for each head, and for the heads of a layer together, ``head`` being
        ``all``: norm, shares of trace and symmetric part, and for each rank the factor
        of the identity and the share that the fit leaves, with and without identity.
    spectra : DataFrame
        Singular values and absolute values of the eigenvalues of each head, both over
        the norm.
    """
    found = read(spec["description"])
    rows, spectra = [], []
    for group in ("heads", "layers"):
        ranks = found[f"{group}/ranks"].astype(int)
        layers, heads = found[f"{group}/norm"].shape
        for layer in range(layers):
            for head in range(heads):
                at = layer, head
                row = {"layer": layer, "head": head if group == "heads" else "all"}
                for name in ("norm", "trace_share", "symmetric_share"):
                    row[name] = found[f"{group}/{name}"][at]
                for place, rank in enumerate(ranks):
                    row[f"tau_rank_{rank}"] = found[f"{group}/tau"][at][place]
                    row[f"left_rank_{rank}"] = found[f"{group}/left"][at][place]
                    low = found[f"{group}/left_by_low_rank"][at][place]
                    row[f"left_by_rank_{rank}_alone"] = low
                rows.append(row)
                if group == "heads":
                    norm = found["heads/norm"][at]
                    singular = found["heads/singular_values"][at] / norm
                    spectra.append(
                        pd.DataFrame(
                            {
                                "layer": layer,
                                "head": head,
                                "number": np.arange(1, len(singular) + 1),
                                "singular_value": singular,
                                "eigenvalue": found["eigenvalues"][at] / norm,
                            }
                        )
                    )
    layer, head = found["representative"].astype(int)
    fits = pd.DataFrame(rows)
    chosen = (fits["layer"] == layer) & (fits["head"] == head)
    fits.insert(2, "representative", chosen.astype(int))
    return fits, pd.concat(spectra, ignore_index=True)


def _simulated(draws: Array) -> dict[str, Array | int]:
    """Return mean, interval and number of draws, of shape (replicates, points)."""
    mean, low, high = mean_interval(draws)
    return {
        "simulated_mean": mean,
        "simulated_low": low,
        "simulated_high": high,
        "replicates": len(draws),
    }


def _with_residual(rows: pd.DataFrame, draws: Array) -> pd.DataFrame:
    distance = rows["simulated_mean"] - rows["predicted"]
    return rows.assign(residual_in_standard_errors=distance / standard_error(draws))


def _heads(spec: Mapping[str, Any], read: Reader) -> pd.DataFrame:
    found = all_heads(spec, read)
    points = found.draws.shape[1]
    layer, head = np.divmod(np.arange(points), found.heads)
    tables = []
    for number, direction in enumerate(DIRECTIONS):
        draws = found.draws[:, :, number]
        rows = pd.DataFrame(
            {
                **_shared(spec, found.tokens),
                "part": "heads",
                "weights": "real",
                "signal": direction,
                "layer": layer,
                "head": head,
                "snr": spec["heads"]["snr"],
                "gamma": spec["heads"]["gamma"],
                **_simulated(draws),
                "predicted": found.predicted["any_weights"][:, number],
                "predicted_with_fit": found.predicted["fit"][:, number],
                "theorem_1_with_fit": found.predicted["theorem_1"][:, number],
            }
        )
        tables.append(_with_residual(rows, draws))
    return pd.concat(tables, ignore_index=True)


def _shared(spec: Mapping[str, Any], tokens: int) -> dict[str, Any]:
    size = {"tokens": tokens, "dimension": spec["dimension"]}
    return {"model": spec["model"], **size}


def _sweeps(
    spec: Mapping[str, Any], one: Mapping[str, Any], read: Reader
) -> Iterator[pd.DataFrame]:
    """Yield the curves of one head at one aspect ratio, predicted along lines."""
    simulated, theory = read(one["simulation"]), read(one["theory"])
    layer, head = read(spec["description"])["representative"].astype(int)
    fixed = {key: spec["heads"][key] for key in ("snr", "gamma")}
    for swept in ("gamma", "snr"):
        line, points = theory[swept], np.array(spec["sweeps"][swept])
        for kind, weights in enumerate(WEIGHTS):
            for number, direction in enumerate(DIRECTIONS):
                draws = simulated[f"against_{swept}"][:, kind, number]
                finite_size = np.full(len(points), np.nan)
                if weights == "low_rank" and direction == "singular":
                    finite_size = theory[f"finite_size_against_{swept}"]
                rows = pd.DataFrame(
                    {
                        swept: points,
                        **_simulated(draws),
                        "standard_error": standard_error(draws),
                        "predicted_at_finite_size": finite_size,
                    }
                )
                predicted = theory[f"against_{swept}"][kind, number]
                along = pd.DataFrame({swept: line, "predicted": predicted})
                joined = along.merge(rows, "left", swept)
                distance = joined["simulated_mean"] - joined["predicted"]
                yield joined.assign(
                    **_shared(spec, tokens_at(spec["dimension"], one["aspect_ratio"])),
                    part="sweep",
                    weights=weights,
                    signal=direction,
                    layer=layer,
                    head=head,
                    swept=swept,
                    replicates=len(draws),
                    residual_in_standard_errors=distance / joined["standard_error"],
                    **{key: value for key, value in fixed.items() if key != swept},
                )


def _words(
    spec: Mapping[str, Any], one: Mapping[str, Any], read: Reader
) -> Iterator[pd.DataFrame]:
    """Yield the errors that real words leave, and shuffled ones."""
    error, theory = read(one["simulation"])["error"], read(one["theory"])
    dimension = one["dimension"]
    for kind, name in enumerate(WORDS):
        for place, ratio in enumerate(spec["words"]["aspect_ratios"]):
            draws = error[:, kind, place]
            number = np.arange(draws.shape[1] - 1)
            layer, head = np.divmod(number, one["heads"])
            rows = pd.DataFrame(
                {
                    "model": one["model"],
                    "part": "words",
                    "weights": ["regression", *["real"] * len(number)],
                    "signal": f"{name} words",
                    "layer": [np.nan, *layer],
                    "head": [np.nan, *head],
                    "tokens": tokens_at(dimension, ratio),
                    "dimension": dimension,
                    "snr": float(theory["snr"]),
                    "gamma": spec["words"]["gamma"],
                    **_simulated(draws),
                    "predicted": theory["predicted"][place],
                }
            )
            yield _with_residual(rows, draws)
