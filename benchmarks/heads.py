r"""A limit for several heads, held against simulation on twelve settings.

The outputs of H heads with W_h = I + w_h w_h^T and one function are stacked before the
probe. In the variables (q, l_1 ... l_H, k_1 ... k_H) the linear pencil of
docs/theory.md, section 4, becomes

    A_qq = gamma,  A_{q l_h} = h,  A_{l_h k_h} = -1,
    N_{q l_h} = -alpha W_h,  N_{k_h k_h} = -I,
    R = (A - Sigma)^-1,  P = N (I - (R x I_p) N)^-1,  Sigma_ab = tr P_ab / n + noise,

where the noise has kappa_gh R_{l_g l_h} summed at (q, q), kappa_gh R_qq at (l_g, l_h)
and kappa_gh R_{l_g q} summed at (q, l_h), kappa_gh = (1/c) sum_{k >= 2} a_k^2 r_gh^k
with r_gh = 1 - ||W_g - W_h||_F^2 / (2 p), the correlation of the scores of two heads.
Writes heads.csv and prints how many settings are within three standard errors.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from interpolation_error import simulation
from interpolation_error.figures.tables import expected_share
from interpolation_error.model import data
from interpolation_error.model.hermite import hermite_coefficients, panels
from interpolation_error.model.nonlinearity import get

SEED, DRAWS = 20250618, 20
SIZES = ((1000, 350), (400, 800))
HEADS = (2, 4)
GAMMAS = (1e-3, 0.1, 10.0)
SNR, NORM, ALIGNMENT = 2.0, 1.0, 0.5


def weights(p, heads, draw):
    """Return the signal and one vector a head, their own directions orthogonal."""
    axes = data.directions(SEED, draw, p, 2 + heads)
    mu = SNR**0.5 * axes[0]
    vectors = [data.aligned_weights(axes[0], d, NORM, ALIGNMENT) for d in axes[2:]]
    return mu, vectors


def tail(name, r):
    """Return the sum over k of at least 2 of a_k^2 r^k, by Hermite coefficients."""
    nodes, mass = panels(0.25, ())
    values = get(name)(nodes) - hermite_coefficients(name).a0
    total = np.zeros_like(r)
    before, here = np.ones_like(nodes), nodes  # normalized Hermite polynomials
    for k in range(2, 60):
        after = (nodes * here - (k - 1) ** 0.5 * before) / k**0.5
        before, here = here, after
        total = total + (mass @ (values * here)) ** 2 * r**k
    return total


def label_form(gamma, n, p, name, mu, vectors):
    """Return the limit of y^T Q y / n."""
    heads = len(vectors)
    c, a1 = p / n, hermite_coefficients(name).a1
    alpha, h = a1 / c, -a1
    size = 1 + 2 * heads
    L, K = np.arange(1, 1 + heads), np.arange(1 + heads, size)
    A = np.zeros((size, size))
    A[0, 0] = gamma
    A[0, L] = A[L, 0] = h
    A[L, K] = A[K, L] = -1.0
    gram = np.array([[v @ w for w in vectors] for v in vectors])
    norms = np.diag(gram)
    # ||w w^T - v v^T||_F^2 = |w|^4 + |v|^4 - 2 (w^T v)^2
    apart = np.add.outer(norms**2, norms**2) - 2 * gram**2
    kappa = tail(name, 1 - apart / (2 * p)) / c
    N = np.zeros((size, size))
    N[0, L] = N[L, 0] = -alpha
    N[K, K] = -1.0
    R = np.linalg.inv(A)
    for _ in range(20000):
        Sigma = c * N @ np.linalg.inv(np.eye(size) - R @ N)
        Sigma[0, 0] += np.sum(kappa * R[np.ix_(L, L)])
        Sigma[np.ix_(L, L)] += kappa * R[0, 0]
        Sigma[0, L] += kappa @ R[L, 0]
        Sigma[L, 0] += kappa @ R[L, 0]
        image = np.linalg.inv(A - Sigma)
        moved = np.abs(image - R).max() / np.abs(R).max()
        R = (R + image) / 2
        if moved < 1e-14:
            break
    basis, _ = np.linalg.qr(np.column_stack([mu, *vectors]))
    r = basis.shape[1]
    full = np.zeros((size, r, size, r))
    for place, vector in enumerate(vectors):
        w = basis.T @ vector
        W = np.eye(r) + np.outer(w, w)
        full[0, :, 1 + place] = full[1 + place, :, 0] = -alpha * W
    for k in K:
        full[k, :, k] = -np.eye(r)
    N_full = full.reshape(size * r, size * r)
    P = N_full @ np.linalg.inv(np.eye(size * r) - np.kron(R, np.eye(r)) @ N_full)
    m = basis.T @ mu
    T = np.einsum("i,aibj,j->ab", m, P.reshape(size, r, size, r), m)
    return np.linalg.inv(np.linalg.inv(R) - T)[0, 0]


def main():
    """Simulate, predict, and write the table."""
    rows = []
    for n, p in SIZES:
        labels = data.alternating_labels(n)
        for heads in HEADS:
            errors = []
            for draw in range(DRAWS):
                mu, vectors = weights(p, heads, draw)
                X = data.signal_plus_noise(data.noise(SEED, draw, p, n), labels, mu)
                stacked = np.vstack(
                    [simulation.attention_output(X, "tanh", w, w) for w in vectors]
                )
                errors.append(
                    simulation.linear_regression_error(stacked, labels, GAMMAS)
                )
            for gamma, simulated in zip(GAMMAS, np.array(errors).T, strict=True):
                step = 1e-4
                above, below = (
                    label_form(gamma * (1 + sign * step), n, p, "tanh", mu, vectors)
                    for sign in (1, -1)
                )
                limit = -gamma * (above - below) / (2 * step)
                mean = simulated.mean()
                error = simulated.std(ddof=1) / DRAWS**0.5
                rows.append(
                    {
                        "tokens": n,
                        "dimension": p,
                        "heads": heads,
                        "gamma": gamma,
                        "simulated": mean,
                        "standard_error": error,
                        "limit": limit,
                        "residual": (mean - limit) / error,
                    }
                )
    table = pd.DataFrame(rows)
    table.to_csv(
        Path(__file__).with_name("heads.csv"), index=False, float_format="%.6g"
    )
    print(table.round(4).to_string())
    inside = (table["residual"].abs() <= 3).sum()
    print(f"{inside} of {len(table)} within 3; if exact {expected_share(DRAWS):.0%}")


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
