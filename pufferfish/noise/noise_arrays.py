"""Many exact draws at once: the laws of discrete_laplace.py and joint_noise.py, with numpy comparing the words.

Only comparisons and shifts of integers are numpy's; a word that does not decide is decided as in geometric_digits.py.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.noise.discrete_laplace import geometric
from hushmq.pufferfish.noise.geometric_digits import coins_of
from hushmq.pufferfish.noise.random_words import random_words

Integers = NDArray[np.int64]


def discrete_laplace_array(scale: Fraction, count: int) -> Integers:
    """Independent draws with P(k) ∝ e^(−|k|/scale); ValueError unless the scale is positive and at most 2^50."""
    both = geometric_array(scale, 2 * count)
    return both[:count] - both[count:]


def geometric_array(scale: Fraction, count: int) -> Integers:
    """Independent draws of m ≥ 0 with P(m) ∝ e^(−m/scale)."""
    coins = coins_of(scale)
    words = np.frombuffer(random_words(len(coins.coins) * count), dtype=np.uint64).reshape(-1, count)
    drawn = np.zeros(count, dtype=np.int64)
    for i, (coin, row, low, high) in enumerate(zip(coins.coins, words, coins.low, coins.high, strict=True)):
        ones = row < np.uint64(low)
        for at in np.flatnonzero((row < np.uint64(high)) ^ ones):
            ones[at] = coin.decide(int(row[at]))
        drawn |= ones.astype(np.int64) << i
    for at in np.flatnonzero(drawn >> coins.digits):  # once in 2^64 draws
        drawn[at] += geometric(coins.rest()) << coins.digits
    return drawn
