"""How often each state follows each in a window, exactly and with noise, whatever the number of states.

A sanitized state is in at most two pairs of consecutive states of its device. Changing it moves each of them from one
cell of a k×k table to another: 4 in all, so Laplace noise of scale s on every cell costs 4/s (docs/queries.md, Q2).
Pairs of states with different noise, or with a hole between them, are not counted.

With B the noise and g = B⁻¹, the numbers y = g[z][i] and y' = g[z'][j] of two consecutive outputs are independent
given the true states, with the means [x = i] and [x' = j]: so their product is unbiased for the pair, and the table of
shares is gᵀ·N·g over the number of pairs. With v_i at most the variance of y, that of a sum over n pairs is at most
n·(v_i·v_j + v_i + v_j + 2·√(v_i·v_j)): the terms of a product, and the covariances with the two pairs next to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.window_count import Pieces, runs
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.protocols import Noise

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

CELLS_MOVED = 4
"""The most that one sanitized state moves in a table of pairs: L1."""


@dataclass(frozen=True, slots=True)
class DrawnPairs:
    """Noisy counts of pairs, and the debiased share of each pair."""

    pairs: int
    counts: Integers
    shares: Floats
    standard_errors: Floats
    half_widths: Floats
    scale: float


class PairCount:
    """The exact pairs of one window, by device and noise version. Secret: only what `draw` returns carries noise."""

    def __init__(self, pieces: Pieces, states: int) -> None:
        self._states = states
        self._tables = {
            key: sum(
                (_pairs(run, states) for run in runs(sorted(found))), np.zeros((states, states), np.int64)
            )
            for key, found in pieces.items()
        }

    def draw(self, noises: Mapping[int, Noise], *, tilt: int, device: str | None = None) -> DrawnPairs | None:
        """Draw the table of one device, or of all together, for `tilt` nano-nats; None where there is no pair.

        Tables of different noise versions, and of different devices, are of different states: a state pays once.
        """
        mine = {key: table for key, table in self._tables.items() if device in (None, key[0]) and table.sum()}
        versions = sorted({version for _, version in mine})
        if not versions:
            return None
        tables = [
            np.sum([table for key, table in mine.items() if key[1] == version], axis=0)
            for version in versions
        ]
        scale = scale_for(CELLS_MOVED, tilt)
        drawn = [np.array(noisy(one.ravel().tolist(), scale=scale)).reshape(one.shape) for one in tables]
        numbers = [int(one.sum()) for one in tables]
        return debiased(drawn, [np.array(noises[version].laws) for version in versions], numbers, scale)


def debiased(
    tables: Sequence[Integers], emissions: Sequence[Floats], numbers: Sequence[int], scale: float
) -> DrawnPairs:
    """The shares that noisy tables tell of, each counted behind its noise over so many pairs."""
    total, states = sum(numbers), len(tables[0])
    shares, sampling, drawn = (np.zeros((states, states)) for _ in range(3))
    for table, emission, number in zip(tables, emissions, numbers, strict=True):
        inverse = np.linalg.inv(emission)
        shares += inverse.T @ table @ inverse / total
        most = np.maximum(emission @ inverse**2 - np.eye(states), 0.0).max(axis=0)
        squares = (inverse**2).sum(axis=0)
        both = np.outer(most, most)
        sampling += number * (both + most[:, None] + most[None, :] + 2 * np.sqrt(both)) / total**2
        drawn += variance(scale) * np.outer(squares, squares) / total**2
    widths = [
        [half_width(float(a), float(b)) for a, b in zip(*both, strict=True)]
        for both in zip(sampling, drawn, strict=True)
    ]
    counts = np.sum(tables, axis=0)
    return DrawnPairs(total, counts, shares, np.sqrt(sampling + drawn), np.array(widths), scale)


def _pairs(states: bytes, k: int) -> Integers:
    """The table of one run of consecutive states."""
    run = np.frombuffer(states, dtype=np.uint8).astype(np.int64)
    return np.bincount(run[:-1] * k + run[1:], minlength=k * k).reshape(k, k)
