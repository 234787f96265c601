"""The entities of Home Assistant for a policy and its devices, as discovery messages.

They follow from the policy and from which devices there are, never from data, so that they need no noise. What an
entity shows it reads itself: from status, and from releases, each of which names the noise that paid for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from hushmq.broker.contract.discovery_topics import announced_topic
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.topics import COHORT, Topics

MISSED_WINDOWS = 3
"""After so many lengths of its window without a release, a share is shown as not available."""
EXPIRY_S = (600, 31_536_000)
"""At the earliest after ten minutes; never where it would be more than a year."""
ONLINE = "{{ ('ON' if value_json.online else 'OFF') if value_json.online is boolean else 'None' }}"
"""A device that hides its presence says neither: Home Assistant then shows an unknown state."""
STATUS = "{{ {'policy': value_json.policy, 'refused': (value_json.refused or {}).get('reason')} | tojson }}"


def announced_entities(prefix: str, policy: Policy, devices: Iterable[str]) -> dict[str, bytes]:
    """Return the payload of each discovery topic.

    A share for every stream, window, scope and state; for every device whether it is on line.
    """
    names = sorted(devices)
    found: dict[str, dict[str, object]] = {}
    for stream, rules in policy.streams.items():
        for window, ticks, scope in _scopes(rules, names):
            # Of two states, the share of one says that of the other.
            for state in range(len(rules.states)) if len(rules.states) > 2 else (1,):
                parts = (stream, window, scope, str(state))
                topic = announced_topic(prefix, policy.cohort, "sensor", *parts)
                found[topic] = _share(policy.cohort, rules, ticks, *parts)
    for device in names:
        found[announced_topic(prefix, policy.cohort, "binary_sensor", device)] = _online(
            policy.cohort, device
        )
    return {topic: json.dumps(entity, ensure_ascii=False).encode() for topic, entity in found.items()}


def _scopes(rules: StreamPolicy, devices: Sequence[str]) -> Iterator[tuple[str, int, str]]:
    """Yield the name and ticks of every window of a stream, with each scope it is released for."""
    for name, window in rules.windows.items():
        if "cohort" in window.scopes:
            yield name, window.ticks, COHORT
        if "device" in window.scopes:
            yield from ((name, window.ticks, device) for device in devices)
    for name, counted in rules.device_windows.items():
        yield from ((name, counted.ticks, scope) for scope in (COHORT, *devices))


def _share(
    cohort: str, rules: StreamPolicy, ticks: int, stream: str, window: str, scope: str, state: str
) -> dict[str, object]:
    """The share of a window that was spent in one state."""
    topic = Topics(cohort).release(stream, window, scope)
    expiry = max(EXPIRY_S[0], MISSED_WINDOWS * ticks * rules.period_ms // 1000)
    value = f"(value_json.frequencies[{state}] * 100) | round(1)"
    if expiry <= EXPIRY_S[1]:
        # Home Assistant counts from when it hears of a release, which after its start may be an old one.
        fresh = f"as_timestamp(now()) - as_timestamp(value_json.end) < {expiry}"
        value = f"({value}) if not value_json.get('end') or {fresh} else 'None'"
    return {
        "name": f"{stream}: {rules.states[int(state)]}, share of the last {window}",
        "unique_id": f"hushmq/{cohort}/{stream}/{window}/{scope}/{state}",
        "state_topic": topic,
        "value_template": f"{{{{ {value} }}}}",
        "unit_of_measurement": "%",
        "state_class": "measurement",
        "json_attributes_topic": topic,
        "json_attributes_template": _attributes(state),
        **({"expire_after": expiry} if expiry <= EXPIRY_S[1] else {}),
        "qos": 1,
        **_belongs_to(cohort, None if scope == COHORT else scope),
    }


def _attributes(state: str) -> str:
    shown = {
        "share_of": f"value_json.states[{state}]",
        "interval_95": f"[value_json.intervals[{state}][0] * 100, value_json.intervals[{state}][1] * 100]",
        "standard_error": f"value_json.standard_errors[{state}] * 100",
        "smoothed": f"value_json.smoothed[{state}] * 100 if value_json.get('smoothed') else none",
        "window_start": "value_json.get('start')",
        "window_end": "value_json.get('end')",
        "devices": "value_json.devices",
        "noise_scale": "value_json.scale",
        "ledger_entry": "value_json.entry",
        "loss_about_any_one_instant": "value_json.loss",
        "budget_for_any_one_instant": "value_json.budget",
        "loss_over_windows": "'does not add up: each instant has its own'",
    }
    pairs = ", ".join(f"'{name}': {value}" for name, value in shown.items())
    return f"{{{{ {{{pairs}}} | tojson }}}}"


def _online(cohort: str, device: str) -> dict[str, object]:
    """Whether a device is connected."""
    topic = Topics(cohort).status(device)
    return {
        "name": "on line",
        "unique_id": f"hushmq/{cohort}/{device}/online",
        "state_topic": topic,
        "value_template": ONLINE,
        "device_class": "connectivity",
        "entity_category": "diagnostic",
        "json_attributes_topic": topic,
        "json_attributes_template": STATUS,
        "qos": 1,
        **_belongs_to(cohort, device),
    }


def _belongs_to(cohort: str, device: str | None) -> dict[str, object]:
    """The device of Home Assistant that an entity is shown with: the cohort's, or that of one device of ours."""
    whole = f"hushmq/{cohort}"
    shown: dict[str, object] = {"identifiers": [whole], "name": f"hushmq {cohort}"}
    if device is not None:
        shown = {"identifiers": [f"{whole}/{device}"], "name": device}
    return {"device": {**shown, "manufacturer": "hushmq"}, "origin": {"name": "hushmq"}}
