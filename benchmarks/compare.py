"""The library's attention error against peers and against the machine, in one run.

Every repeat times all programs one after the other on one thread, so that ratios are
taken between neighbours in time. Memory is measured in a process of its own for each.
Writes ``results.json`` and ``results.md`` beside this file.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from interpolation_error import simulation
from interpolation_error.model import data
from interpolation_error.model.nonlinearity import get

HERE = Path(__file__).parent
TOKENS, DIMENSION = 4096, 512
GAMMA = np.geomspace(1e-6, 1e2, 20)
MEGABYTE = 2**20


def attention_output(X, w):
    """Return A as a colleague would write it, with whole arrays."""
    p, n = X.shape
    W = np.eye(p) + np.outer(w, w)
    K = np.tanh(X.T @ W @ X / np.sqrt(p)) / np.sqrt(p)
    np.fill_diagonal(K, 0)
    return X @ K


def obvious(X, y, w):
    """Form the n by n Gram matrix and solve once per penalty."""
    n = len(y)
    A = attention_output(X, w)
    G = A.T @ A / n
    errors = []
    for gamma in GAMMA:
        q = np.linalg.solve(G + gamma * np.eye(n), y)
        errors.append(gamma**2 * (q @ q) / n)
    return np.array(errors)


def whole_array(X, y, w):
    """Take the p by p Gram matrix and one eigendecomposition, in whole arrays."""
    p, n = X.shape
    k = X.T @ w
    K = X.T @ X
    K += np.outer(k, k)
    K /= np.sqrt(p)
    np.tanh(K, out=K)
    np.fill_diagonal(K, 0)
    A = X @ K
    A /= np.sqrt(p)
    eigenvalues, V = np.linalg.eigh(A @ A.T / n)
    b = V.T @ (A @ y) / n
    residual = y[:, None] - A.T @ (V @ (b[:, None] / (eigenvalues[:, None] + GAMMA)))
    return np.mean(residual**2, axis=0)


def scikit_learn(X, y, w):
    """Fit scikit-learn's Ridge to the same features, once per penalty."""
    n = len(y)
    A = attention_output(X, w).T
    errors = []
    for gamma in GAMMA:
        ridge = Ridge(alpha=n * gamma, fit_intercept=False, solver="cholesky")
        errors.append(np.mean((y - ridge.fit(A, y).predict(A)) ** 2))
    return np.array(errors)


def library(X, y, w):
    """Call this library."""
    return simulation.attention_error(X, y, GAMMA, "tanh", w_k=w, w_q=w)


PROGRAMS = {
    "library": library,
    "whole array, p x p": whole_array,
    "scikit-learn Ridge": scikit_learn,
    "obvious, n x n": obvious,
}


def problem(tokens, dimension):
    """Return tokens, stored token by token, labels and weights of the first draw."""
    y = data.alternating_labels(tokens)
    mu = data.directions(1, 0, dimension)[0]
    X = data.signal_plus_noise(data.noise(1, 0, dimension, tokens), y, mu)
    return np.asfortranarray(X), y, mu


def seconds(function, *arguments):
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def floor(n, p):
    """Return the seconds that this machine needs for what cannot be avoided.

    3 p n^2 + p^2 n operations at the rate of a matrix product measured now, and n^2 / 2
    evaluations of the nonlinearity at their cost now.
    """
    m = 1536
    square = np.random.default_rng(0).standard_normal((m, m))
    rate = 2 * m**3 / min(seconds(np.matmul, square, square) for _ in range(3))
    block = np.random.default_rng(0).standard_normal(2**16)
    tanh = get("tanh")
    one = min(seconds(tanh.overwrite, block.copy()) for _ in range(5)) / block.size
    products = (3 * p * n**2 + p**2 * n) / rate
    return products + one * n**2 / 2, rate, products


def peak(name, n, p):
    """Return the megabytes that a program takes beyond imports, in a fresh process."""
    command = [sys.executable, __file__, "--memory", name]
    command += ["--tokens", str(n), "--dimension", str(p)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return float(said.stdout)


def measure_memory(name, n, p):
    """Print what :func:`peak` reads; making the tokens counts for every program."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    PROGRAMS[name](*problem(n, p))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print((after - before) * (1 if sys.platform == "darwin" else 1024) / MEGABYTE)


def spread(values):
    """Return median, least and most."""
    return [float(f(values)) for f in (np.median, np.min, np.max)]


def compare(n, p, repeats):
    """Time all programs ``repeats`` times in turn and return what was found."""
    # First, since a process passes its own peak on to those it starts.
    memory = {name: peak(name, n, p) for name in PROGRAMS}
    X, y, w = problem(n, p)
    answers = {name: program(X, y, w) for name, program in PROGRAMS.items()}
    agreement = max(
        float(np.max(np.abs(answer / answers["obvious, n x n"] - 1)))
        for answer in answers.values()
    )
    times = {name: [] for name in PROGRAMS}
    floors, rates, products = [], [], []
    for repeat in range(repeats):
        least, rate, product = floor(n, p)
        floors.append(least)
        rates.append(rate)
        products.append(product)
        for name, program in PROGRAMS.items():
            times[name].append(seconds(program, X, y, w))
        print(f"repeat {repeat + 1} of {repeats}", flush=True)
    mine = np.array(times["library"])
    return {
        "tokens": n,
        "dimension": p,
        "penalties": len(GAMMA),
        "repeats": repeats,
        "largest_relative_difference": agreement,
        "seconds": {name: spread(values) for name, values in times.items()},
        "ratio_to_library": {
            name: spread(np.array(values) / mine) for name, values in times.items()
        },
        "library_over_floor": spread(mine / np.array(floors)),
        "product_rate_gflops": spread(np.array(rates) / 1e9),
        "share_of_product_rate": spread(np.array(products) / mine),
        "peak_mb_beyond_imports": memory,
    }


def machine():
    """Return a description of the machine without its name."""
    return {
        "processor": platform.processor() or platform.machine(),
        "system": platform.system(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": sorted(
            {
                f"{library['internal_api']} {library['version']} "
                f"{library.get('architecture', '')}"
                for library in threadpool_info()
                if library["user_api"] == "blas"
            }
        ),
        "threads": 1,
    }


def table(found):
    """Return the result as a Markdown table with its lines of text."""
    lines = [
        f"n = {found['tokens']}, p = {found['dimension']}, tanh, aligned weights, "
        f"{found['penalties']} penalties, one thread, medians of {found['repeats']} "
        "paired repeats (least to most).",
        "",
        "| program | time over the library's | peak memory beyond imports |",
        "| --- | --- | --- |",
    ]
    for name, (median, least, most) in found["ratio_to_library"].items():
        memory = found["peak_mb_beyond_imports"][name]
        lines.append(
            f"| {name} | {median:.2f} ({least:.2f} to {most:.2f}) | {memory:.0f} MB |"
        )
    median, least, most = found["library_over_floor"]
    share = found["share_of_product_rate"]
    lines += [
        "",
        f"The library takes {median:.2f} ({least:.2f} to {most:.2f}) times the floor: "
        "3pn² + p²n operations at the rate of a matrix product here and now plus n²/2 "
        f"evaluations of tanh. The counted operations alone are {share[0]:.0%} of its "
        "time.",
        "All programs agree to "
        f"{found['largest_relative_difference']:.0e} relative over the penalties.",
        "",
        "Machine: " + json.dumps(found["machine"]),
    ]
    return "\n".join(lines) + "\n"


def main():
    """Compare, or measure the memory of one program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=TOKENS)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--memory", choices=PROGRAMS, help="one program's peak memory")
    arguments = parser.parse_args()
    with threadpool_limits(limits=1):
        if arguments.memory:
            measure_memory(arguments.memory, arguments.tokens, arguments.dimension)
            return
        found = compare(arguments.tokens, arguments.dimension, arguments.repeats)
        found["machine"] = machine()
    (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "results.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()
