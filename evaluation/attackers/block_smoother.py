"""The forward–backward algorithm on chains of a few states, in blocks, so that a long recording takes moments.

A recording of n ticks is cut into about √n blocks that are followed side by side: first what each does to any weights
at its beginning, then from block to block, then inside each from the weights it really begins with. Nothing is
approximated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Smoothed:
    """By tick and state: the law given all up to the tick, and the weight of what follows it; of each a scale is free.

    `log_likelihood` is that of all evidence.
    """

    forward: Floats
    backward: Floats
    log_likelihood: float

    @property
    def marginals(self) -> Floats:
        """The law of the state at every tick, given everything."""
        both = self.forward * self.backward
        return np.asarray(both / both.sum(axis=1, keepdims=True))


def smoothed(law: Floats, kernel: Floats, evidence: Floats, fresh: Flags | None = None) -> Smoothed:
    """From the likelihood `evidence[tick, state]` of what is seen at each tick.

    The chain starts with `law` at the first tick, and anew at every tick that is `fresh`.
    """
    n, k = evidence.shape
    length = max(1, math.isqrt(n))
    blocks = -(-n // length)
    seen = np.ones((blocks * length, k))
    seen[:n] = evidence
    begins = np.zeros(blocks * length, dtype=bool)
    if fresh is not None:
        begins[:n] = fresh
    begins[0] = True
    # Ticks first, blocks second: a step of all blocks is one operation.
    seen = np.ascontiguousarray(seen.reshape(blocks, length, k).swapaxes(0, 1))
    starts = begins.reshape(blocks, length).T[:, :, None]

    def onwards(weights: Floats, tick: int) -> Floats:
        """One step of laws, which are the last axis; a fresh one keeps the total alone."""
        here = starts[tick] if weights.ndim == 2 else starts[tick][:, :, None]
        anew = weights.sum(axis=-1, keepdims=True) * law
        return np.asarray(np.where(here, anew, weights @ kernel))

    whole = np.tile(np.eye(k), (blocks, 1, 1))
    for tick in range(length):
        whole = onwards(whole, tick) * seen[tick][:, None, :]
        whole /= whole.max(axis=(1, 2), keepdims=True)
    into, after = np.empty((blocks, k)), np.empty((blocks, k))
    weights = law
    for block in range(blocks):
        into[block] = weights
        weights = weights @ whole[block]
        weights = weights / weights.sum()
    weights = np.ones(k)
    for block in range(blocks - 1, -1, -1):
        after[block] = weights
        weights = whole[block] @ weights
        weights = weights / weights.max()
    forward, backward = np.empty_like(seen), np.empty_like(seen)
    total = 0.0
    for tick in range(length):
        into = onwards(into, tick) * seen[tick]
        scale = into.sum(axis=1, keepdims=True)
        into = into / scale
        total += float(np.log(scale).sum())
        forward[tick] = into
    for tick in range(length - 1, -1, -1):
        backward[tick] = after
        weighted = seen[tick] * after
        after = np.where(starts[tick], (weighted @ law)[:, None], weighted @ kernel.T)
        after = after / after.max(axis=1, keepdims=True)
    return Smoothed(_by_tick(forward)[:n], _by_tick(backward)[:n], total)


def _by_tick(values: Floats) -> Floats:
    return np.ascontiguousarray(values.swapaxes(0, 1)).reshape(-1, values.shape[2])
