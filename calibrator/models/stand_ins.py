"""Many perturbed copies of one state, drawn as a device draws them: 64-bit words against integer thresholds.

The thresholds are those of pufferfish/noise/perturber.py, so the law is the same to the last bit; numpy only compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from hushmq.pufferfish.noise.perturber import threshold, word_counts
from hushmq.pufferfish.noise.random_words import random_words


def perturbed_bits(rho: float, state: int, count: int) -> bytes:
    """So many copies of a bit, each flipped with probability `rho`."""
    flipped = _words(count) < np.uint64(threshold(rho))
    return (flipped ^ bool(state)).astype(np.uint8).tobytes()


def perturbed_categories(emission: Sequence[Sequence[float]], state: int, count: int) -> bytes:
    """So many outputs of a state, each with the probabilities of its row."""
    bounds = np.array(list(accumulate(word_counts(emission)[state]))[:-1], dtype=np.uint64)
    return np.searchsorted(bounds, _words(count), side="right").astype(np.uint8).tobytes()


def _words(count: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Words from the operating system's generator."""
    return np.frombuffer(random_words(count), dtype=np.uint64)
