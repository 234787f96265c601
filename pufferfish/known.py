"""The informed adversary's best known instant on one side of a tick (docs/theory.md, Theorems 4 and 6).

Knowing that the instant l ticks away is in state y makes one side's log-ratio

    V(l, y) = log C_l(y) − log(P^l[0,y]/P^l[1,y]),

where C_l(y) is the ratio started from C = ∞ (y = 0) or C = 0 (y = 1) at that instant. What must be found is the
largest V over all l and y. Within a run of one tilt V rises and falls at most once (Lemma 4), through a stretch
of no tilt it is a ratio of two Möbius maps, and elsewhere it is searched by branch and bound: C and the base
P^l[0,y]/P^l[1,y] are both monotone in l, so a group of instants is bounded by its two ends.

For a box Θ the adversary may also hold soft evidence about that one instant, any likelihood ratio b in [0, ∞]
in place of a known state. That is a little stronger, and the loss against it falls in q and in r whatever the
timeline (Theorem 6), so that the corner of the box decides; against known states alone it does not.

All functions here are for q+r < 1 and favour state 0.
"""

from __future__ import annotations

import heapq
import math
from typing import NamedTuple

from pufferfish.orbit import Matrix, Orbit

# Groups of instants whose bound is this close to the best one found are not split further.
TOLERANCE = 2.0**-36

# Beyond this many e-folds nothing is left of where an orbit started.
_SPENT = 45.0


class View(NamedTuple):
    """How a tick sees what lies beyond some point: the map of the ticks between, and how many there are."""

    through: Matrix
    ticks: int


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


def largest_in_run(
    near: View, far: View, orbit: Orbit, base: Orbit, *, ticks: int, soft: bool, floor: float
) -> float:
    """The largest V over the instants of a run of that many ticks beyond the views, or the floor if higher.

    Near and far are the views of two ticks of one run, and the result bounds V for every tick between them;
    for one tick they are the same. Best-first branch and bound over groups of instants.
    """
    beyond = 1 if soft else 0

    def bound(first: int, last: int, state: int) -> float:
        if state == 0:
            ratio, rest = orbit.from0(first), base.from0(far.ticks + last + beyond)
        else:
            ratio, rest = orbit.from1(last + beyond), base.from1(near.ticks + first)
        return math.log(max(near.through(ratio), far.through(ratio)) / rest)

    best, groups, first = floor, [], 1
    slowest = -max(orbit.log_mu, base.log_mu)
    while first <= ticks:
        last = ticks if first * slowest > _SPENT else min(2 * first - 1, ticks)
        for state in (0, 1):
            groups.append((-bound(first, last, state), first, last, state))
        first = last + 1
    heapq.heapify(groups)
    while groups:
        negative, first, last, state = heapq.heappop(groups)
        if -negative <= best + TOLERANCE or first * slowest > _SPENT:
            return max(best, -negative)
        if first < last:
            middle = (first + last) // 2
            for low, high in ((first, middle), (middle + 1, last)):
                heapq.heappush(groups, (-bound(low, high, state), low, high, state))
        elif soft:
            best = max(best, _largest_at(near, far, orbit, base, first, state))
        else:
            best = -negative  # a single instant's bound is its value
    return best


def _largest_at(near: View, far: View, orbit: Orbit, base: Orbit, distance: int, state: int) -> float:
    """The largest V over evidence about the instant at that distance that the next instant cannot give."""
    step = orbit.matrix(distance)
    low, high = (base.from0(1), math.inf) if state == 0 else (0.0, base.from1(1))
    seen = base.matrix((far if state == 0 else near).ticks + distance)
    return max(largest_ratio(view.through.then(step), seen, low, high) for view in {near, far})


def largest_in_gap(near: View, far: View, base: Orbit, *, ticks: int | None, soft: bool) -> float:
    """The largest V over the instants of a stretch without tilt beyond the views; None: it never ends.

    There C and the base start from the same b, so V = log T(b)/U(b), which has at most two extremes in b. An
    endless stretch contains the adversary who knows nothing on this side, b = 1.
    """
    best = 0.0
    for view in {near, far}:
        for state, seen in ((0, base.matrix(far.ticks)), (1, base.matrix(near.ticks))):
            edges = (base.from0 if state == 0 else base.from1)(1), 1.0
            if ticks is not None:
                edges = edges[0], (base.from0 if state == 0 else base.from1)(ticks + 1)
            low, high = min(edges), max(edges)
            if soft:
                best = max(best, largest_ratio(view.through, seen, low, high))
                continue
            wanted = [b for b in extremes(view.through, seen) if low < b < high]
            for distance in _distances(wanted, base, state, ticks):
                b = base.from0(distance) if state == 0 else base.from1(distance)
                best = max(best, math.log(view.through(b) / seen(b)))
    if ticks is None:
        best = max(best, *(math.log(view.through(1.0)) for view in {near, far}))
    return best


def _distances(wanted: list[float], base: Orbit, state: int, ticks: int | None) -> set[int]:
    """The whole distances next to where the base passes through the wanted values, and the two ends."""
    distances = {1} if ticks is None else {1, ticks}
    for b in wanted:
        # b = (1 + s/κ)/(1 − s) or (1 − s)/(1 + κ·s), with s = λ^distance.
        s = (b - 1.0) / (b + 1.0 / base.kappa) if state == 0 else (1.0 - b) / (1.0 + base.kappa * b)
        place = math.log(s) / base.log_mu
        for distance in (math.floor(place), math.ceil(place)):
            if distance >= 1 and (ticks is None or distance <= ticks):
                distances.add(distance)
    return distances


def largest_ratio(through: Matrix, seen: Matrix, low: float, high: float) -> float:
    """The largest log(T(b)/U(b)) for b in [low, high]."""
    inside = [b for b in extremes(through, seen) if low < b < high]
    return max(math.log(through(b) / seen(b)) for b in (low, high, *inside))


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
