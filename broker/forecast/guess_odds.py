"""What a loss means, in words: how much better an attacker's guess about one instant can become."""

from __future__ import annotations

import math


def improved(guess: float, epsilon: float) -> float:
    """Return how often a guess is right at most after a loss of ε, that was right with probability `guess` before.

    The odds change by e^ε at most: p/(1−p) becomes e^ε·p/(1−p).
    """
    if guess >= 1.0:
        return 1.0
    odds = math.log(guess) - math.log1p(-guess) + epsilon
    return 1.0 / (1.0 + math.exp(-odds))


def odds_in_words(epsilon: float, guess: float = 0.6) -> str:
    """Return a sentence such as `a guess that is right 60% of the time becomes at most 73%`."""
    return (
        f"a guess that is right {guess:.0%} of the time becomes at most {_percent(improved(guess, epsilon))}"
    )


def _percent(share: float) -> str:
    """Return a share in per cent, rounded up, so that no promise is overstated, and 100% only where it is certain."""
    if share > 0.99:
        digits = next(number for number in range(1, 12) if 100 * (1 - share) >= 10.0**-number or number == 11)
        return f"{math.ceil(share * 100 * 10**digits - 1e-9) / 10**digits:.{digits}f}%"
    return f"{math.ceil(share * 100 - 1e-9)}%"
