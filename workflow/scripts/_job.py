"""What scripts share: one BLAS thread, this clone's package, one line an error."""

import argparse
import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from threadpoolctl import threadpool_limits

# Scripts compute with the package of the clone they stand in, installed or not.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from interpolation_error import lease  # noqa: E402
from interpolation_error.store import StoreError, replacing  # noqa: E402


def run(main: Callable[[argparse.Namespace], None], parser: argparse.ArgumentParser):
    """Run a script's main function and turn what it refuses into one clear line."""
    arguments = parser.parse_args()
    try:
        # BLAS gives other bits with another number of threads.
        with threadpool_limits(limits=1), lease.working():
            main(arguments)
    except (ValueError, ArithmeticError, StoreError, lease.LeaseError) as error:
        sys.exit(f"error: {error}")
    except MemoryError:
        sys.exit("error: not enough memory; give jobs more or run fewer at once")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"error: {where}{error.strerror or error}")


def read_spec(text: str) -> dict:
    """Return a specification from its JSON text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from None


def write_json(path: Path, content: dict) -> None:
    """Write a small JSON file that people may read."""
    with replacing(path) as draft:
        draft.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


class Stopwatch:
    """Writes what is volatile about a job beside its array, never into it."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def write(self, array: Path) -> None:
        """Write seconds, peak memory and the kind of machine to ``<array>.json``."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        write_json(
            array.with_suffix(".json"),
            {
                "seconds": round(time.perf_counter() - self.start, 3),
                "peak_memory_mb": round(
                    peak / (2**20 if sys.platform == "darwin" else 2**10)
                ),
                "machine": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        )
