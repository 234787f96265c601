"""What one side of a tick says at most, where every step may have another kernel of Θ (docs/theory-world.md, W6).

Let p be the odds of the favoured state that the adversary expects, and X the factor by which the outputs on this side
have changed them. A tilt raises X to D = m·X, and a step of the chain (q, r) leads to

    f(p·D)/f(p),   f(p) = ((1−q)·p + r)/(q·p + 1−r),

which falls in q and r (Lemma 6), so the least ones of Θ are taken. It is largest at p = s/√D, s² = r(1−r)/(q(1−q)),
where it is ((√D + α)/(1 + α√D))², α² = qr/((1−q)(1−r)); where p is confined, at the nearest end. Everything is rounded
up.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from typing import NamedTuple

from hushmq.verify.outward import DOWN, ONE, UP, Interval, exact, exp, ln
from hushmq.verify.tilt_sequence import Stretch
from hushmq.verify.two_states import Matrix, power

PATIENCE = 20_000
"""Ticks of one run that are visited one by one before the fixed point bounds the rest."""
AT_REST = Decimal("1e-14")
MOST_PHASES = 400

_1 = Decimal(1)


class Step:
    """The largest step of X for the chain (q, r), where the expected odds lie between two bounds; None: anywhere."""

    def __init__(self, q: float | Decimal, r: float | Decimal, odds: Interval | None) -> None:
        leave, come = exact(q), exact(r)
        stay, rest = ONE - leave, ONE - come
        self.alpha = DOWN.sqrt(((leave * come) / (stay * rest)).low)
        if self.alpha > 1:
            self.alpha = DOWN.divide(_1, UP.sqrt(((leave * come) / (stay * rest)).high))
        self._worst = (come * rest) / (leave * stay)
        """s²."""
        self._ends = []
        for end in () if odds is None else odds:
            p = exact(end)
            # f(p·D)/f(p) = (a·D + b)/(c·D + d)
            to, away = stay * p + come, leave * p + rest
            self._ends.append((p, stay * p * away, come * away, leave * p * to, rest * to))

    def __call__(self, D: Decimal) -> Decimal:
        for place, (p, a, b, c, d) in enumerate(self._ends):
            low, high = (
                DOWN.multiply(DOWN.multiply(p.low, p.low), D),
                UP.multiply(UP.multiply(p.high, p.high), D),
            )
            # The worst odds lie below the lower end, or above the upper one.
            if low >= self._worst.high if place == 0 else high <= self._worst.low:
                return UP.divide(UP.fma(a.high, D, b.high), DOWN.fma(c.low, D, d.low))
        root = UP.sqrt(D)
        ratio = UP.divide(UP.add(root, self.alpha), DOWN.fma(self.alpha, root, _1))
        return UP.multiply(ratio, ratio)


class Phase(NamedTuple):
    """From so many ticks after what is known on, X moves by a step; until then it was at most `level`."""

    level: Decimal
    step: Step


class ChangingSide:
    """One side. `phases` are the steps by the ticks since the nearest known state; one where none is known."""

    def __init__(self, phases: Iterable[tuple[int, Step]], largest_tilt: Decimal) -> None:
        coming = iter(phases)
        begun, first = next(coming)
        self._phases = [Phase(_1, first)]
        self._most = UP.divide(_1, DOWN.multiply(first.alpha, first.alpha))
        m = exp(exact(largest_tilt)).high
        for ticks, step in coming:
            level, last = self._phases[-1].level, self._phases[-1].step
            for _ in range(ticks - begun):
                level = last(UP.multiply(m, level))
            self._phases.append(Phase(level, step))
            begun = ticks
            if step(UP.multiply(m, level)) <= level * (1 + AT_REST):
                break  # it rises no further: any number of phases gives a bound
        self._fixed = cache(self._fixed_point)
        self.says = cache(self._says)

    def _says(self, stretches: tuple[Stretch, ...], favoured: int | None) -> Decimal:
        """Ln X next to these stretches, from the farthest inwards; towards both states for a favoured None."""
        X = _1
        for stretch in reversed(stretches):
            tilts = stretch.tilts
            tau = max(one.high for one in tilts) if favoured is None else tilts[favoured].high
            X = self._after(X, exp(exact(tau)).high, stretch.length)
        return ln(exact(X)).high

    def _step(self, D: Decimal) -> Decimal:
        """Theorem 17: the largest over phases of the least of their step and the level of the next.

        Steps fall from phase to phase and levels rise, so it is decided where they cross.
        """
        low, high = 0, len(self._phases) - 1
        while low < high:
            middle = (low + high) // 2
            if self._phases[middle].step(D) <= self._phases[middle + 1].level:
                high = middle
            else:
                low = middle + 1
        return max(self._phases[low].level if low else _1, self._phases[low].step(D))

    def _after(self, X: Decimal, m: Decimal, ticks: int) -> Decimal:
        """X after a run: its map is increasing, so that what is above the fixed point stays above it, and falls."""
        for visited in range(ticks):
            new = self._step(UP.multiply(m, X))
            rests = abs(new - X) <= AT_REST * X
            X = new
            if rests or visited == PATIENCE:
                return max(X, self._fixed(m)) if m > 1 or not rests else X
        return X

    def _fixed_point(self, m: Decimal) -> Decimal:
        """A point from which no step leads up."""
        low, high = _1, self._most
        while high > UP.multiply(low, _1 + AT_REST):
            middle = UP.multiply(UP.add(low, high), Decimal("0.5"))
            low, high = (low, middle) if self._step(UP.multiply(m, middle)) <= middle else (middle, high)
        return high


Phases = Iterable[tuple[int, Step]]


def confined(q: float, r: float, odds: Interval) -> Phases:
    """One phase: nothing is known, and the expected odds stay between two bounds."""
    return [(0, Step(q, r, odds))]


def anywhere(q: float | Decimal, r: float | Decimal) -> Phases:
    """One phase: nothing is assumed about the expected odds."""
    return [(0, Step(q, r, None))]


def after_known(q: float, r: float, lowest: tuple[float, float], highest: tuple[float, float]) -> Phases:
    """Phases after a known state: where the kernels that move the odds most have led them, from 0 and from ∞.

    Any numbers of ticks give a bound, and more of them a closer one. These are each a tenth longer than the one before,
    with those among them that are each a third longer.
    """
    yield 0, Step(q, r, None)
    ticks = third = 1
    for _ in range(MOST_PHASES):
        low, high = (
            power(_odds_step(*lowest), ticks).at_zero(),
            power(_odds_step(*highest), ticks).at_infinity(),
        )
        yield ticks, Step(q, r, Interval(low.low, high.high))
        third = third if third > ticks else max(third + 1, third * 4 // 3)
        ticks = min(third, max(ticks + 1, ticks * 11 // 10))


def _odds_step(q: float, r: float) -> Matrix:
    """F as a matrix."""
    leave, come = exact(q), exact(r)
    return Matrix(*zip(*(ONE - leave, come, leave, ONE - come), strict=True))
