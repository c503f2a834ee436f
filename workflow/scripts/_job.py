"""What scripts share: one BLAS thread, this clone's package, one line an error."""

import argparse
import errno
import json
import os
import platform
import re
import resource
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from threadpoolctl import threadpool_limits

# Scripts compute with the package of the clone they stand in, installed or not.
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "workflow/src"))

from interpolation_error.run import lease, provenance  # noqa: E402
from interpolation_error.run.store import StoreError, file_digest, replacing  # noqa: E402


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
        # On a full disk the log may have no room for it: the status says it then.
        with suppress(OSError):
            print(f"error: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(errno.ENOSPC if error.errno == errno.ENOSPC else 1)


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


def command(results: Path) -> str:
    """Return the command that this process is, without any place of this machine.

    The specification is left out as SPEC: it is an attribute of what is made. A file
    that is neither the project's nor in its results folder is named without its place.
    """
    words = [sys.argv[0], *sys.argv[1:]]
    for place, word in enumerate(words):
        if words[place - 1] == "--spec":
            words[place] = "SPEC"
        elif os.sep in word:
            words[place] = _below(Path(word).resolve(), results.resolve())
    return shlex.join(["python", *words])


def _below(path: Path, results: Path) -> str:
    """Return a path below the project; a results folder elsewhere is its results."""
    if path.is_relative_to(ROOT):
        return path.relative_to(ROOT).as_posix()
    if path.is_relative_to(results):
        return Path("results", path.relative_to(results)).as_posix()
    return path.name


def peak_memory() -> int:
    """Return the megabytes that this program held at most."""
    # Of Linux's two counts the one that begins anew with a program; the other goes on
    # from the process that started it, which may be larger.
    with suppress(OSError):
        status = Path("/proc/self/status").read_text()
        if held := re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE):
            return round(int(held[1]) / 2**10)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(peak / (2**20 if sys.platform == "darwin" else 2**10))


class Stopwatch:
    """Writes what is volatile about a job beside its array, never into it."""

    def __init__(self) -> None:
        self.start = time.perf_counter()

    def write(self, array: Path) -> None:
        """Write to ``<array>.json`` what the job took, its machine, command and commit.

        The processor's seconds count from the start of Python, imports included, and
        not what a job waited for others on a busy machine. The digest of the file's
        bytes tells damage anywhere in the file before HDF5 stumbles over it.
        """
        write_json(
            array.with_suffix(".json"),
            {
                "seconds": round(time.perf_counter() - self.start, 3),
                "cpu_seconds": round(time.process_time(), 3),
                "peak_memory_mb": peak_memory(),
                "machine": provenance.machine(),
                "python": platform.python_version(),
                "command": command(array.parents[2]),
                "git": provenance.git_state(ROOT),
                "sha256": file_digest(array),
            },
        )
