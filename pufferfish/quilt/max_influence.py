"""The max-influence of a variable on others: the largest log-ratio of their conditional laws (SWC Definition 4.1).

Results are rounded up: a ratio whose denominator has lost its relative precision counts as infinite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Matrix

TINY = 1e-280
"""Below this a positive probability may have lost its relative precision or have underflowed."""


def log_ratios(rows: Matrix, possible: NDArray[np.bool_] | None = None) -> Matrix:
    """For all pairs of rows x, y the largest log rows[x,z]/rows[y,z] over the outcomes z.

    `possible[x,z]` says whether the outcome has positive probability, for rows whose entries may have underflowed.
    Outcomes that are impossible under x are ignored.
    """
    trusted = rows >= TINY
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = rows[:, None, :] / rows[None, :, :]
        if not trusted.all():
            happens = rows > 0 if possible is None else possible
            ratios = np.where(trusted[None, :, :], ratios, np.where(happens[:, None, :], np.inf, 0.0))
        return np.asarray(np.log(ratios.max(axis=2)), dtype=np.float64)


def max_influence(rows: Matrix) -> float:
    """The max-influence of a variable on others: rows[x] is their joint distribution given the value x."""
    return float(max(0.0, log_ratios(rows).max()))
