"""What a policy will mean for a stream, computed before anything is pushed.

The same formulas as the calibrator's (calibrator/charge.py, calibrator/push.py): the noise on the device is the best
within ε of the operator for Θ; the windows share the tilt that keeps tumbling windows within ε of the public for
ever, w = the largest with amplified(noise, w) ≤ min(log M0, log M1) (docs/theory.md, constant tilt, amplification).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.messages import StreamPolicy
from pufferfish.amplification import amplified, release_tilt
from pufferfish.binary import Box, Noise, limits, loss, optimal_noise

HOUR_MS = 3_600_000
LARGEST_TILT = 8.0


@dataclass(frozen=True, slots=True)
class Share:
    """One window for one scope: what it costs at every tick it covers, and the noise that buys."""

    window: str
    scope: str
    ticks: int
    tilt: float
    scale: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """One stream under a policy."""

    theta: Box
    noise: Noise
    operator: float
    """The loss of an endless stream for whoever reads it."""
    public: float
    """The loss of windows for ever for whoever reads only releases."""
    hourly_error: float
    """Standard error of the frequency in an hour's histogram of the cohort, at the worst frequency."""
    learning: float
    shares: tuple[Share, ...]

    @property
    def tilt(self) -> float:
        """What all windows over one tick cost together, with what is learned from it."""
        return sum(share.tilt for share in self.shares) + self.learning


def forecast(policy: StreamPolicy, theta: Box, *, devices: int, noise: Noise | None = None) -> Forecast:
    """What the policy means for `devices` devices while Θ is believed; with the noise given, or the best."""
    adversary = policy.adversary
    noise = noise or optimal_noise(theta, policy.epsilon.operator, adversary)
    w = min(LARGEST_TILT, release_tilt(noise, min(limits(theta, policy.epsilon.public, adversary))))
    count = sum(len(window.scopes) for window in policy.windows.values())
    tilt = w * (1 - policy.learning) / max(1, count)
    shares = tuple(
        Share(name, scope, window.ticks, tilt, 1 / tilt)
        for name, window in policy.windows.items()
        for scope in window.scopes
    )
    tau = amplified(noise, w)
    states = max(1, devices) * (HOUR_MS / policy.period_ms)
    spread = states / 4 + 2 / tilt**2
    return Forecast(
        theta=theta,
        noise=noise,
        operator=loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary=adversary),
        public=loss(theta, tau0=tau, tau1=tau, adversary=adversary) if shares else 0.0,
        hourly_error=math.sqrt(spread) / (states * (1 - noise.rho0 - noise.rho1)),
        learning=w * policy.learning if shares else 0.0,
        shares=shares,
    )
