"""Amplification: what a release made from the sanitized stream costs those who cannot read the stream.

A release that changes by at most e^w when one sanitized bit changes sees the state behind that bit only
through the noise, so its tilt is smaller than w and never above the stream's own (docs/theory.md, Theorem 8).
"""

from __future__ import annotations

import math

from hushmq.pufferfish.binary.stream_loss import Noise

# More than the few rounded operations below can lose.
_SLACK = 2.0**-48


def amplified(noise: Noise, w: float) -> float:
    """τ_eff = max over directions of log(((1−ρ0)·e^w + ρ0)/(ρ1·e^w + 1−ρ1)), rounded up.

    An infinite w gives the stream's own tilt.
    """
    if not w >= 0.0:
        raise ValueError(f"w is {w!r}; the tilt of a release is a number of nats, 0 or more")
    if w == 0.0:
        return 0.0
    tau = max(_tilt(noise.rho0, noise.rho1, w), _tilt(noise.rho1, noise.rho0, w))
    return tau + _SLACK * (1.0 + tau)


def release_tilt(noise: Noise, tau: float) -> float:
    """The largest w with amplified(noise, w) ≤ τ; infinite when the stream's own tilt is within τ."""
    if not tau >= 0.0:
        raise ValueError(f"tau is {tau!r}; a tilt is a number of nats, 0 or more")
    if amplified(noise, math.inf) <= tau:
        return math.inf
    w = min(_inverse(noise.rho0, noise.rho1, tau), _inverse(noise.rho1, noise.rho0, tau))
    step = _SLACK
    while w > 0.0 and amplified(noise, w) > tau:
        w = max(0.0, w - step * (1.0 + w))
        step *= 2.0
    return w


def _tilt(rho0: float, rho1: float, w: float) -> float:
    """log(((1−ρ0) + ρ0·e^−w)/(ρ1 + (1−ρ1)·e^−w)), as a ratio 1 + x so that small tilts keep their digits."""
    shrink = math.exp(-w)
    return math.log1p((1.0 - rho0 - rho1) * -math.expm1(-w) / (rho1 + (1.0 - rho1) * shrink))


def _inverse(rho0: float, rho1: float, tau: float) -> float:
    """e^w = 1 + (T−1)/((1−ρ0) − T·ρ1) with T = e^τ; infinite where the stream's tilt stays within τ."""
    gain = math.expm1(min(tau, 700.0))
    rest = (1.0 - rho0 - rho1) - gain * rho1
    return math.log1p(gain / rest) if rest > 0.0 else math.inf
