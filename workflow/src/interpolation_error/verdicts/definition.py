"""Read the statements that a run tests, and hold them against the figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interpolation_error.figures.checked_yaml import (
    ConfigurationError,
    read_checked,
    read_yaml,
    shown_path,
)
from interpolation_error.figures.figure import QUANTITIES
from interpolation_error.model.study import DIRECTIONS, THEORIES

PLACES = ("gamma", "snr", "tokens", "dimension", "aspect_ratio", "alignment")
"""What a region of a claim may be bounded by, beside what its panels sweep."""
LOGARITHMS = ("log_ratio", "gain", "gap_change", "between_panels")
"""Statistics of quantities that are positive."""


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
    where = shown_path(path, root)
    claims: dict[str, Any] = read_checked(path, root, "claims")["claims"]
    read: dict[Path, dict[str, Any]] = {}  # many claims are on one figure
    for name, claim in claims.items():
        here = f"{where}: claims.{name}"
        definition = root / "figures" / claim["figure"] / "figure.yaml"
        if definition.with_name("study.yaml").is_file():
            figure = _STUDY
        elif definition.is_file():
            if definition not in read:
                read[definition] = read_yaml(definition, root)
            figure = read[definition]
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
        shown = panels[panel].get("quantity", "error")
        quantity = QUANTITIES[shown]
        if (statistic["kind"] == "distance") != (quantity.measure == "spectrum"):
            raise ConfigurationError(
                f"{where}: the statistic distance is of panels of a density, and only "
                f"of them; {panel} is of {shown}"
            )
        if statistic["kind"] in LOGARITHMS and shown == "shortfall":
            raise ConfigurationError(
                f"{where}: {statistic['kind']} takes logarithms, and a shortfall, as "
                f"panel {panel} shows it, may be negative"
            )
        defined = panels[panel].get("curves") or figure["curves"]
        curves = {*defined}
        curves |= {"regression"} if quantity.against_regression else set()
        against = claim["statistic"].get("against")
        for curve in [*region["curves"], *([against] if against else [])]:
            if curve not in curves:
                raise ConfigurationError(
                    f"{where}: panel {panel} has no curve {curve!r}; "
                    f"allowed: {', '.join(sorted(curves))}"
                )
        bounded = "alignment" in (region.get("where") or {})
        swept = panels[panel]["sweep"]["parameter"]
        for curve in region["curves"] if bounded and swept != "alignment" else ():
            if not (defined.get(curve) or {}).get("weights"):
                raise ConfigurationError(
                    f"{where}.where.alignment: curve {curve!r} has no weights"
                )
