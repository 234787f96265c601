"""τ(t) as runs: stretches of ticks with the same tilts, whatever entries they are the sum of.

Tilts are held as whole numbers of 2^-60 nats, rounded up, so that sums are exact, equal tilts are equal numbers,
and nothing is ever priced below what was spent.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

_GRID = 2.0**60


def units(tau: float) -> int:
    """A tilt in units, rounded up."""
    return math.ceil(tau * _GRID)


def nats(tilt: int) -> float:
    """A tilt in nats, not below the units given."""
    tau = tilt / _GRID
    return tau if tau * _GRID >= tilt else math.nextafter(tau, math.inf)


class Runs:
    """Run k covers the ticks edges[k] … edges[k+1]−1 and has the tilts tilts[k]; outside, nothing is published."""

    def __init__(self, pieces: Iterable[tuple[int, int, int, int]] = ()) -> None:
        """Sum up pieces (first tick, last tick, tilt towards 0, tilt towards 1)."""
        changes: dict[int, tuple[int, int]] = {}
        for first, last, tilt0, tilt1 in pieces:
            up0, up1 = changes.get(first, (0, 0))
            changes[first] = (up0 + tilt0, up1 + tilt1)
            down0, down1 = changes.get(last + 1, (0, 0))
            changes[last + 1] = (down0 - tilt0, down1 - tilt1)
        self.edges: list[int] = []
        self.tilts: list[tuple[int, int]] = []
        now = (0, 0)
        for tick in sorted(changes):
            now = (now[0] + changes[tick][0], now[1] + changes[tick][1])
            if not self.tilts or now != self.tilts[-1]:
                self.edges.append(tick)
                self.tilts.append(now)
        if self.edges:
            # Behind the last piece nothing is published: that is an edge and no run.
            end = max(changes)
            if self.edges[-1] == end:
                self.tilts.pop()
            else:
                self.edges.append(end)

    def copy(self) -> Runs:
        """The same runs, to be changed without changing these."""
        twin = Runs()
        twin.edges, twin.tilts = self.edges.copy(), self.tilts.copy()
        return twin

    def add(self, first: int, last: int, tilt0: int, tilt1: int) -> None:
        """Add a piece."""
        if not self.edges:
            self.edges, self.tilts = [first, last + 1], [(0, 0)]
        if first < self.edges[0]:
            self.edges.insert(0, first)
            self.tilts.insert(0, (0, 0))
        if last >= self.edges[-1]:
            self.edges.append(last + 1)
            self.tilts.append((0, 0))
        for k in range(self._split(first), self._split(last + 1)):
            old0, old1 = self.tilts[k]
            self.tilts[k] = (old0 + tilt0, old1 + tilt1)

    def _split(self, tick: int) -> int:
        """The run that begins at a tick, after cutting one in two if need be."""
        k = bisect_left(self.edges, tick)
        if self.edges[k] != tick:
            self.edges.insert(k, tick)
            self.tilts.insert(k, self.tilts[k - 1])
        return k

    def covering(self, first: int, last: int) -> range:
        """The runs that touch any of these ticks."""
        low = max(0, bisect_right(self.edges, first) - 1)
        return range(low, max(low, min(len(self.tilts), bisect_right(self.edges, last))))
