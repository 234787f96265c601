"""The informed adversary's best known instant on one side of a tick (docs/theory.md, Theorems 4 and 6).

Knowing that the instant l ticks away is in state y makes one side's log-ratio

    V(l, y) = log C_l(y) − log(P^l[0,y]/P^l[1,y]),

where C_l(y) is the ratio started from C = ∞ (y = 0) or C = 0 (y = 1) at that instant. What must be found is the
largest V over all l and y. Within a run of one tilt V rises and falls at most once (Lemma 4), so its peak is found
by bisection; elsewhere one walks from instant to instant.

For a box Θ the adversary may also hold soft evidence about that one instant, any likelihood ratio b in [0, ∞]
in place of a known state. That is a little stronger, and the loss against it falls in q and in r whatever the
timeline (Theorem 6), so that the corner of the box decides; against known states alone it does not.

All functions here are for q+r < 1 and favour state 0.
"""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import NamedTuple

from hushmq.pufferfish.binary.ratio_orbit import Matrix, Orbit

# A search ends when nothing left can exceed the best by more than this; the excess is added to the result.
TOLERANCE = 2.0**-32

# Beyond so many e-folds nothing is left of where an orbit started.
_SPENT = 40.0
_FAR = 1 << 62


def peak(orbit: Orbit, base: Orbit) -> tuple[int, int]:
    """The distance and the state of the most telling known instant in an endless run of one tilt."""
    state = 0 if orbit.log_mu > base.log_mu else 1
    low, high = 1, 2
    while known_in_run(orbit, base, high + 1, state) > known_in_run(orbit, base, high, state):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if known_in_run(orbit, base, middle + 1, state) > known_in_run(orbit, base, middle, state):
            low = middle + 1
        else:
            high = middle
    return low, state


def known_in_run(orbit: Orbit, base: Orbit, distance: int, state: int) -> float:
    """V(l, y) with nothing but ticks of one tilt in between."""
    if state == 0:
        return math.log(orbit.from0(distance) / base.from0(distance))
    return math.log(orbit.from1(distance) / base.from1(distance))


class Told(NamedTuple):
    """The largest V, and the distance and state of the soft evidence that gives it; None where a floor does."""

    value: float
    at: tuple[int, int] | None


def largest_soft(orbit: Orbit, base: Orbit, *, ticks: int | None = None, floor: float = 0.0) -> Told:
    """The largest V over soft evidence about one of the next so many ticks, all of one tilt, or the floor if higher.

    Evidence about the instant at distance l that the next one cannot give lies between knowing the one and
    knowing the other. So its V exceeds theirs by no more than log C or the log base changes from l to l+1, which
    is less the larger l. With Lemma 4 this bounds V over whole groups of distances; best-first branch and bound.
    Without a number of ticks the run never ends.
    """
    peaked, told = peak(orbit, base)
    end = min(ticks or _FAR, math.ceil(_SPENT / -max(orbit.log_mu, base.log_mu)))

    @cache
    def logs(distance: int, state: int) -> tuple[float, float]:
        """The logarithms of C_l(y) and of the base."""
        if state == 0:
            return math.log(orbit.from0(distance)), math.log(base.from0(distance))
        return math.log(orbit.from1(distance)), math.log(base.from1(distance))

    def known(distance: int, state: int) -> float:
        tilted, alone = logs(distance, state)
        return tilted - alone

    def bound(first: int, last: int, state: int) -> float:
        near, further = logs(first, state), logs(first + 1, state)
        change = min(abs(near[0] - further[0]), abs(near[1] - further[1]))
        # Known states tell most at the group's ends or, for one of them, at the peak.
        most = max(near[0] - near[1], known(last + 1, state))
        return change + (max(most, known(peaked, told)) if state == told and first < peaked <= last else most)

    best, first = Told(floor, None), 1
    groups: list[tuple[float, int, int, int]] = []
    while first <= end:
        last = min(2 * first - 1, end)
        groups.extend((-bound(first, last, state), first, last, state) for state in (0, 1))
        first = last + 1
    heapq.heapify(groups)
    while groups:
        negative, first, last, state = heapq.heappop(groups)
        if -negative <= best.value + TOLERANCE:
            return Told(max(best.value, -negative), best.at)
        if first == last:
            value = soft_at(orbit.matrix(first), base, first, state)
            best = max(best, Told(value, (first, state)), key=lambda found: found.value)
            continue
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            heapq.heappush(groups, (-bound(low, high, state), low, high, state))
    return best


def soft_at(through: Matrix, base: Orbit, distance: int, state: int) -> float:
    """The largest V over evidence about the instant at that distance that the next instant cannot give.

    Weaker evidence is had from the next instant as well, with more tilt in between.
    """
    low, high = (base.from0(1), math.inf) if state == 0 else (0.0, base.from1(1))
    return largest_ratio(through, base.matrix(distance), low, high)


def known_at(through: Matrix, base: Orbit, distance: int, *, soft: bool) -> float:
    """The largest V over what can be known about the instant at that distance, seen through the ticks up to it."""
    if soft:
        return max(soft_at(through, base, distance, 0), soft_at(through, base, distance, 1))
    a, b, c, d, _ = through
    from0, from1 = base.knowns(distance)
    return math.log(max(a / c / from0, (b / d if d else a / c) / from1))


def largest_ratio(through: Matrix, seen: Matrix, low: float, high: float) -> float:
    """The largest log(T(b)/U(b)) for b in [low, high]: at an end or at one of at most two extremes."""
    best = max(through(low) / seen(low), through(high) / seen(high))
    for b in extremes(through, seen):
        if low < b < high:
            best = max(best, through(b) / seen(b))
    return math.log(best)


def extremes(through: Matrix, seen: Matrix) -> list[float]:
    """Where T(b)/U(b) may have an extreme: the positive roots of det T·U₀·U₁ = det U·T₀·T₁ in b."""
    t, u = through, seen
    x, y = t.determinant, u.determinant
    square = x * u.a * u.c - y * t.a * t.c
    linear = x * (u.a * u.d + u.b * u.c) - y * (t.a * t.d + t.b * t.c)
    constant = x * u.b * u.d - y * t.b * t.d
    discriminant = linear * linear - 4.0 * square * constant
    if discriminant < 0.0:
        return []
    # One root from each form, so that neither cancels.
    half = -0.5 * (linear + math.copysign(math.sqrt(discriminant), linear))
    roots = ([half / square] if square else []) + ([constant / half] if half else [])
    return [root for root in roots if 0.0 < root < math.inf]
