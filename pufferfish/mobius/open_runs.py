"""The runs of a timeline that may have its largest loss, by an upper bound on each, largest first.

Along a run each side moves monotonically, so that it says no more than at one of the run's ends. Where both sides rise
they are concave (pufferfish/mobius/changing_search.py), and lie below their first step, repeated. That bound takes two
evaluations, and is asked for where the first one does not suffice: with numpy for many runs at once.
"""

from __future__ import annotations

import math
from array import array
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hushmq.pufferfish.mobius.run_maps import RunMaps
from hushmq.pufferfish.mobius.two_sides import ChangingChain
from hushmq.pufferfish.optional_numpy import numpy_if_installed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_FEW = 32
"""Fewer runs are quicker one by one."""

_AT_FIRST = 64
"""So many runs are put in order at first, and four times as many whenever these have not sufficed."""

_ROUNDED = 2.0**-46
"""Exceeds the rounding error of the first step of a side."""


class OpenRuns:
    """The runs whose losses may exceed the largest one that was found."""

    def __init__(
        self,
        chain: ChangingChain,
        maps: RunMaps,
        shapes: array[int],
        before: array[float],
        after: array[float],
        loss: float,
    ) -> None:
        """The shape of each run, and what is said before it and from it on, with one value more."""
        self.limit = 0.0
        """No loss of the runs that were left out exceeds the largest loss or this one."""
        self._chain, self._maps = chain, maps
        self._shapes, self._before, self._after = shapes, before, after
        self._searched: dict[int, tuple[float, float, float]] = {}
        self._np = np = numpy_if_installed() if len(shapes) > _FEW else None
        self._places: Any
        self._bounds: Any
        # The first runs, up to here, are in order.
        self._at, self._ordered, self._more = 0, 0, _AT_FIRST
        if np is None:
            ends = zip(maps.taus_of(shapes), before, before[1:], after, after[1:], strict=False)
            found = [tau + min(max(a, b) + max(c, d), chain.ceiling) for tau, a, b, c, d in ends]
            self._places = sorted(
                (i for i, bound in enumerate(found) if bound > loss), key=lambda i: -found[i]
            )
            self._bounds = [found[i] for i in self._places]
            self._ordered = len(self._places)
            return
        left, right = np.frombuffer(before), np.frombuffer(after)
        both = np.maximum(left[:-1], left[1:]) + np.maximum(right[:-1], right[1:])
        bounds = np.frombuffer(maps.taus_of(shapes)) + np.minimum(both, chain.ceiling)
        self._places = np.flatnonzero(bounds > loss)
        self._bounds = bounds[self._places]
        self._alike = np.bincount(np.frombuffer(shapes, dtype=np.int64)[self._places])

    def next(self, enough: float) -> int | None:
        """The next run whose loss may exceed `enough`; None after the last."""
        while self._at < self._ordered or self._order_more(enough):
            bound, i = float(self._bounds[self._at]), int(self._places[self._at])
            if bound <= enough:
                self.limit, self._at = max(self.limit, bound), self._ordered
                continue
            self._at += 1
            # A side that says more before a run says no more than that after any of its ticks.
            left, right, there = self._searched.get(self._shapes[i], (0.0, 0.0, math.inf))
            most = there + max(self._before[i] - left, 0.0) + max(self._after[i + 1] - right, 0.0)
            if most > enough and self._np is None and self.rising(i):
                most = min(most, self._below_first_steps(i))
            if most > enough:
                return i
            self.limit = max(self.limit, most)
        return None

    def rising(self, i: int) -> bool:
        """Whether both sides say more after a run than before it."""
        return self._before[i + 1] > self._before[i] and self._after[i] > self._after[i + 1]

    def searched(self, i: int, here: float, enough: float) -> None:
        """Note the largest loss of a run, and leave out the runs that have therefore no more than `enough`.

        These are runs of its shape, which exceed it by no more than what is said before and after them.
        """
        shape, left, right = self._shapes[i], self._before[i], self._after[i + 1]
        self._searched[shape] = left, right, here
        np = self._np
        if np is None or self._alike[shape] <= _FEW:
            return
        places, bounds = self._places[self._at :], self._bounds[self._at :]
        most = here + np.maximum(np.frombuffer(self._before)[places] - left, 0.0)
        most += np.maximum(np.frombuffer(self._after)[places + 1] - right, 0.0)
        gone = (np.frombuffer(self._shapes, dtype=np.int64)[places] == shape) & (most <= enough)
        self._alike[shape] -= gone.sum()
        self._ordered -= self._at + int(gone[: self._ordered - self._at].sum())
        self._places, self._bounds, self._at = places[~gone], bounds[~gone], 0
        self.limit = max(self.limit, float(most[gone].max(initial=0.0)))

    def _order_more(self, enough: float) -> bool:
        """Put those with the largest bounds in order, by sharper ones; False if none of the rest exceeds `enough`."""
        np = self._np
        if np is None or self._ordered == len(self._places):
            return False
        places, bounds = self._places[self._ordered :], self._bounds[self._ordered :]
        open_still = bounds > enough
        self.limit = max(self.limit, float(bounds[~open_still].max(initial=0.0)))
        places, bounds = places[open_still], bounds[open_still]
        count = min(self._more, len(places))
        if count < len(places):
            largest = np.argpartition(-bounds, count)
            places, bounds = places[largest], bounds[largest]
        bounds[:count] = np.minimum(bounds[:count], self._many_below_first_steps(np, places[:count]))
        order = np.argsort(-bounds[:count], kind="stable")
        places[:count], bounds[:count] = places[order], bounds[order]
        self._places, self._bounds, self._at, self._ordered = places, bounds, 0, count
        self._more *= 4
        return count > 0

    def _below_first_steps(self, i: int) -> float:
        """An upper bound on the loss in a run in which both sides rise."""
        chain, left, right = self._chain, self._before[i], self._after[i + 1]
        tau, ticks = self._maps.shape(self._shapes[i])
        rise = max(chain.left.advance(tau, 1, left) - left, chain.right.advance(tau, 1, right) - right, 0.0)
        return tau + left + right + (ticks - 1) * rise + ticks * _ROUNDED

    def _many_below_first_steps(self, np: ModuleType, places: NDArray[np.int64]) -> NDArray[np.float64]:
        """The same of many runs; infinite where not both sides rise."""
        before, after = np.frombuffer(self._before), np.frombuffer(self._after)
        left, right = before[places], after[places + 1]
        tau, ticks = self._maps.shapes(np, np.frombuffer(self._shapes, dtype=np.int64)[places])
        rise = np.maximum(
            self._chain.left.steps(np, left + tau) - left, self._chain.right.steps(np, right + tau) - right
        )
        found = tau + left + right + (ticks - 1.0) * np.maximum(rise, 0.0) + ticks * _ROUNDED
        rising = (before[places + 1] > left) & (after[places] > right)
        return np.where(rising, found, np.inf)  # type: ignore[no-any-return]  # numpy's, as the module is
