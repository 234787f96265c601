"""The price of a finite history on a chain with regimes: tilts that vary in time, with gaps.

The published ticks are followed from either end; between two of them that are g ticks apart lies a step of P^g. Where
the chain is MTP2 what is followed is the product tilt, which is exact, otherwise the per-pair bound (docs/theory-
regimes.md, Theorems R1 and R2). Every tick of the span is priced, published or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise

from hushmq.pufferfish.regimes.cone_side import is_bound, total
from hushmq.pufferfish.regimes.product_tilt import ROUNDING, log_odds
from hushmq.pufferfish.regimes.regime_bound import Between, RegimeSides
from hushmq.pufferfish.regimes.regime_chain import Matrix, RegimeChain, Vector, applied
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks

_PLATEAU = 1e-10
"""Bounds that change by less than this from one tick to the next, in a run of equal tilts, are taken as constant."""

_PER_TICK = 2.0**-50
"""Nats: exceeds what the rounding of one tick adds."""


def price(entries: Iterable[Entry], chain: RegimeChain, span: Ticks) -> Price:
    """The largest loss at any tick of the span, and a tick that attains it; against the prior adversary."""
    tilts = _published(entries)
    if not tilts:
        return Price(0.0, None)
    if any(not span[0] <= tick <= span[1] for tick in tilts):
        raise ValueError(f"entries must lie within the ticks {span[0]} … {span[1]}")
    losses = _exact(chain, tilts, span) if chain.is_mtp2 else _certified(chain, tilts, span)
    epsilon, tick = max(losses)
    rounding = ROUNDING + _PER_TICK * (span[1] - span[0] + 1)
    return Price(epsilon * (1 + ROUNDING) + rounding, tick)


def _published(entries: Iterable[Entry]) -> dict[int, tuple[float, float]]:
    """The sum of all tilts at every tick that has any, in order."""
    sums: dict[int, list[float]] = {}
    for entry in entries:
        for tick in range(entry.first, entry.last + 1):
            tilt = sums.setdefault(tick, [0.0, 0.0])
            tilt[0] += entry.tau0
            tilt[1] += entry.tau1
    return {tick: (zero, one) for tick, (zero, one) in sorted(sums.items()) if zero or one}


def _exact(
    chain: RegimeChain, tilts: dict[int, tuple[float, float]], span: Ticks
) -> Iterable[tuple[float, int]]:
    """The loss at every tick by the product tilt, towards either bit."""
    ticks = range(span[0], span[1] + 1)
    for bit in range(2):
        weights = {
            tick: [math.exp(tilt[bit]) if state % 2 == bit else 1.0 for state in range(2 * chain.regimes)]
            for tick, tilt in tilts.items()
        }
        future = _followed(chain.kernel, weights, ticks[::-1])
        past = _followed(chain.reversal, weights, ticks)
        for tick in ticks:
            own = tilts.get(tick, (0.0, 0.0))[bit]
            yield own + log_odds(chain, bit, future[tick], past[tick]), tick


def _followed(kernel: list[Vector], weights: dict[int, Vector], ticks: range) -> dict[int, Vector]:
    """By tick, the tilted weight of what was passed before it."""
    found, now = {}, [1.0] * len(kernel)
    for tick in ticks:
        found[tick] = now
        tilted = [
            part * weight for part, weight in zip(now, weights.get(tick, [1.0] * len(now)), strict=True)
        ]
        now = applied(kernel, tilted)
        now = [part / max(now) for part in now]
    return found


def _certified(
    chain: RegimeChain, tilts: dict[int, tuple[float, float]], span: Ticks
) -> Iterable[tuple[float, int]]:
    """A bound on the loss at every published tick, and on the worst of every gap."""
    sides, ticks = RegimeSides(chain), list(tilts)
    matrices = {tilt: sides.tilt_matrix(*tilt) for tilt in set(tilts.values())}
    past = _bounds(sides, tilts, matrices, ticks, future=False)
    future = _bounds(sides, tilts, matrices, ticks[::-1], future=True)
    worst = [(0.0, ticks[0]), (0.0, ticks[0])]
    known: dict[tuple[int, int, int], float] = {}
    for tick in ticks:
        for bit in range(2):
            key = (id(past[tick]), id(future[tick]), bit)
            if key not in known:
                known[key] = sides.bit_bound(total(past[tick], future[tick]), bit)
            worst[bit] = max(worst[bit], (tilts[tick][bit] + known[key], tick))
    edges = [(None, ticks[0]), *pairwise(ticks), (ticks[-1], None)]
    for before, after in edges:
        left = sides.nothing if before is None else total(past[before], matrices[tilts[before]])
        right = sides.nothing if after is None else total(future[after], matrices[tilts[after]])
        first = span[0] - 1 if before is None else before
        last = span[1] + 1 if after is None else after
        between = Between(sides, left, right, last - first)
        for bit in range(2):
            found = between.worst(bit, worst[bit][0])
            if found > worst[bit][0]:
                worst[bit] = (found, first + 1)
    return worst


def _bounds(
    sides: RegimeSides,
    tilts: dict[int, tuple[float, float]],
    matrices: dict[tuple[float, float], Matrix],
    ticks: list[int],
    *,
    future: bool,
) -> dict[int, Matrix]:
    """By published tick, how much what was passed before it can vary between states."""
    found = {ticks[0]: sides.nothing}
    settled: tuple[int, tuple[float, float]] | None = None
    for before, tick in pairwise(ticks):
        distance = abs(tick - before)
        if settled == (distance, tilts[before]):
            found[tick] = found[before]
            continue
        settled = None
        step = sides.step(future, distance)
        R = step.bound(total(found[before], matrices[tilts[before]]), found[before])
        if max(abs(R[x][y] - found[before][x][y]) for x, y in step.pairs) < _PLATEAU:
            # A little more, from which one step proves no more: it bounds the rest of an even run.
            more = [
                [one + 100 * _PLATEAU if x != y else 0.0 for y, one in enumerate(row)]
                for x, row in enumerate(R)
            ]
            if is_bound(step, matrices[tilts[before]], more):
                R, settled = more, (distance, tilts[before])
        found[tick] = R
    return found
