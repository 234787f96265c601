"""Only the newest value of a topic is published, once, and nothing is overwritten before it has been read back."""

from __future__ import annotations

import pytest

from hushmq.broker.mqtt.connection import Offline
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.publish.retained_topics import REPAIR_S, RetainedTopics
from tests.calibrator.publish.fake_connection import FakeConnection


def test_the_newest_value_is_published_once() -> None:
    """Values in between are skipped, equal ones are not sent again, a device's setting goes before the cohort's."""
    topics, connection = RetainedTopics(), FakeConnection()
    topics.set_setting("noise/motion", b"1")
    topics.set_setting("noise/motion", b"2")
    topics.set_setting("noise/motion/d0", b"3")
    topics.publish(connection, overwrite=True)
    assert connection.take() == [("noise/motion/d0", b"3"), ("noise/motion", b"2")]
    topics.set_setting("noise/motion", b"2")
    topics.publish(connection, overwrite=True)
    assert connection.take() == []


def test_what_is_read_back_at_a_start_is_not_overwritten_before() -> None:
    """Settings and ledger states wait until the calibrator has read what the broker retains; `seen` does not."""
    topics, connection = RetainedTopics(), FakeConnection()
    topics.set("seen/d0", b"s")
    topics.set_setting("noise/motion", b"n")
    topics.set_ledger("ledger/motion", b"l")
    topics.publish(connection, overwrite=False)
    assert connection.take() == [("seen/d0", b"s")]
    topics.publish(connection, overwrite=True)
    assert connection.take() == [("ledger/motion", b"l"), ("noise/motion", b"n")]


def test_everything_again_but_what_is_held_back() -> None:
    """After a reconnect all topics are published again, but the ledger of a stream that is behind its mark."""
    topics, connection = RetainedTopics(), FakeConnection()
    topics.set("seen/d0", b"s")
    topics.set_ledger("ledger/motion", b"l")
    topics.publish(connection, overwrite=True)
    connection.take()
    topics.publish_again()
    topics.hold_back("ledger/motion")
    topics.publish(connection, overwrite=True)
    assert connection.take() == [("seen/d0", b"s")]


def test_what_did_not_get_through_waits() -> None:
    """A connection that breaks in the middle leaves the rest for the next turn."""
    topics, connection = RetainedTopics(), FakeConnection(room=1)
    topics.set("a", b"1")
    topics.set("b", b"2")
    with pytest.raises(Offline):
        topics.publish(connection, overwrite=True)
    connection.room = 1
    topics.publish(connection, overwrite=True)
    assert connection.take() == [("a", b"1"), ("b", b"2")]


def test_an_overwritten_setting_is_repaired_once_in_a_while() -> None:
    """Somebody else's bytes on a setting's topic bring ours again, at most once a second; our own echo does not."""
    topics, connection = RetainedTopics(), FakeConnection()
    topics.set_setting("noise/motion", b"ours")
    topics.set("seen/d0", b"s")
    topics.publish(connection, overwrite=True)
    connection.take()
    wrong = [Arrived("noise/motion", b"theirs"), Arrived("seen/d0", b"theirs")]
    for now, expected in (
        (10.0, [("noise/motion", b"ours")]),
        (10.0 + REPAIR_S / 2, []),
        (10.0 + REPAIR_S, [("noise/motion", b"ours")]),
    ):
        topics.repair_overwritten([*wrong, Arrived("noise/motion", b"ours")], now)
        topics.publish(connection, overwrite=True)
        assert connection.take() == expected
    topics.repair_overwritten([Arrived("noise/motion", b"ours")], 100.0)
    topics.publish(connection, overwrite=True)
    assert connection.take() == []
