"""Whether draws at different ticks depend on each other: 2×2 tables of flips a number of ticks apart."""

from __future__ import annotations

import math
from collections.abc import Sequence

LAGS = 64


class Dependence:
    """Counts of pairs of ticks: both, flipped at the first, at the second, at both. Numbers are bits of ticks."""

    def __init__(self) -> None:
        self._pairs: dict[tuple[int, int, int], list[int]] = {}

    def add(self, flipped: int, masks: Sequence[int], ticks: int) -> None:
        """Count one stretch; within each pair of masks flips are alike but for chance."""
        for lag in range(1, min(LAGS, ticks - 1) + 1):
            later = flipped >> lag
            for first, mask in enumerate(masks):
                for second, other in enumerate(masks):
                    both = other & (mask >> lag)
                    here, there = flipped & both, later & both
                    counts = self._pairs.setdefault((lag, first, second), [0, 0, 0, 0])
                    for place, number in enumerate((both, here, there, here & there)):
                        counts[place] += number.bit_count()

    def chance(self) -> float:
        """The p-value of the most correlated pair of ticks, for having looked at all of them (normal approximation)."""
        worst = 0.0
        for pairs, here, there, both in self._pairs.values():
            spread = here * (pairs - here) * there * (pairs - there)
            if spread > 0:
                worst = max(worst, abs(pairs * both - here * there) * math.sqrt(pairs / spread))
        return min(1.0, len(self._pairs) * math.erfc(worst / math.sqrt(2.0)))
