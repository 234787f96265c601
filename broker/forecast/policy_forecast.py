"""The consequences of a policy for a stream (noise, losses, errors), computed before it is pushed.

The formulas are those of calibrator/ledger/window_spending.py and calibrator/settings/choose_noise.py. The noise on the
device is the least noise within the operator's ε for Θ. The windows share the largest tilt w that keeps tumbling
windows within the public's ε for ever: amplified(noise, w) ≤ the limit of the window's method
(pufferfish/window_method.py). For more than two states, losses are those that certificates prove (docs/theory-k.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hushmq.broker.contract.deceived_losses import DeceivedLosses, deceived_losses
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.pufferfish.protocols import Noise, Theta

HOUR_MS = 3_600_000
LARGEST_TILT = 8.0


@dataclass(frozen=True, slots=True)
class Share:
    """One window for one scope: its tilt at every tick it covers, and the scale of its histogram's noise."""

    window: str
    scope: str
    ticks: int
    tilt: float
    scale: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """The consequences of a policy for one stream. Losses are its account's, if all streams use their shares alike."""

    theta: Theta
    noise: Noise
    """Flips of two states, or the emission matrix of more."""
    operator: float
    """The loss to readers of the sanitized stream, for ever."""
    public: float
    """The loss to readers of releases only, for ever."""
    undecided_operator: float
    undecided_public: float
    """The same losses to the undecided adversary, who knows Θ and not the chain; infinite where unbounded."""
    deceived: DeceivedLosses
    """The most that a device can lose if learning is deceived."""
    hourly_error: float
    """Standard error of a frequency in the cohort's histogram of one hour, at the worst frequency."""
    learning: float
    shares: tuple[Share, ...]

    @property
    def tilt(self) -> float:
        """The total tilt of one tick: all windows that cover it, and learning."""
        return sum(share.tilt for share in self.shares) + self.learning

    def as_tree(self) -> dict[str, Any]:
        """Return the forecast as JSON-compatible values."""
        undecided = {
            name: loss if math.isfinite(loss) else None
            for name, loss in (
                ("undecided_operator", self.undecided_operator),
                ("undecided_public", self.undecided_public),
            )
        }
        return asdict(self) | {"noise": self.noise.as_tree(), "deceived": self.deceived.as_tree()} | undecided


def forecast(
    policy: StreamPolicy,
    theta: Theta,
    *,
    devices: int,
    noise: Noise | None = None,
) -> Forecast:
    """Return the consequences of the policy for `devices` devices under Θ, with the given noise or the least noise.

    The policy is that of the stream as its account prices it (broker/contract/account_share.py), Θ the account's.
    """
    device_tilt, stride = policy.device_window_tilt, policy.stride
    noise = noise or _optimal_noise(policy, theta, device_tilt)
    count = sum(len(window.scopes) for window in policy.windows.values())
    allowed = {name: _allowed(policy, name, theta, noise, device_tilt) for name in policy.windows}
    shares = tuple(
        Share(name, scope, window.ticks, tilt, policy.counts_changed / (tilt * policy.histogram_share(name)))
        for name, window in policy.windows.items()
        for tilt in [allowed[name] * (1 - policy.learned_share) / count]
        for scope in window.scopes
    )
    shortest = min(policy.windows, key=lambda name: (policy.windows[name].ticks, name), default=None)
    learning = 0.0 if shortest is None else allowed[shortest] * policy.learned_share
    tau0, tau1 = ((tau + device_tilt) / policy.tilt_share for tau in noise.tilts)
    public = device_tilt + noise.amplified(sum(share.tilt for share in shares) + learning)
    public /= policy.tilt_share
    return Forecast(
        theta=theta,
        noise=noise,
        operator=theta.constant_loss(tau0, tau1, policy.adversary, stride=stride),
        public=theta.constant_loss(public, public, policy.adversary, stride=stride),
        undecided_operator=theta.constant_loss(tau0, tau1, "undecided", stride=stride),
        undecided_public=theta.constant_loss(public, public, "undecided", stride=stride),
        deceived=deceived_losses(policy),
        hourly_error=_error(
            noise,
            states=max(1, devices) * (HOUR_MS / policy.stride_ms),
            scale=min((share.scale for share in shares), default=0.0),
        ),
        learning=learning,
        shares=shares,
    )


def _allowed(
    policy: StreamPolicy,
    window: str,
    theta: Theta,
    noise: Noise,
    device_tilt: float,
) -> float:
    """Return the tilt of a sanitized state allowed to all windows together if all used this window's method.

    Raises Problem when the public's ε allows no release.
    """
    epsilon = policy.epsilon.public
    try:
        whole = theta.window_tilt(
            policy.windows[window].method, epsilon, policy.adversary, stride=policy.stride
        )
    except ValueError as error:
        raise Problem(f"windows.{window}.method: {error}") from None
    left = policy.tilt_share * whole - device_tilt
    if left + device_tilt <= 0:
        raise Problem(f"epsilon.public: no release is within {epsilon:g}: chains of Θ may mix too slowly")
    if left <= 0:
        raise Problem(f"epsilon.public: device_windows leave nothing of {epsilon:g} for other windows")
    return min(LARGEST_TILT, noise.release_tilt(left))


def _optimal_noise(policy: StreamPolicy, theta: Theta, device_tilt: float) -> Noise:
    """Return the least noise within the operator's ε, given the tilt of the device windows.

    Raises Problem when the operator's ε allows no noise setting.
    """
    try:
        return theta.optimal_noise(
            policy.epsilon.operator,
            policy.adversary,
            device_tilt,
            policy.tilt_share,
            stride=policy.stride,
        )
    except ValueError as error:
        raise Problem(f"epsilon.operator: {error}: narrow theta, or raise ε") from None


def _error(noise: Noise, *, states: float, scale: float) -> float:
    """Return the standard error of a share of `states` sanitized states, whose counts carry noise of `scale`."""
    return max(math.sqrt(sum(both)) for both in variances(noise, states=states, scale=scale))


def variances(noise: Noise, *, states: float, scale: float) -> list[tuple[float, float]]:
    """Return for each state the variance of its share by the noise on samples, at most, and by that of the release.

    A state's share of the true states is estimated by the mean of weights a_z over the outputs z. Given the truth, a
    tick in state x adds the variance of a_z under the law of what is sent in x: at most that of the worst state. Two
    states need one count only: its weights are 0 and 1/(1−ρ0−ρ1).
    """
    try:
        weights = noise.frequency_weights()
    except ValueError as error:
        raise Problem(f"the noise in force: {error}") from None
    return [
        (
            max(_variance(law, row) for law in noise.laws) / states,
            2 * scale**2 * sum(a * a for a in row) / states**2,
        )
        for row in weights
    ]


def _variance(law: Sequence[float], values: Sequence[float]) -> float:
    mean = sum(p * value for p, value in zip(law, values, strict=True))
    return sum(p * (value - mean) ** 2 for p, value in zip(law, values, strict=True))
