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

PACKAGE = Path(__file__).parent
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
        The module that makes it; with its imports it is in the key.
    libraries : tuple of str, optional
        Packages beyond :data:`NUMERICAL` whose version is in the key.
    """

    module: str
    libraries: tuple[str, ...] = ()


KINDS = {
    "data": Kind("data"),
    "tokens": Kind("tokens_file"),
    "simulation": Kind("experiment"),
    "theory": Kind("prediction"),
    "table": Kind("gather", TABLES),
    "figure": Kind("drawing", PICTURES),
    "claims": Kind("claims_table", VERDICTS),
    "study_simulation": Kind("study_simulation"),
    "study_theory": Kind("study_prediction"),
    "study_table": Kind("study_table", TABLES),
    "study_figure": Kind("study_drawing", PICTURES),
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
        Name of a module of this package, such as ``"theory"``.

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
    >>> len(code_digest("theory"))
    64
    """
    digest = hashlib.sha256()
    for name in import_closure(module):
        digest.update(f"{name}\n".encode())
        digest.update(_tokens((PACKAGE / f"{name}.py").read_text("utf-8")).encode())
    return digest.hexdigest()


def import_closure(module: str) -> tuple[str, ...]:
    """Return the sorted names of a module and of all it imports from this package.

    Examples
    --------
    >>> "simulation" in import_closure("theory")
    False
    """
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = PACKAGE / f"{name}.py"
        if not path.is_file():
            raise ValueError(f"{PACKAGE.name} has no module {name!r}")
        found.add(name)
        imported = _imports(path.read_text("utf-8"))
        waiting += sorted(
            other for other in imported - found if (PACKAGE / f"{other}.py").is_file()
        )
    return tuple(sorted(found))


# A module is a part of many kinds, and every job of a cluster asks for the digests of
# all of them: by its text, so that no edit is missed, each is looked through once.
@cache
def _imports(source: str) -> frozenset[str]:
    """Return what a module may import from this package, by name."""
    prefix = f"{PACKAGE.name}."
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = prefix if node.level else ""
            base += node.module or ""
            names |= {base} | {f"{base.rstrip('.')}.{a.name}" for a in node.names}
    return frozenset(
        name.removeprefix(prefix).split(".")[0]
        for name in names
        if name.startswith(prefix)
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
