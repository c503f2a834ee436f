"""What an array is: a key made of its specification, its code and its versions."""

from __future__ import annotations

import ast
import hashlib
import io
import json
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parents[1]
SCHEMA_VERSION = 1
"""Layout of the files that the store writes; raise it when the layout changes."""
NUMERICAL = ("numpy", "scipy", "h5py")
"""Packages whose version is a part of every key."""
TABLES = ("pandas",)
"""Those that give a table its text, too."""
VERDICTS = (*TABLES, "tabulate")
"""Those that give the verdicts theirs."""
PICTURES = ("matplotlib", "contourpy", "fonttools", "kiwisolver", "pillow")
"""matplotlib, and what it draws and writes with."""
KEY_LENGTH = 16
"""How many hex digits of the key stand in a file's name."""


class Kind(NamedTuple):
    """A kind of thing that jobs make.

    Parameters
    ----------
    module : str
        The room that makes it; with its imports it is in the key.
    libraries : tuple of str, optional
        Packages beyond :data:`NUMERICAL` whose version is in the key.
    """

    module: str
    libraries: tuple[str, ...] = ()


KINDS = {
    "data": Kind("model.data"),
    "tokens": Kind("model.tokens_file"),
    "simulation": Kind("simulation.experiment"),
    "theory": Kind("figures.prediction"),
    "table": Kind("figures.gather", TABLES),
    "figure": Kind("figures.drawing", PICTURES),
    "claims": Kind("verdicts.claims_table", VERDICTS),
    "study_simulation": Kind("simulation.study_simulation"),
    "study_theory": Kind("figures.study_prediction"),
    "study_table": Kind("figures.study_table", TABLES),
    "study_figure": Kind("figures.study_drawing", PICTURES),
}
"""All that jobs make, by name."""


def canonical_json(spec: Any) -> str:
    """Return the one JSON text of a specification: sorted keys, no white space.

    Raises
    ------
    ValueError, TypeError
        If it holds a NaN or anything but plain JSON types.

    Examples
    --------
    >>> canonical_json({"b": 1, "a": [0.5]})
    '{"a":[0.5],"b":1}'
    """
    return json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)


@dataclass(frozen=True)
class Identity:
    """Everything that the bytes of an array, table or picture depend on.

    All but the processor, that is.

    Parameters
    ----------
    spec : str
        Canonical JSON of what was asked for.
    code : str
        Digest of the modules that compute it, see :func:`code_digest`.
    versions : str
        Canonical JSON of the library versions.
    schema : int
        Version of the file layout.

    Examples
    --------
    >>> Identity.of({"n": 4}, "data").key == Identity.of({"n": 5}, "data").key
    False
    """

    spec: str
    code: str
    versions: str
    schema: int

    @classmethod
    def of(cls, spec: Mapping[str, Any], kind: str) -> Identity:
        """Return the identity of a kind of thing that is made here and now.

        Parameters
        ----------
        spec : mapping
            What is asked for, in plain JSON types.
        kind : str
            A key of :data:`KINDS`.

        Returns
        -------
        Identity
        """
        code = code_digest(KINDS[kind].module)
        return cls(canonical_json(spec), code, versions(kind), SCHEMA_VERSION)

    @property
    def key(self) -> str:
        """The sha256 of it all, in hex."""
        whole = "\n".join((self.spec, self.code, self.versions, str(self.schema)))
        return hashlib.sha256(whole.encode()).hexdigest()


@cache
def versions(kind: str) -> str:
    """Return the versions of the libraries that make a kind of thing.

    Parameters
    ----------
    kind : str
        A key of :data:`KINDS`.

    Returns
    -------
    str
        Canonical JSON.

    Examples
    --------
    >>> list(json.loads(versions("simulation")))
    ['h5py', 'numpy', 'scipy']
    >>> list(json.loads(versions("table")))
    ['h5py', 'numpy', 'pandas', 'scipy']
    """
    libraries = (*NUMERICAL, *KINDS[kind].libraries)
    return canonical_json({name: metadata.version(name) for name in libraries})


@cache
def code_digest(module: str) -> str:
    """Return a digest of a module's code and of all it imports from this package.

    Comments, docstrings and layout do not count, so that explaining the code better
    does not throw away what it computed.

    Parameters
    ----------
    module : str
        Name of a module below this package, such as ``"theory.limit"``.

    Returns
    -------
    str
        A sha256 in hex.

    Raises
    ------
    ValueError
        If there is no such module.

    Examples
    --------
    >>> len(code_digest("theory.limit"))
    64
    """
    digest = hashlib.sha256()
    for name in import_closure(module):
        digest.update(f"{name}\n".encode())
        digest.update(_tokens(source_file(name).read_text("utf-8")).encode())
    return digest.hexdigest()


def import_closure(module: str) -> tuple[str, ...]:
    """Return the sorted names of a module and of all it imports from this package.

    The ``__init__`` of a sub-package counts where something is imported from it that is
    no module of its own: all that it does is to hand on what its modules define.

    Examples
    --------
    >>> "model.nonlinearity" in import_closure("theory.limit")
    False
    """
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if not source_file(name).is_file():
            raise ValueError(f"{PACKAGE.name} has no module {name!r}")
        found.add(name)
        waiting += sorted(imports(source_file(name).read_text("utf-8")) - found)
    return tuple(sorted(found))


def imports(source: str) -> set[str]:
    """Return the modules of this package that a source text imports itself.

    Examples
    --------
    >>> imports("from interpolation_error.model import data")
    {'model.data'}
    """
    modules = set()
    for base, name in _import_statements(source):
        whole = f"{base}.{name}".strip(".")
        modules.add(whole if source_file(whole).is_file() else base)
    return modules - {""}


def source_file(module: str) -> Path:
    """Return where a module's source is, or would be.

    Examples
    --------
    >>> source_file("theory").name
    '__init__.py'
    """
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


# A module is a part of many kinds, and every job of a cluster asks for the digests of
# all of them: by its text, so that no edit is missed, each is looked through once.
@cache
def _import_statements(source: str) -> frozenset[tuple[str, str]]:
    """Return what is imported from this package: from which module, and which name."""
    found: set[tuple[str, str]] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {(alias.name, "") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return frozenset(
        (base.removeprefix(PACKAGE.name).strip("."), name)
        for base, name in found
        if base.split(".")[0] == PACKAGE.name
    )


@cache
def _tokens(source: str) -> str:
    """Return the tokens of a source text that can change what it computes."""
    documentation = _docstring_positions(ast.parse(source))
    lines = source.splitlines(keepends=True)
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING}
    # Python 3.12 splits an f-string into tokens; taking its text whole keeps the
    # digest of one source the same on every version.
    f_start = getattr(tokenize, "FSTRING_START", None)
    f_end = getattr(tokenize, "FSTRING_END", None)
    kept: list[str] = []
    opened: list[tuple[int, int]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == f_start:
            opened.append(token.start)
        elif token.type == f_end:
            start = opened.pop()
            if not opened:
                kept.append(_text_between(lines, start, token.end))
        elif opened or token.type in skipped or token.start in documentation:
            continue
        elif token.type in (tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE):
            kept.append(tokenize.tok_name[token.type])
        else:
            kept.append(token.string)
    return "\n".join(kept)


def _text_between(
    lines: list[str], start: tuple[int, int], end: tuple[int, int]
) -> str:
    """Return the source text from one (line, column) to another."""
    (first, left), (last, right) = start, end
    if first == last:
        return lines[first - 1][left:right]
    middle = lines[first : last - 1]
    return "".join([lines[first - 1][left:], *middle, lines[last - 1][:right]])


def _docstring_positions(tree: ast.Module) -> set[tuple[int, int]]:
    """Return where bare strings stand: docstrings and notes below constants."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }
