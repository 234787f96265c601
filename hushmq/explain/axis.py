"""The axes of a figure: positions of values, and tick labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """An interval of values on a linear or logarithmic scale."""

    low: float
    high: float
    logarithmic: bool

    @classmethod
    def over(cls, values: Sequence[float], *, logarithmic: bool) -> Axis:
        """The axis that contains all values; a linear one starts at 0 unless all values are far from it."""
        low, high = min(values), max(values)
        if not logarithmic and low < 0.3 * high:
            low = min(0.0, low)
        if low == high:
            low, high = (low / 2, high * 2) if logarithmic else (low - 0.5 * (low != 0.0), high + 0.5)
        return cls(low, high, logarithmic)

    def share(self, value: float) -> float:
        """The position of a value on the axis, from 0 to 1."""
        low, high, at = (self._scaled(v) for v in (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / (high - low)))

    def stretched(self, share: float) -> Axis:
        """The axis extended by this share of its length at the top and, unless it starts at 0, at the bottom."""
        low, high = self._scaled(self.low), self._scaled(self.high)
        room = share * (high - low)
        low, high = (low if self.low == 0.0 else low - room), high + room
        return Axis(math.exp(low), math.exp(high), True) if self.logarithmic else Axis(low, high, False)

    def ticks(self) -> list[float]:
        """Round values along the axis: 1, 2 and 5 times powers of ten."""
        if self.logarithmic:
            return self._logarithmic_ticks()
        span = self.high - self.low
        step = 10.0 ** math.floor(math.log10(span / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 7.5)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [i * step for i in range(first, last + 1)]

    def label(self, tick: float) -> str:
        """The label of a tick."""
        if abs(tick) < 1e-9 * (self.high - self.low):
            return "0"
        return f"{tick:.0f}" if 1e5 <= abs(tick) < 1e9 else f"{tick:.6g}"

    def _logarithmic_ticks(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1, 2, 5), (1, 3), (1,)):
            ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            shown = [tick for tick in ticks if self.low * (1 - 1e-9) <= tick <= self.high * (1 + 1e-9)]
            if len(shown) <= 8:
                break
        return shown

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value
