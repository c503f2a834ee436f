"""Every curve of every figure has its equation, its function and the lines of it."""

from pathlib import Path

import pytest

from interpolation_error.audit.pages import equations
from interpolation_error.figures.definition import read_figure

ROOT = Path(__file__).parents[2]
THEORY = (ROOT / "docs/theory.md").read_text()
FIGURES = sorted(path.parent.name for path in ROOT.glob("figures/*/figure.yaml"))


def curves(name):
    figure = read_figure(ROOT / f"figures/{name}/figure.yaml", ROOT, {})
    return [(panel, one) for panel in figure.panels for one in panel.curves]


@pytest.mark.parametrize("name", FIGURES)
def test_every_curve_has_a_simulation_and_lines_that_are_the_function(name):
    for panel, labelled in curves(name):
        found = equations.sources(panel, labelled, THEORY)
        assert equations.SIMULATED in {one.role for one in found}
        for one in found:
            first, last = one.lines
            lines = (ROOT / one.file).read_text().splitlines()[first - 1 : last]
            text = "\n".join(lines)
            assert f"def {one.function.split('.')[1]}(" in text
            assert one.equation


def roles(name, panel_name, curve):
    (found,) = [
        equations.sources(panel, one, THEORY)
        for panel, one in curves(name)
        if (panel.name, one.name) == (panel_name, curve)
    ]
    return {one.role: one.function for one in found}


def test_theory_at_finite_size_is_named_where_it_is_drawn():
    assert roles("nonlinear_attention", "gamma", "tanh") == {
        "simulation": "simulation.attention_error",
        "limit": "theory.attention_error",
        "theory at finite size": "theory.attention_error_finite_size",
    }
    assert roles("nonlinear_attention", "gamma", "regression") == {
        "simulation": "simulation.linear_regression_error",
        "limit": "theory.linear_regression_error",
    }


def test_a_document_that_lacks_a_function_is_named():
    ((panel, labelled), *_) = curves("linear_regression")
    with pytest.raises(ValueError, match=r"^docs/theory.md: no table names simulation"):
        equations.sources(panel, labelled, "| (1) | `theory.other` | nothing |")
