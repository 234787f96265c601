"""The table of topics against the code it describes."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from hushmq.broker.contract.topics import Kind, parse, shard
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
    """Each channel is a topic that parses, and every kind of topic has a channel."""
    kinds = [address.kind for channel in CHANNELS if (address := parse(topic(channel))) is not None]
    assert len(kinds) == len(CHANNELS)
    assert set(kinds) == set(get_args(Kind))
    assert {name for channel in CHANNELS for name in channel.parameters} == set(PARAMETERS)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.name)
def test_the_table_says_what_the_rights_allow(channel: Channel, role: str) -> None:
    """Who writes and who reads, of the device's own topics, is what the brokers are told."""
    granted = rights("home", Identity(role, DEVICE, "x"))  # type: ignore[arg-type]  # it is one of ROLES
    assert any(covers(each, topic(channel)) for each in granted.publish) == (role in channel.writers)
    assert any(covers(each, topic(channel)) for each in granted.subscribe) == (role in channel.readers)
