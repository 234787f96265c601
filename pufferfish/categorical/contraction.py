"""Certified losses for every chain of a categorical Θ: the tilted quilt with one number per side.

Let ℓ be a transcript's likelihood as a function of the states after an instant, and let changing one of them change ℓ
by at most e^τ. R bounds log E[ℓ | X=x] / E[ℓ | X=y] for all x, y. A step of h instants skips h−1 of them, which costs
their tilts. The remaining function g(u) = E[ℓ | X_{t+h}=u] varies by at most e^D with D = τ + R, and the worst such g
takes two values, one on a set S and one off it. With rows a, b of P^h and λ = e^R this requires

    (1 + (e^D − 1)·a(S)) ≤ λ·(1 + (e^D − 1)·b(S)) for all S,   that is   c(λ)·(e^D − 1) ≤ λ − 1,
    c(λ) = max_{x≠y, S} [a(S) − λ·b(S)].

pufferfish/categorical/set_excess.py bounds c for rows within intervals (docs/theory-k.md, Theorem 8).

R is *certified* for tilt τ and h hops if c_h(λ)·(e^{τ+R} − 1) ≤ λ − 1 with λ = e^{R−(h−1)τ}. The past is the future of
the time reversal, so the loss at an instant is at most τ + R_left + R_right against the *prior* adversary, for every
mechanism with these tilts, adaptive or not. A `Certificate` holds these numbers, so that a device verifies them without
searching.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import permutations

from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.set_excess import largest_set_excess, set_excess_within
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals

HOPS = (1, 2, 4, 8, 16)
"""The lengths h of a step, in instants."""

HIGHEST = 30.0
"""The largest R that is searched for; beyond it, rounding errors dominate e^R."""

_GRID = [0.0, *(1e-7 * 1.06**n for n in range(1000) if 1e-7 * 1.06**n < math.exp(HIGHEST))]
"""The values of λ − 1 at which c is tabulated; c is convex, so between two of them it lies below their chord."""

_STRIDE = 64
"""Grid points between two evaluations of all pairs of states."""

_ROUNDING = 2.0**-48

CERTIFICATE_MARGIN = 1e-9
"""Relative margin added to a certificate's R, so that it verifies under another machine's rounding."""


def pairs(intervals: TransitionIntervals) -> list[tuple[tuple[Row, Row], tuple[Row, Row]]]:
    """The bounds on the rows of every ordered pair of states."""
    rows = list(zip(intervals.low, intervals.high, strict=True))
    return list(permutations(rows, 2))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A tilt τ and, for either side, the length h of the step and the bound R that it certifies."""

    tau: float
    left: tuple[int, float]
    right: tuple[int, float]

    @property
    def loss(self) -> float:
        """The claimed loss, τ + R_left + R_right; `certified_loss` verifies it."""
        return math.nextafter(self.tau + self.left[1] + self.right[1], math.inf)


def certified_loss(theta: CategoricalTheta, certificate: Certificate) -> float:
    """The loss that the certificate proves for every chain of Θ; ValueError if it does not prove it."""
    tau = certificate.tau
    if not 0.0 < tau < HIGHEST:
        raise ValueError(f"tau is {tau:g}; a certified tilt lies between 0 and {HIGHEST:g}")
    for name, intervals, (hops, R) in (
        ("left", theta.backward, certificate.left),
        ("right", theta.forward, certificate.right),
    ):
        if hops not in HOPS:
            raise ValueError(f"{name}: {hops} hops; a step has one of {HOPS}")
        if not (hops - 1) * tau <= R < HIGHEST:
            raise ValueError(f"{name}: R is {R:g}; it must lie between the tilts skipped and {HIGHEST:g}")
        step = R - (hops - 1) * tau
        lam, allowed = math.exp(step), math.expm1(step) / math.expm1(tau + R)
        if not all(set_excess_within(a, b, lam, allowed) for a, b in pairs(intervals.power(hops))):
            raise ValueError(f"{name}: R = {R:g} is not proved for some pair of states")
    return certificate.loss


class ContractionTable:
    """Upper bounds on c(λ) of one interval matrix at the points of a grid of λ, computed on first use."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._pairs = pairs(intervals)
        self._bounds: list[list[float]] = []
        self._known: dict[int, float] = {}

    def _c(self, place: int) -> float:
        """Upper bound on c(1 + _GRID[place]); it does not depend on the order of queries."""
        if place not in self._known:
            self._known[place] = max(self._refined(self._bounds_at(place // _STRIDE), place))
        return self._known[place]

    def _bounds_at(self, number: int) -> list[float]:
        """Upper bounds on c of every pair, valid from grid point `number`·_STRIDE on."""
        while len(self._bounds) <= number:
            before = self._bounds[-1] if self._bounds else [math.inf] * len(self._pairs)
            self._bounds.append(self._refined(before, len(self._bounds) * _STRIDE))
        return self._bounds[number]

    def _refined(self, bounds: list[float], place: int) -> list[float]:
        """Bounds at this grid point from bounds at an earlier one: c falls in λ, so only the largest are recomputed."""
        refined, best = list(bounds), 0.0
        for n in sorted(range(len(bounds)), key=bounds.__getitem__, reverse=True):
            if bounds[n] <= best:
                break
            refined[n] = min(bounds[n], largest_set_excess(*self._pairs[n], 1.0 + _GRID[place]))
            best = max(best, refined[n])
        return refined

    def step(self, D: float) -> float:
        """The R that one step of this length certifies from D, at most D."""
        if D <= 0.0:
            return 0.0
        if D > 2 * HIGHEST:
            return D
        gain = math.expm1(D)
        place = bisect_left(
            range(len(_GRID)), True, key=partial(self._satisfied, gain)
        )  # False … False True … True: the gap grows and c falls
        if place == len(_GRID):
            # Beyond the grid c is at most its last value.
            return min(D, math.log1p(self._c(place - 1) * gain) * (1 + _ROUNDING))
        gap, c = _GRID[place], self._c(place)
        if place > 0:
            # On the chord c0 + s·(gap − gap0): the least gap with c·gain ≤ gap.
            gap0, c0 = _GRID[place - 1], self._c(place - 1)
            fall = (c0 - c) / (gap - gap0)
            gap = min(gap, gain * (c0 + fall * gap0) / (1.0 + gain * fall) * (1 + _ROUNDING))
        return min(D, math.log1p(gap) * (1 + _ROUNDING))

    def _satisfied(self, gain: float, place: int) -> bool:
        return self._c(place) * gain <= _GRID[place]


class ContractionSide:
    """One side of a stream: the steps of all lengths, and the R of endless constant tilts."""

    def __init__(self, intervals: TransitionIntervals) -> None:
        self._intervals = intervals

    @cached_property
    def tables(self) -> dict[int, ContractionTable]:
        """The contraction of each step, by its length."""
        return {hops: ContractionTable(self._intervals.power(hops)) for hops in HOPS}

    @cached_property
    def useful_tables(self) -> dict[int, ContractionTable]:
        """The same without the lengths that are never the best."""
        best = {self.endless_bound(tau)[0] for tau in (1e-3, 1e-2, 0.1, 0.5, 2.0)}
        return {hops: table for hops, table in self.tables.items() if hops in best}

    def endless_bound(self, tau: float) -> tuple[int, float]:
        """The best step length and the R it certifies for an endless constant tilt; infinite if none does."""
        best, least = HOPS[0], math.inf
        for hops, table in self.tables.items():
            # Skip a length that does not certify the best R so far.
            if math.isinf(least) or ((hops - 1) * tau < least and _certifies(table, hops, tau, least)):
                R = _least_certified(table, hops, tau)
                best, least = (hops, R) if least > R else (best, least)
        return best, least * (1 + CERTIFICATE_MARGIN)


def _certifies(table: ContractionTable, hops: int, tau: float, R: float) -> bool:
    """Whether (h−1)·τ + step(τ + R) ≤ R."""
    return (hops - 1) * tau + table.step(tau + R) <= R


def _least_certified(table: ContractionTable, hops: int, tau: float) -> float:
    """The least certified R, by bisection: a step's bound grows more slowly than D."""
    skipped = (hops - 1) * tau
    # For large R rounding errors hide a certificate, so the bracket is searched from below.
    low, high = skipped, skipped + tau
    while not _certifies(table, hops, tau, high):
        low, high = high, skipped + 2 * (high - skipped)
        if high > HIGHEST:
            return math.inf
    _, high = bisection(lambda R: not _certifies(table, hops, tau, R), low, high, relative=1e-12)
    return high


@lru_cache(maxsize=4)
def contraction_sides(theta: CategoricalTheta) -> tuple[ContractionSide, ContractionSide]:
    """The past and the future of Θ; cached, because callers ask for several tilts of one Θ in a row."""
    return ContractionSide(theta.backward), ContractionSide(theta.forward)


def certificate_for(theta: CategoricalTheta, tau: float) -> Certificate:
    """A certificate for a tilt; ValueError if no step certifies one."""
    return _certificate(*contraction_sides(theta), tau)


def _certificate(left: ContractionSide, right: ContractionSide, tau: float) -> Certificate:
    refined = Certificate(tau, left.endless_bound(tau), right.endless_bound(tau))
    if not math.isfinite(refined.loss):
        raise ValueError(f"nothing can be proved for a tilt of {tau:g}: chains of Θ may forget too slowly")
    return refined


def largest_tilt(theta: CategoricalTheta, epsilon: float) -> Certificate:
    """The certificate of the largest tilt with a certified loss of at most ε; ValueError if there is none."""
    left, right = contraction_sides(theta)

    def within(tau: float) -> bool:
        if tau < 1e-12 * epsilon:
            raise ValueError(f"no tilt has a loss within {epsilon:g}: chains of Θ may forget too slowly")
        return tau + left.endless_bound(tau)[1] + right.endless_bound(tau)[1] < epsilon * (1 - 4 * _ROUNDING)

    tau, _ = bisection(within, 0.0, epsilon, relative=1e-9)
    return _certificate(left, right, tau)


TILT_MARGIN = 1e-6
"""Share of the largest tilt that `largest_tilt_within` leaves unused, for what a timeline rounds up.

Without it one of a hundred Θ of 3 to 5 states, for ε from 1 to 24, was priced over ε, by 1e-15; with a share of 1e-8
none was. How long a timeline takes does not depend on it: for 73 Θ together 6.4 to 6.5 s, from 0 to 1e-4.
"""


@lru_cache(maxsize=1024)
def largest_tilt_within(theta: CategoricalTheta, epsilon: float) -> float:
    """All but TILT_MARGIN of the largest tilt whose loss is proved to be within ε; 0 where there is none."""
    try:
        return largest_tilt(theta, epsilon).tau * (1 - TILT_MARGIN)
    except ValueError:
        return 0.0


@lru_cache(maxsize=65_536)
def constant_loss(theta: CategoricalTheta, tau: float) -> float:
    """The loss that is proved for the tilt τ at every tick for ever; infinite where Θ forgets too slowly."""
    try:
        return certificate_for(theta, tau).loss if tau > 0 else 0.0
    except ValueError:
        return math.inf
