"""The Viterbi attacker: the most likely path as a whole (CGSSY section 4.3)."""

from __future__ import annotations

import numpy as np

from hushmq.evaluation.attackers.hidden import Hidden, States


def guess(hidden: Hidden, outputs: States) -> States:
    """The most likely path of each stream (row); ties are broken in favour of 0 at the last difference."""
    log_step, log_emission = np.log(hidden.step), np.log(hidden.emission)
    streams, ticks = outputs.shape
    best = np.log(hidden.stationary) + log_emission.T[outputs[:, 0]]  # stream, state
    came_from = np.empty((ticks, streams, 2), dtype=np.uint8)
    for tick in range(1, ticks):
        ways = best[:, :, None] + log_step  # stream, from, to
        came_from[tick] = ways.argmax(axis=1)
        best = ways.max(axis=1) + log_emission.T[outputs[:, tick]]
    found = np.empty((ticks, streams), dtype=np.uint8)
    found[-1] = best.argmax(axis=1)
    rows = np.arange(streams)
    for tick in range(ticks - 1, 0, -1):
        found[tick - 1] = came_from[tick, rows, found[tick]]
    return np.ascontiguousarray(found.T)
