"""Prices ticks of a two-state stream: for one chain exactly, for several between two bounds."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Any

from hushmq.verify.changing_kernels import ChangingSide, Step, after_known, anywhere, confined
from hushmq.verify.outward import ONE, UP, Interval, exact, exp, largest, ln
from hushmq.verify.tilt_sequence import Stretch, Tilts
from hushmq.verify.two_states import TwoStateChain, informed_side, prior_side


class TwoStates:
    """Θ of two states: q and r each in an interval."""

    def __init__(self, theta: dict[str, Any], adversary: str) -> None:
        q, r = theta["q"], theta["r"]
        self._q, self._r = (q["low"], q["high"]), (r["low"], r["high"])
        self._informed = adversary == "informed"
        self._several = (q["low"], r["low"]) != (q["high"], r["high"])
        self._corners = []
        # Both are chains of Θ: what they lose is lost.
        if Fraction(q["low"]) + Fraction(r["low"]) < 1:
            self._corners.append(TwoStateChain(q["low"], r["low"]))
        if Fraction(q["high"]) + Fraction(r["high"]) >= 1:
            self._corners.append(TwoStateChain(q["high"], r["high"]))
        self._sides = cache(self._changing_sides)
        self._any_odds = cache(self._side_of_any_odds)

    def loss(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Interval:
        """τ and both sides: of one chain exactly (Theorems 1 and 4), of several at least that of the worst corner.

        At most what kernels that change in time within Θ lose (docs/theory-world.md, Theorems 16 and 17).
        """
        one_chain = largest(
            [
                tilts[favoured] + self._side(chain, favoured, before) + self._side(chain, favoured, after)
                for chain in self._corners
                for favoured in (0, 1)
            ]
        )
        if not self._several:
            return one_chain
        if len(self._corners) == 2 or self._corners[0].alternates:
            return Interval(one_chain.low, self._alternating(tilts, before, after))
        return Interval(one_chain.low, max(self._changing(state, tilts, before, after) for state in (0, 1)))

    def _side(self, chain: TwoStateChain, favoured: int, stretches: tuple[Stretch, ...]) -> Interval:
        side = informed_side if self._informed else prior_side
        return side(chain, favoured, stretches)

    def _changing(
        self, state: int, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]
    ) -> Decimal:
        """The largest loss in favour of a state, where no chain of Θ has q + r > 1."""
        steepest = max((one.tilts[state].high for one in (*before, *after)), default=Decimal(0))
        left, right = self._sides(state, steepest)
        later = self._side(self._corners[0], state, after).high if right is None else right.says(after, state)
        return UP.add(UP.add(tilts[state].high, left.says(before, state)), later)

    def _changing_sides(self, state: int, steepest: Decimal) -> tuple[ChangingSide, ChangingSide | None]:
        q, r = (self._q, self._r) if state == 0 else (self._r, self._q)
        if self._informed:
            left = after_known(q[0], r[0], (q[1], r[0]), (q[0], r[1]))
            right = after_known(q[0], r[0], (q[0], r[0]), (q[0], r[0]))
            return ChangingSide(left, steepest), ChangingSide(right, steepest)
        odds = Interval((exact(r[0]) / exact(q[1])).low, (exact(r[1]) / exact(q[0])).high)
        # The future is that of the slowest chain.
        return ChangingSide(confined(q[0], r[0], odds), steepest), None

    def _alternating(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Decimal:
        """The same where some have: nothing is assumed of the odds, and the larger tilt counts for both states."""
        side = self._any_odds()
        tau = max(one.high for one in tilts)
        return UP.add(UP.add(tau, side.says(before, None)), side.says(after, None))

    def _side_of_any_odds(self) -> ChangingSide:
        slowest = min(self._corners, key=lambda chain: Step(chain.q, chain.r, None).alpha)
        return ChangingSide(anywhere(slowest.q, slowest.r), Decimal(0))


def tilts_of_flips(noise: dict[str, Any]) -> Tilts:
    """The tilts of a bit that is flipped with probabilities ρ0 and ρ1: ln (1−ρ0)/ρ1 and ln (1−ρ1)/ρ0 (section 2)."""
    rho0, rho1 = exact(noise["rho0"]), exact(noise["rho1"])
    return Tilts(ln((ONE - rho0) / rho1), ln((ONE - rho1) / rho0))


def through_flips(noise: dict[str, Any], tilt: Interval) -> Tilts:
    """The tilts on true states of what tilts the flipped ones by w (Theorem 8), one for either direction."""
    rho0, rho1, gain = exact(noise["rho0"]), exact(noise["rho1"]), exp(tilt)
    return Tilts(
        ln(((ONE - rho0) * gain + rho0) / (rho1 * gain + (ONE - rho1))),
        ln(((ONE - rho1) * gain + rho1) / (rho0 * gain + (ONE - rho0))),
    )
