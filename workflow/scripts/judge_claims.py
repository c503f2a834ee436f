"""Test every statement on the cached arrays."""

import argparse
import json
from pathlib import Path

from _job import read_spec, run, write_json

from interpolation_error.run import store
from interpolation_error.run.identity import Identity
from interpolation_error.verdicts import claims_table
from interpolation_error.verdicts.claims import verdicts


def main(arguments: argparse.Namespace) -> None:
    """Read the arrays, judge, and write the verdicts in three forms."""
    spec = arguments.spec
    identity = Identity.of(spec, "claims")
    store.check_name(arguments.manifest, identity)
    # The manifest of a figure's table names the arrays that the table is made of.
    folder = arguments.manifest.parent
    figures = {
        name: json.loads((folder / f"{stem}.json").read_text())
        for name, stem in spec["figures"].items()
    }
    found = verdicts(
        *(spec["claims"], figures), lambda path: store.read(arguments.results / path)
    )
    for earlier in arguments.manifest.parent.glob("claims-*.json"):
        earlier.unlink()
    files = (arguments.json, arguments.csv, arguments.markdown)
    texts = claims_table.texts(found, identity.key)
    for path, text in zip(files, texts.values(), strict=True):
        with store.replacing(path) as draft:
            draft.write_text(text, "utf-8")
    write_json(
        arguments.manifest,
        {
            "key": identity.key,
            "code": identity.code,
            "files": {path.name: store.file_digest(path) for path in files},
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--results", type=Path, required=True, help="results folder")
    parser.add_argument("--json", type=Path, required=True, help="JSON to write")
    parser.add_argument("--csv", type=Path, required=True, help="CSV to write")
    parser.add_argument("--markdown", type=Path, required=True, help="page to write")
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    run(main, parser)
