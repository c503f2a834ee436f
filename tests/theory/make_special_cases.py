"""Write attention_theory_special_cases.csv: c = 1, a_1 = 0, nu = a_1^2, 25 digits.

The cases are those that the reference table leaves out, computed by the scalar route.
Run from the project's folder: python -m tests.theory.make_special_cases
"""

import csv
from pathlib import Path

from mpmath import mp, nstr

from tests.theory.scalar_route import predict

TABLE = Path(__file__).parent / "data/attention_theory_special_cases.csv"

ALIGNED = ("1", "1", "1", "1", "1", "1")
PARTIAL = ("2.25", "0.6", "-0.3", "1.5", "0.75", "0.2")
NOISE = ("0", "0", "0", "0", "0", "0")
COEFFICIENTS = {
    "no linear component": ("0", "0.5"),
    "linear": ("1", "1"),
    "general": ("0.6", "0.4"),
}
COLUMNS = ["case", "a1", "nu", "diagonal", "c", "gamma"]
COLUMNS += ["mu_mu", "mu_wk", "mu_wq", "wk_wk", "wq_wq", "wk_wq", "E_attention"]


def cases():
    """Yield name, a1, nu, diagonal, c, gamma and inner products as decimal text."""
    for name, (a1, nu) in COEFFICIENTS.items():
        for c in ("0.25", "1", "4"):
            if name == "general" and c != "1":
                continue
            for gamma, inner in (
                ("1e-6", ALIGNED),
                ("1e-3", PARTIAL),
                ("0.1", NOISE),
                ("10", PARTIAL),
            ):
                diagonal = "1" if name == "linear" and gamma == "0.1" else "0"
                yield name, a1, nu, diagonal, c, gamma, inner


def main():
    """Compute every case and write the table."""
    with TABLE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for name, a1, nu, diagonal, c, gamma, inner in cases():
            found = predict(gamma, c, a1, nu, diagonal_limit=diagonal, inner=inner)
            with mp.workdps(40):
                error = nstr(found.error, 25)
            writer.writerow([name, a1, nu, diagonal, c, gamma, *inner, error])


if __name__ == "__main__":
    main()
