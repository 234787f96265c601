"""What a change of a policy would buy and cost: the error of a window, and the attacker's odds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.forecast.account_forecast import forecast_accounts
from hushmq.broker.forecast.window_forecast import window_forecasts
from hushmq.broker.service.settings_file import first_error
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

MENTIONED = 4
"""So many changes are mentioned in one line: as it is, a window, a stream, a higher ε."""


@dataclass(frozen=True, slots=True)
class WhatIf:
    """One change, and what follows from it under the learned Θ."""

    words: str
    half_width: float | None
    """Half the width of a 95% interval of the first window; None where nothing could be released."""
    scale: float | None
    public: float
    operator: float
    """The budgets."""
    why_not: str = ""


def what_if(policy: Policy, stream: str, thetas: Mapping[str, Theta], devices: int) -> list[WhatIf]:
    """The policy as it is, with another window, another stream, and other budgets; the stream has a window."""
    changes = _changes(policy, stream)
    return [_outcome(words, policy, stream, changed, thetas, devices) for words, changed in changes]


def more_in_words(policy: Policy, stream: str, thetas: Mapping[str, Theta], devices: int) -> str | None:
    """What one more window, one more stream and twice the public's ε would come to; None without a window.

    None with regimes as well: each forecast takes seconds there, and whoever pushes waits for it. The console has it.
    """
    if not policy.streams[stream].windows or isinstance(thetas[stream], RegimeTheta):
        return None
    changes = _changes(policy, stream)[:MENTIONED]
    now, *then = [_outcome(words, policy, stream, changed, thetas, devices) for words, changed in changes]
    window = next(iter(policy.streams[stream].windows))
    if now.half_width is None:
        return None
    listed = [f"with {one.words} ±{one.half_width:.2g}" for one in then if one.half_width is not None]
    listed += [f"{one.words}: not possible, {one.why_not}" for one in then if one.half_width is None]
    return f"a share of {window} is ±{now.half_width:.2g} (95%); {'; '.join(listed)}"


def _changes(policy: Policy, stream: str) -> list[tuple[str, dict[str, StreamPolicy]]]:
    """Return every change in words, and the streams that it changes."""
    mine = policy.streams[stream]
    name, window = next(iter(mine.windows.items()))
    public = mine.epsilon.public
    return [
        ("as it is", {}),
        (
            f"one more window like {name}",
            {stream: _changed(mine, windows={**mine.windows, _new(mine.windows): window})},
        ),
        ("one more stream like it", {_new(policy.streams): _changed(mine, share=None)}),
        (f"ε of the public {2 * public:g}", {stream: _epsilon(mine, public=2 * public)}),
        (f"ε of the public {public / 2:g}", {stream: _epsilon(mine, public=public / 2)}),
        (
            f"ε of operators {2 * mine.epsilon.operator:g}",
            {stream: _epsilon(mine, public=public, operator=2 * mine.epsilon.operator)},
        ),
    ]


def _new(names: Mapping[str, Any]) -> str:
    return next(name for n in range(2, 99) if (name := f"more-{n}") not in names)


def _changed(stream: StreamPolicy, **changes: Any) -> StreamPolicy:
    return stream.model_copy(update=changes)


def _epsilon(stream: StreamPolicy, *, public: float, operator: float | None = None) -> StreamPolicy:
    operator = max(operator or stream.epsilon.operator, public)
    return _changed(
        stream, epsilon=stream.epsilon.model_copy(update={"public": public, "operator": operator})
    )


def _outcome(
    words: str,
    policy: Policy,
    stream: str,
    changed: Mapping[str, StreamPolicy],
    thetas: Mapping[str, Theta],
    devices: int,
) -> WhatIf:
    streams = {**policy.streams, **changed}
    epsilon = streams[stream].epsilon
    try:
        other = Policy.model_validate(
            policy.model_dump() | {"streams": {name: one.model_dump() for name, one in streams.items()}}
        )
        known = {name: thetas.get(name, thetas[stream]) for name in streams}
        found = forecast_accounts(other, known, dict.fromkeys(streams, devices))[stream]
        windows = window_forecasts(found.account.policy, found.after, devices=devices)
    except (Problem, ValueError) as error:
        why = (
            first_error(error).removeprefix("the file: ")
            if isinstance(error, ValidationError)
            else str(error)
        )
        return WhatIf(words, None, None, epsilon.public, epsilon.operator, why)
    scale = found.after.shares[0].scale if found.after.shares else None
    return WhatIf(words, windows[0].half_width if windows else None, scale, epsilon.public, epsilon.operator)
