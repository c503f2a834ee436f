"""The plan of a run: every array, table and picture by key, and what each needs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from interpolation_error.configuration import Configuration
from interpolation_error.curve import Curve
from interpolation_error.figure import QUANTITIES, Figure, Panel
from interpolation_error.identity import (
    KEY_LENGTH,
    Identity,
    code_digest,
    versions,
)
from interpolation_error.setting import HermiteMix, Noise, UserFunction

MODULES = {
    "data": "data",
    "tokens": "tokens_file",
    "simulation": "experiment",
    "theory": "prediction",
    "table": "gather",
    "figure": "drawing",
    "claims": "claims_table",
}
"""The module that makes each kind of thing; its imports are in the key."""


@dataclass(frozen=True)
class Item:
    """Something that a job makes, known by the key of its specification.

    Parameters
    ----------
    kind : {"data", "tokens", "simulation", "theory", "table", "figure", "claims"}
        What it is.
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
        return Identity.of(self.spec, MODULES[self.kind])

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

    figure: Figure
    simulations: tuple[Simulation, ...]
    theory: Item
    table: Item
    picture: Item

    def predicted_at_finite_size(self) -> Iterator[Curve]:
        """Yield every curve that is predicted at finite size, once."""
        found = {
            labelled.curve: None
            for panel in self.figure.panels
            for labelled in panel.curves
            if panel.line(labelled.curve)["finite_size"]
        }
        yield from found


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
    claims : Item
        The verdicts on all statements.
    """

    configuration: Configuration
    style: str
    figures: dict[str, FigurePlan] = field(init=False, hash=False)
    claims: Item = field(init=False, hash=False)

    def __post_init__(self) -> None:
        plans = {
            figure.name: _figure_plan(figure, self.configuration, self.style)
            for figure in self.configuration.figures
        }
        object.__setattr__(self, "figures", plans)
        object.__setattr__(self, "claims", self._claims(plans))

    def _claims(self, plans: dict[str, FigurePlan]) -> Item:
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

    def simulations(self) -> dict[str, Simulation]:
        """Return every simulation by its stem; figures that share one name it once."""
        return {
            simulation.item.stem: simulation
            for plan in self.figures.values()
            for simulation in plan.simulations
        }

    def datasets(self) -> dict[str, Item]:
        """Return every dataset by its stem."""
        return {
            simulation.dataset.stem: simulation.dataset
            for simulation in self.simulations().values()
        }

    def identity(self) -> dict[str, str]:
        """Return the versions and the code that the keys of this plan stand for."""
        code = "".join(code_digest(module) for module in MODULES.values())
        return {
            **json.loads(versions()),
            "code": hashlib.sha256(code.encode()).hexdigest(),
        }

    def arrays(self) -> Iterator[str]:
        """Yield the path of every cached array, below the results folder."""
        for dataset in self.datasets().values():
            yield dataset.cached
        for simulation in self.simulations().values():
            yield simulation.item.cached
        for plan in self.figures.values():
            yield plan.theory.cached


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
        simulation = Item(
            "simulation",
            f"{_readable(curve)}-{numbered}",
            {"curve": curve.spec(), **shared},
        )
        yield Simulation(simulation, _dataset(panel, curve, shared, numbered), curve)


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
