"""Both theories of attention against simulation, on a grid of settings.

Every combination of five aspect ratios, three alignments and five functions has its
signal-to-noise ratio and penalty in turn, and w_K differs from w_Q in every third.
Writes finite_size.csv, a row for each setting, and prints how many are within three
standard errors of each theory.
"""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from interpolation_error import simulation, theory
from interpolation_error.figures.tables import expected_share
from interpolation_error.model import data
from interpolation_error.model.hermite import hermite_coefficients

SEED, DRAWS = 20250618, 12
AREA = 400 * 800  # n p of every setting
RATIOS = (0.25, 0.5, 1.0, 2.0, 3.0)
ALIGNMENTS = (0.0, 0.5, 1.0)
FUNCTIONS = ("tanh", "sigmoid", "truncated_exp", "cos", "relu")
SNRS = (0.5, 1.0, 2.0, 4.0, 8.0)
GAMMAS = (1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)


def settings():
    """Yield every setting as a dict."""
    grid = itertools.product(RATIOS, ALIGNMENTS, FUNCTIONS)
    for place, (ratio, alignment, function) in enumerate(grid):
        yield {
            "tokens": round((AREA / ratio) ** 0.5),
            "dimension": round((AREA * ratio) ** 0.5),
            "function": function,
            "alignment": alignment,
            # Steps that are coprime with the lengths mix all with all.
            "snr": SNRS[(2 * place + place // 5) % len(SNRS)],
            "gamma": GAMMAS[(5 * place + place // 15) % len(GAMMAS)],
            "two_vectors": place % 3 == 2,
        }


def errors(one):
    """Return the simulated error of every draw, and the weights' inner products."""
    n, p = one["tokens"], one["dimension"]
    labels = data.alternating_labels(n)
    found = []
    for draw in range(DRAWS):
        axes = data.directions(SEED, draw, p)
        mu = one["snr"] ** 0.5 * axes[0]
        w_k = w_q = data.aligned_weights(axes[0], axes[1], 1.0, one["alignment"])
        if one["two_vectors"]:
            # The query turns the other way: partly opposed where the key is aligned.
            w_q = data.aligned_weights(axes[0], axes[2], 1.0, 0.5 - one["alignment"])
        tokens = data.signal_plus_noise(data.noise(SEED, draw, p, n), labels, mu)
        found.append(
            simulation.attention_error(
                *(tokens, labels, one["gamma"], one["function"], w_k, w_q)
            )
        )
    return np.array(found), theory.InnerProducts.from_vectors(mu, w_k, w_q)


def main():
    """Simulate, predict twice, and write the table."""
    rows = []
    for one in settings():
        simulated, products = errors(one)
        hermite = hermite_coefficients(one["function"])
        limit = theory.attention_error(
            one["gamma"],
            one["dimension"] / one["tokens"],
            hermite.a1,
            hermite.nu,
            inner_products=products,
        )
        try:
            finite = theory.attention_error_finite_size(
                one["gamma"], one["tokens"], one["dimension"], one["function"], products
            )
        except theory.ConvergenceError:
            finite = np.nan
        mean = simulated.mean()
        error = simulated.std(ddof=1) / DRAWS**0.5
        rows.append(
            {
                **one,
                "simulated": mean,
                "standard_error": error,
                "limit": limit,
                "finite_size": finite,
                "limit_residual": (mean - limit) / error,
                "finite_size_residual": (mean - finite) / error,
            }
        )
    table = pd.DataFrame(rows)
    path = Path(__file__).with_name("finite_size.csv")
    table.to_csv(path, index=False, float_format="%.6g")
    print(
        f"{len(table)} settings of {DRAWS} draws; if exact {expected_share(DRAWS):.0%}"
    )
    for name in ("limit", "finite_size"):
        inside = (table[f"{name}_residual"].abs() <= 3).mean()
        print(f"{name}: {inside:.0%} within 3 standard errors")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
