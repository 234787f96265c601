"""The examples for Home Assistant and Telegraf read topics and fields that releases have."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.topics import Topics, parse

DEPLOY = Path(__file__).parents[2] / "deploy"
STORED = (Path(__file__).parents[1] / "broker" / "contract" / "stored" / "v1" / "Release.json").read_bytes()
RELEASE = decode(Release, STORED)
VALUE: dict[str, Any] = json.loads(STORED)
SENSORS: list[dict[str, str]] = yaml.safe_load((DEPLOY / "home-assistant" / "hushmq.yaml").read_text())[
    "sensor"
]
(TELEGRAF,) = tomllib.loads((DEPLOY / "telegraf" / "hushmq.conf").read_text())["inputs"]["mqtt_consumer"]


def rendered(template: str, **more: object) -> str:
    """Render a template as Home Assistant does, but raise on an unknown field."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False)  # noqa: S701  # no HTML
    return environment.from_string(template).render(value_json=VALUE | more)


@pytest.mark.parametrize("sensor", SENSORS, ids=lambda sensor: sensor["unique_id"])
def test_a_sensor_reads_a_release(sensor: dict[str, str]) -> None:
    """The topic is that of a release, and the template renders to a number."""
    address = parse(sensor["state_topic"])
    assert address is not None
    assert address.kind == "release"
    float(rendered(sensor["value_template"]))


def test_the_share_and_its_error() -> None:
    """The first sensor is the second state's frequency in percent, with its standard error."""
    first = SENSORS[0]
    assert float(rendered(first["value_template"])) == round(RELEASE.frequencies[1] * 100, 1)
    attributes = json.loads(rendered(first["json_attributes_template"]))
    assert attributes["standard_error"] == RELEASE.standard_errors[1]
    assert attributes["share_of"] == RELEASE.states[1]
    assert "state" not in attributes  # Home Assistant drops an attribute of this name
    assert attributes["smoothed"] is None
    smoothed = json.loads(rendered(first["json_attributes_template"], smoothed=[0.6, 0.4]))
    assert smoothed["smoothed"] == 0.4
    assert first["json_attributes_topic"] == first["state_topic"]


def test_the_loss_and_its_budget() -> None:
    """The second sensor is the loss, with the budget beside it: what is left would read as if it ran out."""
    second = SENSORS[1]
    assert float(rendered(second["value_template"])) == round(RELEASE.loss, 3)
    assert json.loads(rendered(second["json_attributes_template"])) == {"budget": RELEASE.budget}


def test_ids_are_unique() -> None:
    """Sensors have different ids: Home Assistant drops the second of two with the same id."""
    assert len({sensor["unique_id"] for sensor in SENSORS}) == len(SENSORS)


def test_telegraf_subscribes_to_what_a_subscriber_may_read() -> None:
    """The filter covers one cohort's releases: NATS refuses a wider one."""
    (topic,) = TELEGRAF["topics"]
    assert topic == Topics(topic.split("/")[2]).all("release")


def test_telegraf_takes_the_topic_apart_as_it_is_made() -> None:
    """Every tag is at its level of the topic."""
    (parsing,) = TELEGRAF["topic_parsing"]
    topic = Topics("home").release("presence", "hour", "cohort")
    levels = topic.split("/")
    assert all(want in {"+", have} for want, have in zip(parsing["topic"].split("/"), levels, strict=True))
    tags = {
        name: level for name, level in zip(parsing["tags"].split("/"), levels, strict=True) if name != "_"
    }
    assert tags == {"cohort": "home", "stream": "presence", "window": "hour", "scope": "cohort"}
    named = zip(parsing["measurement"].split("/"), levels, strict=True)
    assert [level for name, level in named if name == "measurement"] == ["release"]


def test_telegraf_reads_fields_that_are_there() -> None:
    """Every path leads to a number in the stored release, of the stated type."""
    (parser,) = TELEGRAF["json_v2"]
    smoothed = VALUE | {"smoothed": [0.6, 0.4]}
    for field in parser["field"]:
        value: Any = smoothed if field.get("optional") else VALUE
        for step in field["path"].split("."):
            value = value[int(step)] if isinstance(value, list) else value[step]
        assert type(value).__name__ == field["type"], field["path"]
