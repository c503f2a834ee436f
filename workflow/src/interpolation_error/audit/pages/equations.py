"""Which equation and which lines of code a curve comes from."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from interpolation_error.figures.figure import QUANTITIES, LabelledCurve, Panel
from interpolation_error.model.setting import Setting

SIMULATED, LIMIT, FINITE_SIZE = "simulation", "limit", "theory at finite size"
READ, FIT = "read from a file", "best fit"
BESIDE = {
    "simulation.attention_output": "A = XK, section 1",
    "simulation.gram_eigenvalues": "eigenvalues of AᵀA/n, section 1",
    "simulation.softmax_output": "softmax, section 2",
    "simulation.attention_error_general_weights": "E, section 1",
}
"""Functions that no table of docs/theory.md has, and where it speaks of them."""


class Source(NamedTuple):
    """Where numbers come from.

    Parameters
    ----------
    role : str
        Such as ``"simulation"``, ``"limit"`` or ``"theory at finite size"``.
    equation : str
        As docs/theory.md numbers it.
    function : str
        Module and name in the package.
    file : str
        Below the project's folder.
    lines : tuple of int
        The first and the last.
    test : str
        What tests it, as docs/theory.md says; empty where it says nothing.
    """

    role: str
    equation: str
    function: str
    file: str
    lines: tuple[int, int]
    test: str


def sources(panel: Panel, labelled: LabelledCurve, theory: str) -> tuple[Source, ...]:
    """Return where the numbers of a curve come from.

    Parameters
    ----------
    panel : Panel
        Shows it.
    labelled : LabelledCurve
        The curve.
    theory : str
        Text of docs/theory.md, whose tables join equations and functions.

    Returns
    -------
    tuple of Source

    Raises
    ------
    ValueError
        If the document has no equation for a function.
    """
    return _sources(_functions(panel, labelled), equations(theory))


_STUDY = {
    "heads": (
        (SIMULATED, "simulation.attention_error_general_weights"),
        (LIMIT, "theory.attention_error_general_weights"),
    ),
    "their fits": (
        (FIT, "model.identity_fit.fit"),
        (LIMIT, "theory.attention_error"),
        (FINITE_SIZE, "theory.attention_error_finite_size"),
    ),
    "regression": (
        (SIMULATED, "simulation.linear_regression_error"),
        (LIMIT, "theory.linear_regression_error"),
    ),
    "weights": (
        (READ, "model.pretrained.read_attention"),
        (FIT, "model.identity_fit.describe"),
    ),
}
"""What the numbers of a study come from, by what they are about."""


def of_study(theory: str) -> list[tuple[str, tuple[Source, ...]]]:
    """Return where the numbers of a study of pretrained weights come from.

    Parameters
    ----------
    theory : str
        As :func:`sources` takes it.

    Returns
    -------
    list of (str, tuple of Source)
        By what the numbers are about.

    Raises
    ------
    ValueError
        As :func:`sources`.
    """
    table = equations(theory)
    return [(about, _sources(functions, table)) for about, functions in _STUDY.items()]


def _sources(
    functions: Iterable[tuple[str, str]], table: Mapping[str, tuple[str, str]]
) -> tuple[Source, ...]:
    found = []
    for role, function in dict.fromkeys(functions):
        if function not in table:
            raise ValueError(f"docs/theory.md: no table names {function}")
        equation, test = table[function]
        found.append(Source(role, equation, function, *located(function), test))
    return tuple(found)


def equations(theory: str) -> dict[str, tuple[str, str]]:
    """Return the equation and the test of each function that a document names.

    Parameters
    ----------
    theory : str
        Text with tables of equation, functions and test.

    Returns
    -------
    dict of str to (str, str)
        By module and name.

    Examples
    --------
    >>> text = "| (3.3) | `theory.linear_regression_error` | limits |"
    >>> equations(text)["theory.linear_regression_error"]
    ('(3.3)', 'limits')
    """
    found = {function: (where, "") for function, where in BESIDE.items()}
    for equation, functions, test in re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", theory, re.MULTILINE
    ):
        for function in re.findall(r"`(\w+(?:\.\w+)+)`", functions):
            found[function] = (equation.strip(), test.strip().replace("`", ""))
    return found


def located(function: str) -> tuple[str, tuple[int, int]]:
    """Return file and lines of a function of this package.

    Parameters
    ----------
    function : str
        Module and name.

    Returns
    -------
    file : str
        Below the project's folder.
    lines : tuple of int
        The first and the last.

    Examples
    --------
    >>> located("simulation.remainder")[0]
    'workflow/src/interpolation_error/simulation/linearization.py'
    """
    module, _, name = function.rpartition(".")
    code = getattr(importlib.import_module(f"interpolation_error.{module}"), name)
    text, first = inspect.getsourcelines(code)
    below = "/".join(code.__module__.split("."))
    return f"workflow/src/{below}.py", (first, first + len(text) - 1)


def _functions(panel: Panel, labelled: LabelledCurve) -> Iterator[tuple[str, str]]:
    """Yield role and function of all that a curve and what is beside it needs."""
    curves = [labelled.curve]
    if QUANTITIES[panel.quantity].against_regression:
        curves.append(labelled.regression())
    for curve in curves:
        for setting in {setting.estimator: setting for setting in curve}.values():
            for function in _simulated(curve.measure, setting):
                yield SIMULATED, function
            for function in _predicted(curve.measure, setting):
                yield LIMIT, function
        if panel.line(curve)["finite_size"] and curve.measure == "error":
            yield FINITE_SIZE, "theory.attention_error_finite_size"


def _simulated(measure: str, setting: Setting) -> list[str]:
    """Return the functions that simulate one setting."""
    if measure == "linearization":
        return ["simulation.remainder"]
    whole = measure != "error" or setting.heads.number > 1
    features = {
        "regression": [],
        "softmax": ["simulation.softmax_output"],
        "attention": ["simulation.attention_output"] if whole else [],
    }[setting.estimator]
    if measure != "error":
        return [*features, "simulation.gram_eigenvalues"]
    if setting.estimator == "attention" and not whole:
        return ["simulation.attention_error"]
    return [*features, "simulation.linear_regression_error"]


def _predicted(measure: str, setting: Setting) -> list[str]:
    """Return the functions that predict one setting's limit."""
    if measure == "linearization":
        return []
    # A softmax whose diagonal is kept tends to a multiple of the identity.
    plain = setting.estimator == "regression" or (
        setting.estimator == "softmax" and setting.diagonal == "keep"
    )
    if plain:
        return [
            "theory.linear_regression_error"
            if measure == "error"
            else "theory.marchenko_pastur_stieltjes"
        ]
    return {
        "error": ["nonlinearity.hermite_coefficients", "theory.attention_error"],
        "trace": ["theory.attention_resolvent_trace"],
        "spectrum": ["theory.attention_spectral_density"],
    }[measure]
