"""Identities and their access rights."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics, shard
from hushmq.broker.provision.access_rights import Identity, Site, rights


def test_a_device_writes_only_topics_with_its_name() -> None:
    """Every topic filter of a device's rights names the device if the topic has a device level."""
    name = "wearable-1"
    granted = rights("home", Identity("device", name, "x"))
    assert granted.publish == (
        f"hush/1/home/z/{shard(name)}/{name}/#",
        Topics("home").status(name),
        f"hush/1/home/release/+/+/{name}",
    )
    assert granted.subscribe == (
        "hush/1/home/policy",
        "hush/1/home/noise/+",
        f"hush/1/home/noise/+/{name}",
        f"hush/1/home/seen/{name}",
    )


def test_a_name_is_a_topic_level() -> None:
    """A name that is no topic level, or is given twice, is refused."""
    for name in ("", "a/b", "#", "+", "a.b", "A", "a b", "a" * 65):
        with pytest.raises(ValueError, match="not a valid topic level"):
            Identity("device", name, "x")
    with pytest.raises(Problem, match="a is named twice"):
        Site("home", (Identity("ops", "a", "x"), Identity("device", "a", "y")))
    with pytest.raises(ValueError, match="not a valid topic level"):
        Site("home/+", ())
    with pytest.raises(Problem, match="no device may have the name 'cohort'"):
        Identity("device", "cohort", "x")


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    """The message lists the existing identities."""
    with pytest.raises(Problem, match="there is no identity 'b'; there are a"):
        Site("home", (Identity("ops", "a", "x"),)).identity("b")


def test_the_password_is_in_no_repr() -> None:
    """The repr of a site contains no password."""
    assert "hidden" not in repr(Site("home", (Identity("ops", "a", "hidden"),)))
