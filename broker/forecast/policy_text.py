"""A policy as a file that people read and change: TOML with comments, from which the same policy is read again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.forecast.guess_odds import odds_in_words
from hushmq.broker.forecast.stream_plan import StreamPlan

COMMENTS = {
    "states": "their order is that of releases; a stream's states and period keep their meaning for ever",
    "period_ms": "one state is recorded for every period",
    "stride": 'one of so many periods is published; "auto" has hushmq push choose for a stream that is new',
    "discretiser": "how a value becomes a state",
    "epsilon": "what readers of the noisy stream, and readers of releases only, may learn about any one instant",
    "windows": "one histogram for each of these; all share the public's ε",
    "theta": "Θ: start, before any evidence; floor, what Θ always contains however much evidence there is",
}


def policy_text(policy: Policy, plans: Mapping[str, StreamPlan]) -> str:
    """Return a policy as TOML; comments say what each part means and what the plan of its stream forecasts."""
    lines = [
        "# A policy of hushmq. It has no effect until ops sign and publish it: hushmq push.",
        f"cohort = {_value(policy.cohort)}",
    ]
    for name, stream in policy.streams.items():
        lines += ["", f"[streams.{name}]"]
        if name in plans:
            lines += [f"# {line}" for line in forecast_lines(plans[name])]
        lines += _stream(stream)
    for name, group in policy.groups.items():
        lines += ["", f"[groups.{name}]", f"devices = {_value(list(group.devices))}"]
    return "\n".join(lines) + "\n"


def _stream(stream: StreamPolicy) -> list[str]:
    # A file without a stride would have it chosen.
    always = {name for name, field in StreamPolicy.model_fields.items() if field.is_required()} | {"stride"}
    written = {**stream.model_dump(mode="json", exclude_defaults=True), "stride": stream.stride}
    lines = []
    for name in (one for one in StreamPolicy.model_fields if one in written):
        value = written[name]
        if name not in always and name not in stream.model_fields_set:
            continue
        if name in COMMENTS:
            lines.append(f"# {COMMENTS[name]}")
        if name == "theta":
            lines += [f"theta.{part} = {_value(theta)}" for part, theta in value.items()]
        elif name == "discretiser":
            lines.append(f"discretiser = {_value({'kind': stream.discretiser.kind} | value)}")
        elif name == "epsilon":
            lines += [
                f"# operator: {odds_in_words(stream.epsilon.operator)}",
                f"# public: {odds_in_words(stream.epsilon.public)}",
                f"epsilon = {_value(value)}",
            ]
        else:
            lines.append(f"{name} = {_value(value)}")
    return lines


def forecast_lines(plan: StreamPlan) -> list[str]:
    """Return a few lines that say what a plan forecasts."""
    devices = f"{plan.devices} device{'s' * (plan.devices != 1)}"
    first = {(one.window, one.scope): one for one in plan.first_windows}
    lines = []
    for one in plan.best_windows:
        now = first.get((one.window, one.scope))
        whose = f"the cohort ({devices})" if one.scope == "cohort" else "each device"
        at_first = "" if now is None else f"±{now.half_width:.2g} at first, "
        lines.append(
            f"forecast: window {one.window} of {whose}: a share is known {at_first}±{one.half_width:.2g} once Θ is "
            f"learned (95%){'' if one.tells else ': LESS THAN NO DATA TELLS'}"
        )
    traffic = plan.traffic
    lines.append(
        f"traffic: {traffic.batches:,.0f} messages and {traffic.bytes / 1000:,.0f} kB a day from each device"
    )
    return lines


def _value(value: Any) -> str:
    """Return a value in TOML, tables inline."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _value(key)
