"""Evidence that a probability lies outside an interval, valid at every moment (docs/theory-world.md, Theorem 24).

The evidence is a mean of likelihood ratios, each of a fixed probability outside the interval against the interval's
nearer end. While the probability of every trial, given everything before it, lies in the interval, each ratio is a
supermartingale that starts at 1; so is their mean.
"""

from __future__ import annotations

from math import exp, log

ODDS = (1.25, 2.0, 5.0, 20.0, 1000.0)
"""The alternatives on each side: the odds at the end of the interval, divided or multiplied by these."""

_LARGEST = 300.0
"""Logarithms of ratios are cut off here, far above every threshold, so that none overflows."""


class IntervalEvidence:
    """The evidence against one interval, as a function of how often the event happened and did not."""

    def __init__(self, low: float, high: float) -> None:
        if not 0.0 <= low <= high <= 1.0:
            raise ValueError(f"[{low!r}, {high!r}] is no interval of a probability")
        self._steps = [(0.0, 0.0)] * len(ODDS) * 2
        """By alternative: the logarithms of the factors for an event and for none."""
        for number, factor in enumerate(ODDS):
            # At an end of 0 or 1 nothing lies beyond; the ratio stays 1.
            if low > 0.0:
                self._steps[2 * number] = _steps(low, 1.0 / factor)
            if high < 1.0:
                self._steps[2 * number + 1] = _steps(high, factor)

    def after(self, happened: int, not_happened: int) -> float:
        """The evidence after so many trials; 1 before the first."""
        if not happened and not not_happened:
            return 1.0
        total = 0.0
        for with_event, without in self._steps:
            exponent = happened * with_event + not_happened * without
            if exponent > -_LARGEST:
                total += exp(min(exponent, _LARGEST))
        return total / len(self._steps)


def _steps(end: float, factor: float) -> tuple[float, float]:
    """The logarithms of the two factors of the alternative whose odds are `factor` times those of `end`."""
    if end in {0.0, 1.0}:
        # Beyond a certain or impossible event: the first trial that contradicts it decides.
        return (_LARGEST, 0.0) if end == 0.0 else (0.0, _LARGEST)
    scale = 1.0 - end + end * factor
    return log(factor / scale), log(1.0 / scale)
