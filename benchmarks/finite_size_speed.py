"""The theory at finite size against the way it was solved before, in one run.

The earlier program is taken from the history of the project: damped steps and Newton's
method with GMRES, one penalty after the other, on fixed nodes. Each prediction, of 20
penalties, is timed in a process of its own, the two programs in turn, and how far each
moves in its last refinement is noted. Writes finite_size_speed.csv.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

BEFORE = "240bb40"
ROOT = Path(__file__).parents[1]
REPEATS = 3
SIZES = ((1200, 400), (600, 1200))
FUNCTIONS = ("tanh", "truncated_exp")
# Signal, key and query, by what they are.
VECTORS = {
    "no weights": [[2**0.5], [0], [0]],
    "aligned": [[2**0.5], [1], [1]],
    "aligned, strong": [[8**0.5], [2.8], [2.8]],
    "oblique": [[2, 0], [0.6, 0.8], [0.6, 0.8]],
    "oblique, strong": [[8**0.5, 0], [2, 1], [2, 1]],
    "key aligned, query orthogonal": [[2, 0], [1, 0], [0, 1]],
    "key and query oblique": [[2, 0, 0], [0.6, 0.8, 0], [0.6, 0, 0.8]],
}
ONE = """
import json, sys, time
import numpy as np
from interpolation_error import theory
n, p, name, vectors = json.loads(sys.argv[1])
products = theory.InnerProducts.from_vectors(*np.array(vectors, float))
gamma = np.logspace(-4, 1, 20)
theory.attention_error_finite_size(0.1, 50, 50, "relu")  # imports are not timed
start = time.perf_counter()
found = theory.finite_size(gamma, n, p, name, products)
seconds = time.perf_counter() - start
print(json.dumps([seconds, float(np.max(found.change / found.error))]))
"""


def run(source, *given):
    """Return the seconds of one prediction, and the share that it last moved by."""
    alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    said = subprocess.run(
        [sys.executable, "-c", ONE, json.dumps(given)],
        env={**os.environ, **alone, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(said.stdout)


def main():
    """Time both programs in turn, and write the table."""
    archive = subprocess.run(
        ["git", "archive", BEFORE, "workflow/src"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        sources = [Path(folder) / "workflow/src", ROOT / "workflow/src"]
        for what, vectors in VECTORS.items():
            for n, p in SIZES:
                for name in FUNCTIONS:
                    given = (n, p, name, vectors)
                    pairs = np.array(
                        [
                            [run(source, *given) for source in sources]
                            for _ in range(REPEATS)
                        ]
                    )
                    ratio = pairs[:, 0, 0] / pairs[:, 1, 0]
                    rows.append(
                        {
                            "weights": what,
                            "tokens": n,
                            "dimension": p,
                            "function": name,
                            "times_as_fast": np.median(ratio),
                            "smallest": ratio.min(),
                            "largest": ratio.max(),
                            "last_step_before": pairs[0, 0, 1],
                            "last_step_now": pairs[0, 1, 1],
                        }
                    )
                    print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    path = Path(__file__).with_name("finite_size_speed.csv")
    table.to_csv(path, index=False, float_format="%.3g")
    print(f"times as fast: {np.exp(np.log(table['times_as_fast']).mean()):.3g}")


if __name__ == "__main__":
    main()
