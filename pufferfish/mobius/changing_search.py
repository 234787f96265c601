"""The largest loss on a timeline of sides that are maps in pieces: a few evaluations per run, for both adversaries.

One pass over the runs in each direction finds what the outputs before and after each run say; it goes on from an
earlier pass over much the same runs (pufferfish/mobius/side_sweep.py). Along a run each side moves monotonically, which
bounds its losses; few runs remain that could have the largest one.

Towards a fixed point a side moves by a map with a slope between 0 and 1: from below, its rises become smaller from tick
to tick, so it is concave along the run. The loss is then concave too, and largest where its rise changes sign; in all
other cases it is largest at an end of the run (docs/theory-world.md, Theorem 16).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

from hushmq.pufferfish.mobius.open_runs import OpenRuns
from hushmq.pufferfish.mobius.run_maps import RunMaps
from hushmq.pufferfish.mobius.side_sweep import CLOSE, SideSweep
from hushmq.pufferfish.mobius.two_sides import ChangingChain
from hushmq.pufferfish.timeline.entry import NO_LOSS, LossAtTick, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats

Chains = Callable[[tuple[float, float]], list[ChangingChain]]
"""The chains to be searched, if no tilts towards 0 and towards 1 exceed these."""

_ROUNDED = 2.0**-49
"""Exceeds the rounding error of one run in a pass."""

_NEAR = 2.0**-33
"""A loss so much nearer to the largest one is not searched for: its bound is stated."""

MOST_UNUSED = 4096
"""Shapes of runs that are remembered beyond those in use."""


@dataclass(frozen=True, slots=True)
class _Passes:
    """One chain: the shape of each run, what is said before it, and what is said from it on, with one value more."""

    numbers: array[int]
    before: array[float]
    after: array[float]


@dataclass(frozen=True, slots=True)
class SearchedRuns:
    """The runs of a timeline, all that was found about them, and their largest loss."""

    runs: TiltRuns
    passes: list[_Passes]
    largest: LossAtTick
    bound: float
    """No loss exceeds the largest or this one."""
    additions: int
    chains: list[ChangingChain]
    """What they were searched for."""

    @property
    def tolerance(self) -> float:
        """What rounding, passes that ended early and runs that were not searched add to the largest loss at most."""
        rounded = 2.0 * (len(self.runs.tilts) * _ROUNDED + self.additions * CLOSE)
        return max(self.bound - self.largest[0], 0.0) + rounded


class ChangingSearch:
    """The search for timelines of no larger tilts than those it was made for."""

    def __init__(
        self,
        chains: Chains,
        largest_tilts: tuple[int, int] = (0, 0),
        *,
        for_all_tilts: bool = False,
        maps: RunMaps | None = None,
    ) -> None:
        """`for_all_tilts`: the chains are the same whatever the largest tilts are; `maps`: those of another search."""
        self._of_tilts, self._largest_tilts, self._for_all_tilts = chains, largest_tilts, for_all_tilts
        self._chains = chains((to_nats(largest_tilts[0]), to_nats(largest_tilts[1])))
        self._maps = RunMaps() if maps is None else maps
        self._sweeps = [
            (SideSweep(chain.left, self._maps), SideSweep(chain.right, self._maps)) for chain in self._chains
        ]

    def up_to(self, tilts: Iterable[tuple[int, int]]) -> ChangingSearch:
        """The search for a timeline with these tilts too: this one, unless they are larger."""
        if self._for_all_tilts:
            return self
        pairs = [self._largest_tilts, *tilts]
        largest = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
        return (
            self
            if largest == self._largest_tilts
            else ChangingSearch(self._of_tilts, largest, maps=self._maps)
        )

    def fresh(self, found: SearchedRuns) -> ChangingSearch:
        """The same search; one that remembers nothing, if this one remembers many shapes that are not in use."""
        if len(self._maps.taus) <= 2 * len(self._chains) * len(found.runs.tilts) + MOST_UNUSED:
            return self
        return ChangingSearch(self._of_tilts, self._largest_tilts, for_all_tilts=self._for_all_tilts)

    def searched(self, runs: TiltRuns, ticks: Ticks | None = None) -> SearchedRuns:
        """All of the runs; with `ticks` their largest loss at these."""
        return self._searched(runs, self._numbers(runs, range(len(runs.tilts))), ticks)

    def _searched(self, runs: TiltRuns, shapes: list[array[int]], ticks: Ticks | None) -> SearchedRuns:
        passes = []
        for (left, right), numbers in zip(self._sweeps, shapes, strict=True):
            after = right.values(numbers[::-1], 0.0)
            after.reverse()
            passes.append(_Passes(numbers, left.values(numbers, 0.0), after))
        found = NO_LOSS, 0.0
        for number, one in enumerate(passes):
            found = self._largest(number, runs, one, range(len(runs.tilts)), ticks, *found)
        return SearchedRuns(runs, passes, *found, 0, self._chains)

    def searched_after(
        self, earlier: SearchedRuns, runs: TiltRuns, changed: Ticks, ticks: Ticks | None = None
    ) -> SearchedRuns:
        """The same, where the runs have larger tilts than earlier ones at the changed ticks, and at no others.

        What was found for other chains is of no use but for the shapes of the runs.
        """
        old, new = len(earlier.runs.tilts), len(runs.tilts)
        # So many runs at the beginning and at the end are as they were; their neighbours may have grown.
        first = min(max(bisect_right(earlier.runs.edges, changed[0] - 1) - 1, 0), old)
        last = max(old - bisect_left(earlier.runs.edges, changed[1] + 2), 0)
        passes, found = [], (earlier.largest, earlier.bound)
        shapes = [
            was.numbers[:first] + changed_shapes + was.numbers[old - last :]
            for was, changed_shapes in zip(
                earlier.passes, self._numbers(runs, range(first, new - last)), strict=True
            )
        ]
        if earlier.chains is not self._chains:
            return self._searched(runs, shapes, ticks)
        for number, (left, right) in enumerate(self._sweeps):
            was, numbers = earlier.passes[number], shapes[number]
            tail = left.values(numbers[first:], was.before[first], was.before[old - last :])
            head = right.values(numbers[: new - last][::-1], was.after[old - last], was.after[first::-1])
            head.reverse()
            reached, begun = first + len(tail), new - last + 1 - len(head)
            # Where both passes ended early, what they left out is as it was.
            before = was.before[:first] + tail + was.before[reached - new + old :]
            after = was.after[:begun] + head + was.after[old - last + 1 :]
            passes.append(one := _Passes(numbers, before, after))
            window = range(max(min(begun - 1, first), 0), min(max(reached + 1, new - last), new))
            found = self._largest(number, runs, one, window, ticks, *found)
        return SearchedRuns(runs, passes, *found, earlier.additions + 1, self._chains)

    def _numbers(self, runs: TiltRuns, places: range) -> list[array[int]]:
        """The shapes of some runs for each of the chains."""
        edges = runs.edges[places.start : places.stop + 1]
        tilts = runs.tilts[places.start : places.stop]
        lengths = [stop - first for first, stop in pairwise(edges)]
        found: list[array[int]] = []
        before: list[int] = []
        for chain in self._chains:
            state = chain.state
            counted = [max(pair) for pair in tilts] if state is None else [pair[state] for pair in tilts]
            if not found or counted != before:
                found.append(self._maps.numbers(list(zip(counted, lengths, strict=True))))
            else:
                found.append(found[-1])
            before = counted
        return found

    def _largest(
        self,
        number: int,
        runs: TiltRuns,
        one: _Passes,
        window: range,
        ticks: Ticks | None,
        best: LossAtTick,
        limit: float,
    ) -> tuple[LossAtTick, float]:
        """The larger of `best` and the largest loss found in the runs of the window; a limit to all others."""
        if ticks is not None:
            inside = runs.runs_touching(*ticks)
            window = range(max(window.start, inside.start), min(window.stop, inside.stop))
        if not window:
            return best, limit
        chain, maps = self._chains[number], self._maps
        numbers, part = one.numbers[window.start : window.stop], slice(window.start, window.stop + 1)
        before, after = one.before[part], one.after[part]
        loss, tick = best
        open_runs = OpenRuns(chain, maps, numbers, before, after, loss)
        while (i := open_runs.next(loss * (1.0 + _NEAR))) is not None:
            tau, length = maps.shape(numbers[i])
            ends = before[i], after[i + 1]
            here, place = _largest_in_run(chain, tau, length - 1, *ends, rising=open_runs.rising(i))
            here = tau + min(here, chain.ceiling)
            if here > loss:
                loss, tick = here, runs.edges[window.start + i] + place
            open_runs.searched(i, here, loss * (1.0 + _NEAR))
        return (loss, tick), max(limit, open_runs.limit)


def _largest_in_run(
    chain: ChangingChain, tau: float, last: int, left: float, right: float, *, rising: bool
) -> tuple[float, int]:
    """The largest sum of both sides in a run, and its offset.

    `rising`: both sides say more after the run than before it.
    """
    before, after = chain.left.path(tau, last, left), chain.right.path(tau, last, right)

    def both(place: int) -> float:
        return before.at(place) + after.at(last - place)

    places = {0, last}
    if rising:
        low, high = 0, last
        while low < high:
            middle = (low + high) // 2
            if both(middle + 1) > both(middle):
                low = middle + 1
            else:
                high = middle
        places.add(low)
    return max((both(place), place) for place in places)
