"""An attacker who assumes no chain: a logistic regression on sums of the sanitized stream over bands of lags.

The bands are 0, 1, 2, 3–4, 5–8, … on both sides together, up to a largest lag. The regression is fitted where the
attacker knows the true states and predicts the others. It can use correlation that a first-order chain lacks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.int64]
Floats = NDArray[np.float64]

STEPS = 25
RIDGE = 1e-3


def features(seen: Bits, reach: int) -> Floats:
    """For each tick an intercept, the output, and the mean over each band; outputs beyond the ends are the average."""
    centred = seen - seen.mean()
    sums = np.concatenate([[0.0], np.cumsum(centred)])
    ticks = np.arange(len(seen))

    def total(first: NDArray[np.int64], last: NDArray[np.int64]) -> Floats:
        """The sum over the ticks from first to last, both included."""
        low, high = np.clip(first, 0, len(seen)), np.clip(last + 1, 0, len(seen))
        return np.asarray(sums[high] - sums[low], dtype=np.float64)

    columns = [np.ones(len(seen)), centred]
    first, last = 1, 1
    while first <= reach:
        width = min(last, reach) - first + 1
        near = total(ticks - first - width + 1, ticks - first) + total(
            ticks + first, ticks + first + width - 1
        )
        columns.append(near / np.sqrt(2 * width))
        first, last = last + 1, 2 * last
    return np.stack(columns, axis=1)


def guesses(states: Bits, seen: Bits, reach: int, revealed: NDArray[np.bool_]) -> Floats:
    """P(state is 1) at the ticks that are not revealed; the regression is fitted to the revealed ones."""
    X = features(seen, reach)
    known, y = X[revealed], states[revealed]
    weights = np.zeros(X.shape[1])
    for _ in range(STEPS):
        p = 1 / (1 + np.exp(-known @ weights))
        slope = known.T @ (y - p) - RIDGE * weights
        curve = (known * (p * (1 - p))[:, None]).T @ known + RIDGE * np.eye(len(weights))
        step = np.linalg.solve(curve, slope)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return np.asarray(1 / (1 + np.exp(-X[~revealed] @ weights)), dtype=np.float64)
