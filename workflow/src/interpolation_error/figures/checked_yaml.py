"""Read YAML and hold it against a schema; what is wrong is one line with a place."""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import yaml


class ConfigurationError(ValueError):
    """A configuration that cannot run: one line with file, key and what is allowed."""


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
        raise ConfigurationError(f"{shown_path(path, root)}:{line} {problem}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{shown_path(path, root)}: {error}") from None
    except RecursionError:
        raise ConfigurationError(
            f"{shown_path(path, root)}: is nested too deeply"
        ) from None
    if not isinstance(content, dict):
        raise ConfigurationError(f"{shown_path(path, root)}: must be a mapping of keys")
    return content


_YAML = "tag:yaml.org,2002:"
# Dates and a lone "=", which no schema has a use for. They are not taken for text:
# Snakemake reads config.yaml too, and would not.
_NO_USE = (f"{_YAML}timestamp", f"{_YAML}value")


def _at(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys and reads 1e-5 as a number.

    Keys are text, and there are no dates. A value that its tag does not fit is refused
    with its line.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in _NO_USE:
            raise _at(node, f"{node.value!r} is text only in quotes")
        try:
            return super().construct_object(node, deep)
        except (ValueError, TypeError, LookupError, AttributeError):
            kind = node.tag.removeprefix(_YAML)
            raise _at(
                node, f"{reprlib.repr(node.value)} cannot be read as {kind}"
            ) from None

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode):
                raise _at(key, "a key must be text, not a list or a mapping")
            if key.tag == f"{_YAML}merge":
                continue
            if key.tag != f"{_YAML}str":
                raise _at(key, f"the key {key.value!r} is text only in quotes")
            if key.value in seen:
                raise _at(key, f"the key {key.value!r} stands twice")
            seen.add(key.value)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


_Loader.add_implicit_resolver(
    f"{_YAML}float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)


def read_checked(path: Path, root: Path, kind: str) -> dict[str, Any]:
    """Return a YAML mapping that its schema allows.

    Parameters
    ----------
    path : Path
        The file.
    root : Path
        Folder that holds ``config``; messages name the file below it.
    kind : {"figure", "study", "claims", "preset"}
        Which of ``config/schemas``.

    Returns
    -------
    dict

    Raises
    ------
    ConfigurationError
        As :func:`read_yaml` and :func:`validate`.
    """
    content = read_yaml(path, root)
    validate(content, root, kind, shown_path(path, root))
    return content


def validate(content: Mapping[str, Any], root: Path, kind: str, where: str) -> None:
    """Hold content against a JSON schema.

    Parameters
    ----------
    content : mapping
        As :func:`read_yaml` returns it.
    root : Path
        Folder that holds ``config``.
    kind : str
        Which of ``config/schemas``.
    where : str
        The name of the file, for the message.

    Raises
    ------
    ConfigurationError
        Of the deepest fault; one line with file and key.
    """
    path = root / "config" / "schemas" / f"{kind}.schema.yaml"
    faults = list(
        _Validator(yaml.safe_load(path.read_text("utf-8"))).iter_errors(content)
    )
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
        case "maxItems":
            most = error.validator_value
            return f"{here}must have {most} values or fewer; got {len(value)}"
        case "oneOf" | "anyOf" | "not":
            words = error.schema.get("description", "as config/README.md says")
            return f"{here}must be {words}; got {value!r}"
        case _:
            return f"{here}{error.message}"


def located(where: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function and put file and key before the line of its ValueError.

    Raises
    ------
    ConfigurationError
        Where the function raises a ValueError.

    Examples
    --------
    >>> located("config.yaml: seed", int, "7")
    7
    >>> located("config.yaml: seed", int, "many")
    Traceback (most recent call last):
        ...
    interpolation_error.figures.checked_yaml.ConfigurationError: config.yaml: seed: ...
    """
    try:
        return function(*arguments)
    except ValueError as error:
        # What a library has to say of a file may take more than a line.
        line = " ".join(str(error).splitlines())
        raise ConfigurationError(f"{where}: {line}") from None


def shown_path(path: Path, root: Path) -> str:
    """Return a path as messages name it, below the project's folder.

    Examples
    --------
    >>> shown_path(Path("/project/config/claims.yaml"), Path("/project"))
    'config/claims.yaml'
    """
    return path.relative_to(root).as_posix()
