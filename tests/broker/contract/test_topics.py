"""Topics are built and parsed in one place, and agree."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.broker.contract.topics import LEVEL, Address, Topics, level, parse, shard

levels = st.from_regex(LEVEL, fullmatch=True)


@pytest.mark.slow
@given(levels, levels, levels, levels, levels)
def test_what_is_built_is_parsed(cohort: str, device: str, stream: str, window: str, scope: str) -> None:
    """Every topic built parses to the address it was built from."""
    topics = Topics(cohort)
    assert parse(topics.policy) == Address(cohort, "policy")
    assert parse(topics.noise(stream)) == Address(cohort, "noise", stream=stream)
    assert parse(topics.noise(stream, device)) == Address(cohort, "noise", device=device, stream=stream)
    assert parse(topics.batch(device, stream)) == Address(cohort, "z", device=device, stream=stream)
    assert parse(topics.seen(device)) == Address(cohort, "seen", device=device)
    assert parse(topics.status(device)) == Address(cohort, "status", device=device)
    assert parse(topics.release(stream, window, scope)) == Address(
        cohort, "release", stream=stream, window=window, scope=scope
    )
    assert parse(topics.ledger(stream)) == Address(cohort, "ledger", stream=stream)


@given(st.text(max_size=80))
def test_anything_else_is_none_of_ours(topic: str) -> None:
    """Parsing never raises; accepted topics begin with the contract's root."""
    assert parse(topic) is None or topic.startswith("hush/1/")


@pytest.mark.parametrize(
    "topic",
    [
        "hush/1/home",
        "hush/2/home/policy",
        "hush/1/home/policy/",
        "hush/1/home/policy/x",
        "hush/1/HOME/policy",
        "hush/1//policy",
        "hush/1/home/noise",
        "hush/1/home/noise/a/b/c",
        "hush/1/home/z/0/wearable-1",
        "hush/1/home/z/0/wearable-1/motion",
        "hush/1/home/release/motion/hour",
        "hush/1/home/seen/a.b",
        "/hush/1/home/policy",
    ],
)
def test_a_topic_beside_the_contract_is_none_of_ours(topic: str) -> None:
    """Too long, too short, wrong version, wrong shard, wrong characters."""
    assert parse(topic) is None


def test_a_name_that_is_no_level_is_refused() -> None:
    """An invalid name never becomes a topic: it could be a wildcard, or break a NATS connection."""
    for name in ("", "a/b", "#", "+", "a.b", "a b", "a\n", "ä", "a" * 65):
        with pytest.raises(ValueError, match=re.escape(f"{name!r} is not a valid topic level")):
            level(name)


def test_shards_never_move() -> None:
    """A device's shard is part of its topic: stored values never change, and all shards are used."""
    assert [shard(f"wearable-{n}") for n in range(1, 6)] == ["1", "b", "7", "1", "0"]
    assert {shard(str(n)) for n in range(1000)} == set("0123456789abcdef")
