"""The forward–backward attacker: the most likely state at every tick given all outputs (CGSSY's correlation-aware one).

Given the chain, the noise and the known states, no attacker is right more often at a single tick.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.attackers.hidden import Floats, Hidden, States

UNKNOWN = -1


def posteriors(hidden: Hidden, outputs: States, known: NDArray[np.int8] | None = None) -> Floats:
    """P(X_t = 1 | all outputs of the stream, known states), one row per stream.

    `known` has the shape of `outputs`, with the true state where the attacker knows it and −1 elsewhere.
    """
    evidence = hidden.emission.T[outputs.T]  # tick, stream, state
    if known is not None:
        given = known.T
        for state in (0, 1):
            evidence[given == state, 1 - state] = 0.0
    ticks, step = len(evidence), hidden.step
    before = np.empty_like(evidence)
    filtered = np.broadcast_to(hidden.stationary, evidence.shape[1:])
    for tick in range(ticks):
        # Only the ratio of the two states matters, so each tick is normalised.
        filtered = filtered * evidence[tick]
        filtered = filtered / filtered.sum(axis=1, keepdims=True)
        before[tick] = filtered
        filtered = filtered @ step
    found = np.empty(outputs.T.shape)
    after = np.ones(evidence.shape[1:])
    for tick in range(ticks - 1, -1, -1):
        both = before[tick] * after
        found[tick] = both[:, 1] / both.sum(axis=1)
        after = (after * evidence[tick]) @ step.T
        after /= after.sum(axis=1, keepdims=True)
    return np.ascontiguousarray(found.T)


def guess(hidden: Hidden, outputs: States, known: NDArray[np.int8] | None = None) -> States:
    """The most likely state at every tick."""
    return (posteriors(hidden, outputs, known) > 0.5).astype(np.uint8)
