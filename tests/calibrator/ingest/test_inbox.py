"""The inbox is bounded and keeps the order; nothing is charged before what it held at the start was taken."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from hushmq.broker.contract.messages import Batch
from hushmq.broker.service.log import logger
from hushmq.calibrator.ingest import inbox as inbox_module
from hushmq.calibrator.ingest import settling as settling_module
from hushmq.calibrator.ingest.count_batches import CountedStates
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.ingest.settling import SETTLING_S, Settling
from hushmq.calibrator.models.binary.binary_statistics import BinarySums
from hushmq.calibrator.models.categorical.categorical_statistics import CategoricalSums


def message(number: int) -> Arrived:
    return Arrived(f"topic/{number}", b"")


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Inbox:
    monkeypatch.setattr(inbox_module, "GROUP", 3)
    monkeypatch.setattr(inbox_module, "CAPACITY", 5)
    return Inbox(logger("debug", "json", io.StringIO()))


def test_groups_are_taken_in_order_and_what_does_not_fit_is_dropped(inbox: Inbox) -> None:
    """Seven messages for five places: two are counted as dropped, the others come in groups of three."""
    for number in range(7):
        inbox.put(message(number))
    assert (len(inbox), inbox.received, inbox.dropped) == (5, 5, 2)
    assert inbox.take(0.0) == [message(n) for n in range(3)]
    assert inbox.take(1.0) == [message(n) for n in range(3, 5)]
    assert (len(inbox), inbox.taken) == (0, 5)
    assert inbox.take(0.0) == []


def test_large_messages_take_no_more_memory_than_many_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded in bytes as well; room comes back with what is taken, and goes with what is put back."""
    monkeypatch.setattr(inbox_module, "CAPACITY_BYTES", 1000)
    inbox = Inbox(logger("debug", "json", io.StringIO()))
    for _ in range(5):
        inbox.put(Arrived("topic", bytes(400)))
    assert (len(inbox), inbox.waiting_bytes, inbox.dropped) == (2, 800, 3)
    inbox.put(Arrived("topic", bytes(200)))
    assert inbox.waiting_bytes == 1000
    group = inbox.take(0.0)
    assert inbox.waiting_bytes == 0
    inbox.put_back(group)
    inbox.put(Arrived("topic", b"x"))
    assert (inbox.waiting_bytes, inbox.dropped) == (1000, 4)


def test_few_messages_are_collected_and_many_are_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message alone waits for those that come while it does; a full group does not wait at all."""
    inbox, waits = Inbox(logger("debug", "json", io.StringIO()), collect_s=0.7), list[float]()

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        if not inbox._many.is_set():
            inbox.put(message(2))
        return inbox._many.is_set()

    monkeypatch.setattr(inbox._many, "wait", wait)
    inbox.put(message(1))
    assert inbox.take(1.0) == [message(1), message(2)]
    monkeypatch.setattr(inbox_module, "MANY", 3)
    monkeypatch.setattr(inbox_module, "GROUP", 3)
    for number in range(7):
        inbox.put(message(number))
    assert [len(inbox.take(1.0)) for _ in range(2)] == [3, 3]
    assert waits == [0.7] * 3
    assert not inbox._many.is_set()  # one is left, which waits for others


def test_settled_when_what_arrived_in_the_first_second_was_taken(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while offline, not in the first second, not with messages of that second left; afterwards for good."""
    now = [100.0]
    monkeypatch.setattr(settling_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settling = Settling(inbox)
    inbox.put(message(1))
    assert not settling.settled(connected=False)
    now[0] += 10 * SETTLING_S
    assert not settling.settled(connected=True)
    now[0] += SETTLING_S
    assert not settling.settled(connected=True)
    inbox.put(message(2))
    inbox.take(0.0)
    assert settling.settled(connected=True)
    inbox.put(message(3))
    assert settling.settled(connected=False)


def test_after_a_slow_turn_what_came_meanwhile_is_counted_first(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows wait for a grace after a turn that took longer than one; a calibrator that is always slow closes them."""
    now = [100.0]
    monkeypatch.setattr(settling_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    settling = Settling(inbox)

    def after(seconds: float) -> bool:
        now[0] += seconds
        return settling.caught_up(connected=True, grace_s=3.0)

    assert not after(0.0)
    assert not after(SETTLING_S)
    assert [after(1.0) for _ in range(4)] == [False, False, True, True]
    assert [after(seconds) for seconds in (4.0, 0.1, 2.0, 0.9)] == [False, False, False, True]
    assert [after(4.0) for _ in range(4)] == [False, True, False, True]


def test_no_description_contains_states() -> None:
    """What an exception or a debugger might print of counted material has neither states nor exact sums."""
    message = Batch(first=5, after=None, count=8, bits=1, states="qg==", noise=1)
    sums = BinarySums()
    sums.add(b"\1" * 64)
    several = CategoricalSums(3)
    several.add(b"\2" * 64)
    shown = [
        repr(message),
        repr(Arrived("topic", b"qg==")),
        repr(CountedStates(5, 12, 1, b"qg==")),
        repr(sums),
        repr(several),
    ]
    assert not [
        text for text in shown if "qg==" in text or "ones" in text or "counts" in text or "pairs" in text
    ]
