"""Drawing noise: integers from the operating system's generator against integer thresholds, never a seed.

A probability becomes a threshold k of 2^64, and an event happens when a fresh 64-bit integer is below k. The
threshold is rounded towards more noise, so the realised tilt is never above the stated one (docs/theory.md,
section 9). No state is ever named in an error.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from fractions import Fraction

from pufferfish.binary import Noise

_RANGE = 1 << 64


def threshold(probability: float) -> int:
    """The smallest k with k/2^64 ≥ probability: the probability that noise strikes, rounded up."""
    if not (0.0 <= probability <= 1.0):
        raise ValueError(f"probability is {probability!r}; it must be in [0, 1]")
    return math.ceil(Fraction(probability) * _RANGE)


class Perturber:
    """Independent noise on bits: each 0 becomes 1 with probability ρ0, each 1 becomes 0 with probability ρ1."""

    def __init__(self, noise: Noise) -> None:
        self._thresholds = (threshold(noise.rho0), threshold(noise.rho1))

    def perturb(self, states: Iterable[int]) -> bytes:
        """One perturbed byte, 0 or 1, for each state."""
        raw = bytes(states)
        if raw.strip(b"\0\1"):
            raise ValueError("a state is not 0 or 1; the perturber of bits takes only these")
        flips = self._thresholds
        words = memoryview(os.urandom(8 * len(raw))).cast("Q")
        return bytes([state ^ (word < flips[state]) for state, word in zip(raw, words, strict=True)])
