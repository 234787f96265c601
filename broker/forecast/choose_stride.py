"""`stride = "auto"` in a policy file, or none: that with the least error of the windows, chosen when it is pushed.

What is signed and pushed has a number. It follows from the policy alone, above all from its `theta.start`, never from
data; and since a stride never changes, a stream in use keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.policy_message import LONGEST_STRIDE, Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import RegimeThetaMessage
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.broker.forecast.window_forecast import window_forecasts

AUTO = "auto"
RISES = 3
"""So many longer strides in a row, each worse than the best one, end the search among chains with regimes."""
AS_GOOD = 1.05
"""With regimes, the longest stride whose errors are at most so many times the least: it sends less, and what is
published says more of the regimes, which are learned from it."""


def asks_for_stride(tree: Mapping[str, Any]) -> list[str]:
    """The streams of a policy file whose stride is to be chosen: those that say so, or nothing."""
    streams = tree.get("streams")
    if not isinstance(streams, dict):
        return []
    return [
        name for name, one in streams.items() if isinstance(one, dict) and one.get("stride", AUTO) == AUTO
    ]


def with_strides(tree: Mapping[str, Any], strides: Mapping[str, int]) -> dict[str, Any]:
    """The policy file with these strides."""
    streams = {
        name: {**one, "stride": strides[name]} if name in strides else one
        for name, one in tree["streams"].items()
    }
    return {**tree, "streams": streams}


def best_strides(policy: Policy, *, devices: int = 1) -> Policy:
    """The policy with the best stride of every stream, of which all have a stride of 1."""
    strides = {name: choose_stride(policy, name, devices=devices) for name in policy.streams}
    return Policy.model_validate(with_strides(policy.model_dump(), strides))


def choose_stride(policy: Policy, stream: str, *, devices: int = 1) -> int:
    """The best stride of a stream of a policy in which it has a stride of 1.

    It divides the length of every window. Where a stride is not possible, or no better, it is 1.
    """
    lengths = [window.ticks for window in policy.streams[stream].windows.values()]
    common = math.gcd(*lengths) if lengths else 1
    possible = [stride for stride in range(1, min(common, LONGEST_STRIDE) + 1) if common % stride == 0]
    if len(possible) == 1 or (priced := _priced(policy, stream, possible[1])) is None:
        return 1
    errors: dict[int, float] = {}
    for stride in possible:
        errors[stride] = _error(priced, stride, devices)
        # The price of regimes takes a while, and the error falls up to the best stride and rises beyond it.
        if isinstance(priced.theta.start, RegimeThetaMessage) and _rises(list(errors.values())):
            break
    if not isinstance(priced.theta.start, RegimeThetaMessage):
        return min(errors, key=lambda stride: (errors[stride], stride))
    least = min(errors.values())
    good = [stride for stride, error in errors.items() if error <= least + math.log(AS_GOOD)]
    return max(good) if math.isfinite(least) else 1


def _rises(errors: Sequence[float]) -> bool:
    """Whether the last strides tried were all worse than the best before them."""
    best = min(range(len(errors)), key=errors.__getitem__)
    return math.isfinite(errors[best]) and len(errors) - 1 - best >= RISES


def stride_gain(policy: Policy, stream: str, stride: int) -> float | None:
    """How many times smaller the errors of its windows are with a stride than with one of 1; None where unknown."""
    if (priced := _priced(policy, stream, stride)) is None:
        return None
    every, some = (_error(priced, one, 1) for one in (1, stride))
    return math.exp(every - some) if math.isfinite(every) and math.isfinite(some) else None


def _priced(policy: Policy, stream: str, stride: int) -> StreamPolicy | None:
    """The stream as its account prices it, with a stride; None where the policy cannot have it.

    Whether it can is the same for all strides above 1 that divide the windows.
    """
    try:
        whole = Policy.model_validate(with_strides(policy.model_dump(), {stream: stride}))
    except ValidationError:
        return None
    return priced_streams(whole)[stream].policy


def _error(priced: StreamPolicy, stride: int, devices: int) -> float:
    """The mean logarithm of the errors of its windows with a stride; infinite where no noise keeps ε."""
    strided = priced.model_copy(update={"stride": stride})
    try:
        found = forecast(strided, strided.theta.start.chains, devices=devices)
    except Problem:
        return math.inf
    windows = window_forecasts(strided, found, devices=devices)
    return sum(math.log(one.standard_error) for one in windows) / len(windows) if windows else 0.0
