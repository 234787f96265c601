"""The timeline of a stream under a finite set of chains with regimes, priced as it grows; against the prior adversary.

The history is cut into runs of equal tilts. Along a run each side converges to its endless bound R*: whatever lies
beyond the run adds at most an excess e = max(R − R*), which a step of the kernel P shrinks by κ = max tanh(ω/4), ω the
largest log of a cross-ratio P(x,u)P(y,v)/(P(x,v)P(y,u)). So a run costs the same however long it is, and a side is
bounded

- by R itself, tick by tick, in a short run;
- otherwise by the least bound of at least max(R*, R) that one step proves to be kept, at most R* + e and
  the endless bound of the largest tilts so far;
- beyond a run of n ticks by R* + κⁿ·e (docs/theory-regime-sets.md, Theorem R13).

What depends on a run and on what lies beyond it is cached, so that an entry recomputes little. Numbers are ticks of the
stream's stride: of each, one tick is published, and the unpublished ones are priced as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from hushmq.pufferfish.regimes.cone_side import ConeStep, endless_side, kept_above, total
from hushmq.pufferfish.regimes.product_tilt import ROUNDING
from hushmq.pufferfish.regimes.regime_bound import Between, RegimeSides
from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units

_FOLLOWED = 6
"""Runs of at most so many ticks are followed tick by tick."""

_FARTHEST = 1 << 20
"""Ticks: a longer gap counts as one of this length."""

_CACHED = 20_000

Tilts = tuple[int, int]
Frozen = tuple[tuple[float, ...], ...]


class _Run(NamedTuple):
    first: int
    length: int
    tilts: Tilts

    @property
    def last(self) -> int:
        return self.first + self.length - 1


class _Along(NamedTuple):
    """One side of a run: its bounds tick by tick, or one for all of them, and the bound one tick beyond."""

    bounds: tuple[Frozen, ...]
    beyond: Frozen


class SetTimeline:
    """The entries of one stream and audience, priced for the worst chain of the set."""

    def __init__(
        self,
        members: Iterable[RegimeChain],
        entries: Iterable[Entry] = (),
        *,
        ticks: Ticks | None = None,
        stride: int = 1,
    ) -> None:
        self._members = [_pricer(member, stride) for member in members]
        self._ticks = ticks
        self._runs = TiltRuns(map(_piece, entries))
        self._price = self._priced(self._runs)

    def add(self, entry: Entry) -> None:
        """Adds an entry to the history."""
        runs = self._with(entry)
        self._price = self._priced(runs)
        self._runs = runs

    def price(self) -> Price:
        """The price of the history."""
        return self._price

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; the timeline does not change."""
        return self._priced(self._with(entry))

    def _with(self, entry: Entry) -> TiltRuns:
        runs = self._runs.copy()
        runs.add(*_piece(entry))
        return runs

    def _priced(self, runs: TiltRuns) -> Price:
        published = list(_published(runs))
        if not published:
            return Price(0.0, None)
        worst = max(
            (member.worst(published, self._ticks) for member in self._members), key=lambda one: one[0]
        )
        return Price(worst[0] * (1 + ROUNDING) + ROUNDING, worst[1])


class _Pricer:
    """One chain at one stride: the worst tick of a list of runs."""

    def __init__(self, chain: RegimeChain, stride: int) -> None:
        self._sides, self._stride = RegimeSides(chain), stride
        self._nothing = _frozen(self._sides.nothing)
        self._tilt = lru_cache(maxsize=1024)(self._tilt_matrix)
        self._endless = lru_cache(maxsize=1024)(self._endless_bound)
        self._along = lru_cache(maxsize=_CACHED)(self._bounds_along)
        self._after_gap = lru_cache(maxsize=_CACHED)(self._bound_after_gap)
        self._at = lru_cache(maxsize=_CACHED)(self._loss_at)
        self._between = lru_cache(maxsize=_CACHED)(self._loss_between)

    def worst(self, runs: list[_Run], ticks: Ticks | None) -> tuple[float, int]:
        """The largest loss at any of the ticks, and one that has it; infinite where none is proved."""
        try:
            return self._proved(runs, ticks)
        except ValueError:
            return math.inf, runs[0].first

    def _proved(self, runs: list[_Run], ticks: Ticks | None) -> tuple[float, int]:
        pasts, futures = self._side(runs, future=False), self._side(runs[::-1], future=True)[::-1]
        first, last = ticks or (runs[0].first - 1, runs[-1].last + 1)
        losses = [
            self._at(run.tilts, past.bounds, future.bounds)
            for run, past, future in zip(runs, pasts, futures, strict=True)
        ]
        worst, tick = 0.0, first
        for run, loss in zip(runs, losses, strict=True):
            if run.first <= last and run.last >= first:
                worst, tick = max((worst, tick), (loss, run.first))
        for place, (before, after) in enumerate(pairwise(runs)):
            distance = min(after.first - before.last, _FARTHEST)
            if distance * self._stride > 1 and before.last <= last and after.first >= first:
                past, future = pasts[place].bounds[-1], futures[place + 1].bounds[-1]
                known = max(losses[place], losses[place + 1])
                found = self._between(past, before.tilts, future, after.tilts, distance, known)
                worst, tick = max((worst, tick), (found, before.last))
        if first < runs[0].first:
            found = self._between(None, (0, 0), futures[0].bounds[-1], runs[0].tilts, _FARTHEST, losses[0])
            worst, tick = max((worst, tick), (found, runs[0].first))
        if last > runs[-1].last:
            found = self._between(pasts[-1].bounds[-1], runs[-1].tilts, None, (0, 0), _FARTHEST, losses[-1])
            worst, tick = max((worst, tick), (found, runs[-1].last))
        return worst, tick

    def _side(self, runs: list[_Run], *, future: bool) -> list[_Along]:
        """The bounds along all runs, in the order in which the side is followed."""
        found: list[_Along] = []
        beyond, largest = self._nothing, (0, 0)
        for place, run in enumerate(runs):
            largest = max(largest[0], run.tilts[0]), max(largest[1], run.tilts[1])
            if place:
                near = runs[place - 1]
                gap = (near.first - run.last if future else run.first - near.last) - 1
                if gap:
                    beyond = self._after_gap(beyond, min(gap, _FARTHEST), future)
            length = run.length if run.length <= _FOLLOWED else 1 << (run.length.bit_length() - 1)
            found.append(self._along(run.tilts, length, largest, beyond, future))
            beyond = found[-1].beyond
        return found

    def _step(self, future: bool) -> ConeStep:
        return self._sides.step(future, self._stride)

    def _tilt_matrix(self, tilts: Tilts) -> Matrix:
        return self._sides.tilt_matrix(to_nats(tilts[0]), to_nats(tilts[1]))

    def _endless_bound(self, tilts: Tilts, future: bool) -> Frozen:
        return _frozen(endless_side(self._step(future), self._tilt(tilts), self._sides.nothing))

    def _bound_after_gap(self, near: Frozen, gap: int, future: bool) -> Frozen:
        """What was one tick away, seen from `gap` ticks farther."""
        return _frozen(self._sides.step(future, gap * self._stride).bound(_thawed(near)))

    def _bounds_along(
        self, tilts: Tilts, length: int, largest: Tilts, beyond: Frozen, future: bool
    ) -> _Along:
        step, tilt = self._step(future), self._tilt(tilts)
        if length <= _FOLLOWED:
            bounds = [beyond]
            for _ in range(length):
                bounds.append(_frozen(step.bound(total(_thawed(bounds[-1]), tilt))))
            return _Along(tuple(bounds[:-1]), bounds[-1])
        endless = self._endless(tilts, future)
        excess = _excess(beyond, endless)
        if not excess:
            return _Along((endless,), endless)
        higher, widest = _each(max, beyond, endless), self._endless(largest, future)
        # Whatever is kept is also kept with as much more for all pairs.
        most = _each(min, _raised(endless, excess), _raised(widest, _excess(higher, widest)))
        raised = _frozen(kept_above(step, tilt, _thawed(higher), _thawed(most)))
        return _Along((raised,), _each(min, raised, _raised(endless, excess * step.forgetting**length)))

    def _loss_at(self, tilts: Tilts, past: tuple[Frozen, ...], future: tuple[Frozen, ...]) -> float:
        """The largest loss at the published ticks of a run, and between them; each side in its own order."""
        worst = 0.0
        rights = future[::-1]
        for left, right in zip(past, rights, strict=True):
            both = total(_thawed(left), _thawed(right))
            worst = max(worst, *(to_nats(tilts[bit]) + self._sides.bit_bound(both, bit) for bit in range(2)))
        if self._stride > 1:
            # One bound for each side holds from tick to tick of a long run.
            following = rights[1:] if len(rights) > 1 else rights
            for left, right in zip(past, following, strict=False):
                worst = self._loss_between(left, tilts, right, tilts, 1, worst)
        return worst

    def _loss_between(
        self,
        past: Frozen | None,
        before: Tilts,
        future: Frozen | None,
        after: Tilts,
        distance: int,
        known: float,
    ) -> float:
        """The largest loss at an unpublished tick between two numbers or beyond the outermost; at least `known`."""
        left, right = (
            self._sides.nothing if side is None else total(_thawed(side), self._tilt(tilts))
            for side, tilts in ((past, before), (future, after))
        )
        between = Between(self._sides, left, right, distance * self._stride)
        return max(between.worst(bit, known) for bit in range(2))


_pricer = lru_cache(maxsize=256)(_Pricer)


def _published(runs: TiltRuns) -> Iterable[_Run]:
    """The runs with any tilt; adjacent runs of equal tilts are one."""
    now: _Run | None = None
    for start, end, tilts in zip(runs.edges, runs.edges[1:], runs.tilts, strict=False):
        if now is not None and now.tilts == tilts and now.last + 1 == start:
            now = now._replace(length=now.length + end - start)
            continue
        if now is not None and now.tilts != (0, 0):
            yield now
        now = _Run(start, end - start, tilts)
    if now is not None and now.tilts != (0, 0):
        yield now


def _piece(entry: Entry) -> tuple[int, int, int, int]:
    return entry.first, entry.last, to_units(entry.tau0), to_units(entry.tau1)


def _raised(bound: Frozen, more: float) -> Frozen:
    return tuple(
        tuple(one + more if x != y else 0.0 for y, one in enumerate(row)) for x, row in enumerate(bound)
    )


def _excess(one: Frozen, other: Frozen) -> float:
    """By how much one exceeds the other, at most."""
    return max(
        0.0,
        *(left - right for rows in zip(one, other, strict=True) for left, right in zip(*rows, strict=True)),
    )


def _each(choose: Callable[[float, float], float], one: Frozen, other: Frozen) -> Frozen:
    return tuple(tuple(map(choose, *rows)) for rows in zip(one, other, strict=True))


def _frozen(matrix: Matrix) -> Frozen:
    return tuple(tuple(row) for row in matrix)


def _thawed(matrix: Frozen) -> Matrix:
    return [list(row) for row in matrix]
