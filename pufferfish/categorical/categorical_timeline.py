"""The timeline of a stream whose k-state chain lies in a class: a tilt for every tick, and what it lets anyone infer.

Let R_t bound what the ticks after t reveal of the state at t, one number for all pairs of states. With R = 0 after
the last tilt,

    R_t = min_h [ τ_{t+1} + … + τ_{t+h−1} + step_h(τ_{t+h} + R_{t+h}) ],

where step_h is the look ahead of `contraction`; L_t is the same for the ticks before t, with the reversals of the
class. No mechanism with these tilts, adaptive or not, has a loss at tick t above τ_t + L_t + R_t for any chain of the
class, against the *prior* adversary (docs/theory-k.md, Theorem 8).

Within a stretch of constant tilt R moves towards the stretch's limit R*, which is certified. Once within `SETTLED` of
it, it is held there: from below at R*, from above where it then is, because a step from R ≥ R* proves no more than R.
For the same reason that bounds R at any time, and so it does where settling takes longer than `PATIENCE`.
What a stretch makes of R depends only on its tilt, its length and the ticks just outside, so it is computed once for
all stretches that see the same. A new entry changes few of them: the rest is remembered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hushmq.pufferfish.binary.binary_timeline import Entry, Price
from hushmq.pufferfish.categorical.contraction import HOPS, Forgetting, Side, sides
from hushmq.pufferfish.categorical.transition_intervals import Class
from hushmq.pufferfish.timeline.tilt_runs import Runs, nats, units

SETTLED = 1e-8
"""How near its limit R is held, relatively where that is large: well beyond what a limit claims to spare."""

PATIENCE = 20_000
"""Ticks of a stretch that are followed; one that has not settled by then is held as if it had, which is never less."""

_GRID = 2.0**40
"""R is rounded up to a multiple of 1/GRID, so that it comes to rest and stretches can be recognised."""

_KEPT = 100_000
"""Stretches that are remembered."""

_Near = tuple[tuple[int, float], ...]
"""Tilt and R of the nearest ticks outside, nearest first; beyond them nothing is looked at."""

_Looks = tuple[tuple[int, Forgetting], ...]
"""Looks ahead by their hops, the nearest first."""

_NOTHING: _Near = ((0, 0.0),) * max(HOPS)


@dataclass(frozen=True, slots=True)
class _Stretch:
    """One side of a stretch: R at its ticks from the end where it comes in, the last for all that follow."""

    R: tuple[float, ...]
    after: _Near

    def largest(self, length: int) -> float:
        return max(self.R[:length])


class _Walk:
    """One side of a stream, walked stretch by stretch."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._limits: dict[int, tuple[_Looks, float]] = {}
        self._known: dict[tuple[int, int, _Near], _Stretch] = {}

    def along(self, pieces: Iterable[tuple[int, int]]) -> list[_Stretch]:
        """What each stretch (tilt, length) sees, from the outermost inwards."""
        near, found = _NOTHING, []
        for tilt, length in pieces:
            key = (tilt, length, near)
            stretch = self._known.get(key)
            if stretch is None:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                stretch = self._known[key] = self._follow(tilt, length, near)
            found.append(stretch)
            near = stretch.after
        return found

    def _follow(self, tilt: int, length: int, near: _Near) -> _Stretch:
        """Tick by tick until R has settled; then the rest of the stretch is like the last tick."""
        found: list[float] = []
        looks, limit = self._limit(tilt)
        while len(found) < length:
            R = _step(looks, near)
            # A look of h hops starts from any of the last ticks: all of them must have settled.
            settled = len(found) >= len(near) and all(
                abs(one - limit) <= SETTLED * (1 + limit) for _, one in near
            )
            if settled or len(found) == PATIENCE:
                held = max(limit, R, *(one for _, one in near))
                return _Stretch((*found, held), ((tilt, held),) * len(near))
            found.append(R)
            near = ((tilt, R), *near[:-1])
        return _Stretch(tuple(found), near)

    def _limit(self, tilt: int) -> tuple[_Looks, float]:
        """How a stretch of this tilt is walked, and where that ends: the look that proves the limit is among them."""
        if tilt not in self._limits:
            hops, R = self._side.limit(nats(tilt)) if tilt else (HOPS[0], 0.0)
            looks = self._side.looks | {hops: self._side.every[hops]}
            self._limits[tilt] = tuple(sorted(looks.items())), _rounded(R)
        return self._limits[tilt]


def _step(looks: _Looks, near: _Near) -> float:
    """R of the tick next to these, the nearest first."""
    best, skipped, ahead = math.inf, 0, 0
    for hops, look in looks:
        while ahead < hops - 1:
            skipped += near[ahead][0]
            ahead += 1
        tilt, R = near[hops - 1]
        best = min(best, nats(skipped) + look.step(nats(tilt) + R))
    # A look never proves less than revealing nothing and skipping the tick.
    best = min(best, nats(near[0][0]) + near[0][1])
    return _rounded(best)


class IntervalTimeline:
    """The entries of one stream and audience, priced as they come, for the worst chain of Θ."""

    def __init__(self, theta: Class, entries: Iterable[Entry] = ()) -> None:
        self._left, self._right = map(_Walk, sides(theta))
        self._runs = Runs([_piece(entry) for entry in entries])
        self._price = self._priced(self._runs)

    def add(self, entry: Entry) -> None:
        """Add an entry to the history."""
        runs = self._runs.copy()
        runs.add(*_piece(entry))
        self._price = self._priced(runs)
        self._runs = runs

    def price(self) -> Price:
        """What the history lets anyone infer."""
        return self._price

    def price_with(self, entry: Entry) -> Price:
        """The price if the entry were added; nothing changes."""
        runs = self._runs.copy()
        runs.add(*_piece(entry))
        return self._priced(runs)

    def _priced(self, runs: Runs) -> Price:
        pieces = list(_merged(runs))
        stretches = [(tilt, length) for _, tilt, length in pieces]
        lefts = self._left.along(stretches)
        rights = self._right.along(stretches[::-1])[::-1]
        worst, tick = 0.0, None
        for (first, tilt, length), left, right in zip(pieces, lefts, rights, strict=True):
            if nats(tilt) + left.largest(length) + right.largest(length) <= worst:
                continue
            for place in _places(left.R, right.R, length):
                before = left.R[min(place, len(left.R) - 1)]
                after = right.R[min(length - 1 - place, len(right.R) - 1)]
                loss = nats(tilt) + before + after
                if loss > worst:
                    worst, tick = loss, first + place
        return Price(worst * (1 + 2.0**-50), tick)


def _rounded(R: float) -> float:
    return math.ceil(R * _GRID) / _GRID if math.isfinite(R) else R


def _merged(runs: Runs) -> Iterable[tuple[int, int, int]]:
    """First tick, tilt and length of each stretch; neighbours of equal tilt are one."""
    first, tilt, length = 0, -1, 0
    for start, end, (here, _) in zip(runs.edges, runs.edges[1:], runs.tilts, strict=False):
        if here == tilt:
            length += end - start
            continue
        if length:
            yield first, tilt, length
        first, tilt, length = start, here, end - start
    if length:
        yield first, tilt, length


def _places(left: Sequence[float], right: Sequence[float], length: int) -> Iterable[int]:
    """The ticks of a stretch at which either side may still move; between them both stay what they are."""
    yield from range(min(len(left), length))
    yield from range(max(min(len(left), length), length - len(right)), length)


def _piece(entry: Entry) -> tuple[int, int, int, int]:
    return entry.first, entry.last, units(max(entry.tau0, entry.tau1)), 0
