"""The plan of a run: every array, table and picture by key, and what each needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from interpolation_error.configuration import Configuration
from interpolation_error.curve import Curve, UserFunction
from interpolation_error.figure import Figure, LabelledCurve, Panel
from interpolation_error.identity import KEY_LENGTH, Identity

MODULES = {
    "data": "data",
    "simulation": "experiment",
    "theory": "prediction",
    "table": "tables",
    "figure": "drawing",
}
"""The module that makes each kind of thing; its imports are in the key."""


@dataclass(frozen=True)
class Item:
    """Something that a job makes, known by the key of its specification.

    Parameters
    ----------
    kind : {"data", "simulation", "theory", "table", "figure"}
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
    """

    configuration: Configuration
    style: str
    figures: dict[str, FigurePlan] = field(init=False, hash=False)

    def __post_init__(self) -> None:
        plans = {
            figure.name: _figure_plan(figure, self.configuration, self.style)
            for figure in self.configuration.figures
        }
        object.__setattr__(self, "figures", plans)

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
    series = []
    for panel in figure.panels:
        for labelled in panel.curves:
            mine = list(_simulations(panel, labelled, configuration))
            simulations += mine
            series.append(
                {
                    "panel": panel.name,
                    "curve": labelled.name,
                    "parameter": panel.parameter,
                    "x": list(labelled.curve.values),
                    "line": list(panel.line(labelled.curve).values),
                    "simulation": [simulation.item.cached for simulation in mine],
                }
            )
    theory = Item(
        "theory",
        figure.name,
        {
            "curves": {
                f"{panel.name}/{labelled.name}": panel.line(labelled.curve).spec()
                for panel in figure.panels
                for labelled in panel.curves
            }
        },
    )
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
    panel: Panel, labelled: LabelledCurve, configuration: Configuration
) -> Iterator[Simulation]:
    """Yield a curve's simulations, one for each block of draws."""
    tokens, dimension = panel.largest
    step = configuration.replicates_per_job or panel.replicates
    for first in range(0, panel.replicates, step):
        draws = list(range(first, min(first + step, panel.replicates)))
        shared = {"seed": configuration.seed, "replicates": draws}
        numbered = f"draw{draws[0]}" + (f"to{draws[-1]}" if len(draws) > 1 else "")
        dataset = Item(
            "data",
            f"n{tokens}-p{dimension}-{numbered}",
            {"tokens": tokens, "dimension": dimension, **shared},
        )
        simulation = Item(
            "simulation",
            f"{_readable(labelled.curve)}-{numbered}",
            {"curve": labelled.curve.spec(), **shared},
        )
        yield Simulation(simulation, dataset, labelled.curve)


def _readable(curve: Curve) -> str:
    """Return a file name's words for a curve: estimator, function, swept parameter."""
    function = curve.setting.nonlinearity
    if isinstance(function, UserFunction):
        function = function.name
    words = [curve.setting.estimator, function, "against", curve.parameter]
    return "-".join(word for word in words if word)
