"""A region of chains with two regimes: intervals of what statistics of pairs can tell, and the chains that price it.

What they cannot tell, the share of time in the upper regime, is not learned: it is taken from the policy's start. To
price a region take its slowest rates and, for three shares of ones and three times in the upper regime, the largest
difference between regimes that is possible with them: among random regions no chain inside lost more to the prior
adversary than the worst of these as far as they lose 6 or less, whatever the tilt and the stride (a test; it is not
proved). Where a regime is all but constant and more than that is lost, chains inside lost up to 3.5% more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from hushmq.calibrator.models.regime.regime_coordinates import LEAST_SHARE, RegimeCoordinates
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

Interval = tuple[float, float]

_NAMES = ("share", "slow_share", "slow_rate", "fast_rate")
_POINTS = 3
_INSIDE = 1 - 1e-6
"""The share of the largest possible difference between regimes that is taken, so that rounding leaves it possible."""


@dataclass(frozen=True, slots=True)
class RegimeIntervals:
    """Intervals of π1, of the slow share of the variance, and of the slow and the fast rate."""

    share: Interval
    slow_share: Interval
    slow_rate: Interval
    fast_rate: Interval

    @property
    def sides(self) -> tuple[Interval, Interval, Interval, Interval]:
        """All four, in the order of the fields."""
        return self.share, self.slow_share, self.slow_rate, self.fast_rate

    def holds(self, chain: RegimeCoordinates) -> bool:
        """Whether the chain with these coordinates is inside."""
        places = (chain.share, chain.slow_share, chain.slow_rate, chain.fast_rate)
        return all(low <= place <= high for place, (low, high) in zip(places, self.sides, strict=True))

    def contains(self, other: RegimeIntervals) -> bool:
        """Whether every chain of the other one is in this one."""
        sides = zip(self.sides, other.sides, strict=True)
        return all(mine[0] <= its[0] and its[1] <= mine[1] for mine, its in sides)

    def meets(self, other: RegimeIntervals) -> bool:
        """Whether the two have a chain in common."""
        sides = zip(self.sides, other.sides, strict=True)
        return all(max(mine[0], its[0]) <= min(mine[1], its[1]) for mine, its in sides)

    def intersect(self, other: RegimeIntervals) -> RegimeIntervals:
        """The chains in both; ValueError where there are none."""
        if not self.meets(other):
            raise ValueError("the regions have no chain in common")
        return RegimeIntervals(
            *(
                (max(mine[0], its[0]), min(mine[1], its[1]))
                for mine, its in zip(self.sides, other.sides, strict=True)
            )
        )

    def hull(self, other: RegimeIntervals) -> RegimeIntervals:
        """The smallest region that contains both."""
        return RegimeIntervals(
            *(
                (min(mine[0], its[0]), max(mine[1], its[1]))
                for mine, its in zip(self.sides, other.sides, strict=True)
            )
        )

    def chains(self, upper_time: Interval) -> tuple[RegimeChain, ...]:
        """The chains that price the region, the time in the upper regime being within this interval."""
        shares = np.clip(np.linspace(*self.share, _POINTS), 2 * LEAST_SHARE, 1 - 2 * LEAST_SHARE).tolist()
        found = [
            chain
            for share, time in product(shares, np.linspace(*upper_time, _POINTS).tolist())
            for chain in self._slowest(share, time)
        ]
        return tuple(dict.fromkeys(found))

    def _slowest(self, share: float, time: float) -> Iterator[RegimeChain]:
        """With this share of ones and its largest difference between regimes: for this time in the upper one.

        Then the one with the largest slow share of all, and the time nearest to this one that it can have.
        """
        slow, fast = min(self.slow_rate[0], self.fast_rate[0] / 2), self.fast_rate[0]
        whole = RegimeCoordinates(share, 1.0, slow, fast).between
        below, above = share - LEAST_SHARE, 1 - share - LEAST_SHARE
        largest = min(self.slow_share[1], _INSIDE * below * above / whole)
        time = _within(time, RegimeCoordinates(share, min(self.slow_share[0], largest), slow, fast))
        possible = min(below**2 * (1 - time) / time, above**2 * time / (1 - time))
        yield RegimeCoordinates(share, min(largest, _INSIDE * possible / whole), slow, fast).chain(time)
        furthest = RegimeCoordinates(share, largest, slow, fast)
        yield furthest.chain(_within(time, furthest))

    def as_tree(self) -> dict[str, list[float]]:
        """The region for programs, exactly."""
        return {name: list(side) for name, side in zip(_NAMES, self.sides, strict=True)}

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> RegimeIntervals:
        """The region whose `as_tree` this is."""
        return cls(*((float(tree[name][0]), float(tree[name][1])) for name in _NAMES))


def _within(time: float, chain: RegimeCoordinates) -> float:
    """The time in the upper regime nearest to this one that the chain can have."""
    ends = chain.upper_times()
    if ends is None:
        raise ValueError(f"no chain has the coordinates {chain}")
    return min(ends[1], max(ends[0], time))
