"""Write the tables of a study of pretrained weights."""

import argparse
from pathlib import Path

from _job import read_spec, run, write_json

from interpolation_error.figures import study_table
from interpolation_error.figures.tables import text
from interpolation_error.run import store
from interpolation_error.run.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read and check the arrays, write the tables and their manifest."""
    spec = arguments.spec
    identity = Identity.of(spec, "study_table")
    store.check_name(arguments.manifest, identity)
    arrays = {}

    def read(path: str):
        if path not in arrays:
            arrays[path] = store.read(arguments.results / path)
        return arrays[path]

    tables = study_table.tables(spec, read).values()
    # The manifests of earlier tables go first: they vouch for files about to change.
    for earlier in arguments.manifest.parent.glob(f"{spec['study']}-table-*.json"):
        earlier.unlink()
    for path, table in zip(arguments.tables, tables, strict=True):
        with store.replacing(path) as draft:
            draft.write_text(text(table), "utf-8")
    write_json(
        arguments.manifest,
        {
            **spec,
            "key": identity.key,
            "code": identity.code,
            "tables": {path.name: store.file_digest(path) for path in arguments.tables},
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--results", type=Path, required=True, help="results folder")
    parser.add_argument(
        "--tables", type=Path, nargs=3, required=True, help="errors, fits, spectra"
    )
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    run(main, parser)
