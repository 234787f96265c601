"""Exact discrete Laplace noise in integer arithmetic: P(k) ∝ e^(−|k|/scale).

The difference of two geometric draws has this law: Σ_m P(m+k)·P(m) ∝ e^(−|k|/scale). Their digits are tossed from
words of the operating system (pufferfish/noise/geometric_digits.py). Adding the noise to a count costs a tilt of
1/scale wherever the count may change by one (docs/theory.md, section 2): two neighbouring counts give any output with
probabilities at most e^(1/scale) apart. Many draws at once: pufferfish/noise/noise_arrays.py.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp

from hushmq.pufferfish.noise.geometric_digits import coins_of
from hushmq.pufferfish.noise.random_words import random_words


def discrete_laplace(scale: Fraction) -> int:
    """One exact draw; ValueError unless the scale is positive and at most 2^50."""
    return geometric(scale) - geometric(scale)


def geometric(scale: Fraction) -> int:
    """One draw of m ≥ 0 with P(m) ∝ e^(−m/scale)."""
    coins = coins_of(scale)
    words = random_words(len(coins.coins))
    drawn = 0
    for i, (coin, word, low, high) in enumerate(zip(coins.coins, words, coins.low, coins.high, strict=True)):
        drawn |= (coin.decide(word) if low <= word < high else word < low) << i
    if drawn >> coins.digits:  # once in 2^64 draws
        return drawn + (geometric(coins.rest()) << coins.digits)
    return drawn


def standard_deviation(scale: float) -> float:
    """√(2p)/(1−p) with p = e^(−1/scale)."""
    p = exp(-1.0 / scale)
    return float((2 * p) ** 0.5 / (1 - p))
