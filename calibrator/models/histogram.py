"""A window's noisy histogram, whatever the number of states, and its debiased frequencies."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from hushmq.broker.contract.release_answers import Linear

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
    bias: float = 0.0
    """The largest bias of a frequency: not 0 where several noise versions were counted."""
    sums: tuple[Linear, ...] = ()
    """The errors of the weighted sums of frequencies that were asked for."""

    def beside(self, variance: float) -> Histogram:
        """The same with a further, independent error of this variance, nearly normal, in every frequency."""
        if not variance:
            return self
        return replace(
            self,
            standard_errors=tuple(math.sqrt(one**2 + variance) for one in self.standard_errors),
            half_widths=tuple(math.sqrt(one**2 + NORMAL**2 * variance) for one in self.half_widths),
            # A sum whose weights have a range of one moves by no more than a share.
            sums=tuple(
                Linear(
                    math.sqrt(one.standard_error**2 + variance),
                    math.sqrt(one.half_width**2 + NORMAL**2 * variance),
                )
                for one in self.sums
            ),
        )
