"""The tilt function τ(t) as runs: maximal intervals of ticks with constant tilts, each the sum of all entries there.

Tilts are integers in units of 2^-60 nats, rounded up. Sums are therefore exact, equal tilts compare equal, and no price
is below the cost of what was published.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from hushmq.pufferfish.optional_numpy import numpy_if_installed

_UNITS_PER_NAT = 2.0**60

_MANY = 32
"""From so many tilts on numpy is quicker."""

_EXACT = 1 << 62
"""Smaller tilts are integers of numpy, and so are the numbers next to them."""


def to_units(tau: float) -> int:
    """A tilt in units, rounded up."""
    return math.ceil(tau * _UNITS_PER_NAT)


def to_nats(tilt: int) -> float:
    """A tilt in nats, rounded up."""
    tau = tilt / _UNITS_PER_NAT
    return tau if tau * _UNITS_PER_NAT >= tilt else math.nextafter(tau, math.inf)


def nats_of(tilts: Sequence[int]) -> list[float]:
    """`to_nats` of each."""
    np = numpy_if_installed() if len(tilts) >= _MANY and max(tilts) < _EXACT else None
    if np is None:
        return [to_nats(tilt) for tilt in tilts]
    units = np.array(tilts, dtype=np.int64)
    nearest = units.astype(np.float64)
    found: list[float] = (
        np.where(nearest.astype(np.int64) >= units, nearest, np.nextafter(nearest, np.inf)) / _UNITS_PER_NAT
    ).tolist()
    return found


class TiltRuns:
    """Run k covers the ticks edges[k] … edges[k+1]−1 with the tilts tilts[k]; outside all runs the tilt is 0."""

    def __init__(self, pieces: Iterable[tuple[int, int, int, int]] = ()) -> None:
        """Sums pieces (first tick, last tick, tilt towards 0, tilt towards 1)."""
        self.edges: list[int] = []
        self.tilts: list[tuple[int, int]] = []
        pieces = list(pieces)
        if not self._put_end_to_end(pieces):
            self._sum(pieces)

    def _put_end_to_end(self, pieces: list[tuple[int, int, int, int]]) -> bool:
        """Take the pieces as they are, if each begins after the one before; False if one does not."""
        edges, tilts = list[int](), list[tuple[int, int]]()
        end = pieces[0][0] if pieces else 0
        now: tuple[int, int] | None = None
        for first, last, tilt0, tilt1 in pieces:
            if first != end:
                if first < end:
                    return False
                if now != (0, 0):
                    edges.append(end)
                    tilts.append(now := (0, 0))
            if (tilt0, tilt1) != now:
                edges.append(first)
                tilts.append(now := (tilt0, tilt1))
            end = last + 1
        if edges:
            edges.append(end)
        self.edges, self.tilts = edges, tilts
        return True

    def _sum(self, pieces: list[tuple[int, int, int, int]]) -> None:
        changes: dict[int, tuple[int, int]] = {}
        for first, last, tilt0, tilt1 in pieces:
            up0, up1 = changes.get(first, (0, 0))
            changes[first] = (up0 + tilt0, up1 + tilt1)
            down0, down1 = changes.get(last + 1, (0, 0))
            changes[last + 1] = (down0 - tilt0, down1 - tilt1)
        now = (0, 0)
        for tick in sorted(changes):
            now = (now[0] + changes[tick][0], now[1] + changes[tick][1])
            if not self.tilts or now != self.tilts[-1]:
                self.edges.append(tick)
                self.tilts.append(now)
        if self.edges:
            # After the last piece the tilt is 0: the last edge begins no run.
            end = max(changes)
            if self.edges[-1] == end:
                self.tilts.pop()
            else:
                self.edges.append(end)

    def copy(self) -> TiltRuns:
        """An independent copy."""
        twin = TiltRuns()
        twin.edges, twin.tilts = self.edges.copy(), self.tilts.copy()
        return twin

    def add(self, first: int, last: int, tilt0: int, tilt1: int) -> None:
        """Adds a piece. Runs of equal tilts that meet at its ends become one."""
        if not self.edges:
            self.edges, self.tilts = [first, last + 1], [(0, 0)]
        if first < self.edges[0]:
            self.edges.insert(0, first)
            self.tilts.insert(0, (0, 0))
        if last >= self.edges[-1]:
            self.edges.append(last + 1)
            self.tilts.append((0, 0))
        start, stop = self._split(first), self._split(last + 1)
        for k in range(start, stop):
            old0, old1 = self.tilts[k]
            self.tilts[k] = (old0 + tilt0, old1 + tilt1)
        for k in (stop, start):
            if 0 < k < len(self.tilts) and self.tilts[k - 1] == self.tilts[k]:
                del self.edges[k], self.tilts[k]

    def cut(self, tick: int) -> None:
        """Begins a run at `tick`, if it lies between the first tick and the last; no tilt changes."""
        if self.edges and self.edges[0] < tick < self.edges[-1]:
            self._split(tick)

    def _split(self, tick: int) -> int:
        """The index of the run that begins at `tick`, splitting a run there if necessary."""
        k = bisect_left(self.edges, tick)
        if self.edges[k] != tick:
            self.edges.insert(k, tick)
            self.tilts.insert(k, self.tilts[k - 1])
        return k

    def runs_touching(self, first: int, last: int) -> range:
        """The indices of the runs that contain any of the ticks first…last."""
        low = max(0, bisect_right(self.edges, first) - 1)
        return range(low, max(low, min(len(self.tilts), bisect_right(self.edges, last))))
