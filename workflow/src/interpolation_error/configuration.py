"""Read what a run is: configuration, preset and figure definitions, all checked."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import yaml

from interpolation_error import nonlinearity as nonlinearities
from interpolation_error import study_configuration, tokens_file
from interpolation_error.curve import FIELDS, WHOLE, Curve, at
from interpolation_error.figure import (
    QUANTITIES,
    Figure,
    LabelledCurve,
    Limits,
    Panel,
    Style,
    log_bins,
    resize,
)
from interpolation_error.setting import (
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
from interpolation_error.study import DIRECTIONS, THEORIES, Study

PLACES = ("gamma", "snr", "tokens", "dimension", "aspect_ratio", "alignment")
"""What a region of a claim may be bounded by, beside what its panels sweep."""


class ConfigurationError(ValueError):
    """A configuration that cannot run: one line with file, key and what is allowed."""


@dataclass(frozen=True)
class Configuration:
    """A checked run.

    Parameters
    ----------
    preset : str
        Name of the preset.
    seed : int
        Root seed of all draws.
    results : Path
        Where everything is written.
    replicates_per_job : int or None
        How many draws one simulation job takes, None for all.
    figures : tuple of Figure
        The figures, within the preset's limits.
    studies : tuple of Study
        Those of pretrained weights among them, which have no panels and curves.
    claims : dict
        The statements to test, by id.
    """

    preset: str
    seed: int
    results: Path
    replicates_per_job: int | None
    figures: tuple[Figure, ...]
    studies: tuple[Study, ...]
    claims: dict[str, Any]


def load(config: Mapping[str, Any], root: Path, where: str) -> Configuration:
    """Return the run that a configuration describes, or refuse it in one line.

    Parameters
    ----------
    config : mapping
        The merged configuration, as Snakemake gives it.
    root : Path
        Folder that holds ``config`` and ``figures``.
    where : str
        Name of the configuration's source, for messages.

    Returns
    -------
    Configuration

    Raises
    ------
    ConfigurationError
        At the first fault.
    """
    schemas = root / "config" / "schemas"
    _validate(config, schemas / "config.schema.yaml", where)
    functions = _user_functions(config.get("nonlinearities") or {}, where)
    presets = sorted(path.stem for path in (root / "config/presets").glob("*.yaml"))
    if config["preset"] not in presets:
        raise ConfigurationError(
            f"{where}: preset: there is no {config['preset']!r}; "
            f"allowed: {', '.join(presets)}"
        )
    path = root / "config" / "presets" / f"{config['preset']}.yaml"
    preset = read_yaml(path, root)
    _validate(preset, schemas / "preset.schema.yaml", _shown(path, root))
    limits = _limits(preset, _shown(path, root))
    figures, studies = [], []
    for name in preset["figures"]:
        path = root / "figures" / name / "study.yaml"
        if path.is_file():
            studies.append(read_study(path, root, config, where, limits))
            continue
        path = path.with_name("figure.yaml")
        if not path.is_file():
            known = sorted(
                p.parent.name
                for kind in ("figure", "study")
                for p in root.glob(f"figures/*/{kind}.yaml")
            )
            raise ConfigurationError(
                f"config/presets/{config['preset']}.yaml: figures: there is no "
                f"{name!r}; allowed: {', '.join(known)}"
            )
        figure = read_figure(path, root, functions)
        figures.append(_located(_shown(path, root), resize, figure, limits))
    per_job = preset["replicates_per_job"]
    return Configuration(
        preset=config["preset"],
        seed=config["seed"],
        results=Path(config["results"]),
        replicates_per_job=None if per_job == "all" else per_job,
        figures=tuple(figures),
        studies=tuple(studies),
        claims=read_claims(root),
    )


def read_study(
    path: Path, root: Path, config: Mapping[str, Any], where: str, limits: Limits
) -> Study:
    """Return the study that a ``study.yaml`` defines, of the configured transformer.

    Parameters
    ----------
    path : Path
        The definition.
    root : Path
        Folder that holds ``config`` and ``figures``.
    config : mapping
        The checked configuration, which names the transformer.
    where : str
        Name of the configuration's source, for messages.
    limits : Limits
        Of the preset.

    Returns
    -------
    Study

    Raises
    ------
    ConfigurationError
        If anything in it is wrong; one line with file and key.
    """
    shown = _shown(path, root)
    definition = read_yaml(path, root)
    _validate(definition, root / "config/schemas/study.schema.yaml", shown)
    chosen = config.get("pretrained") or {"source": "minilm"}
    results = Path(config["results"])
    model = _located(f"{where}: pretrained", study_configuration.model, chosen, results)
    minilm = None
    if chosen.get("words", True):
        minilm = study_configuration.model({"source": "minilm"}, results)
    made: Study = _located(
        *(shown, study_configuration.study, definition, path.parent),
        *(model, minilm, limits),
    )
    return made


def _limits(preset: Mapping[str, Any], where: str) -> Limits:
    """Return how a preset makes figures smaller or larger."""
    most = preset.get("at_most") or {}
    least = (preset.get("at_least") or {}).get("replicates", 0)
    if least > most.get("replicates", least):
        raise ConfigurationError(
            f"{where}: at_least.replicates: {least} is more than at_most.replicates, "
            f"{most['replicates']}"
        )
    return Limits(
        size_divisor=preset["size_divisor"],
        size_multiplier=preset.get("size_multiplier", 1),
        least_replicates=least,
        **most,
    )


def read_claims(root: Path) -> dict[str, Any]:
    """Return the statements of ``config/claims.yaml``, held against the figures.

    Parameters
    ----------
    root : Path
        Folder that holds ``config`` and ``figures``.

    Returns
    -------
    dict
        By id.

    Raises
    ------
    ConfigurationError
        If anything in it is wrong, or names a figure, panel or curve that is not
        there; one line with file and key.
    """
    path = root / "config" / "claims.yaml"
    where = _shown(path, root)
    content = read_yaml(path, root)
    _validate(content, root / "config/schemas/claims.schema.yaml", where)
    claims: dict[str, Any] = content["claims"]
    for name, claim in claims.items():
        here = f"{where}: claims.{name}"
        definition = root / "figures" / claim["figure"] / "figure.yaml"
        if definition.with_name("study.yaml").is_file():
            figure = _STUDY
        elif definition.is_file():
            figure = read_yaml(definition, root)
        else:
            raise ConfigurationError(f"{here}.figure: there is no {claim['figure']!r}")
        _check_statistic(here, claim)
        for region, content in claim["regions"].items():
            _check_region(f"{here}.regions.{region}", figure, claim, content)
    return claims


# A study as its claims see it: a panel for each direction of the signal, a curve for
# each theory that its heads are held against.
_STUDY: Mapping[str, Any] = {
    "panels": {
        direction: {"curves": dict.fromkeys(THEORIES), "sweep": {"parameter": "head"}}
        for direction in DIRECTIONS
    }
}


def _check_statistic(where: str, claim: Mapping[str, Any]) -> None:
    """Refuse a statistic that lacks what it compares with, or claims nothing."""
    statistic, claimed = claim["statistic"], claim["claimed"]
    kind = statistic["kind"]
    needed = {
        "log_ratio": {"against"},
        "gap_change": {"against"},
        "between_panels": {"against", "other_panel"},
    }.get(kind, set())
    for name in sorted(needed - set(statistic)):
        raise ConfigurationError(f"{where}.statistic: {kind} lacks {name!r}")
    if not claimed.get("above", -math.inf) < claimed.get("below", math.inf):
        raise ConfigurationError(f"{where}.claimed: above must be less than below")


def _check_region(
    where: str,
    figure: Mapping[str, Any],
    claim: Mapping[str, Any],
    region: Mapping[str, Any],
) -> None:
    """Refuse a region that names a panel or a curve which the figure lacks."""
    panels = figure["panels"]
    statistic = claim["statistic"]
    other = statistic.get("other_panel")
    for name, (low, high) in (region.get("where") or {}).items():
        known = {*PLACES}
        for panel in region["panels"]:
            known |= {panels.get(panel, {}).get("sweep", {}).get("parameter")}
        if name not in known:
            raise ConfigurationError(
                f"{where}.where: there is no {name!r}; "
                f"allowed: {', '.join(sorted(filter(None, known)))}"
            )
        if not low <= high:
            raise ConfigurationError(
                f"{where}.where.{name}: must be the lowest and the highest value; "
                f"got {[low, high]}"
            )
    for panel in [*region["panels"], *([other] if other else [])]:
        if panel not in panels:
            raise ConfigurationError(
                f"{where}: there is no panel {panel!r}; allowed: {', '.join(panels)}"
            )
        quantity = QUANTITIES[panels[panel].get("quantity", "error")]
        if (statistic["kind"] == "distance") != (quantity.measure == "spectrum"):
            raise ConfigurationError(
                f"{where}: the statistic distance is of panels of a density, and only "
                f"of them; {panel} is of {panels[panel].get('quantity', 'error')}"
            )
        curves = {*(panels[panel].get("curves") or figure["curves"])}
        curves |= {"regression"} if quantity.against_regression else set()
        against = claim["statistic"].get("against")
        for curve in [*region["curves"], *([against] if against else [])]:
            if curve not in curves:
                raise ConfigurationError(
                    f"{where}: panel {panel} has no curve {curve!r}; "
                    f"allowed: {', '.join(sorted(curves))}"
                )


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
    where = _shown(path, root)
    definition = read_yaml(path, root)
    _validate(definition, root / "config/schemas/figure.schema.yaml", where)
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
        own = _located(here, _setting, setting, curve, functions)
        built = _located(
            *(here, Curve, own, parameter, values, row_parameter, row_values, measure)
        )
        _located(here, _check_measure, built, panel.get("quantity", "error"))
        style = Style(**(curve.get("style") or {}))
        labelled.append(LabelledCurve(key, curve["label"], built, style))
    _check_effect(where, labelled)
    axes = panel.get("axes") or {}
    return Panel(
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
    if kind == "map":
        if "rows" not in panel or min(map(len, swept.values())) < 2:
            refuse("rows", "a map needs two rows and two values or more")
        if quantity != "ratio":
            refuse("quantity", f"a map shows the ratio; got {quantity!r}")
    if panel.get("overlay") and ("rows" not in panel or kind != "sweep"):
        refuse("overlay", "needs the rows of a sweep")
    if panel.get("fit") and len(swept[panel["sweep"]["parameter"]]) < 2:
        refuse("fit", "needs two values of the sweep or more")
    if "data" in panel["setting"]:
        for parameter in swept:
            if parameter in ("tokens", "size", "aspect_ratio", "dimension", "snr"):
                refuse("sweep", f"{parameter} is given by the data")


def _check_measure(curve: Curve, quantity: str) -> None:
    """Refuse a curve of which a quantity makes no sense."""
    for setting in curve:
        attention = setting.estimator == "attention"
        if attention and setting.diagonal == "keep":
            nonlinearities.diagonal_limit(setting.function(), setting.dimension)
        if quantity in ("shortfall", "over_limit") and setting.heads.number > 1:
            raise ValueError(f"several heads have no limit, so no {quantity}")
        if curve.measure == "linearization" and not (
            attention and setting.heads.number == 1 and setting.diagonal == "zero"
        ):
            raise ValueError(
                "the remainder is of attention with one head and a zeroed diagonal"
            )


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
    source: TokensFile = _located(where, lambda: tokens_file.locate(**definition))
    tokens, labels = _located(where, tokens_file.load, source)
    _, snr = _located(where, tokens_file.measured_signal, tokens, labels)
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


def _user_functions(
    definitions: Mapping[str, Any], where: str
) -> dict[str, UserFunction]:
    functions = {}
    for name, definition in definitions.items():
        here = f"{where}: nonlinearities.{name}"
        if name in nonlinearities.names():
            raise ConfigurationError(f"{here}: a registered nonlinearity has this name")
        function = _located(
            here,
            UserFunction.from_file,
            definition["file"],
            definition["name"],
            tuple(definition.get("kinks") or ()),
        )
        _located(here, function.load)
        functions[name] = function
    return functions


def read_yaml(path: Path, root: Path) -> dict[str, Any]:
    """Return a YAML mapping, refusing a key that stands twice.

    Numbers such as ``1e-5`` are numbers here, though YAML 1.1 calls them text.

    Raises
    ------
    ConfigurationError
        If the file is missing or is not such a mapping; one line.
    """
    try:
        content = yaml.load(path.read_text("utf-8"), _Loader)  # noqa: S506
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise ConfigurationError(f"{_shown(path, root)}:{line} {problem}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{_shown(path, root)}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{_shown(path, root)}: must be a mapping of keys")
    return content


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys and reads 1e-5 as a number."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def _validate(content: Mapping[str, Any], schema_path: Path, where: str) -> None:
    """Hold content against a JSON schema and report the deepest fault in one line."""
    schema = yaml.safe_load(schema_path.read_text("utf-8"))
    validator = _Validator(schema)
    faults = list(validator.iter_errors(content))
    if faults:
        raise ConfigurationError(
            f"{where}: {_fault(jsonschema.exceptions.best_match(faults))}"
        )


def _is_integer(_: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: Any, value: Any) -> bool:
    # YAML has .nan and .inf, and no parameter of a run may be one.
    return _is_integer(checker, value) or (
        isinstance(value, float) and math.isfinite(value)
    )


# JSON schema would take 10.0 for an integer, and a range does not.
_Validator = jsonschema.validators.extend(
    jsonschema.Draft202012Validator,
    type_checker=jsonschema.Draft202012Validator.TYPE_CHECKER.redefine_many(
        {"integer": _is_integer, "number": _is_number}
    ),
)


def _fault(error: jsonschema.ValidationError) -> str:
    key = ".".join(str(part) for part in error.absolute_path)
    here = f"{key}: " if key else ""
    value = error.instance
    match error.validator:
        case "additionalProperties" | "unevaluatedProperties":
            allowed = sorted(error.schema.get("properties", {}))
            unknown = sorted(set(map(str, value)) - set(allowed))
            return f"{here}unknown key {unknown[0]!r}; allowed: {', '.join(allowed)}"
        case "required":
            missing = [name for name in error.validator_value if name not in value]
            return f"{here}lacks the key {missing[0]!r}"
        case "enum":
            words = ", ".join(map(str, error.validator_value))
            return f"{here}must be one of {words}; got {value!r}"
        case "type":
            types = error.validator_value
            words = types if isinstance(types, str) else " or ".join(types)
            if isinstance(value, float) and not math.isfinite(value):
                return f"{here}must be a finite number; got {value!r}"
            return f"{here}must be of type {words}; got {value!r}"
        case "minimum":
            return f"{here}must be {error.validator_value} or more; got {value!r}"
        case "maximum":
            return f"{here}must be {error.validator_value} or less; got {value!r}"
        case "exclusiveMinimum":
            return f"{here}must be more than {error.validator_value}; got {value!r}"
        case "oneOf" | "anyOf":
            words = error.schema.get("description", "as config/README.md says")
            return f"{here}must be {words}; got {value!r}"
        case _:
            return f"{here}{error.message}"


def _located(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function and put file and key before the line of its ValueError."""
    try:
        return function(*arguments)
    except ValueError as error:
        # What a library has to say of a file may take more than a line.
        line = " ".join(str(error).splitlines())
        raise ConfigurationError(f"{where}: {line}") from None


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
