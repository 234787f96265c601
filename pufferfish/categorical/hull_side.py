"""One side of a stream against the prior adversary, by the steps of pufferfish/categorical/set_hull.py.

The steps are those of pufferfish/categorical/contraction_side.py, without a grid and over sets of states themselves
instead of mixtures: they never prove less. A device verifies certificates of the other ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from types import ModuleType

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction_side import HIGHEST, HOPS, ContractionSide, Step
from hushmq.pufferfish.categorical.set_hull import MOST_STATES, Hull, side_of, step_hulls
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.mobius.changing_side import ChangingSide
from hushmq.pufferfish.optional_numpy import numpy_if_installed

_TILTS = (1e-3, 1e-2, 0.03, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""For these, steps of all lengths are compared."""

_UP = 1.0 + 2.0**-48
"""Exceeds the relative rounding error of a step."""


class HullStep(Step):
    """A step of some length.

    A set may be impossible under one row, or certain under another: the step still proves something.
    """

    def __init__(self, hull: Hull) -> None:
        self._points = [(a - b, b) for b, a in hull]

    def step(self, D: float) -> float:
        """The R that it certifies from D, at most D."""
        if D <= 0.0 or D > 2 * HIGHEST:
            return max(D, 0.0)
        gain = math.expm1(D)
        # (1 + g·a)/(1 + g·b) − 1
        gap = max(gain * more / (1.0 + gain * b) for more, b in self._points)
        return min(D, math.log1p(max(gap, 0.0)) * _UP)


class HullSide(ContractionSide):
    """The steps of all lengths, and the R of endless constant tilts."""

    def __init__(self, np: ModuleType, intervals: TransitionIntervals) -> None:
        super().__init__(intervals)
        self._hulls = step_hulls(np, intervals, HOPS)

    @cached_property
    def tables(self) -> Mapping[int, Step]:
        """The step of each length."""
        return {hops: HullStep(hull) for hops, hull in self._hulls.items()}

    @cached_property
    def useful_tables(self) -> dict[int, Step]:
        """The steps without the lengths that are never the best."""
        return {hops: self.tables[hops] for hops in sorted({self.endless_bound(tau)[0] for tau in _TILTS})}

    @cached_property
    def one_tick(self) -> ChangingSide | None:
        """The step of one tick, if that is the best; None if longer ones are, or it is no `ChangingSide`."""
        return side_of(self._hulls[1]) if set(self.useful_tables) == {1} else None


@lru_cache(maxsize=4)
def hull_sides(theta: CategoricalTheta) -> tuple[HullSide, HullSide] | None:
    """The past and the future of Θ; None without numpy, or with too many states.

    Cached, because callers ask for several timelines of one Θ in a row.
    """
    np = numpy_if_installed()
    if np is None or theta.forward.k > MOST_STATES:
        return None
    return HullSide(np, theta.backward), HullSide(np, theta.forward)
