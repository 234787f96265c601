"""What a class of k-state chains forgets: the tilted quilt with one number per side, for all its chains at once.

Let ℓ be a transcript's likelihood as a function of the states after an instant, and let changing one of them change ℓ
by at most e^τ. R bounds log E[ℓ | X=x] / E[ℓ | X=y] for all x, y. Look h instants ahead, skipping h−1 at the price of
their tilts: what is left, g(u) = E[ℓ | X_{t+h}=u], varies by at most e^D with D = τ + R, and the worst such g takes two
values, on a set S and off it. With rows a, b of P^h and λ = e^R that leaves

    (1 + (e^D − 1)·a(S)) ≤ λ·(1 + (e^D − 1)·b(S)) for all S,   that is   c(λ)·(e^D − 1) ≤ λ − 1,
    c(λ) = max_{x≠y, S} [a(S) − λ·b(S)].

For a class, a(S) is at most min(Σ_S a⁺, 1 − Σ_{not S} a⁻), and b(S) at least max(Σ_S b⁻, 1 − Σ_{not S} b⁺). Mixing the
two bounds of a with weights θ, 1−θ and those of b with φ, 1−φ makes the maximum over S a sum of positive parts; any θ
and φ give a valid bound, and the best are looked for (docs/theory-k.md, Theorem 8).

R is *certified* for tilt τ and hops h if c_h(λ)·(e^{τ+R} − 1) ≤ λ − 1 with λ = e^{R−(h−1)τ}. The past is the future of
the time reversal, so the loss at an instant is at most τ + R_left + R_right: against the *prior* adversary, for every
mechanism with these tilts, adaptive or not. A `Certificate` holds these numbers; a device checks it and does not
search.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import permutations

from hushmq.pufferfish.categorical.transition_intervals import Class, Intervals, Row

HOPS = (1, 2, 4, 8, 16)
"""How far ahead a step may look."""

HIGHEST = 30.0
"""No R beyond is looked for: its exponential drowns in rounding."""

_GRID = [0.0, *(1e-7 * 1.06**n for n in range(1000) if 1e-7 * 1.06**n < math.exp(HIGHEST))]
"""λ − 1 at which c is tabulated; c is convex, so that between two of them it lies below their chord."""

_STRIDE = 64
"""Places of the grid from one look at all pairs of states to the next."""

_ROUNDING = 2.0**-48

_ALTERNATIONS = 2
"""Times θ and φ are chosen in turn; neither choice makes the bound worse."""

SPARE = 1e-9
"""A certificate claims so much more than the search needs, relatively, so that rounding cannot undo it elsewhere."""


def overlap(above: tuple[Row, Row], below: tuple[Row, Row], lam: float) -> float:
    """At least max_S [a(S) − λ·b(S)] for all rows a within `above` and b within `below` (low, high), rounded up."""
    a_low, a_high = above
    b_low, b_high = below
    free_a, free_b = 1 - math.fsum(a_low), math.fsum(b_high) - 1
    a_width = [high - low for low, high in zip(a_low, a_high, strict=True)]
    b_width = [lam * (high - low) for low, high in zip(b_low, b_high, strict=True)]
    free_a, free_b = max(free_a, 0.0), max(free_b, 0.0)
    best = math.inf
    for start in (1.0, 0.0) if free_b else (1.0,):
        theta, phi = 0.0, start
        for _ in range(_ALTERNATIONS if free_a or free_b else 0):
            base = [a - lam * b + phi * w for a, b, w in zip(a_low, b_high, b_width, strict=True)]
            theta = _best_mix(base, a_width, free_a)
            base = [a + theta * w - lam * b for a, w, b in zip(a_low, a_width, b_high, strict=True)]
            phi = _best_mix(base, b_width, lam * free_b)
        terms = (
            a + theta * wa - lam * b + phi * wb
            for a, wa, b, wb in zip(a_low, a_width, b_high, b_width, strict=True)
        )
        rest = (1 - theta) * free_a + lam * (1 - phi) * free_b
        slack = _ROUNDING * len(a_low) * (1.0 + lam * (1 - phi))
        best = min(best, math.fsum(term for term in terms if term > 0.0) + rest + slack)
    return best


def _best_mix(base: Sequence[float], widths: Sequence[float], free: float) -> float:
    """The t in [0, 1] at which Σ max(0, base + t·width) + (1−t)·free is least: where its slope changes sign."""
    slope = -free
    turning = []
    for start, width in zip(base, widths, strict=True):
        if width > 0.0:
            if start >= 0.0:
                slope += width
            elif start + width > 0.0:
                turning.append((-start / width, width))
    if slope >= 0.0:
        return 0.0
    for t, width in sorted(turning):
        slope += width
        if slope >= 0.0:
            return t
    return 1.0


def pairs(intervals: Intervals) -> list[tuple[tuple[Row, Row], tuple[Row, Row]]]:
    """The bounds on the rows of every ordered pair of states."""
    rows = list(zip(intervals.low, intervals.high, strict=True))
    return list(permutations(rows, 2))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A tilt τ, and for either side how many hops to look ahead (h) and what that proves (R)."""

    tau: float
    left: tuple[int, float]
    right: tuple[int, float]

    @property
    def loss(self) -> float:
        """What it claims; `certified_loss` checks it."""
        return math.nextafter(self.tau + self.left[1] + self.right[1], math.inf)


def certified_loss(theta: Class, certificate: Certificate) -> float:
    """The loss that the certificate proves for every chain of Θ; ValueError where it does not prove it."""
    tau = certificate.tau
    if not 0.0 < tau < HIGHEST:
        raise ValueError(f"tau is {tau:g}; a certified tilt lies between 0 and {HIGHEST:g}")
    for name, intervals, (hops, R) in (
        ("left", theta.backward, certificate.left),
        ("right", theta.forward, certificate.right),
    ):
        if hops not in HOPS:
            raise ValueError(f"{name}: {hops} hops; only {HOPS} are looked at")
        if not (hops - 1) * tau <= R < HIGHEST:
            raise ValueError(f"{name}: R is {R:g}; it must lie between the tilts skipped and {HIGHEST:g}")
        step = R - (hops - 1) * tau
        lam, allowed = math.exp(step), math.expm1(step) / math.expm1(tau + R)
        if any(overlap(a, b, lam) > allowed for a, b in pairs(intervals.power(hops))):
            raise ValueError(f"{name}: R = {R:g} is not proved for some pair of states")
    return certificate.loss


class Forgetting:
    """c(λ) of one interval matrix at the λ of a grid, worked out where it is asked for and kept."""

    def __init__(self, intervals: Intervals) -> None:
        self._pairs = pairs(intervals)
        self._bounds: list[list[float]] = []
        self._known: dict[int, float] = {}

    def _c(self, place: int) -> float:
        """At least c(1 + _GRID[place]), the same whatever was asked before."""
        if place not in self._known:
            self._known[place] = max(self._look(self._bounds_at(place // _STRIDE), place))
        return self._known[place]

    def _bounds_at(self, number: int) -> list[float]:
        """Bounds on c of every pair, from the place `number` strides along the grid on."""
        while len(self._bounds) <= number:
            before = self._bounds[-1] if self._bounds else [math.inf] * len(self._pairs)
            self._bounds.append(self._look(before, len(self._bounds) * _STRIDE))
        return self._bounds[number]

    def _look(self, bounds: list[float], place: int) -> list[float]:
        """Bounds at this place from those before: c of a pair only falls with λ, so only the largest need a look."""
        found, best = list(bounds), 0.0
        for n in sorted(range(len(bounds)), key=bounds.__getitem__, reverse=True):
            if bounds[n] <= best:
                break
            found[n] = min(bounds[n], overlap(*self._pairs[n], 1.0 + _GRID[place]))
            best = max(best, found[n])
        return found

    def step(self, D: float) -> float:
        """An R at least as large as what one look ahead proves from D, and never above D."""
        if D <= 0.0:
            return 0.0
        if D > 2 * HIGHEST:
            return D
        gain = math.expm1(D)
        place = bisect_left(
            range(len(_GRID)), True, key=partial(self._enough, gain)
        )  # False … False True … True: the gap grows and c falls
        if place == len(_GRID):
            # Further on c is no larger than where the grid ends.
            return min(D, math.log1p(self._c(place - 1) * gain) * (1 + _ROUNDING))
        gap, c = _GRID[place], self._c(place)
        if place > 0:
            # On the chord c0 + s·(gap − gap0), the least gap with c·gain ≤ gap.
            gap0, c0 = _GRID[place - 1], self._c(place - 1)
            fall = (c0 - c) / (gap - gap0)
            gap = min(gap, gain * (c0 + fall * gap0) / (1.0 + gain * fall) * (1 + _ROUNDING))
        return min(D, math.log1p(gap) * (1 + _ROUNDING))

    def _enough(self, gain: float, place: int) -> bool:
        return self._c(place) * gain <= _GRID[place]


class Side:
    """One side of a stream: the looks ahead that are worth it, and the R of endless constant tilts."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals

    @cached_property
    def every(self) -> dict[int, Forgetting]:
        """What each look ahead forgets, by hops."""
        return {hops: Forgetting(self._intervals.power(hops)) for hops in HOPS}

    @cached_property
    def looks(self) -> dict[int, Forgetting]:
        """By hops; those that are never the best are left out."""
        best = {self.limit(tau)[0] for tau in (1e-3, 1e-2, 0.1, 0.5, 2.0)}
        return {hops: look for hops, look in self.every.items() if hops in best}

    def limit(self, tau: float) -> tuple[int, float]:
        """Hops and R of an endless constant tilt; R is infinite where nothing is proved."""
        best, least = HOPS[0], math.inf
        for hops, look in self.every.items():
            # A look that does not prove what another one does needs no search.
            if math.isinf(least) or ((hops - 1) * tau < least and _proved(look, hops, tau, least)):
                R = _fixed(look, hops, tau)
                best, least = (hops, R) if least > R else (best, least)
        return best, least * (1 + SPARE)


def _proved(look: Forgetting, hops: int, tau: float, R: float) -> bool:
    """Whether (h−1)·τ + step(τ + R) ≤ R."""
    return (hops - 1) * tau + look.step(tau + R) <= R


def _fixed(look: Forgetting, hops: int, tau: float) -> float:
    """The least R that is proved, by bisection: a step grows less than D does."""
    skipped = (hops - 1) * tau
    # Far up rounding drowns what is proved, so the search climbs from below.
    low, high = skipped, skipped + tau
    while not _proved(look, hops, tau, high):
        low, high = high, skipped + 2 * (high - skipped)
        if high > HIGHEST:
            return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if _proved(look, hops, tau, middle) else (middle, high)
    return high


@lru_cache(maxsize=4)
def sides(theta: Class) -> tuple[Side, Side]:
    """The past and the future of a class. One class is asked about several tilts in a row, and few at a time."""
    return Side(theta.backward), Side(theta.forward)


def certificate_for(theta: Class, tau: float) -> Certificate:
    """A certificate for a tilt; ValueError where the class forgets too slowly for it."""
    return _certificate(*sides(theta), tau)


def _certificate(left: Side, right: Side, tau: float) -> Certificate:
    found = Certificate(tau, left.limit(tau), right.limit(tau))
    if not math.isfinite(found.loss):
        raise ValueError(f"nothing can be proved for a tilt of {tau:g}: chains of Θ may forget too slowly")
    return found


def largest_tilt(theta: Class, epsilon: float) -> Certificate:
    """The largest tilt whose certificate is within ε; ValueError where there is none worth having."""
    left, right = sides(theta)
    low, high = 0.0, epsilon
    while high - low > 1e-9 * high:
        tau = (low + high) / 2
        if tau < 1e-12 * epsilon:
            raise ValueError(f"no tilt has a loss within {epsilon:g}: chains of Θ may forget too slowly")
        if tau + left.limit(tau)[1] + right.limit(tau)[1] < epsilon * (1 - 4 * _ROUNDING):
            low = tau
        else:
            high = tau
    return _certificate(left, right, low)
