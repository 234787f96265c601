"""One side of a tick where some state is known, and the expected odds are confined more and more from there on.

Each phase is a number of ticks after what is known and the side from then on; phases begin later and later, with
narrower odds. Until a phase begins, the outputs say no more than after that many ticks of the largest tilt: its level.
The map is that of each phase up to the level at which the next one begins. Phases end to count once outputs of the
largest tilt say no more than the level (docs/theory-world.md, Theorem 17).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.pufferfish.mobius.changing_side import ChangingSide, Piece, pieces_between

_ROUNDED = 2.0**-46
"""Exceeds the rounding error of a step."""


@dataclass(frozen=True, slots=True)
class PhasedSide:
    """The side before all phases, at which nothing is assumed, and the phases."""

    at_first: ChangingSide
    phases: tuple[tuple[int, ChangingSide], ...]

    def up_to(self, largest_tilt: float) -> ChangingSide:
        """The side for tilts of at most this."""
        side = self.at_first
        pieces: list[Piece] = []
        begun, level, entered = 0, 0.0, 0.0
        for ticks, confined in self.phases:
            level = side.advance(largest_tilt, ticks - begun, level)
            left = side.inverse(level)
            pieces += pieces_between(side.pieces, entered, left)
            side, begun = confined, ticks
            entered = max(side.inverse(level), left)
            pieces.append(Piece(entered, None, level))
            if side.next_said(level + largest_tilt) <= level:
                break
        return ChangingSide(pieces + pieces_between(side.pieces, entered, math.inf))

    def endless(self, tau: float) -> float:
        """What outputs say that go on for ever with tilt τ: as `up_to(τ).endless(τ)`, without its pieces.

        They stay at the first level which the phase that begins there does not raise. Where it can hardly be told
        whether it does, what they say in this phase for ever is a bound too.
        """
        side, begun, level = self.at_first, 0, 0.0
        for ticks, confined in self.phases:
            level = side.advance(tau, ticks - begun, level)
            if confined.next_said(level + tau) <= level + _ROUNDED:
                return max(level, confined.endless(tau))
            side, begun = confined, ticks
        return side.endless(tau)
