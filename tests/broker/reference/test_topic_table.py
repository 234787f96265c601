"""The table of topics agrees with the code that it describes."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from hushmq.broker.contract.topics import TopicKind, parse, shard
from hushmq.broker.provision.access_rights import ROLES, Identity, rights
from hushmq.broker.reference.topic_table import CHANNELS, PARAMETERS, Channel

DEVICE = "wearable-1"
VALUES = {
    "cohort": "home",
    "device": DEVICE,
    "shard": shard(DEVICE),
    "stream": "motion",
    "window": "hour",
    "scope": DEVICE,
}


def topic(channel: Channel) -> str:
    return channel.address.format(**VALUES)


def covers(topic_filter: str, topic: str) -> bool:
    """MQTT 3.1.1, section 4.7: does the filter match the topic?"""
    pattern = re.escape(topic_filter).replace(r"/\#", "(/.*)?").replace(r"\+", "[^/]+")
    return re.fullmatch(pattern, topic) is not None


def test_every_topic_is_in_the_table_once() -> None:
    """Each channel's topic can be parsed, and every kind of topic has a channel."""
    kinds = [address.kind for channel in CHANNELS if (address := parse(topic(channel))) is not None]
    assert len(kinds) == len(CHANNELS)
    assert set(kinds) == set(get_args(TopicKind))
    assert {name for channel in CHANNELS for name in channel.parameters} == set(PARAMETERS)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_the_table_agrees_with_the_rights(channel: Channel, role: str) -> None:
    """The writers and readers of each channel agree with the access rights of their roles."""
    granted = rights("home", Identity(role, DEVICE, "x"))  # type: ignore[arg-type]  # it is one of ROLES
    assert any(covers(each, topic(channel)) for each in granted.publish) == (role in channel.writers)
    assert any(covers(each, topic(channel)) for each in granted.subscribe) == (role in channel.readers)
