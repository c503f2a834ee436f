"""List cached files that no figure of any preset names; with --delete, remove them."""

import argparse
from pathlib import Path

from _job import run

from interpolation_error import checked_yaml, configuration, lease
from interpolation_error.plan import Plan

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: argparse.Namespace) -> None:
    """Compare what is there with what the presets name."""
    config = checked_yaml.read_yaml(ROOT / "config/config.yaml", ROOT)
    named = set()
    for preset in (ROOT / "config/presets").glob("*.yaml"):
        chosen = {**config, "preset": preset.stem}
        loaded = configuration.load(chosen, ROOT, "config/config.yaml")
        named |= {Path(path).stem for path in Plan(loaded, "").arrays()}
    cache = Path(config["results"]) / "cache"
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
    parser.add_argument("--delete", action="store_true", help="remove what is listed")
    run(main, parser)
