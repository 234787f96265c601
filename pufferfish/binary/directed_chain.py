"""A positively correlated chain, q+r < 1, with one favoured state: the maps and bounds of a timeline's runs."""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.known_envelope import Envelope
from hushmq.pufferfish.binary.known_instant import (
    known_state_log_ratio,
    most_informative_instant,
)
from hushmq.pufferfish.binary.stream_loss import endless_side_log_ratio
from hushmq.pufferfish.mobius.ratio_orbit import MobiusMap, Orbit, one_tick_map, orbit_of
from hushmq.pufferfish.timeline.tilt_runs import to_nats

# A difference of logarithms below this is lost in rounding.
_NEGLIGIBLE = 2.0**-52


def forgetting_time(q: float, r: float) -> int:
    """The number of ticks, of any tilts, after which a likelihood ratio no longer depends on its initial value.

    Each tick multiplies the logarithm of the quotient of two ratios by at most (1−α)/(1+α), and that logarithm is at
    most −2·log α after the first tick, where α = √(qr/((1−q)(1−r))) (docs/theory.md, Lemma 1). For q+r > 1 replace α by
    1/α.
    """
    alpha = math.sqrt(q / (1.0 - q) * r / (1.0 - r))
    alpha = min(alpha, 1.0 / alpha)
    if alpha == 1.0:
        return 1
    spread = -2.0 * math.log(alpha)
    return 2 + math.ceil(math.log(_NEGLIGIBLE / max(spread, 1.0)) / math.log((1.0 - alpha) / (1.0 + alpha)))


class DirectedChain:
    """A chain with state 0 favoured (for state 1 swap q and r); caches what it computes per tilt."""

    def __init__(self, q: float, r: float, state: int) -> None:
        self.q, self.r, self.state = q, r, state
        self.untilted = orbit_of(q, r, 0.0)
        self.forgetting_time = forgetting_time(q, r)
        self.largest_ratio = self.untilted.from_known_0(1)  # (1−q)/r bounds every ratio
        self._orbits: dict[int, Orbit] = {0: self.untilted}
        self._ticks: dict[int, MobiusMap] = {}
        self._peaks: dict[int, tuple[int, int]] = {}
        self._ceilings: dict[int, float] = {}
        self._envelopes: dict[tuple[int, int], Envelope] = {}

    def orbit(self, tilts: tuple[int, int]) -> Orbit:
        """The Möbius orbit of a run with these tilts."""
        tilt = tilts[self.state]
        found = self._orbits.get(tilt)
        if found is None:
            found = self._orbits[tilt] = orbit_of(self.q, self.r, to_nats(tilt))
        return found

    def tick(self, tilts: tuple[int, int]) -> MobiusMap:
        """The Möbius map of one tick with these tilts."""
        tilt = tilts[self.state]
        found = self._ticks.get(tilt)
        if found is None:
            found = self._ticks[tilt] = one_tick_map(self.q, self.r, to_nats(tilt))
        return found

    def largest_known(self, tilts: tuple[int, int], ticks: int) -> float:
        """The largest V over known states at the next `ticks` ticks, all with these tilts."""
        tilt = tilts[self.state]
        if ticks == 0 or tilt == 0:
            return 0.0
        here, untilted = self.orbit(tilts), self.untilted
        # V of one state is unimodal in the distance; V of the other is largest at an end (Lemma 4).
        if tilt not in self._peaks:
            self._peaks[tilt] = most_informative_instant(here, untilted)
        distance, state = self._peaks[tilt]
        nearest = known_state_log_ratio(here, untilted, min(distance, ticks), state)
        return max(0.0, nearest, known_state_log_ratio(here, untilted, ticks, 1 - state))

    def endless_side(self, tilt: int) -> float:
        """Upper bound on one side's log-ratio if no tilt within the forgetting time exceeds `tilt`."""
        found = self._ceilings.get(tilt)
        if found is None:
            found = self._ceilings[tilt] = endless_side_log_ratio(self.q, self.r, to_nats(tilt), "informed")
        return found

    def envelope(self, low: float, high: float) -> Envelope:
        """The envelope for ξ = m·C in [low, high]; the ends are rounded outwards so that few envelopes are computed."""
        steps = math.floor(8.0 * math.log(low)), math.ceil(8.0 * math.log(high))
        found = self._envelopes.get(steps)
        if found is None:
            edges = math.exp(steps[0] / 8.0), math.exp(steps[1] / 8.0)
            found = self._envelopes[steps] = Envelope(self.q, self.r, *edges)
        return found
