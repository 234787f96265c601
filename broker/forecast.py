"""What a policy will mean for a stream, computed before anything is pushed.

The same formulas as the calibrator's (calibrator/charge.py, calibrator/push.py): the noise on the device is the best
within ε of the operator for Θ; the windows share the tilt that keeps tumbling windows within ε of the public for
ever, w = the largest with amplified(noise, w) ≤ what the window's method allows (pufferfish/method.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from broker.messages import StreamPolicy
from broker.problem import Problem
from pufferfish.amplification import amplified, release_tilt
from pufferfish.binary import Box, Noise, limits, loss, optimal_noise
from pufferfish.method import window_limit

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
    own = sum(1 / window.scale for window in policy.device_windows.values())
    noise = noise or _best_noise(policy, theta, own)
    count = sum(len(window.scopes) for window in policy.windows.values())
    allowed = {name: _allowed(policy, name, theta, noise, own) for name in policy.windows}
    shares = tuple(
        Share(name, scope, window.ticks, tilt, 1 / tilt)
        for name, window in policy.windows.items()
        for tilt in [allowed[name] * (1 - policy.learning) / count]
        for scope in window.scopes
    )
    shortest = min(policy.windows, key=lambda name: (policy.windows[name].ticks, name), default=None)
    learning = 0.0 if shortest is None else allowed[shortest] * policy.learning
    tau = own + amplified(noise, sum(share.tilt for share in shares) + learning)
    states = max(1, devices) * (HOUR_MS / policy.period_ms)
    spread = states / 4 + (2 / max(share.tilt for share in shares) ** 2 if shares else 0.0)
    return Forecast(
        theta=theta,
        noise=noise,
        operator=loss(theta, tau0=noise.tau0 + own, tau1=noise.tau1 + own, adversary=adversary),
        public=loss(theta, tau0=tau, tau1=tau, adversary=adversary),
        hourly_error=math.sqrt(spread) / (states * (1 - noise.rho0 - noise.rho1)),
        learning=learning,
        shares=shares,
    )


def _allowed(policy: StreamPolicy, window: str, theta: Box, noise: Noise, own: float) -> float:
    """What all windows together might cost a sanitized state if all were made by this one's method."""
    try:
        left = (
            window_limit(policy.windows[window].method, theta, policy.epsilon.public, policy.adversary) - own
        )
    except ValueError as error:
        raise Problem(f"windows.{window}.method: {error}") from None
    if left <= 0:
        raise Problem(
            f"epsilon.public: the device's own windows leave nothing of {policy.epsilon.public:g} for others"
        )
    return min(LARGEST_TILT, release_tilt(noise, left))


def _best_noise(policy: StreamPolicy, theta: Box, own: float) -> Noise:
    """The best noise within ε of the operator after what device-made windows cost at every tick."""
    if not own:
        return optimal_noise(theta, policy.epsilon.operator, policy.adversary)
    tau0, tau1 = (tau - own for tau in limits(theta, policy.epsilon.operator, policy.adversary))
    if min(tau0, tau1) <= 0:
        raise Problem(
            f"epsilon.operator: the device's own windows leave nothing of {policy.epsilon.operator:g}"
        )
    both = math.expm1(tau0 + tau1)
    return Noise(math.expm1(tau0) / both, math.expm1(tau1) / both)
