"""Mean and covariance of the counted statistics, for a chain of k states seen through an emission matrix.

X is a stationary chain with transitions P and distribution π; Z is X through B. The shares of states have the mean
πB, and the shares of pairs of a band the mean Bᵀ·diag(π)·P̄·B, where P̄ is the mean of P^h over the band's lags.

Chains are described by x, with x_uv = log(P_uv/P_uu) for u ≠ v, row by row.

The statistics are weighted as if Z were drawn independently at every tick (`weights`): then centred products at
different lags are uncorrelated, and their covariance is M⊗M with M = diag(μ) − μμᵀ. Their real covariance is
measured on states simulated from the fitted chain (`simulated`), with the same draws every time.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.categorical.categorical_statistics import pairs_of
from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS

Floats = NDArray[np.float64]

LOWEST, HIGHEST = -9.0, 4.0
"""Where log(P_uv/P_uu) may lie."""
RUNS, LENGTH = 320, 3072
"""How many runs are simulated, and how long each is."""
FULL = 1 << 16
_STEP = 1e-5


def size(k: int) -> int:
    """How many numbers describe a chain."""
    return k * (k - 1)


def transitions(x: Floats, k: int) -> Floats:
    """P of x; any leading axes."""
    logits = np.zeros((*x.shape[:-1], k, k))
    logits[..., ~np.eye(k, dtype=bool)] = x
    odds = np.exp(logits)
    matrix: Floats = odds / odds.sum(axis=-1, keepdims=True)
    return matrix


def described(P: Floats) -> Floats:
    """The x of P, kept within LOWEST … HIGHEST."""
    k = P.shape[-1]
    with np.errstate(divide="ignore"):
        logs = np.log(P) - np.log(np.diagonal(P, axis1=-2, axis2=-1))[..., None]
    x: Floats = np.clip(logs[..., ~np.eye(k, dtype=bool)], LOWEST, HIGHEST)
    return x


def stationary(P: Floats) -> Floats:
    """π, from π(I − P + E) = 1 with E all ones."""
    k = P.shape[-1]
    system = np.swapaxes(np.eye(k) - P + 1.0, -1, -2)
    ones = np.ones((*P.shape[:-2], k, 1))
    return np.asarray(np.linalg.solve(system, ones)[..., 0], dtype=np.float64)


def band_means(P: Floats) -> Floats:
    """The mean of P^h over each band, on a new axis before the matrix. The bands are 1, 3, 9 and 27 lags wide."""
    one = np.eye(P.shape[-1])
    P2 = P @ P
    P3 = P2 @ P
    P5 = P2 @ P3
    P9 = P3 @ P3 @ P3
    three = one + P + P2
    nine = three @ (one + P3 + P3 @ P3)
    last = nine @ (one + P9 + P9 @ P9)
    return np.stack([P, P2 @ three / 3, P5 @ nine / 9, P5 @ P9 @ last / 27], axis=-3)


def hidden(x: Floats, k: int) -> tuple[Floats, Floats]:
    """π, and diag(π)·P̄ of each band."""
    P = transitions(x, k)
    pi = stationary(P)
    return pi, pi[..., None, :, None] * band_means(P)


def hidden_slopes(x: Floats, k: int) -> tuple[Floats, Floats, Floats, Floats]:
    """π and diag(π)·P̄, and their derivatives by x on a new second axis; x has one row per device."""
    p = size(k)
    moved = x[:, None, :] + np.concatenate([np.zeros((1, p)), _STEP * np.eye(p)])
    pi, joint = hidden(moved, k)
    return pi[:, 0], joint[:, 0], (pi[:, 1:] - pi[:, :1]) / _STEP, (joint[:, 1:] - joint[:, :1]) / _STEP


def seen(pi: Floats, joint: Floats, emission: Floats) -> Floats:
    """The expected shares, of states and then of pairs band by band, in one last axis."""
    k = emission.shape[-1]
    shares = (pi[..., None, :] @ emission)[..., 0, :]
    wide = emission[..., None, :, :]
    pairs = np.swapaxes(wide, -1, -2) @ joint @ wide
    return np.concatenate([shares, pairs.reshape(*pairs.shape[:-3], len(BANDS) * k * k)], axis=-1)


def independent(mu: Floats) -> Floats:
    """The covariance per tick of the shares if Z were drawn from μ at every tick, independently."""
    k = len(mu)
    M = np.diag(mu) - np.outer(mu, mu)
    # a pair's indicator is μ_u·μ_v + μ_u·f_v + μ_v·f_u + f_u·f_v with f centred
    lift = (np.einsum("u,vw->uvw", mu, np.eye(k)) + np.einsum("v,uw->uvw", mu, np.eye(k))).reshape(k * k, k)
    lift = np.concatenate([np.eye(k), *[lift] * len(BANDS)])
    whole: Floats = lift @ M @ lift.T
    for band, width in enumerate(WIDTHS):
        block = slice(k + band * k * k, k + (band + 1) * k * k)
        whole[block, block] += np.kron(M, M) / width
    return whole


def simulated(P: Floats, emission: Floats) -> Floats:
    """The covariance per tick of the shares for this chain through this emission, from RUNS simulated runs.

    Sixteen random bits decide each step, so what is simulated is a chain with probabilities rounded to 1/65536.
    """
    k = len(P)
    (moves, P), (lies, emission) = lookup(P), lookup(emission)
    begins, steps, noise = _draws()
    pi = stationary(P)
    states = np.empty((LENGTH, RUNS), dtype=np.int32)
    state = np.searchsorted(np.cumsum(pi)[:-1], begins).astype(np.int32)
    for tick in range(LENGTH):
        states[tick] = state
        state = moves[(state << 16) | steps[tick]]
    noisy = np.ascontiguousarray(lies[(states << 16) | noise].T.astype(np.uint8))
    starts = LENGTH - np.array([last for _, last in BANDS])
    counts = np.stack([(noisy == u).mean(axis=1) for u in range(k)], axis=1)
    pairs = pairs_of(noisy, k).reshape(RUNS, len(BANDS), -1) / (starts * np.array(WIDTHS))[:, None]
    # around the mean that is known, and so with no degree of freedom lost
    joint = pi[:, None] * band_means(P)
    off = np.concatenate([counts, pairs.reshape(RUNS, -1)], axis=1) - seen(pi, joint, emission)
    off *= np.sqrt(np.repeat([LENGTH, *starts], [k, *[k * k] * len(BANDS)]))
    return off.T @ off / RUNS


def lookup(rows: Floats) -> tuple[NDArray[np.int32], Floats]:
    """Where each of 65536 equally likely draws leads from each state, row after row, and the probabilities of that."""
    edges = np.rint(np.cumsum(rows, axis=1) * FULL).astype(np.int64)
    edges[:, -1] = FULL
    widths = np.diff(edges, axis=1, prepend=0)
    to = np.tile(np.arange(rows.shape[1], dtype=np.int32), len(rows))
    return np.repeat(to, widths.ravel()), widths / FULL


@cache
def _draws() -> tuple[Floats, NDArray[np.int32], NDArray[np.int32]]:
    rng = np.random.Generator(np.random.PCG64(1))
    steps, noise = rng.integers(0, FULL, (2, LENGTH, RUNS), dtype=np.int32)
    return rng.random(RUNS), steps, noise
