"""The price of a stream of k states that publishes one of every m ticks, for every chain of Θ, in closed form.

d steps of any kernels of Θ leave at most B(x) of what the outputs beyond them say, whatever odds the adversary expects
at their end and whatever he knows: tanh(B(x)/4) = λ_d·tanh(x/4), where λ_d = tanh(Δ_d/4) and Δ_d is the largest log
P(x,u)P(y,v)/(P(x,v)P(y,u)) over the products P of d kernels. Both sides of a tick have the same Δ_d. Parts of a step
compose: λ_{c+d} ≤ λ_c·λ_d.

A tick that is not published, d ticks after a published one and m − d before the next, may lose more than both. It does
not if both were priced with 1 − λ = min(1 − λ_m, min_d [(1 − λ_d) + (1 − λ_{m−d})]): that λ is the one of the stream
(docs/theory-k.md, Theorem 13). Standard library only: a device checks its settings with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import Certificate
from hushmq.pufferfish.categorical.informed_side import smallest_cross_ratio
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.mobius.changing_search import ChangingSearch, SearchedRuns
from hushmq.pufferfish.mobius.changing_side import LARGEST_ALPHA, ChangingSide
from hushmq.pufferfish.mobius.searched_timeline import SearchedTimeline
from hushmq.pufferfish.mobius.strided_steps import check_stride, endless_loss, endless_tilt
from hushmq.pufferfish.mobius.two_sides import ChangingChain
from hushmq.pufferfish.timeline.entry import Entry, Ticks

MOST_STATES = 12
"""With more states a device would take too long to verify a setting."""

PARTS = 64
"""A longer stride is divided into so many parts at least, and powers are computed of these."""

_DOWN = 1.0 - 2.0**-44
"""Exceeds the relative rounding error of α, to the side of more loss."""


@lru_cache(maxsize=1024)
def strided_alpha(theta: CategoricalTheta, stride: int) -> float:
    """α of the stream, rounded down: how much is forgotten at least between published ticks; 0 if nothing is proved."""
    check_stride(stride)
    if theta.states > MOST_STATES:
        return 0.0
    part = max(1, stride // PARTS)
    whole = stride // part
    forgotten = [-math.expm1(-2.0 * one) for one in _rates(theta.forward, part, whole)]
    # Of the part that an unpublished tick is inside of, nothing is forgotten on either side.
    rest = whole if part == 1 else whole - 1
    least = min(forgotten[whole], *(forgotten[n] + forgotten[rest - n] for n in range(part == 1, rest)))
    return min(least / (2.0 - least), LARGEST_ALPHA) * _DOWN


def _rates(intervals: TransitionIntervals, part: int, most: int) -> list[float]:
    """−½·log λ of 0, 1, … parts at least: of their product itself, or of those of fewer parts together."""
    first = _power(intervals, part)
    power, found = first, [0.0]
    for number in range(1, most + 1):
        if number > 1:
            power = first.times(power)
        alpha = min(smallest_cross_ratio(power) ** 0.5 * _DOWN, LARGEST_ALPHA)
        together = (found[n] + found[number - n] for n in range(1, number // 2 + 1))
        found.append(max(math.atanh(alpha), *together, found[-1]))
    return found


def _power(intervals: TransitionIntervals, ticks: int) -> TransitionIntervals:
    """Intervals that contain the product of so many kernels; of many by squaring, which bounds a class less closely."""
    if ticks <= PARTS:
        return intervals.power(ticks)
    half = _power(intervals, ticks // 2)
    square = half.times(half)
    return intervals.times(square) if ticks % 2 else square


def constant_loss(theta: CategoricalTheta, tau: float, stride: int) -> float:
    """The loss of an endless stream with tilt τ at one of every `stride` ticks; infinite where nothing is proved."""
    return endless_loss(tau, strided_alpha(theta, stride))


def largest_tilt(theta: CategoricalTheta, epsilon: float, stride: int) -> float:
    """The largest tilt with a loss within ε; 0 if there is none."""
    return endless_tilt(epsilon, strided_alpha(theta, stride))


def strided_certificate(theta: CategoricalTheta, tau: float, stride: int) -> Certificate:
    """The tilt and what either side tells at most, by steps of one stride; ValueError where nothing is proved."""
    loss = constant_loss(theta, tau, stride)
    if not math.isfinite(loss):
        raise ValueError(_NOTHING.format(stride=stride))
    side = 1, (loss - tau) / 2.0
    return Certificate(tau, side, side)


_NOTHING = "nothing is proved for a stride of {stride}: chains of Θ may forget too slowly"


class StridedStatesTimeline(SearchedTimeline[SearchedRuns]):
    """A history in strides: entry n is about the one tick that is published of n·stride … (n+1)·stride − 1.

    A tick that is not published loses no more than one of the published ticks beside it, which may be in the stride
    before the first of `ticks`, or in the one after the last.
    """

    def __init__(
        self,
        theta: CategoricalTheta,
        entries: Iterable[Entry] = (),
        *,
        stride: int,
        ticks: Ticks | None = None,
    ) -> None:
        alpha = strided_alpha(theta, stride)
        if not alpha > 0.0:
            raise ValueError(_NOTHING.format(stride=stride))
        chains = [ChangingChain(None, ChangingSide.of_any_odds(alpha), ChangingSide.of_any_odds(alpha))]
        near = None if ticks is None else (ticks[0] - 1, ticks[1] + 1)
        search = ChangingSearch(lambda _tilts: chains, for_all_tilts=True)
        super().__init__(search, entries, ticks=near)
