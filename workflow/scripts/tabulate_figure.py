"""Join a figure's simulated and predicted curves in one table."""

import argparse
from pathlib import Path

from _job import read_spec, run, write_json

from interpolation_error.figures.gather import gather
from interpolation_error.figures.tables import tabulate, text
from interpolation_error.run import store
from interpolation_error.run.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read and check the arrays, write the table and the manifest of its curves."""
    spec = arguments.spec
    identity = Identity.of(spec, "table")
    store.check_name(arguments.manifest, identity)
    table = tabulate(gather(spec, lambda path: store.read(arguments.results / path)))
    # The manifests of an earlier table go first: they vouch for a file about to change.
    pattern = f"{spec['figure']}-table-*.json"
    for earlier in arguments.manifest.parent.glob(pattern):
        earlier.unlink()
    with store.replacing(arguments.table) as draft:
        draft.write_text(text(table), "utf-8")
    write_json(
        arguments.manifest,
        {
            "figure": spec["figure"],
            "key": identity.key,
            "code": identity.code,
            "table_sha256": store.file_digest(arguments.table),
            "theory": spec["theory"],
            "series": spec["series"],
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--results", type=Path, required=True, help="results folder")
    parser.add_argument("--table", type=Path, required=True, help="CSV to write")
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    run(main, parser)
