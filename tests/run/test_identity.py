"""The key of an array changes with all that its values depend on, and with no more."""

import ast
import json

import pytest

from interpolation_error.run import identity
from interpolation_error.run.identity import Identity, canonical_json, import_closure


def tokens(source):
    return identity._tokens(source)


SOURCE = '''"""Doc."""
import numpy as np

LIMIT = 3
"""A note."""


def f(x):
    """Return x."""
    # why
    return f"{x:.{LIMIT}f} {x!r}" + "text"
'''


def test_comments_docstrings_and_layout_do_not_count():
    other = SOURCE.replace("# why", "# because").replace("Return x.", "Give x back.")
    other = other.replace('"""Doc."""\n', '"""A longer\n\ndocstring."""\n\n\n')
    other = other.replace("\n\n\ndef", "\n\ndef").replace("A note.", "Another.")
    assert tokens(other) == tokens(SOURCE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ('"text"', '"test"'),
        ("{x!r}", "{x!s}"),
        (".{LIMIT}f", ".{LIMIT}g"),
        ("import numpy as np", "import numpy as numpy"),
    ],
)
def test_anything_that_runs_counts(old, new):
    assert old in SOURCE
    assert tokens(SOURCE.replace(old, new)) != tokens(SOURCE)


def test_an_indented_line_is_not_the_same_line_outside():
    inside = "if a:\n    b = 1\n    c = 2\n"
    outside = "if a:\n    b = 1\nc = 2\n"
    assert tokens(inside) != tokens(outside)


def test_an_f_string_is_one_token_on_every_python():
    source = "x = f\"a {b} c\" f'{d:{e}}'\n"
    assert "f\"a {b} c\"\nf'{d:{e}}'" in tokens(source)


def floors(module):
    """Return the sub-packages that a module and what it imports are in."""
    return {name.split(".")[0] for name in import_closure(module)}


def test_simulation_and_theory_never_import_each_other():
    assert floors("theory") == {"model", "theory"}
    assert floors("simulation.experiment") == {"model", "simulation"}


def test_closure_follows_imports_of_imports():
    assert {
        *("figures.prediction", "theory", "theory.limit"),
        *("model.curve", "model.nonlinearity"),
    } <= set(import_closure("figures.prediction"))


def test_closure_has_the_modules_that_are_used_and_not_their_neighbours():
    assert import_closure("theory.regression") == ("model.checks", "theory.regression")
    assert "simulation" not in import_closure("simulation.experiment")
    assert "simulation.study_simulation" not in import_closure("simulation.experiment")


def test_nothing_that_computes_imports_the_store():
    for kind in identity.KINDS.values():
        assert "run" not in floors(kind.module)


def test_a_sub_package_only_hands_on_what_its_modules_define():
    # So it can be left out of the keys of those who import one of its modules.
    for path in identity.PACKAGE.rglob("__init__.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            text = ast.unparse(node)
            assert isinstance(node, (ast.ImportFrom, ast.Expr)) or text.startswith(
                "__all__ = "
            ), f"{path}: {text}"
            # A name is of a module or of what it defines, and not of both.
            names = getattr(node, "names", [])
            assert not any((path.parent / f"{one.name}.py").exists() for one in names)


def test_unknown_module_is_refused():
    with pytest.raises(ValueError, match="no module 'nothing'"):
        import_closure("nothing")


@pytest.mark.parametrize("field", ["spec", "code", "versions", "schema"])
def test_every_part_of_an_identity_is_in_its_key(field):
    import dataclasses

    one = Identity("{}", "a", "b", 1)
    value = 2 if field == "schema" else "other"
    assert dataclasses.replace(one, **{field: value}).key != one.key


def test_swapped_values_give_another_key():
    assert Identity.of({"n": 1, "p": 2}, "data").key != (
        Identity.of({"n": 2, "p": 1}, "data").key
    )


def test_specification_is_the_same_whatever_the_order_of_its_keys():
    assert canonical_json({"b": 1.5, "a": {"d": 2, "c": 3}}) == canonical_json(
        {"a": {"c": 3, "d": 2}, "b": 1.5}
    )


def test_specification_survives_a_trip_through_text():
    spec = {"gamma": [1e-6, 0.1, 1 / 3], "n": 4}
    assert canonical_json(json.loads(canonical_json(spec))) == canonical_json(spec)


def test_specification_refuses_what_json_cannot_say():
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"gamma": float("nan")})
