"""What all runs before each run of a timeline say: one pass over the runs, a few multiplications for each.

A run that stays in one piece of the side's map (pufferfish/binary/changing_side.py) is one Möbius map of e^(x/share). A
run that passes from piece to piece is left to the side itself.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from hushmq.pufferfish.binary.changing_side import ChangingSide, Kernel
from hushmq.pufferfish.binary.run_maps import BATCH, RunMaps

CLOSE = 2.0**-51
"""Two passes that come so near to each other are taken to go on together: the maps shrink what they differ by."""

_KEPT = 16_384
"""Runs that pass from piece to piece, of which it is remembered what they say."""

_FEW = 24
"""Fewer runs are left to the side."""


class _Bounds(NamedTuple):
    """A piece in terms of y = e^(x/share): where it lies, and its image, in which a run ends that has not left it."""

    kernel: Kernel
    least: float
    most: float
    lowest: float
    highest: float


class SideSweep:
    """Passes over the runs of a timeline for one side."""

    def __init__(self, side: ChangingSide, maps: RunMaps) -> None:
        self.side = side
        self._maps = maps
        self._bounds: dict[int, _Bounds] = {}
        self._passed: dict[tuple[int, float], float] = {}

    def values(self, runs: Sequence[int], x: float, before: Sequence[float] = ()) -> array[float]:
        """What is said before each run, given by the number of its shape, and after the last; x before the first.

        `before` are the last of these values as an earlier pass has found them. Where this pass comes to the same, it
        ends, and leaves out what remains.
        """
        found, ahead = array("d", [x]), len(runs) + 1 - len(before)
        few = len(runs) < _FEW
        while len(found) <= len(runs):
            i = len(found) - 1
            if i >= ahead and abs(found[-1] - before[i - ahead]) <= CLOSE:
                return found[:i]
            if not few:
                self._follow(runs, found, before, ahead)
            if len(found) - 1 == i:
                found.append(self._after(runs[i], found[-1]))
        return found

    def _after(self, shape: int, x: float) -> float:
        """What is said after a run that passes from piece to piece; equal windows say the same again and again."""
        after = self._passed.get((shape, x))
        if after is None:
            if len(self._passed) >= _KEPT:
                self._passed.clear()
            tau, ticks = self._maps.shapes[shape]
            after = self._passed[shape, x] = self.side.advance(tau, ticks, x)
        return after

    def _follow(self, runs: Sequence[int], found: array[float], before: Sequence[float], ahead: int) -> None:
        """Append what is said after each further run, as long as all of them stay in the piece of the first."""
        x, i, shapes = found[-1], len(found) - 1, self._maps.shapes
        place = self.side.place_of(x + shapes[runs[i]][0])
        upper, kernel, level = self.side.pieces[place]
        if kernel is None:
            low = self.side.pieces[place - 1].upper if place else -math.inf
            while i < len(runs):
                tau = shapes[runs[i]][0]
                if not (low < x + tau <= upper and low < level + tau <= upper):
                    return
                found.append(x := level)
                i += 1
                if i >= ahead and abs(x - before[i - ahead]) <= CLOSE:
                    return
            return
        kernel, least, most, lowest, highest = self._bounds.get(place) or self._bounds_of(place, kernel)
        maps, share, log = self._maps.of(kernel), kernel.share, math.log
        y = math.exp(x / share)
        while i < len(runs):
            coefficients = maps[runs[i]]
            if coefficients is None:
                self._maps.compute(kernel, maps, runs[i : i + BATCH])
                continue
            a, b, c, d, m = coefficients
            if not least < y * m <= most:
                return
            y = (a * y + b) / (c * y + d)
            if not lowest <= y <= highest:
                return
            i += 1
            x = share * log(y)
            found.append(x)
            if i >= ahead and abs(x - before[i - ahead]) <= CLOSE:
                return

    def _bounds_of(self, place: int, kernel: Kernel) -> _Bounds:
        low = self.side.pieces[place - 1].upper if place else -math.inf
        least, most = (_exp(edge / kernel.share) for edge in (low, self.side.pieces[place].upper))
        found = _Bounds(kernel, least, most, kernel.image(least), kernel.image(most))
        self._bounds[place] = found
        return found


def _exp(x: float) -> float:
    return math.exp(x) if x < 700.0 else math.inf
