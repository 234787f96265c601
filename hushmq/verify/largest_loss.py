"""The largest loss at any tick of a timeline, between two bounds, for any Θ and adversary that this checker knows.

A cell is a range of ticks. The loss of each of its ticks is at most that of one tick with the cell's largest tilt and,
on either side, the tilts of `seen_from`. The cell with the largest bound is split, and one of its ticks is priced,
until the claim that is looked into is decided, or until so many cells were looked at that it never will be.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple, Protocol

from hushmq.verify.outward import UP, ZERO, Interval
from hushmq.verify.tilt_sequence import (
    FOR_EVER,
    NO_TILT,
    Run,
    Stretch,
    Ticks,
    Tilts,
    largest_tilts,
    seen_from,
)

MOST_CELLS = 4_000
ROUNDING = Decimal("1e-9")
"""A stated loss, a double, may be this much below what it stands for, relatively."""


class Pricing(Protocol):
    """Prices one tick under a Θ, against an adversary."""

    def loss(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Interval:
        """The largest loss at a tick of these tilts, by what lies before and after it."""


class Found(NamedTuple):
    """Bounds on the largest loss, a tick that loses at least `loss.low`, and whether the search was cut short."""

    loss: Interval
    tick: int | None
    cut_short: bool = False


def loss_for_ever(pricing: Pricing, tilts: Tilts) -> Interval:
    """The loss of an endless stream with the same tilts at every tick."""
    side = (Stretch(FOR_EVER, tilts),)
    return pricing.loss(tilts, side, side)


def largest_loss(
    pricing: Pricing,
    runs: Sequence[Run],
    stated: float | None = None,
    cells: int = MOST_CELLS,
    *,
    ticks: Ticks | None = None,
) -> Found:
    """Bounds on the largest loss of disjoint runs, as close as it takes to decide whether it is at most `stated`.

    At some ticks only, where they are given; all runs count all the same.
    """
    if not runs or (ticks is not None and ticks[1] < ticks[0]):
        return Found(ZERO, None)
    claim = None if stated is None else UP.multiply(Decimal(stated), 1 + ROUNDING)
    # Ticks beyond these see the same tilts from farther away, on one side only.
    root = runs[0].first - 1, runs[-1].last + 1
    if ticks is not None:
        root = _nearest(root[0], ticks), _nearest(root[1], ticks)
    inside = [run for run in runs if run.first <= root[1] and root[0] <= run.last]
    steepest = max(inside, key=lambda run: max(run.tilts).high, default=runs[0])
    tick = _nearest((steepest.first + steepest.last) // 2, root)
    here = _cell_price(pricing, runs, tick, tick)
    best = here.low
    queue = [(_cell_price(pricing, runs, *root).high.copy_negate(), *root)]
    for _ in range(cells):
        bound, first, last = queue[0]
        most = bound.copy_negate()
        enough = UP.multiply(best, 1 + ROUNDING) if claim is None else max(best, claim)
        # At a tick whose own bound is above the claim no search proves it.
        if most <= enough or first == last or (claim is not None and here.high > claim):
            return Found(Interval(best, max(best, most)), tick)
        heapq.heappop(queue)
        middle = _middle(runs, first, last)
        for low, high in ((first, middle), (middle + 1, last)):
            price = _cell_price(pricing, runs, low, high)
            heapq.heappush(queue, (max(bound, price.high.copy_negate()), low, high))
            at = (low + high) // 2
            one = price if low == high else _cell_price(pricing, runs, at, at)
            here = max(here, one, key=lambda found: found.high)
            if one.low > best:
                best, tick = one.low, at
    return Found(Interval(best, max(best, queue[0][0].copy_negate())), tick, cut_short=True)


def _nearest(tick: int, ticks: Ticks) -> int:
    """The nearest of these ticks to one."""
    return min(max(tick, ticks[0]), ticks[1])


def _cell_price(pricing: Pricing, runs: Sequence[Run], first: int, last: int) -> Interval:
    """The loss of a tick with the largest tilts of a cell and around it; of the tick itself where there is but one."""
    inside = [run.tilts for run in runs if run.first <= last and first <= run.last]
    before = seen_from(runs, first, last, later=False)
    after = seen_from(runs, first, last, later=True)
    return pricing.loss(largest_tilts([NO_TILT, *inside]), before, after)


def _middle(runs: Sequence[Run], first: int, last: int) -> int:
    """Where a cell is split: at the middle one of the edges of runs within it, or in half."""
    edges = sorted({edge - 1 for run in runs for edge in (run.first, run.last + 1) if first < edge <= last})
    return edges[len(edges) // 2] if edges else (first + last) // 2
