"""Stored releases are handed over once for each connection, and forgotten when they are acknowledged."""

from __future__ import annotations

from hushmq.calibrator.publish.release_queue import ReleaseQueue
from hushmq.calibrator.windows.outgoing import OutgoingAggregate, OutgoingRelease
from tests.calibrator.publish.fake_connection import FakeConnection

RELEASE, SUM = OutgoingRelease(1, "release/a", b"r"), OutgoingAggregate(1, "release/b", b"s")


def test_each_is_handed_over_once_until_the_connection_is_another() -> None:
    """A new connection holds nothing: everything that is not acknowledged is handed to it."""
    queue, connection = ReleaseQueue(), FakeConnection()
    queue.replace([RELEASE, SUM])
    for _ in range(2):
        queue.publish(connection)
    assert connection.take() == [("release/a", b"r"), ("release/b", b"s")]
    queue.publish_again()
    queue.publish(connection)
    assert len(connection.take()) == 2


def test_acknowledgements_name_what_was_sent() -> None:
    """An entry and a sum of the same number are told apart; each is reported once."""
    queue, connection = ReleaseQueue(), FakeConnection()
    queue.replace([RELEASE, SUM])
    queue.publish(connection)
    assert queue.take_acknowledged() == []
    connection.acknowledge[1]()
    assert queue.take_acknowledged() == [SUM]
    assert queue.take_acknowledged() == []
    assert len(queue) == 2
    queue.replace([RELEASE])
    connection.acknowledge[0]()
    assert queue.take_acknowledged() == [RELEASE]
