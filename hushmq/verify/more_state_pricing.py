"""Prices ticks of a stream of more than two states, and the certificates that come with its settings."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any

from hushmq.verify.more_states import MOST_STATES, Bounds, Side
from hushmq.verify.outward import ONE, UP, ZERO, Interval, exact, exp, largest, ln
from hushmq.verify.tilt_sequence import Stretch, Tilts


class MoreStates:
    """Θ of more than two states: bounds on the transitions of the chain, and of the chain reversed in time."""

    def __init__(self, theta: dict[str, Any]) -> None:
        if len(theta["low"]) > MOST_STATES:
            raise NotImplementedError(
                f"{len(theta['low'])} states: sets of up to {MOST_STATES} are enumerated"
            )
        if theta.get("backward") is None:
            raise NotImplementedError("a Θ without bounds on the reversed chain")
        self._left, self._right = Side(Bounds.of(theta["backward"])), Side(Bounds.of(theta))

    def loss(self, tilts: Tilts, before: tuple[Stretch, ...], after: tuple[Stretch, ...]) -> Interval:
        """τ + R on the left + R on the right, at most; at least τ, which every mechanism of this tilt may lose."""
        tau = tilts.towards0
        return Interval(tau.low, UP.add(UP.add(tau.high, self._left.bound(before)), self._right.bound(after)))

    def proved_by(self, certificate: dict[str, Any]) -> Decimal | None:
        """The loss that a setting's certificate proves for its tilt, rounded up; None if it proves nothing."""
        tau, total = Decimal(certificate["tau"]), Decimal(certificate["tau"])
        for side, claim in ((self._left, certificate["left"]), (self._right, certificate["right"])):
            R = Decimal(claim["bound"])
            if not 1 <= claim["hops"] <= 64 or not side.certifies(claim["hops"], tau, R):
                return None
            total = UP.add(total, R)
        return total


def tilt_of_emission(emission: list[list[float]]) -> Tilts:
    """The largest ln B[u][z]/B[v][z] (docs/theory-k.md)."""
    columns = list(zip(*emission, strict=True))
    tau = ln(largest([exact(max(column)) / exact(min(column)) for column in columns]))
    return Tilts(tau, tau)


@lru_cache(maxsize=10_000)
def through_emission(rows: tuple[tuple[float, ...], ...], tilt: Interval) -> Tilts:
    """The tilt on true states of what tilts the published ones by w (docs/theory-k.md, Theorem 9).

    The best set of outputs is a prefix of them in the order of B[u]/B[v].
    """
    gain, found = exp(tilt) - ONE, [ONE]
    for a, b in permutations(sorted(set(rows)), 2):
        over, under = ONE, ONE
        for z in sorted(range(len(a)), key=lambda z: Fraction(a[z]) / Fraction(b[z]), reverse=True):
            over, under = over + gain * exact(a[z]), under + gain * exact(b[z])
            found.append(over / under)
    tau = ln(largest(found)) if tilt != ZERO else ZERO
    return Tilts(tau, tau)
