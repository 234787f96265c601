"""What was chosen for a stream, and why, in words: class of chains, stride, window method, and who makes releases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import RegimeThetaMessage
from hushmq.broker.forecast.policy_forecast import Forecast, forecast
from hushmq.broker.forecast.window_forecast import WindowForecast, window_forecasts

BY_DEVICES = "each device counts and releases its windows"
BY_CALIBRATOR = "the calibrator makes releases from the noisy stream"


def chosen(stream: StreamPolicy) -> list[str]:
    """What a policy has chosen, each with its reason: nothing is computed for it."""
    regimes = isinstance(stream.theta.start, RegimeThetaMessage)
    learns = stream.stride == 1 or len(stream.states) == 2
    if not learns:
        misfit = "not covered: nothing is learned, and only the watch on the device would show it"
    else:
        misfit = (
            "which Θ is widened to cover" if stream.misfit == "cover" else "which is reported and not covered"
        )
    kind = (
        "chains with hidden regimes, as theta.start lists them: correlations over long lags are covered"
        if regimes
        else "first-order chains, as theta.start has intervals of them: correlations that last longer are a misfit, "
        + misfit
    )
    every = (
        "a stride of 1: every tick is published"
        if stream.stride == 1
        else f"a stride of {stream.stride}: one of so many ticks is published, with less noise than all would have"
    )
    methods = ", ".join(sorted({one.method for one in stream.windows.values()}))
    lines = [kind, every]
    if methods:
        lines.append(f"window method {methods}{_method_reason(stream)}")
    if stream.device_windows:
        lines.append(f"{BY_DEVICES}: its noise is drawn there, and nobody else has the counts")
    if stream.windows:
        lines.append(f"{BY_CALIBRATOR}: {'what it learns narrows Θ' if learns else 'nothing is learned'}")
    return lines


def maker_reason(stream: StreamPolicy, found: Forecast) -> str | None:
    """How much larger or smaller errors for one device were if releases were made the other way; None if unknown.

    The stream is that of its account, and the forecast is of it.
    """
    if bool(stream.windows) == bool(stream.device_windows):
        return None
    try:
        by_devices = bool(stream.device_windows)
        other = _from_stream(stream, found) if by_devices else _by_devices(stream, found)
    except Problem:
        return None
    gap = other - _mean_log(window_forecasts(stream, found, devices=1))
    way = "larger" if gap >= 0 else "SMALLER"
    maker = BY_CALIBRATOR if by_devices else BY_DEVICES
    return f"errors for one device would be {math.exp(abs(gap)):.2g} times {way} if {maker}"


def _method_reason(stream: StreamPolicy) -> str:
    if all(one.method == "least-noise" for one in stream.windows.values()):
        return ": of all methods that hold, the one with the least noise"
    return ": as the policy says; least-noise would take the best of those that hold"


def _mean_log(found: Sequence[WindowForecast]) -> float:
    return sum(math.log(one.standard_error) for one in found) / len(found)


def _by_devices(stream: StreamPolicy, found: Forecast) -> float:
    """The errors if the device made these releases with all of the public's ε; Problem where that allows none."""
    try:
        whole = found.theta.window_tilt("least-noise", stream.epsilon.public, stream.adversary)
    except ValueError as error:
        raise Problem(str(error)) from None
    if not whole > 0:
        raise Problem("the public's ε allows no window of a device")
    scale = stream.counts_changed * len(stream.windows) / (whole * stream.tilt_share)
    errors = [math.log(math.sqrt(2) * scale / one.ticks) for one in stream.windows.values()]
    return sum(errors) / len(errors)


def _from_stream(stream: StreamPolicy, found: Forecast) -> float:
    """The errors if the calibrator made these releases from every tick; Problem where nothing is possible."""
    windows = {name: {"ticks": one.ticks} for name, one in stream.device_windows.items()}
    try:
        changed = StreamPolicy.model_validate(
            stream.model_dump() | {"windows": windows, "device_windows": {}}
        )
    except ValueError as error:
        raise Problem(str(error)) from None
    return _mean_log(window_forecasts(changed, forecast(changed, found.theta, devices=1), devices=1))
