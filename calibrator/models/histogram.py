"""A window's noisy histogram, whatever the number of states, and its debiased frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

NORMAL = 1.96
"""Half the width of a 95% interval, in standard deviations of a normal error."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """Noisy counts of sanitized states with noise of this scale, and what they say of the true ones."""

    devices: int
    ticks: int
    counts: tuple[int, ...]
    frequencies: tuple[float, ...]
    standard_errors: tuple[float, ...]
    half_widths: tuple[float, ...]
    scale: float

    def beside(self, variance: float) -> Histogram:
        """The same with a further, independent error of this variance, nearly normal, in every frequency."""
        if not variance:
            return self
        return replace(
            self,
            standard_errors=tuple(math.sqrt(one**2 + variance) for one in self.standard_errors),
            half_widths=tuple(math.sqrt(one**2 + NORMAL**2 * variance) for one in self.half_widths),
        )
