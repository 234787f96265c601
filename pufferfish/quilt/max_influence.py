"""How far one value can shift the distribution of others: the max-influence (SWC Definition 4.1).

Everything here rounds towards more influence: a ratio whose denominator is too small to be trusted in floating
point counts as infinite.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Matrix

TINY = 1e-280
"""Below this a positive probability has lost its relative precision, or may have vanished altogether."""


def log_ratios(rows: Matrix, possible: NDArray[np.bool_] | None = None) -> Matrix:
    """For all pairs of rows x, y the largest log rows[x,z]/rows[y,z] over the outcomes z.

    `possible[x,z]` says whether the outcome has positive probability, where that is known better than from
    the numbers, which may have underflowed. An outcome impossible under x says nothing about the pair.
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
