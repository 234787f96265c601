"""The informed adversary's most informative known state on one side of a tick (docs/theory.md, Theorems 4 and 6).

If the state at the instant l ticks away is known to be y, one side's log-ratio is

    V(l, y) = log C_l(y) − log(P^l[0,y]/P^l[1,y]),

where C_l(y) is the likelihood ratio started from C = ∞ (y = 0) or C = 0 (y = 1) at that instant. The functions here
maximise V over l and y. Within a run of one tilt V is unimodal in l (Lemma 4), so its maximum is found by bisection.

For a Θ of several chains the adversary may also hold soft evidence about one instant: any likelihood ratio b in [0, ∞]
in place of a known state. The loss against soft evidence falls in q and in r for every timeline (Theorem 6), so a
corner of Θ is the worst chain; against known states alone this is false.

All functions are for q+r < 1 and favour state 0.
"""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import NamedTuple

from hushmq.pufferfish.binary.ratio_orbit import MobiusMap, Orbit

# A search ends when no candidate can exceed the best by more than this; the difference is added to the result.
TOLERANCE = 2.0**-32

# After this many e-folds an orbit no longer depends on its initial value.
_FORGOTTEN_EFOLDS = 40.0
_ENDLESS = 1 << 62


def most_informative_instant(orbit: Orbit, base: Orbit) -> tuple[int, int]:
    """The distance and the state with the largest V in an endless run of one tilt."""
    state = 0 if orbit.log_mu > base.log_mu else 1
    low, high = 1, 2
    while known_state_log_ratio(orbit, base, high + 1, state) > known_state_log_ratio(
        orbit, base, high, state
    ):
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if known_state_log_ratio(orbit, base, middle + 1, state) > known_state_log_ratio(
            orbit, base, middle, state
        ):
            low = middle + 1
        else:
            high = middle
    return low, state


def known_state_log_ratio(orbit: Orbit, base: Orbit, distance: int, state: int) -> float:
    """V(l, y) if all ticks in between have the tilt of `orbit`; `base` is the orbit without tilt."""
    if state == 0:
        return math.log(orbit.from_known_0(distance) / base.from_known_0(distance))
    return math.log(orbit.from_known_1(distance) / base.from_known_1(distance))


class SideMaximum(NamedTuple):
    """The largest V, and the distance and state of the soft evidence that attains it; None if it is the floor."""

    value: float
    attained_at: tuple[int, int] | None


def largest_soft_log_ratio(
    orbit: Orbit, base: Orbit, *, ticks: int | None = None, floor: float = 0.0
) -> SideMaximum:
    """The larger of `floor` and the largest V over soft evidence about one of the next `ticks` ticks, all of one tilt.

    Best-first branch and bound over groups of distances. Evidence about the instant at distance l that the instant at
    l+1 cannot give lies between the known states at l and at l+1. Its V exceeds theirs by at most the change of log C,
    or of the logarithm of the base, from l to l+1, which falls in l; with Lemma 4 this bounds V over a group.
    `ticks=None` is an endless run.
    """
    peaked, known_state = most_informative_instant(orbit, base)
    end = min(ticks or _ENDLESS, math.ceil(_FORGOTTEN_EFOLDS / -max(orbit.log_mu, base.log_mu)))

    @cache
    def logs(distance: int, state: int) -> tuple[float, float]:
        """The logarithms of C_l(y) and of the base."""
        if state == 0:
            return math.log(orbit.from_known_0(distance)), math.log(base.from_known_0(distance))
        return math.log(orbit.from_known_1(distance)), math.log(base.from_known_1(distance))

    def known(distance: int, state: int) -> float:
        tilted, alone = logs(distance, state)
        return tilted - alone

    def bound(first: int, last: int, state: int) -> float:
        near, further = logs(first, state), logs(first + 1, state)
        change = min(abs(near[0] - further[0]), abs(near[1] - further[1]))
        # V of known states is largest at an end of the group or, for one state, at its maximum.
        most = max(near[0] - near[1], known(last + 1, state))
        return change + (
            max(most, known(peaked, known_state)) if state == known_state and first < peaked <= last else most
        )

    best, first = SideMaximum(floor, None), 1
    groups: list[tuple[float, int, int, int]] = []
    while first <= end:
        last = min(2 * first - 1, end)
        groups.extend((-bound(first, last, state), first, last, state) for state in (0, 1))
        first = last + 1
    heapq.heapify(groups)
    while groups:
        negative, first, last, state = heapq.heappop(groups)
        if -negative <= best.value + TOLERANCE:
            return SideMaximum(max(best.value, -negative), best.attained_at)
        if first == last:
            value = soft_evidence_log_ratio(orbit.map_of(first), base, first, state)
            best = max(best, SideMaximum(value, (first, state)), key=lambda found: found.value)
            continue
        middle = (first + last) // 2
        for low, high in ((first, middle), (middle + 1, last)):
            heapq.heappush(groups, (-bound(low, high, state), low, high, state))
    return best


def soft_evidence_log_ratio(through: MobiusMap, base: Orbit, distance: int, state: int) -> float:
    """The largest V over soft evidence about the instant at this distance that the next instant cannot give.

    Weaker evidence is available from the next instant too, with more tilt in between.
    """
    low, high = (base.from_known_0(1), math.inf) if state == 0 else (0.0, base.from_known_1(1))
    return largest_log_ratio(through, base.map_of(distance), low, high)


def largest_known_log_ratio(through: MobiusMap, base: Orbit, distance: int, *, soft: bool) -> float:
    """The largest V over known states, or soft evidence, at this distance; `through` maps the ticks up to it."""
    if soft:
        return max(
            soft_evidence_log_ratio(through, base, distance, 0),
            soft_evidence_log_ratio(through, base, distance, 1),
        )
    a, b, c, d, _ = through
    from_known_0, from_known_1 = base.from_known_states(distance)
    return math.log(max(a / c / from_known_0, (b / d if d else a / c) / from_known_1))


def largest_log_ratio(through: MobiusMap, seen: MobiusMap, low: float, high: float) -> float:
    """The largest log(T(b)/U(b)) for b in [low, high]: at an end or at one of at most two stationary points."""
    best = max(through(low) / seen(low), through(high) / seen(high))
    for b in stationary_points(through, seen):
        if low < b < high:
            best = max(best, through(b) / seen(b))
    return math.log(best)


def stationary_points(through: MobiusMap, seen: MobiusMap) -> list[float]:
    """The stationary points of T(b)/U(b): the positive roots of det T·U₀·U₁ = det U·T₀·T₁ in b."""
    t, u = through, seen
    x, y = t.determinant, u.determinant
    square = x * u.a * u.c - y * t.a * t.c
    linear = x * (u.a * u.d + u.b * u.c) - y * (t.a * t.d + t.b * t.c)
    constant = x * u.b * u.d - y * t.b * t.d
    discriminant = linear * linear - 4.0 * square * constant
    if discriminant < 0.0:
        return []
    # One root from each form of the quadratic formula, so that neither cancels.
    half = -0.5 * (linear + math.copysign(math.sqrt(discriminant), linear))
    roots = ([half / square] if square else []) + ([constant / half] if half else [])
    return [root for root in roots if 0.0 < root < math.inf]
