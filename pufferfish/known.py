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

import math
from collections.abc import Iterator

from pufferfish.orbit import Matrix, Orbit

# A search ends when nothing left can exceed the best by more than this; the excess is added to the result.
TOLERANCE = 2.0**-32


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


def soft_so_far(orbit: Orbit, base: Orbit) -> Iterator[float]:
    """The largest V over soft evidence about the instants up to distance 1, 2, … in a run of one tilt.

    It ends where it rises no more. Evidence about the instant at distance l that the next one cannot give lies
    between knowing the one and knowing the other, so its V exceeds the larger of the two by no more than log C
    or the log base changes from l to l+1; and known states add nothing past the peak of the one state, while for
    the other V stays below log C∞ (Lemma 4).
    """
    peaked, told = peak(orbit, base)
    best, limit = 0.0, math.log(orbit.limit)
    distance, here = 1, _logs(orbit, base, 1)
    while True:
        there = _logs(orbit, base, distance + 1)
        rest = 0.0
        for state in (0, 1):
            (ratio, seen), (next_ratio, next_seen) = here[state], there[state]
            change = min(abs(ratio - next_ratio), abs(seen - next_seen))
            if max(ratio - seen, next_ratio - next_seen) + change > best:
                best = max(best, soft_at(orbit.matrix(distance), base, distance, state))
            rest = max(rest, change + (next_ratio - next_seen if state == told else limit))
        if distance >= peaked and rest <= best + TOLERANCE:
            yield max(best, rest)
            return
        yield best
        distance, here = distance + 1, there


def _logs(orbit: Orbit, base: Orbit, distance: int) -> list[tuple[float, float]]:
    """The logarithms of C_l(y) and of the base, for a known 0 and a known 1."""
    return [
        (math.log(orbit.from0(distance)), math.log(base.from0(distance))),
        (math.log(orbit.from1(distance)), math.log(base.from1(distance))),
    ]


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
    return math.log(
        max(
            through.a / through.c / base.from0(distance),
            through.b / through.d / base.from1(distance),
        )
    )


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
