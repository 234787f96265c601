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
mechanism with these tilts, adaptive or not. Against the *informed* adversary R must bound what a side tells
whatever is known on it (pufferfish/categorical/informed_side.py). A `Certificate` holds these numbers, so that a device
verifies them without searching.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction_side import HIGHEST, HOPS, ContractionSide, pairs
from hushmq.pufferfish.categorical.informed_side import InformedSide
from hushmq.pufferfish.categorical.set_excess import set_excess_within
from hushmq.pufferfish.false_position import largest_within

_ROUNDING = 2.0**-48


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


def certified_loss(theta: CategoricalTheta, certificate: Certificate, *, informed: bool = False) -> float:
    """The loss that the certificate proves for every chain of Θ; ValueError if it does not prove it.

    Against the prior adversary, or against the informed one.
    """
    tau = certificate.tau
    if not 0.0 < tau < HIGHEST:
        raise ValueError(f"tau is {tau:g}; a certified tilt lies between 0 and {HIGHEST:g}")
    sides = informed_sides(theta) if informed else (None, None)
    for name, intervals, side, (hops, R) in (
        ("left", theta.backward, sides[0], certificate.left),
        ("right", theta.forward, sides[1], certificate.right),
    ):
        if hops not in HOPS:
            raise ValueError(f"{name}: {hops} hops; a step has one of {HOPS}")
        if not (hops - 1) * tau <= R < HIGHEST:
            raise ValueError(f"{name}: R is {R:g}; it must lie between the tilts skipped and {HIGHEST:g}")
        if side is not None:
            if not side.proves(hops, tau, R):
                raise ValueError(f"{name}: R = {R:g} is not proved for some known state")
            continue
        step = R - (hops - 1) * tau
        lam, allowed = math.exp(step), math.expm1(step) / math.expm1(tau + R)
        if not all(set_excess_within(a, b, lam, allowed) for a, b in pairs(intervals.power(hops))):
            raise ValueError(f"{name}: R = {R:g} is not proved for some pair of states")
    return certificate.loss


@lru_cache(maxsize=4)
def contraction_sides(theta: CategoricalTheta) -> tuple[ContractionSide, ContractionSide]:
    """The past and the future of Θ; cached, because callers ask for several tilts of one Θ in a row."""
    return ContractionSide(theta.backward), ContractionSide(theta.forward)


@lru_cache(maxsize=4)
def informed_sides(theta: CategoricalTheta) -> tuple[InformedSide, InformedSide]:
    """The same for an adversary who may know states on them."""
    left, right = contraction_sides(theta)
    return InformedSide(theta.backward, left), InformedSide(theta.forward, right)


def certificate_for(theta: CategoricalTheta, tau: float, *, informed: bool = False) -> Certificate:
    """A certificate for a tilt; ValueError if no step certifies one."""
    left, right = informed_sides(theta) if informed else contraction_sides(theta)
    found = Certificate(tau, left.endless_bound(tau), right.endless_bound(tau))
    if not math.isfinite(found.loss):
        raise ValueError(f"nothing can be proved for a tilt of {tau:g}: chains of Θ may forget too slowly")
    return found


def largest_tilt(theta: CategoricalTheta, epsilon: float, *, informed: bool = False) -> Certificate:
    """The certificate of the largest tilt with a certified loss of at most ε; ValueError if there is none."""
    left, right = contraction_sides(theta)

    def loss(tau: float) -> float:
        if tau < 1e-12 * epsilon:
            raise ValueError(f"no tilt has a loss within {epsilon:g}: chains of Θ may forget too slowly")
        return tau + left.endless_bound(tau)[1] + right.endless_bound(tau)[1]

    tau = largest_within(loss, epsilon * (1 - 4 * _ROUNDING), epsilon, 1e-9)
    if informed:
        # No known state makes a loss smaller, so the tilt for the prior adversary is an upper limit.
        tau = largest_within(lambda tilt: constant_loss(theta, tilt, informed=True), epsilon, tau, _PRECISION)
    return certificate_for(theta, tau, informed=informed)


_PRECISION = 1e-5
"""Relative precision of the largest tilt against the informed adversary, of which each evaluation takes long."""

TILT_MARGIN = 1e-6
"""Share of the largest tilt that `largest_tilt_within` leaves unused, for what a timeline rounds up.

Without it one of a hundred Θ of 3 to 5 states, for ε from 1 to 24, was priced over ε, by 1e-15; with a share of 1e-8
none was. How long a timeline takes does not depend on it: for 73 Θ together 6.4 to 6.5 s, from 0 to 1e-4.
"""


@lru_cache(maxsize=1024)
def largest_tilt_within(theta: CategoricalTheta, epsilon: float, *, informed: bool = False) -> float:
    """All but TILT_MARGIN of the largest tilt whose loss is proved to be within ε; 0 where there is none."""
    try:
        return largest_tilt(theta, epsilon, informed=informed).tau * (1 - TILT_MARGIN)
    except ValueError:
        return 0.0


@lru_cache(maxsize=65_536)
def constant_loss(theta: CategoricalTheta, tau: float, *, informed: bool = False) -> float:
    """The loss that is proved for the tilt τ at every tick for ever; infinite where Θ forgets too slowly."""
    try:
        return certificate_for(theta, tau, informed=informed).loss if tau > 0 else 0.0
    except ValueError:
        return math.inf
