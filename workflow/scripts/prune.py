"""List cached files that no figure of any preset names; with --delete, remove them."""

import argparse
from pathlib import Path

from _finished import add_results, load_plan
from _job import ROOT, run

from interpolation_error.run import lease


def main(arguments: argparse.Namespace) -> None:
    """Compare what is there with what the presets name."""
    named = set()
    for preset in (ROOT / "config/presets").glob("*.yaml"):
        arguments.preset = preset.stem
        plan = load_plan(arguments)
        named |= {Path(path).stem for path in plan.arrays()}
    cache = plan.configuration.results / "cache"
    stale = sorted(
        path
        for path in cache.glob("*/*")
        if path.suffix in {".h5", ".json"} and path.stem not in named
    )
    if arguments.delete and stale:
        # A run at work there, of another clone say, may be about to read them.
        lease.take(cache.parent, {}, print)
    size = sum(path.stat().st_size for path in stale)
    for path in stale:
        print(path)
        if arguments.delete:
            path.unlink()
    done = "removed" if arguments.delete else "could be removed (make prune DELETE=1)"
    print(f"{len(stale)} files, {size / 2**20:.1f} MB {done}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    add_results(parser)
    parser.add_argument("--delete", action="store_true", help="remove what is listed")
    run(main, parser)
