"""Exact discrete Laplace noise in integer arithmetic: P(k) ∝ e^(−|k|/scale).

The sampler of Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", Algorithms 1 and 2, from
the operating system's generator. Adding it to a count costs a tilt of 1/scale wherever the count may change by one
(docs/theory.md, section 2): two neighbouring counts give any output with probabilities at most e^(1/scale) apart.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp
from secrets import randbelow


def discrete_laplace(scale: Fraction) -> int:
    """One exact draw; ValueError unless the scale is positive."""
    if scale <= 0:
        raise ValueError(f"scale is {scale}; it must be positive")
    while True:
        magnitude = geometric(scale)
        negative = bool(randbelow(2))
        if magnitude or not negative:  # reject −0, or 0 would be twice as likely
            return -magnitude if negative else magnitude


def geometric(scale: Fraction) -> int:
    """One draw of m ≥ 0 with P(m) ∝ e^(−m/scale)."""
    # m = ⌊x/d⌋ of a geometric x with P(x) ∝ e^(−x/n), where scale = n/d: then P(m) ∝ e^(−m·d/n).
    n, d = scale.numerator, scale.denominator
    while True:
        rest = randbelow(n)
        if _happens(rest, n):
            break
    whole = 0
    while _happens(1, 1):
        whole += 1
    return (rest + n * whole) // d


def _happens(numerator: int, denominator: int) -> bool:
    """True with probability e^(−numerator/denominator), for a fraction in [0, 1], by its alternating series."""
    k = 1
    while randbelow(denominator * k) < numerator:
        k += 1
    return k % 2 == 1


def standard_deviation(scale: float) -> float:
    """√(2p)/(1−p) with p = e^(−1/scale)."""
    p = exp(-1.0 / scale)
    return float((2 * p) ** 0.5 / (1 - p))
