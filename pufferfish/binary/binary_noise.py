"""Noise on a stream of two states: each bit is flipped independently, with a probability that depends on the bit.

A release whose likelihood changes by at most e^w when one sanitized bit changes depends on the true state only through
the noise, so its tilt on the true state is below w and at most the tilt of the noise (docs/theory.md, Theorem 8).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from hashlib import blake2b

from hushmq.pufferfish.bisection import bisection

# Exceeds the rounding error of the computations below.
_SLACK = 2.0**-48
_LARGEST = 64.0
"""A release with so large a tilt has no noise to speak of: none larger is looked for."""


@dataclass(frozen=True, slots=True)
class BinaryNoise:
    """Independent noise on one bit: ρ0 = P(Z=1 | X=0), ρ1 = P(Z=0 | X=1), with ρ0 + ρ1 < 1."""

    rho0: float
    rho1: float

    def __post_init__(self) -> None:
        for name, rho in (("rho0", self.rho0), ("rho1", self.rho1)):
            if not (0.0 < rho < 1.0):
                raise ValueError(f"{name} is {rho!r}; it must be inside (0, 1)")
        if not (self.rho0 + self.rho1 < 1.0):
            raise ValueError(
                f"rho0 + rho1 is {self.rho0 + self.rho1!r}; it must be below 1, or the output says nothing"
            )

    @property
    def tau0(self) -> float:
        """The tilt towards state 0: log((1−ρ0)/ρ1)."""
        return math.log((1.0 - self.rho0) / self.rho1)

    @property
    def tau1(self) -> float:
        """The tilt towards state 1: log((1−ρ1)/ρ0)."""
        return math.log((1.0 - self.rho1) / self.rho0)

    @classmethod
    def of_tilts(cls, tau0: float, tau1: float) -> BinaryNoise:
        """The noise of at most these tilts with the largest signal, rounded towards more noise.

        ρ0 = (M0−1)/(M0·M1−1), ρ1 = (M1−1)/(M0·M1−1) with M = e^τ.
        """
        both = math.expm1(tau0 + tau1)
        rho0, rho1 = math.expm1(tau0) / both, math.expm1(tau1) / both
        up = 1.0
        while True:
            up += 2.0**-52
            noise = cls(rho0 * up, rho1 * up)
            if noise.tau0 <= tau0 and noise.tau1 <= tau1:
                return noise

    @property
    def states(self) -> int:
        """Two."""
        return 2

    @property
    def tilts(self) -> tuple[float, float]:
        """τ0 and τ1."""
        return self.tau0, self.tau1

    @property
    def signal(self) -> float:
        """1 − ρ0 − ρ1."""
        return 1 - self.rho0 - self.rho1

    def amplified(self, w: float) -> float:
        """τ_eff = max over directions of log(((1−ρ0)·e^w + ρ0)/(ρ1·e^w + 1−ρ1)), rounded up.

        An infinite w gives the tilt of the noise.
        """
        if not w >= 0.0:
            raise ValueError(f"w is {w!r}; the tilt of a release is a number of nats, 0 or more")
        if w == 0.0:
            return 0.0
        tau = max(_tilt(self.rho0, self.rho1, w), _tilt(self.rho1, self.rho0, w))
        return tau + _SLACK * (1.0 + tau)

    def release_tilt(self, tau: float) -> float:
        """The largest w with amplified(w) ≤ τ; infinite if the tilt of the noise is at most τ."""
        if not tau >= 0.0:
            raise ValueError(f"tau is {tau!r}; a tilt is a number of nats, 0 or more")
        if self.amplified(math.inf) <= tau:
            return math.inf
        w = min(_inverse(self.rho0, self.rho1, tau), _inverse(self.rho1, self.rho0, tau))
        if w == math.inf:  # τ is the noise's own tilt but for rounding
            return bisection(lambda one: self.amplified(one) <= tau, 0.0, _LARGEST, absolute=1e-9)[0]
        step = _SLACK
        while w > 0.0 and self.amplified(w) > tau:
            w = max(0.0, w - step * (1.0 + w))
            step *= 2.0
        return w

    def with_tilts(self, tau0: float, tau1: float) -> BinaryNoise:
        """As `of_tilts`."""
        return BinaryNoise.of_tilts(tau0, tau1)

    @property
    def laws(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """For each state, the probabilities of what is sent in it."""
        return (1 - self.rho0, self.rho0), (self.rho1, 1 - self.rho1)

    def frequency_weights(self) -> list[list[float]]:
        """One row, for state 1: the count of ones alone gives both frequencies."""
        return [[0.0, 1.0 / self.signal]]

    def in_words(self) -> str:
        """A description of the noise."""
        return f"ρ {self.rho0:.4f}, {self.rho1:.4f}"

    def as_tree(self) -> dict[str, float]:
        """ρ0 and ρ1."""
        return {"rho0": self.rho0, "rho1": self.rho1}

    def as_json(self) -> str:
        """`{"rho0": …, "rho1": …}`, exactly."""
        return json.dumps(self.as_tree())

    @property
    def fingerprint(self) -> str:
        """16 bytes of BLAKE2b over the stored text, in hexadecimal."""
        return blake2b(self.as_json().encode(), digest_size=16).hexdigest()


def _tilt(rho0: float, rho1: float, w: float) -> float:
    """log(((1−ρ0) + ρ0·e^−w)/(ρ1 + (1−ρ1)·e^−w)), as log1p so that small tilts keep their relative precision."""
    shrink = math.exp(-w)
    return math.log1p((1.0 - rho0 - rho1) * -math.expm1(-w) / (rho1 + (1.0 - rho1) * shrink))


def _inverse(rho0: float, rho1: float, tau: float) -> float:
    """e^w = 1 + (T−1)/((1−ρ0) − T·ρ1) with T = e^τ; infinite if the tilt of the noise is at most τ."""
    gain = math.expm1(min(tau, 700.0))
    rest = (1.0 - rho0 - rho1) - gain * rho1
    return math.log1p(gain / rest) if rest > 0.0 else math.inf
