"""What the sliders of the Plan page say, and the policy that follows from it."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hushmq.broker.contract.account_share import group_of
from hushmq.broker.contract.policy_message import LONGEST_STRIDE, Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem

MOST_DEVICES = 100_000
LEAST_EPSILON, MOST_EPSILON = 0.05, 20.0
MOST_TICKS = 2**40


@dataclass(frozen=True, slots=True)
class PlanChoice:
    """What was chosen for one stream."""

    stream: str
    window: str
    operator: float
    public: float
    ticks: int
    devices: int
    stride: int


def read_choice(given: Mapping[str, str], policy: Policy, devices: int) -> PlanChoice:
    """The choice that an address names; what it does not name is as in the policy, what is out of bounds is bounded.

    A stride is named by its place in `strides_of`; a window of the chosen one has whole strides.
    """
    stream = given.get("stream", "")
    stream = stream if stream in policy.streams else min(policy.streams)
    mine = policy.streams[stream]
    windows = sorted(mine.windows)
    window = given.get("window", "")
    window = window if window in windows else (windows[0] if windows else "")
    strides = strides_of(mine)
    place = round(_number(given.get("stride"), strides.index(mine.stride), 0, len(strides) - 1))
    ticks = round(_number(given.get("ticks"), mine.windows[window].ticks if window else 1, 1, MOST_TICKS))
    return PlanChoice(
        stream,
        window,
        _number(given.get("operator"), mine.epsilon.operator, LEAST_EPSILON, MOST_EPSILON),
        _number(given.get("public"), mine.epsilon.public, LEAST_EPSILON, MOST_EPSILON),
        max(1, round(ticks / strides[place])) * strides[place],
        round(_number(given.get("devices"), devices, 1, MOST_DEVICES)),
        strides[place],
    )


def _number(text: str | None, default: float, low: float, high: float) -> float:
    """A number of the address within limits; the default where there is none."""
    try:
        found = float(text) if text else default
    except ValueError:
        return default
    return default if math.isnan(found) else min(high, max(low, found))


def strides_of(stream: StreamPolicy) -> list[int]:
    """The strides that may be chosen: those that divide every window, and the one in use."""
    common = math.gcd(*(window.ticks for window in stream.windows.values())) if stream.windows else 1
    longest = min(common, LONGEST_STRIDE)
    small = [number for number in range(1, math.isqrt(common) + 1) if common % number == 0]
    found = {one for number in small for one in (number, common // number) if one <= longest}
    return sorted({*found, stream.stride})


def no_stride(policy: Policy, stream: str) -> str | None:
    """Why the stream cannot have a stride above 1; None where it can."""
    strides = strides_of(policy.streams[stream])
    if len(strides) == 1:
        return "no number divides the lengths of all windows"
    choice = read_choice({"stream": stream}, policy, 1)
    try:
        changed_policy(policy, replace(choice, stride=strides[1]))
    except Problem as problem:
        return str(problem)
    return None


def renamed(policy: Policy, choice: PlanChoice) -> str:
    """The name of the stream with the chosen stride: a stream's stride never changes (docs/decisions/0023)."""
    if choice.stride == policy.streams[choice.stream].stride:
        return choice.stream
    return f"{choice.stream}-every-{choice.stride}"


def changed_policy(policy: Policy, choice: PlanChoice, first: Sequence[str] = ()) -> Policy:
    """The policy with what was chosen, and the next version, for all or for some first; Problem if it breaks a rule."""
    tree = policy.model_dump(mode="json")
    streams = tree["streams"]
    mine = streams.pop(choice.stream)
    mine["epsilon"] = {"operator": choice.operator, "public": choice.public}
    mine["stride"] = choice.stride
    if choice.window:
        mine["windows"][choice.window]["ticks"] = choice.ticks
    streams[renamed(policy, choice)] = mine
    tree["version"] = policy.version + 1
    tree["first_devices"] = list(first)
    try:
        return Policy.model_validate_json(json.dumps(tree))
    except ValueError as error:
        raise Problem(_reason(error)) from None


def first_devices(text: str, policy: Policy, known: Collection[str]) -> list[str]:
    """The devices that a text names, with commas, and those of their groups; none for an empty one: all at once.

    Problem where nothing is known of one of them.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise Problem(
                f"first devices: nothing is known of {name!r}: name devices of the table, with commas"
            )
    return sorted({member for name in names for member in group_of(policy, name)})


def _reason(error: ValueError) -> str:
    """The rule that a policy breaks, without where pydantic found it."""
    said = str(error).splitlines()[-2].strip().removeprefix("Value error, ")
    return said.partition(" [type=")[0]
