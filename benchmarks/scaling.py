"""Error, time and peak memory against the number of tokens, each in a fresh process.

Writes ``scaling.csv`` and ``scaling.png`` beside this file: attention (tanh, key and
query along the signal) at p = 512, with exponents fitted to sizes from 8,192.
Time and memory are this machine's; the error is predicted by Theorem 1.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from scipy import stats
from threadpoolctl import threadpool_limits

from interpolation_error import nonlinearity, simulation, theory
from interpolation_error.model import data

HERE = Path(__file__).parent
DIMENSION = 512
GAMMA = 1e-2
SIZES = [2**power for power in range(11, 17)]


def measure(tokens: int) -> dict[str, float]:
    """Simulate one draw of ``tokens`` tokens and say what it took."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    labels = data.alternating_labels(tokens)
    mu = data.directions(1, 0, DIMENSION)[0]
    X = data.signal_plus_noise(data.noise(1, 0, DIMENSION, tokens), labels, mu)
    start = time.perf_counter()
    error = simulation.attention_error(X, labels, GAMMA, "tanh", w_k=mu, w_q=mu)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "tokens": tokens,
        "error": float(error),
        "predicted": predict(tokens),
        "seconds": seconds,
        "peak_memory_mb": peak / 1024,
        "after_imports_mb": (peak - before) / 1024,
    }


def predict(tokens: int) -> float:
    """Return the limit of Theorem 1 at the same ratio of dimension and tokens."""
    tanh = nonlinearity.hermite_coefficients("tanh")
    ones = theory.InnerProducts(*[1.0] * 6)
    return float(
        theory.attention_error(
            GAMMA, DIMENSION / tokens, tanh.a1, tanh.nu, inner_products=ones
        )
    )


def exponent(table: pd.DataFrame, column: str) -> str:
    """Return the fitted power of n, with a 95 % interval, over the larger sizes."""
    large = table[table["tokens"] >= 8192]
    x, y = np.log(large["tokens"]), np.log(large[column])
    if len(large) < 3:
        return "too few sizes to fit"
    fit = stats.linregress(x, y)
    half = stats.t.ppf(0.975, len(large) - 2) * fit.stderr
    return f"n^({fit.slope:.2f} ± {half:.2f})"


def draw(table: pd.DataFrame, path: Path) -> None:
    """Draw error, time and memory against the number of tokens."""
    mpl.use("Agg")
    from interpolation_error.figures.drawing import use_style

    use_style(HERE.parent / "figures" / "paper.mplstyle")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(7.8, 2.6), layout="constrained")
    axes[0].plot(table["tokens"], table["predicted"], label="theory (Theorem 1)")
    axes[0].plot(
        *(table["tokens"], table["error"], "o"),
        color="C1",
        markerfacecolor="none",
        label="simulation, one draw",
    )
    axes[0].set_ylabel("interpolation error $E$")
    axes[0].legend()
    for axis, column, label in (
        (axes[1], "seconds", "time in seconds"),
        (axes[2], "after_imports_mb", "peak memory beyond imports in MB"),
    ):
        axis.loglog(table["tokens"], table[column], "s-", markerfacecolor="none")
        axis.set_ylabel(label)
        axis.set_title(
            f"grows as ${exponent(table, column).replace('±', 'pm')}$".replace(
                "pm", r"\pm"
            )
            .replace("n^(", "n^{")
            .replace(")$", "}$")
        )
    for axis in axes:
        axis.set_xscale("log", base=4)
        axis.set_xlabel("number of tokens $n$")
    figure.suptitle(
        rf"tanh attention, $p = {DIMENSION}$, $\gamma = {GAMMA}$, one thread"
    )
    figure.savefig(path)


def main() -> None:
    """Measure every size in a process of its own, then write table and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", type=int, help="measure one size and print JSON")
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="of the sizes")
    arguments = parser.parse_args()
    if arguments.one:
        with threadpool_limits(limits=1):
            print(json.dumps(measure(arguments.one)))
        return
    rows = []
    for tokens in [size for size in SIZES if size <= arguments.largest]:
        command = [sys.executable, __file__, "--one", str(tokens)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        rows.append(json.loads(done.stdout))
        print(rows[-1], flush=True)
    table = pd.DataFrame(rows)
    table.to_csv(HERE / "scaling.csv", index=False, float_format="%.6g")
    draw(table, HERE / "scaling.png")
    for column in ("seconds", "after_imports_mb"):
        print(f"{column} grows as {exponent(table, column)}")


if __name__ == "__main__":
    main()
