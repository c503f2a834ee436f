"""The plan of a run: every array, table and picture by key, and what each needs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from interpolation_error.figures.figure import QUANTITIES, Figure, Panel
from interpolation_error.figures.study_table import ENDINGS
from interpolation_error.model.curve import Curve
from interpolation_error.model.setting import HermiteMix, Noise, UserFunction
from interpolation_error.model.study import Model, Study, tokens_at
from interpolation_error.run.configuration import Configuration
from interpolation_error.run.identity import (
    KEY_LENGTH,
    KINDS,
    Identity,
    code_digest,
    versions,
)


@dataclass(frozen=True)
class Item:
    """Something that a job makes, known by the key of its specification.

    Parameters
    ----------
    kind : str
        What it is, a key of :data:`interpolation_error.run.identity.KINDS`.
    name : str
        Its readable name.
    spec : dict
        All that it depends on, in plain JSON types.
    """

    kind: str
    name: str
    spec: dict[str, Any] = field(hash=False)

    @cached_property
    def identity(self) -> Identity:
        """What the item's bytes depend on."""
        return Identity.of(self.spec, self.kind)

    @property
    def stem(self) -> str:
        """Readable name and key."""
        return f"{self.name}-{self.identity.key[:KEY_LENGTH]}"

    @property
    def cached(self) -> str:
        """Path of a cached array below the results folder."""
        return f"cache/{self.kind}/{self.stem}.h5"


@dataclass(frozen=True)
class Simulation:
    """A simulated curve and the dataset that its job reads."""

    item: Item
    dataset: Item
    curve: Curve


@dataclass(frozen=True)
class FigurePlan:
    """A figure's arrays, its table and its picture."""

    definition: Figure
    simulations: tuple[Simulation, ...]
    theory: Item
    table: Item
    picture: Item

    @property
    def name(self) -> str:
        """Name of the figure."""
        return self.definition.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables."""
        return (self.name,)

    def items(self) -> Iterator[Item]:
        """Yield every cached array, once: draws, simulated curves, predictions."""
        items = [simulation.dataset for simulation in self.simulations]
        items += [simulation.item for simulation in self.simulations]
        yield from {item.cached: item for item in (*items, self.theory)}.values()

    def predicted_at_finite_size(self) -> Iterator[Curve]:
        """Yield every curve that is predicted at finite size, once."""
        found = {
            labelled.curve: None
            for panel in self.definition.panels
            for labelled in panel.curves
            if panel.line(labelled.curve)["finite_size"]
        }
        yield from found


@dataclass(frozen=True)
class StudyPart:
    """A part of a study: simulated and predicted by the same specification.

    ``simulation`` is None for what is only described, ``dataset`` for real tokens.
    """

    name: str
    model: Model
    simulation: Item | None
    theory: Item
    dataset: Item | None = None


@dataclass(frozen=True)
class StudyPlan:
    """A study's arrays, its tables and its picture."""

    definition: Study
    parts: tuple[StudyPart, ...]
    table: Item
    picture: Item

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.definition.name

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of its tables, the errors first."""
        return tuple(f"{self.name}{ending}" for ending in ENDINGS)

    def items(self) -> Iterator[Item]:
        """Yield every cached array, once: draws, simulated and predicted parts."""
        yield from {p.dataset.stem: p.dataset for p in self.parts if p.dataset}.values()
        for part in self.parts:
            if part.simulation:
                yield part.simulation
            yield part.theory


@dataclass(frozen=True)
class Plan:
    """All that a configuration asks for.

    Parameters
    ----------
    configuration : Configuration
        The run.
    style : str
        sha256 of the style sheet.
    figures : dict of str to FigurePlan
        By name.
    studies : dict of str to StudyPlan
        By name.
    claims : Item
        The verdicts on all statements.
    """

    configuration: Configuration
    style: str
    figures: dict[str, FigurePlan] = field(init=False, hash=False)
    studies: dict[str, StudyPlan] = field(init=False, hash=False)
    claims: Item = field(init=False, hash=False)

    def __post_init__(self) -> None:
        plans = {
            figure.name: _figure_plan(figure, self.configuration, self.style)
            for figure in self.configuration.figures
        }
        studies = {
            study.name: study_plan(study, self.configuration.seed, self.style)
            for study in self.configuration.studies
        }
        object.__setattr__(self, "figures", plans)
        object.__setattr__(self, "studies", studies)
        object.__setattr__(self, "claims", self._claims(self.shown()))

    def _claims(self, plans: Mapping[str, FigurePlan | StudyPlan]) -> Item:
        """Return the verdicts, which depend on the arrays of the figures they name."""
        # Lists keep the order of the file, which canonical JSON would sort away.
        claims = [
            {
                **claim,
                "id": name,
                "regions": [{"name": n, **r} for n, r in claim["regions"].items()],
            }
            for name, claim in self.configuration.claims.items()
        ]
        named = {claim["figure"] for claim in claims}
        # By the manifest of its table, which names all of the figure's arrays.
        figures = {
            name: plan.table.stem for name, plan in plans.items() if name in named
        }
        return Item("claims", "claims", {"claims": claims, "figures": figures})

    def shown(self) -> dict[str, FigurePlan | StudyPlan]:
        """Return all that the run shows, figures and studies, by name."""
        return {**self.figures, **self.studies}

    def simulations(self) -> dict[str, Simulation]:
        """Return every simulation by its stem; figures that share one name it once."""
        return {
            simulation.item.stem: simulation
            for plan in self.figures.values()
            for simulation in plan.simulations
        }

    def datasets(self) -> dict[str, Item]:
        """Return every dataset by its stem."""
        figures = [simulation.dataset for simulation in self.simulations().values()]
        parts = [part for study in self.studies.values() for part in study.parts]
        studies = [part.dataset for part in parts if part.dataset]
        return {dataset.stem: dataset for dataset in [*figures, *studies]}

    def identity(self) -> dict[str, str]:
        """Return the versions and the code that the keys of this plan stand for."""
        code = "".join(code_digest(kind.module) for kind in KINDS.values())
        found: dict[str, str] = {}
        for kind in KINDS:
            found |= json.loads(versions(kind))
        return {**found, "code": hashlib.sha256(code.encode()).hexdigest()}

    def arrays(self) -> Iterator[str]:
        """Yield the path of every cached array, below the results folder."""
        for dataset in self.datasets().values():
            yield dataset.cached
        for simulation in self.simulations().values():
            yield simulation.item.cached
        for plan in self.figures.values():
            yield plan.theory.cached
        for study in self.studies.values():
            for item in study.items():
                if item.kind != "data":
                    yield item.cached


def _figure_plan(
    figure: Figure, configuration: Configuration, style: str
) -> FigurePlan:
    simulations: list[Simulation] = []
    series, predicted = [], {}
    for panel in figure.panels:
        quantity = QUANTITIES[panel.quantity]
        for labelled in panel.curves:
            name = f"{panel.name}/{labelled.name}"
            mine = list(_simulations(panel, labelled.curve, configuration))
            predicted[name] = panel.line(labelled.curve)
            one = {
                "panel": panel.name,
                "curve": labelled.name,
                "curve_spec": labelled.curve.spec(),
                "quantity": panel.quantity,
                "array": quantity.array,
                "fit": panel.fit,
                "simulation": [simulation.item.cached for simulation in mine],
                "prediction": name,
            }
            simulations += mine
            if quantity.against_regression:
                regression = labelled.regression()
                name = f"{name}:regression"
                predicted[name] = panel.line(regression)
                other = list(_simulations(panel, regression, configuration))
                simulations += other
                one["other_simulation"] = [s.item.cached for s in other]
                one["other_prediction"] = name
            series.append(one)
    theory = Item("theory", figure.name, {"curves": predicted})
    table = Item(
        "table",
        f"{figure.name}-table",
        {"figure": figure.name, "series": series, "theory": theory.cached},
    )
    picture = Item(
        "figure",
        f"{figure.name}-figure",
        {"table": table.stem, "drawing": figure.drawing(), "style": style},
    )
    return FigurePlan(figure, tuple(simulations), theory, table, picture)


def _simulations(
    panel: Panel, curve: Curve, configuration: Configuration
) -> Iterator[Simulation]:
    """Yield a curve's simulations, one for each block of draws."""
    step = configuration.replicates_per_job or panel.replicates
    for first in range(0, panel.replicates, step):
        draws = list(range(first, min(first + step, panel.replicates)))
        shared = {"seed": configuration.seed, "replicates": draws}
        numbered = f"draw{draws[0]}" + (f"to{draws[-1]}" if len(draws) > 1 else "")
        dataset = _dataset(panel, curve, shared, numbered)
        spec = {"curve": curve.spec(), **shared}
        if dataset.kind == "tokens":
            # The code that reads tokens from a file is not among what simulates them.
            spec["tokens"] = dataset.identity.key
        name = f"{_readable(curve)}-{numbered}"
        yield Simulation(Item("simulation", name, spec), dataset, curve)


def _dataset(panel: Panel, curve: Curve, shared: dict[str, Any], numbered: str) -> Item:
    """Return the draws that a curve of a panel reads."""
    tokens, dimension = panel.largest
    spec = {"tokens": tokens, "dimension": dimension, **shared}
    setting = curve.setting
    if setting.data is not None:
        source = dataclasses.asdict(setting.data)
        name = f"{Path(setting.data.file).stem}-n{tokens}"
        return Item("tokens", f"{name}-{numbered}", {**spec, "source": source})
    name = f"n{tokens}-p{dimension}"
    if setting.noise != Noise():
        spec["noise"] = dataclasses.asdict(setting.noise)
        name = f"{setting.noise.law}-{name}"
    return Item("data", f"{name}-{numbered}", spec)


def _readable(curve: Curve) -> str:
    """Return a file name's words for a curve: estimator, function, swept parameter."""
    function = curve.setting.nonlinearity
    if isinstance(function, UserFunction):
        function = function.name
    elif isinstance(function, HermiteMix):
        function = f"h1h{function.degree}"
    measure = None if curve.measure == "error" else curve.measure
    swept = "-".join(reversed(curve.swept))
    words = [measure, curve.setting.estimator, function, "against", swept]
    return "-".join(word for word in words if word)


def study_plan(study: Study, seed: int, style: str) -> StudyPlan:
    """Return the plan of a study: a job a layer, an aspect ratio, and the words.

    Parameters
    ----------
    study : Study
        The definition.
    seed : int
        Root seed.
    style : str
        sha256 of the style sheet.

    Returns
    -------
    StudyPlan
    """
    how = {"nonlinearity": study.nonlinearity, "diagonal": study.diagonal}
    heads = dataclasses.asdict(study.heads)
    drawn = {"seed": seed, "replicates": list(range(study.replicates))}
    parts = [_study_part("description", "description", study.model, {})]
    for layer in range(study.model.layers):
        spec = {**how, **heads, **drawn, "layer": layer}
        parts.append(_with_noise(study, "heads", f"heads-layer{layer}", spec))
    drawn["replicates"] = list(range(study.sweeps.replicates))
    for ratio in study.sweeps.aspect_ratios:
        swept = {"penalties": study.sweeps.gamma, "signals": study.sweeps.snr}
        spec = {**how, **heads, **drawn, **swept, "aspect_ratio": ratio}
        parts.append(_with_noise(study, "sweeps", f"sweeps-ratio{ratio:g}", spec))
    if study.words is not None:
        words = {
            **how,
            "words": study.words.words,
            "vocabulary": study.words.vocabulary_sha256,
            "aspect_ratios": study.words.aspect_ratios,
            "gamma": study.words.gamma,
            "seed": seed,
            "replicates": list(range(study.words.replicates)),
            # What scales words fixes their signal, and no prediction imports it.
            "tokens": code_digest("model.word_tokens"),
        }
        parts.append(_study_part("words", "words", study.words.model, words))
    named = [
        {
            "part": part.theory.spec["part"],
            "theory": part.theory.cached,
            "simulation": part.simulation.cached,
            "aspect_ratio": part.theory.spec.get("aspect_ratio"),
            "model": part.model.name,
            "dimension": part.model.dimension,
            "heads": part.model.heads,
        }
        for part in parts
        if part.simulation is not None
    ]
    words_at = None
    if study.words is not None:
        ratios = list(study.words.aspect_ratios)
        words_at = {"aspect_ratios": ratios, "gamma": study.words.gamma}
    spec = {
        "study": study.name,
        "model": study.model.name,
        "dimension": study.model.dimension,
        "nonlinearity": study.nonlinearity,
        "heads": heads,
        "sweeps": {"gamma": list(study.sweeps.gamma), "snr": list(study.sweeps.snr)},
        "words": words_at,
        "description": parts[0].theory.cached,
        "parts": named,
    }
    table = Item("study_table", f"{study.name}-table", spec)
    drawing = {"title": study.title, "model": study.model.name, "heads": heads}
    picture = Item(
        "study_figure",
        f"{study.name}-figure",
        {"table": table.stem, "drawing": drawing, "style": style},
    )
    return StudyPlan(study, tuple(parts), table, picture)


def _study_part(
    kind: str,
    name: str,
    model: Model,
    spec: dict[str, Any],
    dataset: Item | None = None,
) -> StudyPart:
    whole = {**spec, "part": kind, "model": model.spec()}
    name = f"{model.layers}x{model.heads}-{name}"
    simulation = None
    if kind != "description":
        simulation = Item("study_simulation", name, whole)
    return StudyPart(
        name, model, simulation, Item("study_theory", name, whole), dataset
    )


def _with_noise(study: Study, kind: str, name: str, spec: dict[str, Any]) -> StudyPart:
    """Return a part that reads draws of the noise, one dataset for all parts."""
    ratios = (study.heads.aspect_ratio, *study.sweeps.aspect_ratios)
    n, p = tokens_at(study.model.dimension, min(ratios)), study.model.dimension
    draws = max(study.replicates, study.sweeps.replicates)
    drawn = {"seed": spec["seed"], "replicates": list(range(draws))}
    size = {"tokens": n, "dimension": p}
    dataset = Item("data", f"n{n}-p{p}-draw0to{draws - 1}", {**size, **drawn})
    return _study_part(kind, name, study.model, spec, dataset)
