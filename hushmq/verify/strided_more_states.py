"""Prices a stream of more than two states that publishes one of every m ticks (docs/theory-k.md, Theorem 13).

With λ_d = tanh(Δ_d/4) of the products of d steps, or of shorter ones composed, and 1 − λ the least of 1 − λ_m and of
all (1 − λ_d) + (1 − λ_{m−d}), the loss is at most twice that of the symmetric chain with P(0→1) = (1 − λ)/2, to the
prior adversary, with all tilts halved.
"""

from __future__ import annotations

from decimal import Decimal
from itertools import permutations
from typing import Any

from hushmq.verify.more_states import MOST_STATES, SCALE, Bounds
from hushmq.verify.outward import DOWN, UP, Interval
from hushmq.verify.strided_pricing import halved_loss
from hushmq.verify.tilt_sequence import Stretch, Tilts
from hushmq.verify.two_states import TwoStateChain

PARTS = 64
"""Longer strides are divided into so many parts at least."""
ONE = Decimal(1)


class StridedMoreStates:
    """Θ of more than two states, and a stride; NotImplementedError where nothing is proved for it."""

    def __init__(self, theta: dict[str, Any], stride: int) -> None:
        if len(theta["low"]) > MOST_STATES:
            raise NotImplementedError(f"a stride of a stream of more than {MOST_STATES} states")
        forgotten = _forgotten(Bounds.of(theta), stride)
        if not forgotten > 0:
            raise NotImplementedError(f"a stride of {stride}: its Θ may never forget")
        step = DOWN.divide(forgotten, Decimal(2))
        self._chain = TwoStateChain(step, step)

    def loss(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Interval:
        """At least its own tilt, which every mechanism of this tilt may lose, and at most what Theorem 13 says."""
        return Interval(tilts.towards0.low, halved_loss(self._chain, 0, tilts, before, after).high)


def _forgotten(bounds: Bounds, stride: int) -> Decimal:
    """1 − λ, rounded down."""
    part = max(1, stride // PARTS)
    whole = stride // part
    first = _power(bounds, part)
    power, left = first, [ONE]
    for number in range(1, whole + 1):
        if number > 1:
            power = first.times(power)
        composed = [UP.multiply(left[n], left[number - n]) for n in range(1, number // 2 + 1)]
        left.append(min(_correlation(power), left[-1], *composed))
    forgotten = [DOWN.subtract(ONE, one) for one in left]
    # Of the part that an unpublished tick is inside of, nothing is forgotten.
    rest = whole if part == 1 else whole - 1
    beside = [DOWN.add(forgotten[n], forgotten[rest - n]) for n in range(part == 1, rest)]
    return min(forgotten[whole], *beside)


def _correlation(power: Bounds) -> Decimal:
    """tanh(Δ/4) = (1 − √c)/(1 + √c), with c the least P(x,v)P(y,u)/(P(x,u)P(y,v)), rounded up."""
    least, size = ONE, range(len(power.low))
    for x, y in permutations(size, 2):
        for u, v in permutations(size, 2):
            under = power.high[x][u] * power.high[y][v]
            if under:
                over = power.low[x][v] * power.low[y][u]
                least = min(least, DOWN.divide(Decimal(over // SCALE), Decimal(-(-under // SCALE))))
    root = DOWN.sqrt(least)
    return UP.divide(UP.subtract(ONE, root), DOWN.add(ONE, root))


def _power(bounds: Bounds, ticks: int) -> Bounds:
    if ticks <= PARTS:
        power = bounds
        for _ in range(ticks - 1):
            power = bounds.times(power)
        return power
    half = _power(bounds, ticks // 2)
    square = half.times(half)
    return bounds.times(square) if ticks % 2 else square
