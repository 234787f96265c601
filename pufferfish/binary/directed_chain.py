"""One chain with q+r < 1 and one favoured state: what the runs of a timeline mean there."""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.known_envelope import Envelope
from hushmq.pufferfish.binary.known_instant import known_in_run, largest_soft, peak
from hushmq.pufferfish.binary.ratio_orbit import Matrix, Orbit, orbit, tick
from hushmq.pufferfish.binary.stream_loss import side
from hushmq.pufferfish.timeline.tilt_runs import nats

# What is left after this is below the rounding of the numbers themselves.
_FORGOTTEN = 2.0**-52


def reach(q: float, r: float) -> int:
    """After so many ticks, of any tilts, nothing is left of where a ratio started.

    One tick shrinks the logarithm of the ratio of two ratios by (1−α)/(1+α) at least, and that logarithm is
    at most −2·log α after the first, where α = √(qr/((1−q)(1−r))) (docs/theory.md, Lemma 1). For q+r > 1 the
    same holds with 1/α.
    """
    alpha = math.sqrt(q / (1.0 - q) * r / (1.0 - r))
    alpha = min(alpha, 1.0 / alpha)
    if alpha == 1.0:
        return 1
    spread = -2.0 * math.log(alpha)
    return 2 + math.ceil(math.log(_FORGOTTEN / max(spread, 1.0)) / math.log((1.0 - alpha) / (1.0 + alpha)))


class Track:
    """The chain as state 0 sees it (for state 1, give q and r swapped), with what it has computed so far."""

    def __init__(self, q: float, r: float, state: int, *, soft: bool) -> None:
        self.q, self.r, self.state, self.soft = q, r, state, soft
        self.base = orbit(q, r, 0.0)
        self.reach = reach(q, r)
        self.cap = self.base.from0(1)  # (1−q)/r: no ratio is larger
        self._orbits: dict[int, Orbit] = {0: self.base}
        self._ticks: dict[int, Matrix] = {}
        self._within: dict[tuple[int, int], float] = {}
        self._peaks: dict[int, tuple[int, int]] = {}
        self._ceilings: dict[int, float] = {}
        self._envelopes: dict[tuple[int, int], Envelope] = {}

    def orbit(self, tilts: tuple[int, int]) -> Orbit:
        """The orbit of a run with these tilts."""
        tilt = tilts[self.state]
        found = self._orbits.get(tilt)
        if found is None:
            found = self._orbits[tilt] = orbit(self.q, self.r, nats(tilt))
        return found

    def tick(self, tilts: tuple[int, int]) -> Matrix:
        """The map of one tick with these tilts."""
        tilt = tilts[self.state]
        found = self._ticks.get(tilt)
        if found is None:
            found = self._ticks[tilt] = tick(self.q, self.r, nats(tilt))
        return found

    def within(self, tilts: tuple[int, int], ticks: int) -> float:
        """The largest V over what can be known about the next so many ticks, all of one tilt."""
        tilt = tilts[self.state]
        if ticks == 0 or tilt == 0:
            return 0.0
        here, base = self.orbit(tilts), self.base
        if self.soft:
            ticks = min(ticks, self.reach)
            if (tilt, ticks) not in self._within:
                self._within[tilt, ticks] = largest_soft(here, base, ticks=ticks).value
            return self._within[tilt, ticks]
        # One state's V rises up to its peak and falls, the other's is largest at an end (Lemma 4).
        if tilt not in self._peaks:
            self._peaks[tilt] = peak(here, base)
        distance, state = self._peaks[tilt]
        told = known_in_run(here, base, min(distance, ticks), state)
        return max(0.0, told, known_in_run(here, base, ticks, 1 - state))

    def ceiling(self, tilt: int) -> float:
        """A side's log-ratio where no tilt in reach is larger: at most that of an endless run of it."""
        found = self._ceilings.get(tilt)
        if found is None:
            found = self._ceilings[tilt] = side(self.q, self.r, nats(tilt), "informed", soft=self.soft)
        return found

    def envelope(self, low: float, high: float) -> Envelope:
        """The envelope where ξ = m·C lies in [low, high], or a little wider: few different ones are computed."""
        steps = math.floor(8.0 * math.log(low)), math.ceil(8.0 * math.log(high))
        found = self._envelopes.get(steps)
        if found is None:
            edges = math.exp(steps[0] / 8.0), math.exp(steps[1] / 8.0)
            found = self._envelopes[steps] = Envelope(self.q, self.r, *edges, soft=self.soft)
        return found
