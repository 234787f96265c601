"""Perturbation of states: 64-bit words from the operating system's generator, compared with integer thresholds.

A probability is realised as a number of the 2^64 equally likely words. Thresholds are rounded towards more noise, so
the realised tilt never exceeds the stated one (docs/theory.md, section 9). Error texts contain no state.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate

from hushmq.pufferfish.binary.binary_noise import BinaryNoise

_RANGE = 1 << 64


def threshold(probability: float) -> int:
    """The smallest k with k/2^64 ≥ probability."""
    if not (0.0 <= probability <= 1.0):
        raise ValueError(f"probability is {probability!r}; it must be in [0, 1]")
    return math.ceil(Fraction(probability) * _RANGE)


class Perturber:
    """Independent noise on bits: each 0 becomes 1 with probability ρ0, each 1 becomes 0 with probability ρ1."""

    def __init__(self, noise: BinaryNoise) -> None:
        self._thresholds = (threshold(noise.rho0), threshold(noise.rho1))

    def perturb(self, states: Iterable[int]) -> bytes:
        """One perturbed byte, 0 or 1, for each state."""
        raw = bytes(states)
        if raw.strip(b"\0\1"):
            raise ValueError("a state is not 0 or 1; the perturber of bits takes only these")
        flips = self._thresholds
        words = memoryview(os.urandom(8 * len(raw))).cast("Q")
        return bytes([state ^ (word < flips[state]) for state, word in zip(raw, words, strict=True)])


def word_counts(emission: Sequence[Sequence[float]]) -> tuple[tuple[int, ...], ...]:
    """How many of the 2^64 words give each output (column) in each state (row); every row sums to 2^64.

    With T = max B[u,z]/B[v,z], the exponential of the stated tilt, all shares of a column lie between l, its smallest
    probability rounded up, and ⌊T·l⌋. So the realised ratios are at most T, exactly, whatever the rounding.
    """
    rows = _as_fractions(emission)
    columns = list(zip(*rows, strict=True))
    lowest = [math.ceil(min(column) * _RANGE) for column in columns]
    widest = max(max(column) / min(column) for column in columns)
    highest = [math.floor(widest * low) for low in lowest]
    if widest == 1 or not sum(lowest) <= _RANGE <= sum(highest):
        raise ValueError(
            "emission: its rows are equal, so the output would be uninformative; they must differ"
        )
    return tuple(_fitted_row(row, lowest, highest) for row in rows)


def _as_fractions(emission: Sequence[Sequence[float]]) -> list[list[Fraction]]:
    """The matrix in fractions; ValueError if it is not a matrix of positive probabilities."""
    k = len(emission)
    if not 2 <= k <= 256:
        raise ValueError(f"emission has {k} rows; it must have one for each of 2 to 256 states")
    outputs = len(emission[0])
    for number, row in enumerate(emission):
        if not (len(row) == outputs and 2 <= outputs <= 256):
            raise ValueError(
                f"emission row {number} has {len(row)} entries; all rows must have the same 2 to 256"
            )
        if not all(0.0 < probability <= 1.0 for probability in row):
            raise ValueError(f"emission row {number} is {list(row)!r}; its entries must be in (0, 1]")
        if not abs(math.fsum(row) - 1.0) <= 1e-9:
            raise ValueError(f"emission row {number} sums to {math.fsum(row)!r}; it must sum to 1")
    return [[Fraction(probability) for probability in row] for row in emission]


def _fitted_row(row: Sequence[Fraction], lowest: Sequence[int], highest: Sequence[int]) -> tuple[int, ...]:
    """Word counts next to the row's probabilities, within the columns' bounds, that sum to 2^64."""
    fitted = [
        max(math.floor(probability * _RANGE), low) for probability, low in zip(row, lowest, strict=True)
    ]
    # Distribute the rounding remainder to the most likely outputs, where it is relatively smallest.
    missing = _RANGE - sum(fitted)
    for z in sorted(range(len(fitted)), key=fitted.__getitem__, reverse=True):
        share = min(max(fitted[z] + missing, lowest[z]), highest[z])
        missing -= share - fitted[z]
        fitted[z] = share
    return tuple(fitted)


class CategoryPerturber:
    """Independent noise on categories: state u becomes output z with probability emission[u][z]."""

    def __init__(self, emission: Sequence[Sequence[float]]) -> None:
        self._bounds = [list(accumulate(row))[:-1] for row in word_counts(emission)]

    def perturb(self, states: Iterable[int]) -> bytes:
        """One perturbed byte, the number of an output, for each state."""
        raw = bytes(states)
        if raw and max(raw) >= len(self._bounds):
            raise ValueError(f"a state is not among the emission's; they are 0 to {len(self._bounds) - 1}")
        bounds = self._bounds
        words = memoryview(os.urandom(8 * len(raw))).cast("Q")
        return bytes([bisect_right(bounds[state], word) for state, word in zip(raw, words, strict=True)])
