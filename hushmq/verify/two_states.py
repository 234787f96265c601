"""What a transcript says about the state at one tick of a two-state chain, from one side of that tick.

A side is a sequence of stretches of ticks by distance. The vector of the likelihoods of all that is published farther
away, given the state here, favoured state first, is carried nearer by one matrix for every tick:

    kernel · diag(m, 1),   m = e^τ towards the favoured state.

For q + r < 1 the favoured state is the same at every distance; for q + r ≥ 1 it alternates (docs/theory.md, section 4).
Products of these matrices act on the ratio C of the two entries as an increasing map, which is all that is used here:

- prior (Theorem 1): C = 1 beyond the last tilt, and the side says ln C. Beyond any distance C is at most ∞.
- informed (Theorem 4): let T be the product up to distance d, and U the same without any tilt. Who knows the state at
  distance d, C = ∞ or 0, learns ln T(C) − ln U(C).
"""

from __future__ import annotations

import heapq
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import NamedTuple

from hushmq.verify.outward import DOWN, ONE, UP, Interval, exact, exp, ln
from hushmq.verify.tilt_sequence import FOR_EVER, NO_TILT, Stretch, Tilts

ROOM = Decimal("1e-11")
"""A search ends when what it has not looked at can add no more than this to a ratio, relatively."""
NARROW = Decimal("1e-18")
"""Farther ticks are not visited when they change a ratio by less than this, relatively."""

Four = tuple[Decimal, Decimal, Decimal, Decimal]


class Matrix(NamedTuple):
    """A matrix (a, b; c, d) of numbers that are not negative: lower ends and upper ends."""

    low: Four
    high: Four

    def at_infinity(self) -> Interval:
        """The image of C = ∞: a/c."""
        return Interval(DOWN.divide(self.low[0], self.high[2]), UP.divide(self.high[0], self.low[2]))

    def at_zero(self) -> Interval:
        """The image of C = 0: b/d."""
        return Interval(DOWN.divide(self.low[1], self.high[3]), UP.divide(self.high[1], self.low[3]))

    def at(self, ratio: Decimal) -> Interval:
        """The image of C = ratio: (a·C + b)/(c·C + d)."""
        (a, b, c, d), (a2, b2, c2, d2) = self
        return Interval(
            DOWN.divide(DOWN.fma(a, ratio, b), UP.fma(c2, ratio, d2)),
            UP.divide(UP.fma(a2, ratio, b2), DOWN.fma(c, ratio, d)),
        )


_0, _1 = Decimal(0), Decimal(1)
IDENTITY = Matrix((_1, _0, _0, _1), (_1, _0, _0, _1))


def product(one: Matrix, other: Matrix) -> Matrix:
    """The product of two matrices."""
    ends = []
    for rounded, (a, b, c, d), (e, f, g, h) in ((DOWN, one.low, other.low), (UP, one.high, other.high)):
        times, fma = rounded.multiply, rounded.fma
        ends.append(
            (
                fma(a, e, times(b, g)),
                fma(a, f, times(b, h)),
                fma(c, e, times(d, g)),
                fma(c, f, times(d, h)),
            )
        )
    return Matrix(*ends)


def power(one: Matrix, exponent: int) -> Matrix:
    """The product of so many equal matrices."""
    found = IDENTITY
    while exponent:
        if exponent & 1:
            found = product(found, one)
        one = product(one, one)
        exponent >>= 1
    return found


class TwoStateChain(NamedTuple):
    """q = P(0→1) and r = P(1→0)."""

    q: float | Decimal
    r: float | Decimal

    @property
    def alternates(self) -> bool:
        """Whether q + r ≥ 1, exactly."""
        return Fraction(self.q) + Fraction(self.r) >= 1

    def favoured_next(self, favoured: int) -> int:
        """The state that is favoured one tick farther away."""
        return 1 - favoured if self.alternates else favoured


@lru_cache(maxsize=100_000)
def _kernel(chain: TwoStateChain, favoured: int) -> Matrix:
    """P(here → one tick farther away), the favoured states first."""
    leave, come = (exact(chain.q), exact(chain.r)) if favoured == 0 else (exact(chain.r), exact(chain.q))
    a, b, c, d = ONE - leave, leave, come, ONE - come
    entries = (b, a, d, c) if chain.alternates else (a, b, c, d)
    return Matrix(*zip(*entries, strict=True))


@lru_cache(maxsize=100_000)
def _tick(chain: TwoStateChain, favoured: int, tilts: Tilts) -> Matrix:
    """The matrix of one tick: favoured is the state that it is carried to."""
    there = chain.favoured_next(favoured)
    m = exp(tilts[there])
    k = _kernel(chain, favoured)
    return Matrix(
        (DOWN.multiply(k.low[0], m.low), k.low[1], DOWN.multiply(k.low[2], m.low), k.low[3]),
        (UP.multiply(k.high[0], m.high), k.high[1], UP.multiply(k.high[2], m.high), k.high[3]),
    )


@lru_cache(maxsize=200_000)
def _pairs(chain: TwoStateChain, favoured: int, tilts: Tilts, doublings: int) -> Matrix:
    """The matrix of 2·2^doublings ticks."""
    if doublings == 0:
        return product(_tick(chain, favoured, tilts), _tick(chain, chain.favoured_next(favoured), tilts))
    half = _pairs(chain, favoured, tilts, doublings - 1)
    return product(half, half)


def ticks_matrix(chain: TwoStateChain, favoured: int, tilts: Tilts, ticks: int) -> Matrix:
    """The matrix of so many ticks of the same tilts."""
    found, pairs, doublings = IDENTITY, ticks // 2, 0
    while pairs:
        if pairs & 1:
            found = product(found, _pairs(chain, favoured, tilts, doublings))
        pairs >>= 1
        doublings += 1
    # A pair of ticks ends with the state favoured that it began with.
    return product(found, _tick(chain, favoured, tilts)) if ticks & 1 else found


@lru_cache(maxsize=20_000)
def prior_side(chain: TwoStateChain, favoured: int, stretches: tuple[Stretch, ...]) -> Interval:
    """What one side tells an adversary who knows nothing but the chain (Theorem 1)."""
    through = IDENTITY
    for stretch in stretches:
        through = product(through, ticks_matrix(chain, favoured, stretch.tilts, stretch.length))
        if stretch.length % 2:
            favoured = chain.favoured_next(favoured)
        # Tilts only raise C, which is 1 without them and at most infinite.
        within = Interval(through.at(_1).low, through.at_infinity().high)
        if within.high <= UP.multiply(within.low, _1 + NARROW):
            return ln(within)
    return ln(through.at(_1))


class _Walk:
    """The products T and U up to any distance along one side."""

    def __init__(self, chain: TwoStateChain, favoured: int, stretches: tuple[Stretch, ...]) -> None:
        self._chain, self._favoured = chain, favoured
        self._parts: list[tuple[int, int, Tilts, Matrix]] = []
        distance, through, here = 0, IDENTITY, favoured
        for stretch in (*stretches, Stretch(FOR_EVER, NO_TILT)):
            self._parts.append((distance, here, stretch.tilts, through))
            through = product(through, ticks_matrix(chain, here, stretch.tilts, stretch.length))
            distance += stretch.length
            here = chain.favoured_next(here) if stretch.length % 2 else here

    def tilted(self, distance: int) -> Matrix:
        """T: the ticks up to `distance`, with their tilts."""
        start, here, tilts, before = next(part for part in reversed(self._parts) if part[0] < distance)
        return product(before, ticks_matrix(self._chain, here, tilts, distance - start))

    def untilted(self, distance: int) -> Matrix:
        """U: the chain alone."""
        return ticks_matrix(self._chain, self._favoured, NO_TILT, distance)


@lru_cache(maxsize=20_000)
def informed_side(chain: TwoStateChain, favoured: int, stretches: tuple[Stretch, ...]) -> Interval:
    """What one side tells an adversary who knows the state at any one distance (Theorem 4).

    From ∞ both T and U fall with distance, and from 0 both rise. So no favoured state at distances first … last says
    more than T(∞) at `first` against U(∞) at `last`, no other one more than T(0) at `last` against U(0) at `first`, and
    nothing farther than `last` more than T(∞) against U(0) there. The distances are split until this decides.
    """
    walk = _Walk(chain, favoured, stretches)

    @cache
    def ends(distance: int) -> tuple[Interval, Interval, Interval, Interval]:
        """T(∞), U(∞), T(0), U(0) at a distance."""
        tilted, untilted = walk.tilted(distance), walk.untilted(distance)
        return tilted.at_infinity(), untilted.at_infinity(), tilted.at_zero(), untilted.at_zero()

    def most(first: int, last: int) -> Decimal:
        near, far = ends(first), ends(last)
        return max(UP.divide(near[0].high, far[1].low), UP.divide(far[2].high, near[3].low))

    found = exp(prior_side(chain, favoured, stretches)).low
    first = 1
    groups: list[tuple[Decimal, int, int]] = []
    while True:
        last = 2 * first - 1
        heapq.heappush(groups, (most(first, last).copy_negate(), first, last))
        near = ends(last + 1)
        found = max(found, DOWN.divide(near[0].low, near[1].high), DOWN.divide(near[2].low, near[3].high))
        rest = UP.divide(near[0].high, near[3].low)
        first = last + 1
        if rest <= UP.multiply(found, _1 + ROOM) or first >= FOR_EVER // 4:
            break
    proved = rest
    while groups and groups[0][0].copy_negate() > UP.multiply(found, _1 + ROOM):
        bound, first, last = heapq.heappop(groups)
        if first < last:
            middle = (first + last) // 2
            for low, high in ((first, middle), (middle + 1, last)):
                heapq.heappush(groups, (max(bound, most(low, high).copy_negate()), low, high))
            continue
        here = ends(first)
        found = max(found, DOWN.divide(here[0].low, here[1].high), DOWN.divide(here[2].low, here[3].high))
        proved = max(proved, UP.divide(here[0].high, here[1].low), UP.divide(here[2].high, here[3].low))
    left = [groups[0][0].copy_negate()] if groups else []
    return ln(Interval(found, max(found, proved, *left)))
