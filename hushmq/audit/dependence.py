"""A test of independence between ticks: 2×2 tables of the flips at lags of 1 to 64 ticks."""

from __future__ import annotations

import math
from collections.abc import Sequence

LAGS = 64


class IndependenceTest:
    """Counts of pairs of ticks per lag: all, flipped at the first, at the second, at both."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int, int], list[int]] = {}

    def add(self, flipped: int, masks: Sequence[int], ticks: int) -> None:
        """Adds the flips of consecutive ticks, one bit per tick; a mask selects ticks of equal flip probability."""
        for lag in range(1, min(LAGS, ticks - 1) + 1):
            later = flipped >> lag
            for first, mask in enumerate(masks):
                for second, other in enumerate(masks):
                    both = other & (mask >> lag)
                    here, there = flipped & both, later & both
                    counts = self._pairs.setdefault((lag, first, second), [0, 0, 0, 0])
                    for place, number in enumerate((both, here, there, here & there)):
                        counts[place] += number.bit_count()

    def p_value(self) -> float:
        """The p-value of the largest correlation, Bonferroni-corrected for all tables (normal approximation)."""
        worst = 0.0
        for pairs, here, there, both in self._pairs.values():
            spread = here * (pairs - here) * there * (pairs - there)
            if spread > 0:
                worst = max(worst, abs(pairs * both - here * there) * math.sqrt(pairs / spread))
        return min(1.0, len(self._pairs) * math.erfc(worst / math.sqrt(2.0)))
