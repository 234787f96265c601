"""One side of a tick, where every step may have another kernel of Θ (docs/theory-world.md, Theorems 16 and 17).

Let p be the odds of the two states that the adversary expects at an instant, and o the odds that he holds after all
outputs on this side; x = log(o/p) is what the outputs say. A tilt raises x to Δ = x + τ, and one step of the chain maps

    Δ → log f(p·e^Δ) − log f(p),   f(p) = ((1−q)p + r)/(qp + 1−r).

This falls in q and in r, so the least q and r of Θ are the worst kernel. In p it is largest where p·e^(Δ/2) is
√(r(1−r)/(q(1−q))): there the step is 2·log((e^(Δ/2) + α)/(1 + α·e^(Δ/2))) with α² = qr/((1−q)(1−r)), which is the step
of a symmetric chain on half the tilt. If p is confined to an interval, the worst p is the nearest end of it; with
p given, the step is that of a chain with other q and r. So the largest step is in pieces a Möbius map of e^x or of
e^(x/2), and a run of any length costs a few evaluations.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from hushmq.pufferfish.mobius.ratio_orbit import Orbit, orbit_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Pieces are passed in order; what goes back and forth after this many differs by rounding alone.
_MAX_PIECES = 256

# Pieces for one tilt that are remembered at most, by a side that is asked about the same tilts again.
_KEPT = 16_384

# With a larger one nothing changes in double precision.
_LARGEST_EXPONENT = 600.0

LARGEST_ALPHA = 1.0 - 2.0**-30
"""α of a chain with less correlation; a smaller α only raises the bounds."""


class Kernel(NamedTuple):
    """A chain whose step, applied to e^(x/share), is the largest step of x."""

    q: float
    r: float
    share: int

    def image(self, ratio: float) -> float:
        """What a step maps e^(Δ/share) to."""
        if ratio == math.inf:
            return (1.0 - self.q) / self.r
        return ((1.0 - self.q) * ratio + self.q) / (self.r * ratio + 1.0 - self.r)

    def inverse(self, x: float) -> float:
        """The Δ that a step maps to x; infinite if every Δ stays below."""
        ratio = math.exp(x / self.share)
        above, below = (1.0 - self.r) * ratio - self.q, (1.0 - self.q) - self.r * ratio
        return self.share * math.log(above / below) if below > 0.0 else math.inf


class Piece(NamedTuple):
    """The map up to Δ = `upper`: a step of a kernel, or the constant `level`."""

    upper: float
    kernel: Kernel | None
    level: float = 0.0


class _Leg(NamedTuple):
    """A piece for one tilt."""

    low: float
    upper: float
    orbit: Orbit | None
    share: int
    level: float

    def advance(self, ticks: int, x: float) -> float:
        """The image of x after some ticks, all of them in this piece."""
        if self.orbit is None:
            return self.level
        return self.share * math.log(self.orbit.advance(ticks, math.exp(x / self.share)))

    @property
    def fixed_point(self) -> float:
        return self.level if self.orbit is None else self.share * math.log(self.orbit.fixed_point)

    def leaves(self, ticks: int, x: float, tau: float) -> int | None:
        """The first tick at which x is in another piece, before these have passed; None if there is none."""

        def inside(tick: int) -> bool:
            return self.low < self.advance(tick, x) + tau <= self.upper

        if ticks <= 1 or inside(ticks - 1):
            return None  # the orbit is monotone
        if self.orbit is None:
            return 1
        # (y−C∞)/(y−C₋) is multiplied by μ at each tick: the tick is known up to rounding.
        edge = self.upper if self.orbit.advance(1, y := math.exp(x / self.share)) > y else self.low
        last = ticks - 1
        guess = self.orbit.ticks_between(y, math.exp((edge - tau) / self.share))
        near = min(max(int(min(guess, float(last))), 1), last)
        step = 1
        if inside(near):
            stays = near
            while near < last and inside(near := min(near + step, last)):
                stays, step = near, 2 * step
            leaves = near
        else:
            leaves = near
            while near > 0 and not inside(near := max(near - step, 0)):
                leaves, step = near, 2 * step
            stays = near
        while leaves - stays > 1:
            middle = (stays + leaves) // 2
            stays, leaves = (middle, leaves) if inside(middle) else (stays, middle)
        return leaves


class RunPath:
    """What the outputs say along a run: where it enters each piece, and what they say there."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.values: list[float] = []
        self.legs: list[_Leg] = []

    def at(self, tick: int) -> float:
        """What they say after so many ticks of the run."""
        place = max(bisect_right(self.offsets, tick) - 1, 0)
        passed = tick - self.offsets[place]
        return self.legs[place].advance(passed, self.values[place]) if passed else self.values[place]


def alpha_of(q: float, r: float) -> float:
    """√(qr/((1−q)(1−r))), or its inverse if that is above 1: how much a step of the chain forgets."""
    alpha = math.sqrt(q / (1.0 - q) * r / (1.0 - r))
    return min(alpha, 1.0 / alpha, LARGEST_ALPHA)


def unconfined(alpha: float) -> Kernel:
    """The worst step if nothing is assumed about the expected odds."""
    return Kernel(alpha / (1.0 + alpha), alpha / (1.0 + alpha), 2)


class ChangingSide:
    """What the outputs on one side of a tick say at most, favouring one state."""

    def __init__(self, pieces: list[Piece], *, kept: int = _KEPT) -> None:
        """`kept`: pieces for one tilt that are remembered at most."""
        self.pieces, self._kept = pieces, kept
        self._uppers = [piece.upper for piece in pieces]
        self._legs: dict[tuple[float, int], _Leg] = {}

    @classmethod
    def of_any_odds(cls, alpha: float, *, kept: int = _KEPT) -> ChangingSide:
        """Nothing is assumed about the expected odds."""
        return cls([Piece(math.inf, unconfined(alpha))], kept=kept)

    @classmethod
    def of_kernel(cls, q: float, r: float) -> ChangingSide:
        """The kernel is always the same, and the expected odds are its own, r/q."""
        return cls([Piece(math.inf, Kernel(q, r, 1))])

    @classmethod
    def of_odds_between(
        cls, q: float, r: float, low: float, high: float, *, kept: int = _KEPT
    ) -> ChangingSide:
        """The expected odds lie between low and high."""
        return cls(_confined(q, r, low, high), kept=kept)

    def up_to(self, most: float) -> ChangingSide:
        """The same side, without levels, where it is known from elsewhere that the outputs say no more than this."""
        end = self.inverse(most)
        if end == math.inf:
            return self
        return ChangingSide([*pieces_between(self.pieces, 0.0, end), Piece(math.inf, None, most)])

    def inverse(self, x: float) -> float:
        """The Δ that a step maps to x, on a side without levels; infinite if every Δ stays below."""
        for piece in self.pieces:
            if piece.kernel is not None and (delta := piece.kernel.inverse(x)) <= piece.upper:
                return delta
        return math.inf

    def advance(self, tau: float, ticks: int, x: float) -> float:
        """What the outputs say after a run of ticks with tilt τ, if before it they said x."""
        if ticks == 0:
            return x
        leg, most = self._leg(tau, x), _MAX_PIECES
        while (left := leg.leaves(ticks, x, tau)) is not None and most:
            x, ticks, most = leg.advance(left, x), ticks - left, most - 1
            leg = self._leg(tau, x)
        return leg.advance(ticks, x) if most else max(x, self.endless(tau))

    def next_said(self, delta: float) -> float:
        """What the step maps Δ to."""
        _, kernel, level = self.pieces[self.place_of(delta)]
        if kernel is None:
            return level
        return kernel.share * math.log(kernel.image(math.exp(min(delta / kernel.share, _LARGEST_EXPONENT))))

    def steps(self, np: ModuleType, deltas: NDArray[np.float64]) -> NDArray[np.float64]:
        """What the step maps each Δ to."""
        uppers, q, r, share, level = self._columns
        place = np.minimum(np.searchsorted(uppers, deltas), len(uppers) - 1)
        q, r, share, level = q[place], r[place], share[place], level[place]
        ratio = np.exp(np.minimum(deltas / share, _LARGEST_EXPONENT))
        image = share * np.log(((1.0 - q) * ratio + q) / (r * ratio + 1.0 - r))
        return np.where(np.isnan(level), image, level)  # type: ignore[no-any-return]  # numpy's, as the module is

    @cached_property
    def _columns(self) -> tuple[Any, ...]:
        """The pieces for numpy: where they end, the kernels, and the levels; not a number where there is none."""
        import numpy as np  # noqa: PLC0415  # whoever asks has it

        rows = [
            (upper, *(kernel or Kernel(0.5, 0.5, 1)), math.nan if kernel else level)
            for upper, kernel, level in self.pieces
        ]
        return tuple(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True))

    def path(self, tau: float, ticks: int, x: float) -> RunPath:
        """What the outputs say at each of so many ticks of a run with tilt τ, if before it they said x."""
        path, passed = RunPath(), 0
        for _ in range(_MAX_PIECES):
            leg = self._leg(tau, x)
            path.offsets.append(passed)
            path.values.append(x)
            path.legs.append(leg)
            left = leg.leaves(ticks - passed, x, tau)
            if left is None:
                return path
            x, passed = leg.advance(left, x), passed + left
        path.offsets.append(passed)
        path.values.append(held := max(x, self.endless(tau)))
        path.legs.append(_Leg(-math.inf, math.inf, None, 1, held))
        return path

    def endless(self, tau: float) -> float:
        """What the outputs say if they go on for ever with tilt τ: the fixed point."""
        if tau == 0.0:
            return 0.0
        # Above the fixed point the map lies below the identity.
        places = range(len(self.pieces))
        place = bisect_left(places, True, key=lambda one: _beyond_fixed_point(self._at(tau, one), tau))
        return max(self._at(tau, min(place, len(places) - 1)).fixed_point, 0.0)

    def _leg(self, tau: float, x: float) -> _Leg:
        """The piece that x is in."""
        return self._at(tau, self.place_of(x + tau))

    def place_of(self, delta: float) -> int:
        """The number of the piece that Δ is in."""
        return min(bisect_left(self._uppers, delta), len(self._uppers) - 1)

    def _at(self, tau: float, place: int) -> _Leg:
        found = self._legs.get((tau, place))
        if found is None:
            if len(self._legs) >= self._kept:
                self._legs.clear()
            upper, kernel, level = self.pieces[place]
            low = self._uppers[place - 1] if place else -math.inf
            orbit = None if kernel is None else orbit_of(kernel.q, kernel.r, tau / kernel.share)
            found = self._legs[tau, place] = _Leg(low, upper, orbit, kernel.share if kernel else 1, level)
        return found


def pieces_between(pieces: list[Piece], low: float, high: float) -> list[Piece]:
    """The part of the map between two Δ."""
    found = []
    for piece in pieces:
        if low < min(piece.upper, high):
            found.append(piece._replace(upper=min(piece.upper, high)))
            low = found[-1].upper
    return found


def _beyond_fixed_point(leg: _Leg, tau: float) -> bool:
    """Whether the upper end of the piece lies beyond the fixed point."""
    end = leg.upper - tau
    return end == math.inf or (end >= 0.0 and leg.advance(1, end) <= end)


def _confined(q: float, r: float, low: float, high: float) -> list[Piece]:
    """The largest step if the expected odds lie between low and high: at the nearest of them to the worst."""
    star = 0.5 * (math.log(r / q) + math.log1p(-r) - math.log1p(-q))
    pieces = [Piece(math.inf, _given(q, r, low))]
    if low < high:
        if math.log(low) < star:
            pieces.insert(0, Piece(2.0 * (star - math.log(low)), unconfined(alpha_of(q, r))))
        if math.log(high) < star:
            pieces.insert(0, Piece(2.0 * (star - math.log(high)), _given(q, r, high)))
    return pieces


def _given(q: float, r: float, odds: float) -> Kernel:
    """The step if the expected odds are known."""
    return Kernel(r / ((1.0 - q) * odds + r), q * odds / (q * odds + 1.0 - r), 1)
