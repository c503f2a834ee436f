"""Read what a run is: configuration and preset, with all that they name, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interpolation_error.figures.checked_yaml import (
    ConfigurationError,
    located,
    read_checked,
    shown_path,
    validate,
)
from interpolation_error.figures.definition import check_resized, read_figure
from interpolation_error.figures.figure import Figure, Limits, resize
from interpolation_error.model import nonlinearity as nonlinearities
from interpolation_error.model.setting import UserFunction
from interpolation_error.model.study import Study
from interpolation_error.run import study_configuration
from interpolation_error.verdicts.definition import read_claims


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
    defined : dict of str to Figure
        The same figures as they are defined, by name.
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
    defined: dict[str, Figure]
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
    validate(config, root, "config", where)
    functions = _user_functions(config.get("nonlinearities") or {}, where)
    presets = sorted(path.stem for path in (root / "config/presets").glob("*.yaml"))
    if config["preset"] not in presets:
        raise ConfigurationError(
            f"{where}: preset: there is no {config['preset']!r}; "
            f"allowed: {', '.join(presets)}"
        )
    path = root / "config" / "presets" / f"{config['preset']}.yaml"
    preset, preset_path = read_checked(path, root, "preset"), shown_path(path, root)
    limits = _limits(preset, preset_path)
    figures, studies = [], []
    defined = {}
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
                f"{preset_path}: figures: there is no {name!r}; "
                f"allowed: {', '.join(known)}"
            )
        figure = read_figure(path, root, functions)
        shown = shown_path(path, root)
        resized = located(shown, resize, figure, limits)
        check_resized(f"{shown}: resized by {preset_path}", resized)
        figures.append(resized)
        defined[name] = figure
    per_job = preset["replicates_per_job"]
    return Configuration(
        preset=config["preset"],
        seed=config["seed"],
        results=Path(config["results"]),
        replicates_per_job=None if per_job == "all" else per_job,
        figures=tuple(figures),
        defined=defined,
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
    shown = shown_path(path, root)
    definition = read_checked(path, root, "study")
    chosen = config.get("pretrained") or {"source": "minilm"}
    results = Path(config["results"])
    model = located(f"{where}: pretrained", study_configuration.model, chosen, results)
    minilm = None
    if chosen.get("words", True):
        minilm = study_configuration.model({"source": "minilm"}, results)
    made: Study = located(
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


def _user_functions(
    definitions: Mapping[str, Any], where: str
) -> dict[str, UserFunction]:
    functions = {}
    for name, definition in definitions.items():
        here = f"{where}: nonlinearities.{name}"
        if name in nonlinearities.names():
            raise ConfigurationError(f"{here}: a registered nonlinearity has this name")
        function = located(
            here,
            UserFunction.from_file,
            definition["file"],
            definition["name"],
            tuple(definition.get("kinks") or ()),
        )
        located(here, function.load)
        functions[name] = function
    return functions
