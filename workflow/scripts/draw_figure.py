"""Draw a figure from its table, in every format."""

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import pandas as pd
from _job import read_spec, run, write_json

from interpolation_error.figures import drawing
from interpolation_error.run import store
from interpolation_error.run.identity import Identity


def main(arguments: argparse.Namespace) -> None:
    """Read the table, draw, and write the manifest of the pictures."""
    spec = arguments.spec
    identity = Identity.of(spec, "figure")
    store.check_name(arguments.manifest, identity)
    drawing.use_style(arguments.style)
    picture = drawing.draw(pd.read_csv(arguments.table), spec["drawing"])
    name = arguments.pictures[0].stem
    for earlier in arguments.manifest.parent.glob(f"{name}-figure-*.json"):
        earlier.unlink()
    for path in arguments.pictures:
        with store.replacing(path) as draft:
            drawing.save(picture, draft)
    write_json(
        arguments.manifest,
        {
            "figure": name,
            "key": identity.key,
            "code": identity.code,
            "table_sha256": store.file_digest(arguments.table),
            "style_sha256": spec["style"],
            "pictures": {p.name: store.file_digest(p) for p in arguments.pictures},
        },
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spec", type=read_spec, required=True, help="JSON")
    parser.add_argument("--table", type=Path, required=True, help="CSV to read")
    parser.add_argument("--style", type=Path, required=True, help="matplotlib style")
    parser.add_argument("--manifest", type=Path, required=True, help="JSON to write")
    parser.add_argument(
        "--pictures", type=Path, nargs="+", required=True, help="files to write"
    )
    run(main, parser)
