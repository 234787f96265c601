"""What is announced to Home Assistant: which entities, where they read, and what their templates make of messages."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from hushmq.broker.contract.discovery_topics import announced_topic, discovery_prefix
from hushmq.broker.contract.messages import Release, Status, decode, encode
from hushmq.broker.contract.policy_message import Bins, DeviceWindow, Policy, Window
from hushmq.broker.provision.access_rights import Identity, rights
from hushmq.calibrator.publish.announced_entities import announced_entities
from tests.broker.reference.test_topic_table import covers
from tests.calibrator.site import TOPICS, policy, stream_policy

STORED = Path(__file__).parents[2] / "broker" / "contract" / "stored" / "v1"
RELEASE = (STORED / "Release.json").read_bytes()
DEVICES = ("wearable-1", "wearable-2")


def entities(message: Policy, devices: tuple[str, ...] = DEVICES) -> dict[str, dict[str, Any]]:
    found = announced_entities("homeassistant", message, devices)
    return {topic: json.loads(payload) for topic, payload in found.items()}


def rendered(template: str, payload: bytes, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> str:
    """As Home Assistant renders it: `value_json` is the decoded payload, and two functions tell the time."""
    environment = Environment(autoescape=False)  # noqa: S701  # no page is made of it
    environment.globals |= {
        "now": lambda: now,
        "as_timestamp": lambda time: (
            time if isinstance(time, datetime) else datetime.fromisoformat(time)
        ).timestamp(),
    }
    return environment.from_string(template).render(value_json=json.loads(payload))


def test_every_share_and_every_device_is_announced_once() -> None:
    """One share for two states, one each for more; scopes and device windows; one entity for each device's presence."""
    message = policy(
        windows={"hour": Window(ticks=60, scopes=("cohort", "device")), "day": Window(ticks=1440)},
        device_windows={"own": DeviceWindow(ticks=60, scale=4.0)},
    )
    found = entities(message)
    read = sorted(one["state_topic"] for one in found.values())
    shares = [("hour", "cohort"), ("day", "cohort"), ("own", "cohort")]
    shares += [(window, device) for window in ("hour", "own") for device in DEVICES]
    want = [*(TOPICS.release("motion", *one) for one in shares), *map(TOPICS.status, DEVICES)]
    assert read == sorted(want)
    assert len({one["unique_id"] for one in found.values()}) == len(found)
    granted = rights("test", Identity("calibrator", "calibrator", "x")).publish
    assert all(any(covers(each, topic) for each in granted) for topic in found)
    may = rights("test", Identity("home-assistant", "home-assistant", "x")).subscribe
    assert all(any(covers(each, topic) for each in may) for topic in (*found, *read))


def test_each_of_several_states_has_a_share() -> None:
    """Their order is that of the release's lists, so that each template reads its own state."""
    rules = stream_policy().model_copy(
        update={"states": ("low", "middle", "high"), "discretiser": Bins(edges=(1.0, 2.0))}
    )
    message = policy().model_copy(update={"streams": {"motion": rules}})
    found = entities(message, ())
    assert [one["name"] for one in found.values()] == [
        f"motion: {state}, share of the last short" for state in rules.states
    ]
    assert [one["value_template"].count(f"frequencies[{n}]") for n, one in enumerate(found.values())] == [
        1
    ] * 3


def test_names_that_look_alike_have_topics_of_their_own() -> None:
    """`a-b`, `c` and `a`, `b-c` are written alike, and are two entities."""
    assert announced_topic("p", "c", "sensor", "a-b", "c") != announced_topic("p", "c", "sensor", "a", "b-c")
    with pytest.raises(ValueError, match="our own messages"):
        discovery_prefix("hush")


def test_a_share_shows_what_its_release_says() -> None:
    """State and attributes are those of the release; no attribute is called `state`, which Home Assistant drops."""
    release = decode(Release, RELEASE)
    (share,) = (one for one in entities(policy(), ()).values())
    assert float(rendered(share["value_template"], RELEASE)) == round(release.frequencies[1] * 100, 1)
    shown = json.loads(rendered(share["json_attributes_template"], RELEASE))
    assert shown["share_of"] == release.states[1]
    assert shown["interval_95"] == [100 * end for end in release.intervals[1]]
    assert (shown["window_start"], shown["window_end"]) == (release.start, release.end)
    assert shown["loss_about_any_one_instant"] == release.loss
    assert shown["budget_for_any_one_instant"] == release.budget
    assert (shown["noise_scale"], shown["ledger_entry"]) == (release.scale, release.entry)
    assert "does not add up" in shown["loss_over_windows"]
    assert "state" not in shown
    older = release.model_copy(update={"smoothed": None, "smoothed_intervals": None, "start": None})
    assert json.loads(rendered(share["json_attributes_template"], encode(older)))["smoothed"] is None


def test_a_release_that_is_old_when_it_is_heard_of_shows_no_share() -> None:
    """Home Assistant's own expiry counts from when it hears of it, a retained one at its start."""
    (share,) = (one for one in entities(policy(), ()).values())
    end = datetime(2026, 1, 1, tzinfo=UTC)
    stated = {"start": "2025-12-31T23:00:00.000Z", "end": "2026-01-01T00:00:00.000Z", "period_ms": 1000}
    release = encode(Release.model_validate_json(json.dumps({**json.loads(RELEASE), "v": 2, **stated})))
    for late, shown in ((599, "41.0"), (601, "None")):
        assert rendered(share["value_template"], release, end + timedelta(seconds=late)) == shown


@pytest.mark.parametrize(("online", "shown"), [(True, "ON"), (False, "OFF"), (None, "None")])
def test_presence_is_shown_as_far_as_it_is_told(online: bool | None, shown: str) -> None:
    """A device that hides its presence has an unknown state, not one of the two."""
    (device,) = (one for one in entities(policy(), ("wearable-1",)).values() if "device_class" in one)
    payload = encode(Status(online=online))
    assert rendered(device["value_template"], payload) == shown
    assert json.loads(rendered(device["json_attributes_template"], payload)) == {
        "policy": None,
        "refused": None,
    }


def test_entities_follow_from_the_policy_and_the_names_alone() -> None:
    """The same bytes whatever was measured; a window that ends within a year makes the share expire."""
    assert announced_entities("p", policy(), DEVICES) == announced_entities("p", policy(), reversed(DEVICES))
    years = policy(windows={"years": Window(ticks=2**27)})
    assert [one.get("expire_after") for one in entities(years, ()).values()] == [None]
    assert [one.get("expire_after") for one in entities(policy(), ()).values()] == [600]
