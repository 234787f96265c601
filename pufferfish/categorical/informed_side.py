"""One side of a stream for an adversary who may know any states on it.

Two bounds hold, and the smaller counts (docs/theory-k.md, Theorems 10 and 11):

- that of bridges to the nearest known state (pufferfish/categorical/bridge.py), for one tilt at all ticks;
- the *projective* one, which holds for any weights w of the states at the end of a step, whatever is known beyond it,
  and for tilts that vary. With Δ = max log P(x,u)P(y,v)/(P(x,v)P(y,u)) a step leads from D to
  4·artanh(tanh(Δ/4)·tanh(D/4)).

A timeline follows the projective bound from tick to tick, and never goes above the bridges' for its largest tilt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from itertools import permutations

from hushmq.pufferfish.categorical.bridge import BridgeSide
from hushmq.pufferfish.categorical.contraction_side import (
    CERTIFICATE_MARGIN,
    ContractionSide,
    Step,
    powers,
)
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals
from hushmq.pufferfish.mobius.changing_side import LARGEST_ALPHA, ChangingSide

MOST_STATES = 6
"""With more states a device would take too long to verify a setting."""

_UP = 1.0 + 2.0**-46


class ProjectiveStep(Step):
    """A step whose end the adversary knows anything about."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self.alpha = smallest_cross_ratio(intervals) ** 0.5 / _UP

    def step(self, D: float) -> float:
        """The R that it certifies from D: 4·artanh(tanh(Δ/4)·tanh(D/4)), with α = e^{−Δ/2}."""
        if D <= 0.0 or self.alpha == 0.0 or D > 2 * _FARTHEST:
            return max(D, 0.0)
        half, alpha = D / 2, self.alpha
        return min(D, 2 * math.log1p((1 - alpha) * math.expm1(half) / (1 + alpha * math.exp(half))) * _UP)


_FARTHEST = 60.0
"""Beyond this D a step is not computed: it certifies D."""


def smallest_cross_ratio(intervals: TransitionIntervals) -> float:
    """The least P(x,v)P(y,u)/(P(x,u)P(y,v)) over x ≠ y and u ≠ v, at most 1."""
    least = 1.0
    for x, y in permutations(range(intervals.k), 2):
        # P(x,v)/P(y,v) and P(y,u)/P(x,u): the two least of each, for they may not be of one state.
        mine = _two_least(intervals.low[x], intervals.high[y])
        theirs = _two_least(intervals.low[y], intervals.high[x])
        least = min(least, *(a * b for a, v in mine for b, u in theirs if u != v))
    return least


def _two_least(low: Row, high: Row) -> list[tuple[float, int]]:
    """The two smallest quotients with their places; none of impossible states."""
    return sorted((a / b, place) for place, (a, b) in enumerate(zip(low, high, strict=True)) if b > 0.0)[:2]


class ProjectiveSide(ContractionSide):
    """The projective steps of all lengths."""

    @cached_property
    def tables(self) -> Mapping[int, Step]:
        """The projective step of each length."""
        return self._steps

    @cached_property
    def _steps(self) -> Mapping[int, ProjectiveStep]:
        return {hops: ProjectiveStep(power) for hops, power in powers(self._intervals)}

    @cached_property
    def one_tick(self) -> ChangingSide | None:
        """The step of one tick, if that is the best; None if longer ones are, or nothing is proved."""
        if set(self.useful_tables) != {1} or not (alpha := self._steps[1].alpha) > 0.0:
            return None
        return ChangingSide.of_any_odds(min(alpha, LARGEST_ALPHA))


class InformedSide:
    """What one side tells whatever is known on it."""

    def __init__(self, intervals: TransitionIntervals, unknown: ContractionSide) -> None:
        self._unknown = unknown
        self.projective = ProjectiveSide(intervals)
        self._bridges = BridgeSide(intervals)
        self._bounds: dict[float, tuple[int, float]] = {}

    def endless_bound(self, tau: float) -> tuple[int, float]:
        """A step length and the R it certifies for an endless tilt of at most τ; infinite if none does.

        The length is that of the prior adversary, whose R is never above it.
        """
        if tau not in self._bounds:
            if len(self._bounds) >= _KEPT:
                self._bounds.clear()
            hops, unknown = self._unknown.endless_bound(tau)
            bridges = self._bridges.bound(hops, tau, unknown) if math.isfinite(unknown) else math.inf
            other, projective = self.projective.endless_bound(tau)
            best = (
                (hops, bridges * (1 + CERTIFICATE_MARGIN)) if bridges <= projective else (other, projective)
            )
            self._bounds[tau] = best
        return self._bounds[tau]

    def one_tick_up_to(self, tau: float) -> ChangingSide | None:
        """`projective.one_tick`, where no tilt exceeds τ: R is at most that of an endless stream of this tilt."""
        side = self.projective.one_tick
        if side is None or tau == 0.0:
            return side
        _, most = self.endless_bound(tau)
        return side if math.isinf(most) else side.up_to(most)

    def proves(self, hops: int, tau: float, R: float) -> bool:
        """Whether R bounds what the side tells for tilts of at most τ, by steps of this length."""
        if (hops - 1) * tau + self.projective.tables[hops].step(tau + R) <= R:
            return True
        return self._bridges.bound(hops, tau, R) <= R


_KEPT = 4096
"""The largest number of tilts whose bounds are kept."""
