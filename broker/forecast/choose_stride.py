"""`stride = "auto"` in a policy file: the stride with the least error of the windows, chosen when a policy is pushed.

What is signed and pushed has a number. It follows from the policy alone, above all from its `theta.start`, never from
data; and since a stride never changes, a stream in use keeps its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from hushmq.broker.contract.account_share import priced_streams
from hushmq.broker.contract.policy_message import LONGEST_STRIDE, Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.broker.forecast.window_forecast import window_forecasts

AUTO = "auto"


def asks_for_stride(tree: Mapping[str, Any]) -> list[str]:
    """The streams of a policy file whose stride is to be chosen."""
    streams = tree.get("streams")
    if not isinstance(streams, dict):
        return []
    return [name for name, one in streams.items() if isinstance(one, dict) and one.get("stride") == AUTO]


def with_strides(tree: Mapping[str, Any], strides: Mapping[str, int]) -> dict[str, Any]:
    """The policy file with these strides."""
    streams = {
        name: {**one, "stride": strides[name]} if name in strides else one
        for name, one in tree["streams"].items()
    }
    return {**tree, "streams": streams}


def choose_stride(policy: Policy, stream: str, *, devices: int = 1) -> int:
    """The best stride of a stream of a policy in which it has a stride of 1.

    It divides the length of every window. Where a stride is not possible, or no better, it is 1.
    """
    lengths = [window.ticks for window in policy.streams[stream].windows.values()]
    common = math.gcd(*lengths) if lengths else 1
    errors = {}
    for stride in range(1, min(common, LONGEST_STRIDE) + 1):
        if common % stride == 0 and (error := _error(policy, stream, stride, devices)) is not None:
            errors[stride] = error
    return min(errors, key=lambda stride: (errors[stride], stride), default=1)


def stride_gain(policy: Policy, stream: str, stride: int) -> float | None:
    """How many times smaller the errors of its windows are with a stride than with one of 1; None where unknown."""
    every, some = (_error(policy, stream, one, 1) for one in (1, stride))
    return None if every is None or some is None else math.exp(every - some)


def _error(policy: Policy, stream: str, stride: int, devices: int) -> float | None:
    """The mean logarithm of the errors of its windows; None where the stride, or any noise, is not possible."""
    own = policy.streams[stream]
    try:
        changed = StreamPolicy.model_validate({**own.model_dump(), "stride": stride})
        whole = Policy.model_validate({**policy.model_dump(), "streams": {**policy.streams, stream: changed}})
        priced = priced_streams(whole)[stream].policy
        found = forecast(priced, priced.theta.start.chains, devices=devices)
    except (ValidationError, Problem):
        return None
    windows = window_forecasts(priced, found, devices=devices)
    return sum(math.log(one.standard_error) for one in windows) / len(windows) if windows else 0.0
