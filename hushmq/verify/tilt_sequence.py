"""By how much every tick is tilted, τ(t), as runs of ticks; and what one tick, or one of several, sees of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from hushmq.verify.outward import ZERO, Interval, exact, largest

LAST_TICK = 2**53 - 1
"""The largest tick a message can carry."""
FOR_EVER = 2**53
"""A number of ticks that no stream reaches. Products of so many matrices are numbers that decimals hold."""
Ticks = tuple[int, int]
"""The first and the last of some ticks; none where the last comes before the first."""


class Tilts(NamedTuple):
    """The tilts of one tick towards state 0 and towards state 1; for more than two states both are the same."""

    towards0: Interval
    towards1: Interval


NO_TILT = Tilts(ZERO, ZERO)


def both_ways(tilts: Tilts) -> Tilts:
    """The larger tilt in both directions: of states with another meaning (docs/theory-world.md, Theorem 19)."""
    larger = largest(list(tilts))
    return Tilts(larger, larger)


class Run(NamedTuple):
    """Ticks first … last, all with the same tilts."""

    first: int
    last: int
    tilts: Tilts


class Stretch(NamedTuple):
    """A number of ticks with the same tilts, at growing distance from a tick that is attacked."""

    length: int
    tilts: Tilts


def largest_tilts(tilts: Iterable[Tilts]) -> Tilts:
    """The largest of several tilts, in either direction."""
    listed = list(tilts)
    return Tilts(largest([one.towards0 for one in listed]), largest([one.towards1 for one in listed]))


def summed(timelines: Iterable[Sequence[Run]], times: int = 1) -> list[Run]:
    """The runs of all these timelines together: tilts of the same tick add, and all of them count so many times."""
    runs: list[Run] = []
    for timeline in timelines:
        cuts = sorted({edge for run in (*runs, *timeline) for edge in (run.first, run.last + 1)})
        old, new, both = iter(runs), iter(timeline), []
        one, other = next(old, None), next(new, None)
        for start, stop in pairwise(cuts):
            while one is not None and one.last < start:
                one = next(old, None)
            while other is not None and other.last < start:
                other = next(new, None)
            here = [run.tilts for run in (one, other) if run is not None and run.first <= start]
            if here:
                both.append(
                    Run(start, stop - 1, Tilts(*(_total(towards) for towards in zip(*here, strict=True))))
                )
        runs = both
    factor = exact(times)
    return [run._replace(tilts=Tilts(*(towards * factor for towards in run.tilts))) for run in runs]


def _total(values: Iterable[Interval]) -> Interval:
    total = ZERO
    for value in values:
        total = total + value
    return total


def covering(pieces: Iterable[Run]) -> list[Run]:
    """Disjoint runs in rising order, each with the largest tilts of the pieces that cover it."""
    pieces = sorted(pieces)
    edges = sorted({piece.first for piece in pieces} | {piece.last + 1 for piece in pieces})
    runs: list[Run] = []
    active: list[Run] = []
    position = 0
    for start, stop in pairwise(edges):
        while position < len(pieces) and pieces[position].first <= start:
            active.append(pieces[position])
            position += 1
        active = [piece for piece in active if piece.last >= start]
        if not active:
            continue
        tilts = largest_tilts({piece.tilts for piece in active})
        if runs and runs[-1].last + 1 == start and runs[-1].tilts == tilts:
            runs[-1] = Run(runs[-1].first, stop - 1, tilts)
        else:
            runs.append(Run(start, stop - 1, tilts))
    return runs


def seen_from(runs: Sequence[Run], first: int, last: int, *, later: bool) -> tuple[Stretch, ...]:
    """What lies after (or before) the ticks first … last, by distance: for each distance the largest tilts there.

    A loss never falls when a tilt rises (docs/theory.md, Theorem 1; docs/theory-k.md, Theorem 8), so a tick of first …
    last with these tilts around it loses at least as much as every one of them does.
    """
    shifted = []
    for run in runs:
        near, far = (run.first - last, run.last - first) if later else (first - run.last, last - run.first)
        if far >= 1:
            shifted.append(Run(max(1, near), far, run.tilts))
    stretches: list[Stretch] = []
    distance = 1
    for run in covering(shifted):
        if run.first > distance:
            stretches.append(Stretch(run.first - distance, NO_TILT))
        stretches.append(Stretch(run.last - run.first + 1, run.tilts))
        distance = run.last + 1
    return tuple(stretches)
