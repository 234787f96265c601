"""Batches are sent in order, within the in-flight limit, and again until seen. The connection is a test double."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from hushmq.agent.publish import Publisher
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Counted
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection, Offline


class Wire:
    """A test double of Connection: accepts messages while it is up, and acknowledges them on demand."""

    def __init__(self) -> None:
        self.connected = True
        self.sent: list[bytes] = []
        self.unacknowledged: list[Callable[[], None]] = []

    def publish(self, topic: str, payload: bytes, *, on_acknowledged: Callable[[], None]) -> None:
        if not self.connected:
            raise Offline
        assert topic == Topics("test").batch("wearable-1", "motion")
        self.sent.append(payload)
        self.unacknowledged.append(on_acknowledged)

    def acknowledge(self, count: int = 10**6) -> None:
        done, self.unacknowledged = self.unacknowledged[:count], self.unacknowledged[count:]
        for callback in done:
            callback()


class Bench:
    """An outbox with batches named by their tick, a test connection, and a publisher between them."""

    def __init__(self, folder: Path, *, window: int = 3) -> None:
        self.outbox = Outbox(folder, max_bytes=10**6, max_age_s=10**6)
        self.wire = Wire()
        self.publisher = Publisher(
            self.outbox,
            cast("Connection", self.wire),
            Topics("test"),
            device="wearable-1",
            window=window,
            resend_s=10.0,
            post=lambda call: call(),
        )

    def add(self, *ticks: int) -> None:
        batches = [MadeBatch("motion", tick, tick, b"%d" % tick) for tick in ticks]
        self.outbox.commit(batches, periods={"motion": 1}, seen={}, now_ms=0)
        self.publisher.allow()

    def see(self, highest: int) -> None:
        self.outbox.commit([], periods={}, seen={"motion": Counted(highest=highest)}, now_ms=0)
        self.publisher.forgotten()

    def pump(self, now: float = 0.0) -> list[int]:
        before = len(self.wire.sent)
        self.publisher.pump(now)
        return [int(payload) for payload in self.wire.sent[before:]]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Any]:
    found = Bench(tmp_path)
    yield found
    found.outbox.close()


def test_the_window_bounds_what_is_on_its_way(bench: Bench) -> None:
    bench.add(1, 2, 3, 4, 5)
    assert bench.pump() == [1, 2, 3]
    assert bench.pump() == []
    bench.wire.acknowledge(2)
    assert bench.pump() == [4, 5]


def test_an_acknowledged_batch_stays_until_it_is_seen(bench: Bench) -> None:
    bench.add(1, 2)
    bench.pump()
    bench.wire.acknowledge()
    assert [int(batch.payload) for batch in bench.outbox.page(0, 9)] == [1, 2]
    bench.see(2)
    assert bench.outbox.page(0, 9) == []


def test_after_a_reconnect_everything_that_waits_is_sent_again_from_the_oldest(bench: Bench) -> None:
    bench.add(1, 2, 3, 4)
    bench.pump()
    bench.wire.acknowledge(1)
    late = list(bench.wire.unacknowledged)
    bench.see(1)
    bench.publisher.reconnected()
    assert bench.pump() == [2, 3, 4]
    for acknowledgement in late:  # of the previous connection: they free no place in flight
        acknowledgement()
    bench.add(5)
    assert bench.pump() == []


def test_offline_nothing_is_sent_and_nothing_is_lost(bench: Bench) -> None:
    bench.add(1)
    bench.wire.connected = False
    assert bench.pump() == []
    bench.wire.connected = True
    assert bench.pump() == [1]


def test_unseen_batches_are_sent_again_at_growing_intervals(bench: Bench) -> None:
    """The resend time doubles with each attempt, up to an hour, and is reset when something is seen."""
    bench.add(1, 2)
    at: list[float] = []
    now = 0.0
    while now < 20_000:
        if bench.pump(now):
            at.append(now)
        bench.wire.acknowledge()
        now += 1.0
    gaps = [later - earlier for earlier, later in pairwise(at[1:])]
    assert gaps[:4] == [20.0, 40.0, 80.0, 160.0]
    assert max(gaps) == 3600.0
    bench.see(1)
    bench.pump(now)
    bench.wire.acknowledge()
    assert next(time for time in range(4000) if bench.pump(now + time) == [2]) <= 3600 + 10


@pytest.mark.slow
def test_what_is_seen_in_time_is_never_sent_twice(bench: Bench) -> None:
    sent: list[int] = []
    for second in range(200):
        bench.add(second)
        sent += bench.pump(float(second))
        bench.wire.acknowledge()
        bench.see(second - 3) if second >= 3 else None
    assert sent == list(range(200))


def test_what_was_dropped_or_seen_is_not_sent_from_memory(bench: Bench) -> None:
    bench.add(*range(1, 10))
    assert bench.pump() == [1, 2, 3]
    bench.see(6)
    bench.wire.acknowledge()
    assert bench.pump() == [7, 8, 9]


def test_what_was_made_since_the_last_beat_is_held_back(bench: Bench) -> None:
    """New batches wait for `allow`, also through acknowledgements and a reconnect; older ones go on."""
    bench.add(1)
    made = MadeBatch("motion", 2, 2, b"2")
    bench.outbox.commit([made], periods={"motion": 1}, seen={}, now_ms=0)
    assert bench.pump() == [1]
    bench.wire.acknowledge()
    assert bench.pump() == []
    bench.publisher.reconnected()
    assert bench.pump() == [1]
    bench.publisher.allow()
    assert bench.pump() == [2]
