"""One side of a stream against the prior adversary, by the steps of pufferfish/categorical/set_hull.py.

The steps are those of pufferfish/categorical/contraction_side.py, without a grid and over sets of states themselves
instead of mixtures: they never prove less. A device verifies certificates of the other ones.
"""

from __future__ import annotations

import math
from functools import cached_property, lru_cache

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction_side import HIGHEST, HOPS
from hushmq.pufferfish.categorical.set_hull import MOST_STATES, step_sides
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.mobius.changing_side import ChangingSide
from hushmq.pufferfish.optional_numpy import numpy_if_installed

_TILTS = (1e-3, 1e-2, 0.1, 0.5, 2.0)
"""For these, steps of all lengths are compared."""

_UP = 1.0 + 2.0**-44
"""Exceeds the relative rounding error of a step."""


class HullStep:
    """A step of some length."""

    def __init__(self, side: ChangingSide) -> None:
        self._side = side
        self._kernels = [piece.kernel for piece in side.pieces if piece.kernel is not None]

    def step(self, D: float) -> float:
        """The R that it certifies from D, at most D."""
        if D <= 0.0 or D > 2 * HIGHEST:
            return max(D, 0.0)
        return min(D, math.log(self._kernels[self._side.place_of(D)].image(math.exp(D))) * _UP)


class HullSide:
    """The steps of all lengths that forget, and the R of endless constant tilts."""

    def __init__(self, steps: dict[int, ChangingSide]) -> None:
        self._steps = steps
        self.tables = {hops: HullStep(side) for hops, side in steps.items()}

    def endless_bound(self, tau: float) -> tuple[int, float]:
        """The best step length and the R it certifies for an endless constant tilt."""
        # R = (h−1)·τ + step_h(τ + R): the steps of h ticks, each with a tilt of h·τ.
        bound, best = min(
            ((hops - 1) * tau + side.endless(hops * tau) * _UP, hops) for hops, side in self._steps.items()
        )
        return best, bound if bound <= HIGHEST else math.inf

    @cached_property
    def useful_tables(self) -> dict[int, HullStep]:
        """The steps without the lengths that are never the best."""
        return {hops: self.tables[hops] for hops in sorted({self.endless_bound(tau)[0] for tau in _TILTS})}

    @property
    def one_tick(self) -> ChangingSide | None:
        """The step of one tick, if that is the best; None if longer ones are."""
        return self._steps[1] if set(self.useful_tables) == {1} else None


@lru_cache(maxsize=4)
def hull_sides(theta: CategoricalTheta) -> tuple[HullSide, HullSide] | None:
    """The past and the future of Θ; None without numpy, with too many states, or if no step forgets.

    Cached, because callers ask for several timelines of one Θ in a row.
    """
    left, right = _hull_side(theta.backward), _hull_side(theta.forward)
    return None if left is None or right is None else (left, right)


def _hull_side(intervals: TransitionIntervals) -> HullSide | None:
    np = numpy_if_installed()
    if np is None or intervals.k > MOST_STATES:
        return None
    steps = {hops: side for hops, side in step_sides(np, intervals, HOPS).items() if side is not None}
    return HullSide(steps) if steps else None
