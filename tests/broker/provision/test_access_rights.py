"""Identities and their rights, before any broker reads them."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import Topics, shard
from hushmq.broker.provision.access_rights import Identity, Site, rights


def test_a_device_has_its_own_topics_only() -> None:
    """The rights of a device name that device wherever the topic does."""
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
    """A name that would reach beyond its level, or is given twice, is refused."""
    for name in ("", "a/b", "#", "+", "a.b", "A", "a b", "a" * 65):
        with pytest.raises(ValueError, match="no topic level"):
            Identity("device", name, "x")
    with pytest.raises(Problem, match="a named twice"):
        Site("home", (Identity("ops", "a", "x"), Identity("device", "a", "y")))
    with pytest.raises(ValueError, match="no topic level"):
        Site("home/+", ())
    with pytest.raises(Problem, match="no device may be called 'cohort'"):
        Identity("device", "cohort", "x")


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    """The message lists who there is."""
    with pytest.raises(Problem, match="nobody is called 'b'; there are a"):
        Site("home", (Identity("ops", "a", "x"),)).identity("b")


def test_the_password_is_in_no_repr() -> None:
    """A site may be printed."""
    assert "hidden" not in repr(Site("home", (Identity("ops", "a", "hidden"),)))
