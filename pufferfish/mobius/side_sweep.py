"""What all runs before each run of a timeline say: one pass over the runs, a few multiplications for each.

A run that stays in one piece of the side's map (pufferfish/mobius/changing_side.py) is one Möbius map of e^(x/share). A
run that passes from piece to piece is left to the side itself.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from hushmq.pufferfish.mobius.changing_side import ChangingSide, Kernel
from hushmq.pufferfish.mobius.mobius_scan import orbit_through
from hushmq.pufferfish.mobius.run_maps import RunMaps
from hushmq.pufferfish.optional_numpy import numpy_if_installed

CLOSE = 2.0**-46
"""Two passes that come so near to each other are taken to go on together: the maps shrink what they differ by.

Rounding keeps two passes over the same runs some units in the last place apart for ever.
"""

_KEPT = 16_384
"""Runs that pass from piece to piece, of which it is remembered what they say."""

_FEW = 24
"""Fewer runs are left to the side."""

_TOGETHER = 192
"""So many runs are followed before it is asked again what holds for them."""

_TRIED = 32
"""The same, where numpy would follow many more of them."""

_MANY = 1024
"""From so many runs on numpy is quicker."""


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

    def values(self, runs: array[int], x: float, before: Sequence[float] = ()) -> array[float]:
        """What is said before each run, given by the number of its shape, and after the last; x before the first.

        `before` are the last of these values as an earlier pass has found them. Where this pass comes to the same, it
        ends, and leaves out what remains.
        """
        found, ahead = array("d", [x]), len(runs) + 1 - len(before)
        np = numpy_if_installed() if len(runs) >= _MANY else None
        many, together = _MANY, _TOGETHER if np is None else _TRIED
        while len(found) <= len(runs):
            i = len(found) - 1
            if i >= ahead and abs(found[-1] - before[i - ahead]) <= CLOSE:
                return found[:i]
            if self._go_round(np, runs, found, before, ahead):
                continue
            if len(runs) >= _FEW:
                self._follow(runs, found, before, ahead, together)
            if len(found) - 1 == i:
                found.append(self._after(runs[i], found[-1]))
            elif np is not None and len(found) - 1 == i + together:
                # Where one piece holds for some runs, it may hold for many.
                while (passed := self._follow_many(np, runs, found, before, ahead, many)) == many:
                    many *= 8
                many = max(_MANY, passed)
        return found

    def _go_round(
        self,
        np: ModuleType | None,
        runs: array[int],
        found: array[float],
        before: Sequence[float],
        ahead: int,
    ) -> bool:
        """Append what was said before, as long as the last run, or the last two, come again; whether they did.

        That is so in a long row of equal windows, once they say exactly the same.
        """
        i = len(found) - 1
        for period in (1, 2):
            if i >= period and found[-1] == found[-1 - period]:
                said, end = found[-period:], i
                few = len(runs) if np is None else min(i + _TRIED, len(runs))
                while end < few and runs[end] == runs[end - period]:
                    end += 1
                    if end >= ahead and abs(said[(end - i - 1) % period] - before[end - ahead]) <= CLOSE:
                        break
                else:
                    if np is not None and end == few:
                        end = _end_of_round(np, runs, said * 2, i, end, before, ahead)
                if end > i:
                    found.extend((said * ((end - i) // period + 1))[: end - i])
                    return True
        return False

    def _after(self, shape: int, x: float) -> float:
        """What is said after a run that passes from piece to piece; equal windows say the same again and again."""
        after = self._passed.get((shape, x))
        if after is None:
            if len(self._passed) >= _KEPT:
                self._passed.clear()
            tau, ticks = self._maps.shape(shape)
            after = self._passed[shape, x] = self.side.advance(tau, ticks, x)
        return after

    def _follow(
        self, runs: array[int], found: array[float], before: Sequence[float], ahead: int, together: int
    ) -> None:
        """Append what is said after each of so many more runs, while they stay in the piece of the first."""
        x, i, taus = found[-1], len(found) - 1, self._maps.taus
        place = self.side.place_of(x + taus[runs[i]])
        upper, kernel, level = self.side.pieces[place]
        end = min(i + together, len(runs))
        if kernel is None:
            low = self.side.pieces[place - 1].upper if place else -math.inf
            while i < end:
                tau = taus[runs[i]]
                if not (low < x + tau <= upper and low < level + tau <= upper):
                    return
                found.append(x := level)
                i += 1
                if i >= ahead and abs(x - before[i - ahead]) <= CLOSE:
                    return
            return
        kernel, least, most, lowest, highest = self._bounds.get(place) or self._bounds_of(place, kernel)
        share, log, map_of = kernel.share, math.log, self._maps.of
        y = math.exp(x / share)
        while i < end:
            a, b, c, d, m = map_of(kernel, runs[i])
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

    def _follow_many(
        self,
        np: ModuleType,
        runs: array[int],
        found: array[float],
        before: Sequence[float],
        ahead: int,
        many: int,
    ) -> int:
        """The same for so many runs at once; how many of them stayed in the piece, and said something new."""
        i = len(found) - 1
        if i == len(runs):
            return 0
        place = self.side.place_of(found[-1] + self._maps.taus[runs[i]])
        kernel = self.side.pieces[place].kernel
        if kernel is None:
            return 0
        kernel, least, most, lowest, highest = self._bounds.get(place) or self._bounds_of(place, kernel)
        table = self._maps.table(np, kernel, np.frombuffer(runs[i : i + many], dtype=np.int64))
        y = math.exp(found[-1] / kernel.share)
        images = orbit_through(np, table[:, :4], y)
        tilted = np.concatenate(([y], images[:-1])) * table[:, 4]
        inside = (least < tilted) & (tilted <= most) & (lowest <= images) & (images <= highest)
        passed = len(images) if inside.all() else int(inside.argmin())
        values = kernel.share * np.log(images[:passed])
        # The first value that an earlier pass has found too is the last that is wanted.
        skipped = max(ahead - i - 1, 0)
        known = np.frombuffer(array("d", before[i + 1 + skipped - ahead : i + 1 + passed - ahead]))
        same = np.abs(values[skipped:] - known) <= CLOSE
        if same.any():
            passed = skipped + int(same.argmax()) + 1
        found.frombytes(values[:passed].tobytes())
        return passed if not same.any() else 0

    def _bounds_of(self, place: int, kernel: Kernel) -> _Bounds:
        low = self.side.pieces[place - 1].upper if place else -math.inf
        least, most = (_exp(edge / kernel.share) for edge in (low, self.side.pieces[place].upper))
        found = _Bounds(kernel, least, most, kernel.image(least), kernel.image(most))
        self._bounds[place] = found
        return found


def _end_of_round(
    np: ModuleType,
    runs: array[int],
    said: array[float],
    begun: int,
    end: int,
    before: Sequence[float],
    ahead: int,
) -> int:
    """From `end` on, the first run that does not come again, or the first where an earlier pass has found the same.

    `said` is twice what is said again and again since `begun`.
    """
    period, numbers = len(said) // 2, np.frombuffer(runs, dtype=np.int64)
    differs = numbers[end:] != numbers[end - period : len(runs) - period]
    last = end + int(differs.argmax()) if differs.any() else len(runs)
    first = max(end + 1, ahead)
    if first > last:
        return last
    phase = (first - begun - 1) % period
    again = np.resize(np.array(said[phase : phase + period]), last + 1 - first)
    same = np.abs(again - np.array(before[first - ahead : last + 1 - ahead])) <= CLOSE
    return first + int(same.argmax()) if same.any() else last


def _exp(x: float) -> float:
    return math.exp(x) if x < 700.0 else math.inf
