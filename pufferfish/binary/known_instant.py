"""The informed adversary's most informative known state on one side of a tick (docs/theory.md, Theorem 4).

If the state at the instant l ticks away is known to be y, one side's log-ratio is

    V(l, y) = log C_l(y) − log(P^l[0,y]/P^l[1,y]),

where C_l(y) is the likelihood ratio started from C = ∞ (y = 0) or C = 0 (y = 1) at that instant. The functions here
maximise V over l and y. Within a run of one tilt V is unimodal in l (Lemma 4), so its maximum is found by bisection.

All functions are for q+r < 1 and favour state 0.
"""

from __future__ import annotations

import math

from hushmq.pufferfish.mobius.ratio_orbit import MobiusMap, Orbit

# A search ends when no candidate can exceed the best by more than this; the difference is added to the result.
TOLERANCE = 2.0**-32


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


def largest_known_log_ratio(through: MobiusMap, base: Orbit, distance: int) -> float:
    """The largest V over known states at this distance; `through` maps the ticks up to it."""
    a, b, c, d, _ = through
    from_known_0, from_known_1 = base.from_known_states(distance)
    return math.log(max(a / c / from_known_0, (b / d if d else a / c) / from_known_1))
