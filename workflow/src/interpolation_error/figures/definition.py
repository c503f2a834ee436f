"""Make a figure out of its checked YAML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from interpolation_error.figures.checked_yaml import (
    ConfigurationError,
    located,
    read_checked,
    shown_path,
)
from interpolation_error.figures.figure import (
    QUANTITIES,
    Figure,
    LabelledCurve,
    Panel,
    Style,
    log_bins,
)
from interpolation_error.model import hermite, tokens_file
from interpolation_error.model import nonlinearity as nonlinearities
from interpolation_error.model.curve import FIELDS, WHOLE, Curve, at, log_width
from interpolation_error.model.setting import (
    Direction,
    Heads,
    HermiteMix,
    Labels,
    Noise,
    Setting,
    TokensFile,
    UserFunction,
    Weights,
)

LARGEST = 1_000_000
"""Tokens and dimensions above it are mistakes; ``figure.schema.yaml`` has it too."""


def read_figure(
    path: Path, root: Path, functions: Mapping[str, UserFunction]
) -> Figure:
    """Return the figure that a ``figure.yaml`` defines, at its full size.

    Parameters
    ----------
    path : Path
        The definition.
    root : Path
        Folder that holds ``config`` and ``figures``.
    functions : mapping of str to UserFunction
        The nonlinearities that the configuration adds to the registered ones.

    Returns
    -------
    Figure

    Raises
    ------
    ConfigurationError
        If anything in it is wrong; one line with file and key.
    """
    where = shown_path(path, root)
    definition = read_checked(path, root, "figure")
    shared = definition.get("curves") or {}
    panels = []
    for name, panel in definition["panels"].items():
        curves = panel.get("curves") or shared
        if not curves:
            raise ConfigurationError(
                f"{where}: panels.{name}: has no curves, and the figure shares none"
            )
        panels.append(_panel(f"{where}: panels.{name}", name, panel, curves, functions))
    return Figure(
        name=path.parent.name,
        title=definition["title"],
        paper=definition["paper"],
        equation=definition["equation"],
        panels=tuple(panels),
        columns=definition.get("columns", 3),
    )


def check_resized(where: str, figure: Figure) -> None:
    """Refuse a figure that a preset has left too small for what it shows.

    Parameters
    ----------
    where : str
        Names the figure and the preset, for the message.
    figure : Figure
        As :func:`interpolation_error.figures.figure.resize` returns it.

    Raises
    ------
    ConfigurationError
        At the first fault; one line with file and key.

    Examples
    --------
    >>> root = Path(__file__).parents[4]
    >>> path = root / "figures/finite_size/figure.yaml"
    >>> check_resized("figure.yaml", read_figure(path, root, {}))
    """
    for panel in figure.panels:
        _check_panel(f"{where}: panels.{panel.name}", panel)


# What only some curves have, by key of the definition and what it becomes.
_PARTS: Mapping[str, Callable[..., Any]] = {
    "heads": Heads,
    "noise": Noise,
    "labels": Labels,
}
_ATTENTION = ("nonlinearity", "weights", "diagonal")
_OPTIONAL = ("temperature", "centred", *_PARTS)


def _panel(
    where: str,
    name: str,
    panel: Mapping[str, Any],
    curves: Mapping[str, Any],
    functions: Mapping[str, UserFunction],
) -> Panel:
    measure = QUANTITIES[panel.get("quantity", "error")].measure
    swept = {panel["sweep"]["parameter"]: _values(f"{where}.sweep", panel["sweep"])}
    if "rows" in panel:
        if panel["rows"]["parameter"] in swept:
            raise ConfigurationError(f"{where}.rows.parameter: is swept already")
        rows = _values(f"{where}.rows", panel["rows"])
        swept = {panel["rows"]["parameter"]: rows, **swept}
    _check_kind(where, panel, swept)
    _check_source(where, panel, curves, swept, measure)
    setting = dict(panel["setting"])
    if "data" in setting:
        setting |= _measured(f"{where}.setting.data", setting["data"], setting)
    if measure in ("spectrum", "linearization"):
        setting["gamma"] = 1.0  # which these do not depend on
    for parameter, values in swept.items():
        if parameter in FIELDS:
            setting[parameter] = values[0]
    *row, (parameter, values) = swept.items()
    row_parameter, row_values = row[0] if row else (None, ())
    labelled = []
    for key, curve in curves.items():
        here = f"{where}.curves.{key}"
        own = located(here, _setting, setting, curve, functions)
        built = located(
            *(here, Curve, own, parameter, values, row_parameter, row_values, measure)
        )
        style = Style(**(curve.get("style") or {}))
        labelled.append(LabelledCurve(key, curve["label"], built, style))
    _check_effect(where, labelled)
    axes = panel.get("axes") or {}
    made = Panel(
        name=name,
        title=panel["title"],
        kind=panel.get("kind", "sweep"),
        quantity=panel.get("quantity", "error"),
        curves=tuple(labelled),
        replicates=panel["replicates"],
        largest=_largest(where, panel.get("dataset") or {}, labelled),
        x_scale=axes.get("x", "log"),
        y_scale=axes.get("y", "log"),
        fit=panel.get("fit", False),
        overlay=panel.get("overlay", False),
        x_as=panel.get("x_as"),
        finite_size=panel.get("finite_size", False),
        source=tuple(sorted(panel["source"].items())),
    )
    _check_panel(where, made)
    return made


def _check_kind(
    where: str, panel: Mapping[str, Any], swept: Mapping[str, tuple[float, ...]]
) -> None:
    """Refuse what cannot be drawn together."""
    kind, quantity = panel.get("kind", "sweep"), panel.get("quantity", "error")

    def refuse(key: str, why: str) -> None:
        raise ConfigurationError(f"{where}.{key}: {why}")

    if (kind == "histogram") != (quantity == "density"):
        refuse("kind", "a density is drawn as a histogram, and nothing else is")
    if (quantity == "density") != ("eigenvalue" in swept):
        refuse("sweep", "a density is swept over the eigenvalue, and nothing else is")
    if kind == "histogram" and "rows" in panel:
        refuse("rows", "a histogram has none")
    _check_counts(where, kind, panel.get("fit", False), swept)
    if kind == "map" and quantity != "ratio":
        refuse("quantity", f"a map shows the ratio; got {quantity!r}")
    if panel.get("overlay") and ("rows" not in panel or kind != "sweep"):
        refuse("overlay", "needs the rows of a sweep")
    if "data" in panel["setting"]:
        for parameter in swept:
            if parameter in ("tokens", "size", "aspect_ratio", "dimension", "snr"):
                refuse("sweep", f"{parameter} is given by the data")


def _check_counts(
    where: str, kind: str, fit: bool, swept: Mapping[str, tuple[float, ...]]
) -> None:
    """Refuse too few values for a map or a power law."""
    *rows, values = swept.values()
    if kind == "map" and (not rows or min(map(len, swept.values())) < 2):
        raise ConfigurationError(
            f"{where}.rows: a map needs two rows and two values or more"
        )
    if fit and len(values) < 2:
        raise ConfigurationError(f"{where}.fit: needs two values of the sweep or more")


def _check_panel(where: str, panel: Panel) -> None:
    """Refuse a panel that no job could simulate, predict or draw."""
    _check_counts(where, panel.kind, panel.fit, panel.swept)
    scales = [("x", panel.x_scale, panel.curves[0].curve.values)]
    if panel.kind == "map":
        scales.append(("y", panel.y_scale, panel.curves[0].curve.rows))
    for axis, scale, values in scales:
        if scale == "log" and min(values) < 0:
            raise ConfigurationError(
                f"{where}.axes.{axis}: must be linear, since the sweep goes down to "
                f"{min(values):g}"
            )
    for one in panel.curves:
        here = f"{where}.curves.{one.name}"
        located(here, _check_measure, one.curve, panel.quantity)


def _check_measure(curve: Curve, quantity: str) -> None:
    """Refuse a curve of which a quantity makes no sense or cannot be computed."""
    if curve.measure == "spectrum":
        log_width(curve.values)
    for setting in curve:
        attention = setting.estimator == "attention"
        heads, p = setting.heads.number, setting.dimension
        if heads > 1 and heads > p - 2:
            raise ValueError(
                f"{heads} heads need an embedding dimension of {heads + 2} or more, "
                f"got {p}"
            )
        if quantity in ("shortfall", "over_limit") and heads > 1:
            raise ValueError(f"several heads have no limit, so no {quantity}")
        if curve.measure == "linearization" and not (
            attention and heads == 1 and setting.diagonal == "zero"
        ):
            raise ValueError(
                "the remainder is of attention with one head and a zeroed diagonal"
            )
        if setting.estimator != "regression":
            kept = p if attention and setting.diagonal == "keep" else None
            _check_function(
                setting.estimator, setting.nonlinearity, setting.temperature, kept
            )


@cache  # many points share a function, and quadrature takes milliseconds
def _check_function(
    estimator: str,
    nonlinearity: str | UserFunction | HermiteMix | None,
    temperature: float,
    kept_at: int | None,
) -> None:
    """Refuse a function without coefficients, or whose diagonal has no limit."""
    setting = Setting(
        *(estimator, 4, 4, 0.0, 1.0, nonlinearity), temperature=temperature
    )
    function = setting.function()
    if kept_at is not None:
        hermite.diagonal_limit(function, kept_at)
    try:
        hermite.hermite_coefficients(function)
    except ValueError as error:
        if temperature == 1:
            raise
        raise ValueError(f"temperature {temperature:g}: {error}") from None


def _check_effect(where: str, curves: Sequence[LabelledCurve]) -> None:
    """Refuse a sweep that no curve of a panel depends on."""
    for parameter, values in curves[0].curve.swept.items():
        if parameter == "eigenvalue" or len(values) < 2:
            continue
        ends = values[0], values[-1]
        if all(
            at(one.curve.setting, parameter, ends[0])
            == at(one.curve.setting, parameter, ends[1])
            for one in curves
        ):
            raise ConfigurationError(
                f"{where}: no curve of the panel depends on {parameter}"
            )


def _check_source(
    where: str,
    panel: Mapping[str, Any],
    curves: Mapping[str, Any],
    swept: Mapping[str, Any],
    measure: str,
) -> None:
    """Refuse a panel that leaves a parameter or its source out, or names it twice."""
    given = {"replicates", *swept, *panel["setting"]}
    for curve in curves.values():
        given |= {name for name in _OPTIONAL if name in curve}
        if curve["estimator"] == "attention":
            given |= set(_ATTENTION)
        if curve["estimator"] == "softmax":
            given |= {"weights", "diagonal"}
    for parameter in swept:
        if parameter in panel["setting"]:
            raise ConfigurationError(
                f"{where}.setting.{parameter}: is swept, so it cannot be set as well"
            )
    wanted = {"tokens", "dimension", "snr", "gamma"}
    if "data" in panel["setting"]:
        for name in ("dimension", "snr"):
            if name in given:
                raise ConfigurationError(
                    f"{where}.setting.{name}: is measured from the data"
                )
            wanted.remove(name)
    if measure in ("spectrum", "linearization"):
        wanted.remove("gamma")
    for missing in sorted(wanted - given):
        raise ConfigurationError(f"{where}.setting: lacks {missing!r}")
    for fault in sorted(given ^ set(panel["source"])):
        state = "lacks" if fault in given else "names a parameter not given:"
        raise ConfigurationError(f"{where}.source: {state} {fault!r}")


def _largest(
    where: str, given: Mapping[str, int], curves: list[LabelledCurve]
) -> tuple[int, int]:
    """Return tokens and dimension of the draws that all curves of a panel share."""
    settings = [setting for curve in curves for setting in curve.curve]
    found = []
    for size in ("tokens", "dimension"):
        needed = max(getattr(setting, size) for setting in settings)
        if needed > LARGEST:
            raise ConfigurationError(
                f"{where}.sweep: must leave {size} at {LARGEST} or less; got {needed}"
            )
        if given.get(size, needed) < needed:
            raise ConfigurationError(
                f"{where}.dataset.{size}: {given[size]} is smaller than {needed}, "
                "which a curve of this panel needs"
            )
        found.append(given.get(size, needed))
    return found[0], found[1]


def _measured(
    where: str, definition: Mapping[str, Any], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the user's tokens, and what is measured of them."""
    source: TokensFile = located(where, lambda: tokens_file.locate(**definition))
    tokens, labels = located(where, tokens_file.load, source)
    _, snr = located(where, tokens_file.measured_signal, tokens, labels)
    if setting["tokens"] > len(labels):
        raise ConfigurationError(
            f"{where}: {definition['file']} has {len(labels)} tokens, fewer than the "
            f"{setting['tokens']} that are wanted"
        )
    return {"data": source, "dimension": len(tokens), "snr": snr}


def _setting(
    shared: Mapping[str, Any],
    curve: Mapping[str, Any],
    functions: Mapping[str, UserFunction],
) -> Setting:
    own = {
        name: curve[name]
        for name in ("estimator", "diagonal", "temperature", "centred")
        if name in curve
    }
    for name, part in _PARTS.items():
        if name in curve:
            own[name] = part(**curve[name])
    if curve.get("nonlinearity") is not None:
        own["nonlinearity"] = _function(curve["nonlinearity"], functions)
    if curve.get("weights") is not None:
        weights = curve["weights"]
        if "norm" in weights:
            own["weights"] = Weights(Direction(**weights))
        else:
            own["weights"] = Weights(
                Direction(**weights["key"]), Direction(**weights["query"])
            )
    return Setting(**shared, **own)


def _function(
    given: str | Mapping[str, Any], functions: Mapping[str, UserFunction]
) -> str | UserFunction | HermiteMix:
    """Return a nonlinearity by its name, or a mix of Hermite polynomials."""
    if not isinstance(given, str):
        return HermiteMix(given["degree"], given.get("linear_share", 1.0))
    allowed = sorted({*nonlinearities.names(), *functions})
    if given not in allowed:
        raise ValueError(
            f"nonlinearity: there is no {given!r}; allowed: {', '.join(allowed)}"
        )
    return functions.get(given, given)


def _values(where: str, sweep: Mapping[str, Any]) -> tuple[float, ...]:
    """Return the values of a sweep, given one by one or by range."""
    if "values" in sweep and sweep["parameter"] == "eigenvalue":
        raise ConfigurationError(
            f"{where}: an eigenvalue is swept by start, stop and points, the bins"
        )
    if "values" in sweep:
        values = list(sweep["values"])
        if sweep["parameter"] in WHOLE and any(x != round(x) for x in values):
            raise ConfigurationError(
                f"{where}.values: must be whole numbers for {sweep['parameter']}"
            )
    else:
        start, stop, points = sweep["start"], sweep["stop"], sweep["points"]
        if sweep["parameter"] == "eigenvalue":
            if not 0 < start < stop:
                raise ConfigurationError(f"{where}: start must be between 0 and stop")
            return (0.0, *log_bins(start, stop, points))
        if sweep["spacing"] == "log":
            if min(start, stop) <= 0:
                raise ConfigurationError(
                    f"{where}: start and stop must be positive when spacing is log"
                )
            values = [float(v) for v in np.geomspace(start, stop, points)]
        else:
            values = [float(v) for v in np.linspace(start, stop, points)]
    if sweep["parameter"] in WHOLE:
        values = [round(value) for value in values]
    if sweep["parameter"] == "aspect_ratio" and min(values) <= 0:
        raise ConfigurationError(f"{where}: aspect_ratio must be positive")
    if len(set(values)) != len(values):
        raise ConfigurationError(f"{where}: the same value of the sweep stands twice")
    return tuple(values)
