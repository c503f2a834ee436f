"""The parameters of a figure in words: as defined, as run, and who says so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interpolation_error.figures.figure import SYMBOLS, Figure, Panel
from interpolation_error.model.curve import Curve
from interpolation_error.model.nonlinearity import Nonlinearity
from interpolation_error.model.setting import HermiteMix, UserFunction, Weights
from interpolation_error.model.study import Study

WHO_SAYS = {
    "caption": "the paper's caption",
    "summary": "a published summary or review of the paper",
    "inferred": "chosen here",
    "beyond": "not in the paper",
}
"""What the words for a parameter's source stand for."""
_OF_ATTENTION = (
    "nonlinearity",
    "weights",
    "diagonal",
    "centred",
    "temperature",
    "heads",
)


def of_study(study: Study) -> list[dict[str, str]]:
    """Return the parameters of a study, as :func:`parameters` has those of a figure.

    Parameters
    ----------
    study : Study
        As it was run. All but the transformer is beyond the paper.

    Returns
    -------
    list of dict of str
    """
    model, heads, sweeps = study.model, study.heads, study.sweeps
    size = f"{model.layers} layers, {model.heads} heads, p = {model.dimension}"
    every = {
        "aspect ratio p/n": f"{heads.aspect_ratio:g}",
        "signal-to-noise ratio": f"{heads.snr:g}",
        "penalty": f"{heads.gamma:g}",
        "replicates": str(study.replicates),
    }
    swept = {
        "aspect ratios p/n": _listed(sweeps.aspect_ratios),
        "penalties": _listed(sweeps.gamma),
        "signal-to-noise ratios": _listed(sweeps.snr),
        "replicates": str(sweeps.replicates),
    }
    panels = {
        "all": {
            "transformer": f"{model.name}: {size}",
            "sha256 of the weights": model.sha256,
            "nonlinearity": study.nonlinearity,
            "diagonal": study.diagonal,
        },
        "every head": every,
        "median head": swept,
    }
    if study.words is not None:
        panels["real words"] = {
            "words": f"{len(study.words.words)}, by {study.words.model.name}",
            "aspect ratios p/n": _listed(study.words.aspect_ratios),
            "penalty": f"{study.words.gamma:g}",
            "replicates": str(study.words.replicates),
        }
    return [
        {
            "panel": panel,
            "parameter": parameter,
            "symbol": "",
            "defined": value,
            "here": value,
            "source": "summary" if parameter == "transformer" else "beyond",
        }
        for panel, values in panels.items()
        for parameter, value in values.items()
    ]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)


def parameters(figure: Figure, defined: Figure) -> list[dict[str, str]]:
    """Return every parameter of every panel, and who says so.

    Parameters
    ----------
    figure : Figure
        As it was run.
    defined : Figure
        As it is defined, with every panel and curve.

    Returns
    -------
    list of dict of str
        ``panel``, ``parameter``, ``symbol``, ``defined``, ``here`` and ``source``.
    """
    whole = {panel.name: panel for panel in defined.panels}
    rows = []
    for panel in figure.panels:
        for parameter, source in panel.source:
            rows.append(
                {
                    "panel": panel.title,
                    "parameter": parameter.replace("_", " "),
                    "symbol": SYMBOLS.get(parameter, ""),
                    "defined": value(whole[panel.name], parameter),
                    "here": value(panel, parameter),
                    "source": source,
                }
            )
    return rows


def value(panel: Panel, parameter: str) -> str:
    """Return a parameter of a panel in words.

    Parameters
    ----------
    panel : Panel
        A panel.
    parameter : str
        One that it names a source for.

    Returns
    -------
    str
        What is swept as its range, what curves differ in one by one.
    """
    if parameter == "replicates":
        return str(panel.replicates)
    if parameter in panel.swept:
        values = panel.swept[parameter]
        if len(values) < 4:
            return ", ".join(f"{x:g}" for x in values)
        return f"{min(values):g} … {max(values):g}, {len(values)} values"
    words = {one.label: _word(one.curve, parameter) for one in panel.curves}
    known = {label: word for label, word in words.items() if word}
    if len(set(known.values())) == 1:
        return next(iter(known.values()))
    return "; ".join(f"{label}: {word}" for label, word in known.items())


def _word(curve: Curve, parameter: str) -> str:
    """Return a parameter of one curve, empty where it has none."""
    setting = curve.setting
    found = getattr(setting, parameter, None)
    attention = setting.estimator != "regression"
    if parameter in _OF_ATTENTION and not attention:
        return ""
    if found is None:
        return "none" if parameter == "weights" else ""
    if isinstance(found, Weights):
        key = f"norm {found.key.norm}, cosine {found.key.alignment:g} with the signal"
        if found.query is None:
            return f"w_K = w_Q, {key}"
        query = f"norm {found.query.norm}, cosine {found.query.alignment:g}"
        return f"w_K: {key}; w_Q: {query}"
    if isinstance(found, HermiteMix):
        return f"h1 and h{found.degree}, linear share {found.linear_share:g}"
    if isinstance(found, (UserFunction, Nonlinearity)):
        return found.name
    if isinstance(found, (bool, str)):
        return str(found).lower()
    if isinstance(found, (int, float)):
        return f"{found:g}"
    pairs = {k: v for k, v in vars(found).items() if v is not None and k != "sha256"}
    if "file" in pairs:
        pairs["file"] = Path(pairs["file"]).name  # where it lies is nobody's business
    return ", ".join(f"{k.replace('_', ' ')} {v}" for k, v in pairs.items())
