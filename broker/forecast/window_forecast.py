"""The error of every window of a policy, per device and per cohort, and what would make it smaller.

A window's share is unbiased; the noise on every sample adds to its variance, and so does the Laplace noise of the
release (broker/forecast/policy_forecast.py). The 95% interval is that of the calibrator
(pufferfish/inference/half_width.py), at the worst share.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.policy_forecast import Forecast, Share, forecast, variances
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.inference.half_width import half_width
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from hushmq.pufferfish.thinning.theta_strides import largest_sampling_variance

NO_DATA = 0.5
"""Whoever knows nothing says ½ and is off by at most this: a wider interval tells less than no data."""
MOST_DEVICES = 10**9
EPSILONS = (0.01, 20.0)
"""The range of ε in which one is sought: that of policies."""


@dataclass(frozen=True, slots=True)
class WindowForecast:
    """The error of a share in one window's release."""

    window: str
    scope: Literal["cohort", "device"]
    ticks: int
    seconds: float
    made_by: Literal["calibrator", "device"]
    standard_error: float
    half_width: float
    """The share lies within this much of the released one with 95% confidence."""

    @property
    def tells(self) -> bool:
        """Whether a release tells more than no data."""
        return self.half_width < NO_DATA

    def as_tree(self) -> dict[str, Any]:
        """Return the forecast as JSON-compatible values."""
        return {
            "window": self.window,
            "scope": self.scope,
            "ticks": self.ticks,
            "seconds": self.seconds,
            "made_by": self.made_by,
            "standard_error": self.standard_error,
            "half_width": self.half_width,
            "tells": self.tells,
        }


def window_forecasts(policy: StreamPolicy, found: Forecast, *, devices: int) -> tuple[WindowForecast, ...]:
    """Return the errors of all windows of a stream on `devices` devices, as its account prices it."""
    by_calibrator = [_released(policy, found, share, devices) for share in found.shares]
    by_device = [
        _window(policy, name, "device", one.ticks, "device", 0.0, 2 * one.scale**2 / one.ticks**2)
        for name, one in policy.device_windows.items()
    ]
    # The calibrator adds them up, which costs nothing.
    summed = [
        _window(policy, name, "cohort", one.ticks, "device", 0.0, 2 * one.scale**2 / one.ticks**2 / devices)
        for name, one in policy.device_windows.items()
        if devices > 1
    ]
    return (*by_calibrator, *summed, *by_device)


def _released(policy: StreamPolicy, found: Forecast, share: Share, devices: int) -> WindowForecast:
    states = share.ticks / policy.stride * (max(1, devices) if share.scope == "cohort" else 1)
    sampling, drawn = max(variances(found.noise, states=states, scale=share.scale), key=sum)
    if policy.stride > 1:
        # One tick of each stride stands for all of them.
        sampling += _of_strides(found.theta, policy.stride) / (states * policy.stride)
    scope: Literal["cohort", "device"] = "cohort" if share.scope == "cohort" else "device"
    return _window(policy, share.window, scope, share.ticks, "calibrator", sampling, drawn)


def _of_strides(theta: Theta, stride: int) -> float:
    """The sampling variance of the worst chain of Θ, times the ticks."""
    if isinstance(theta, BinaryTheta):
        return largest_sampling_variance(theta, stride)
    if isinstance(theta, RegimeTheta | CategoricalTheta):
        return theta.sampling_variance(stride)
    raise TypeError(f"no stride is priced for {type(theta).__name__}")


def _window(
    policy: StreamPolicy,
    name: str,
    scope: Literal["cohort", "device"],
    ticks: int,
    made_by: Literal["calibrator", "device"],
    sampling: float,
    drawn: float,
) -> WindowForecast:
    return WindowForecast(
        window=name,
        scope=scope,
        ticks=ticks,
        seconds=ticks * policy.period_ms / 1000,
        made_by=made_by,
        standard_error=math.sqrt(sampling + drawn),
        half_width=half_width(sampling, drawn),
    )


def devices_for(policy: StreamPolicy, theta: Theta, window: str, wanted: float) -> int | None:
    """Return the least number of devices with which the cohort's interval of a window is within ±`wanted`.

    None where no number of devices reaches it, or the window has no release for the cohort.
    """
    found = forecast(policy, theta, devices=1)

    def width(devices: int) -> float:
        return _width(window_forecasts(policy, found, devices=devices), window, "cohort")

    if not width(MOST_DEVICES) <= wanted:
        return None
    low, high = 0, 1
    while width(high) > wanted:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if width(middle) > wanted else (low, middle)
    return high


def epsilon_for(
    policy: StreamPolicy, theta: Theta, window: str, wanted: float, *, devices: int, scope: str = "cohort"
) -> float | None:
    """Return the least ε of operators with which a window's interval is within ±`wanted`; the public's in proportion.

    None where no ε up to 20 reaches it. It is right to one part in a hundred.
    """
    ratio = policy.epsilon.public / policy.epsilon.operator

    def width(epsilon: float) -> float:
        audiences = policy.epsilon.model_copy(update={"operator": epsilon, "public": epsilon * ratio})
        changed = policy.model_copy(update={"epsilon": audiences})
        try:
            found = forecast(changed, theta, devices=devices)
        except Problem:
            return math.inf
        return _width(window_forecasts(changed, found, devices=devices), window, scope)

    low, high = EPSILONS
    high = min(high, high / ratio)
    if width(high) > wanted:
        return None
    if width(low) <= wanted:
        return low
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if width(middle) > wanted else (low, middle)
    return high


def _width(found: tuple[WindowForecast, ...], window: str, scope: str) -> float:
    return min(
        (one.half_width for one in found if one.window == window and one.scope == scope), default=math.inf
    )
