"""Releases that devices make: checked like batches, added up once, late ones counted, nothing charged twice."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from hushmq.agent.device_windows import ClosedWindow
from hushmq.agent.device_windows import release as made_by_agent
from hushmq.broker.contract.messages import Release, decode, encode
from hushmq.broker.contract.policy_message import DeviceWindow, StreamPolicy, Window
from hushmq.broker.contract.problem import Reason
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.models.draw_noise import variance
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.tick_counts import late_ticks
from hushmq.calibrator.windows.outgoing import OutgoingAggregate
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import (
    START,
    STREAM,
    TOPICS,
    Clock,
    Desk,
    desk,
    from_device,
    policy,
    signed,
    sqlite,
    states,
    wait_until,
)

TICKS, SCALE = 10, 20.0
WINDOWS = {"own": DeviceWindow(ticks=TICKS, scale=SCALE)}
POLICY = policy(device_windows=WINDOWS)


def made(here: Desk, device: str, start: int, true: tuple[int, int], /, **changes: Any) -> Arrived:
    """A release as an agent makes it, with what is changed about it."""
    setting = here.cohort.calibrate()[STREAM].message
    stream: StreamPolicy = POLICY.streams[STREAM]
    payload = made_by_agent(
        ClosedWindow("own", start, start + TICKS - 1, true), STREAM, stream, setting, device=device, entry=1
    ).payload
    message = decode(Release, payload).model_copy(update=changes)
    topic = TOPICS.release(STREAM, "own", device)
    return Arrived(topic, encode(message))


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Desk]:
    with desk(sqlite(tmp_path)) as one:
        one.adopt(POLICY)
        yield one


def sums(here: Desk) -> list[Release]:
    return [
        decode(Release, one.payload) for one in here.cohort.unsent() if isinstance(one, OutgoingAggregate)
    ]


def collected(here: Desk) -> int:
    with here.engine.begin() as db:
        return int(db.execute(select(func.count()).select_from(store.collected)).scalar_one())


def test_the_sum_is_that_of_the_devices(here: Desk) -> None:
    """Counts and ticks add up, each device's noise adds its variance, and no debit is made for it."""
    here.clock.tick = START + TICKS + 0.5
    arrived = [made(here, f"d{n}", START, (4, 5)) for n in range(3)]
    here.cohort.receive(arrived)
    here.cohort.close_due()
    assert sums(here) == []
    here.clock.tick += 1
    here.cohort.close_due()
    (total,) = sums(here)
    each = [decode(Release, one.payload) for one in arrived]
    assert (total.scope, total.devices, total.ticks) == ("cohort", 3, 27)
    assert total.counts == tuple(sum(one.counts[state] for one in each) for state in (0, 1))
    assert total.standard_errors[0] == pytest.approx(math.sqrt(3 * variance(SCALE)) / 27)
    low, high = total.intervals[1]
    assert low < total.frequencies[1] < high
    with here.engine.begin() as db:
        assert db.execute(select(func.count()).select_from(store.ledger)).scalar_one() == 0
    here.cohort.close_due()
    assert sums(here) == [total]


def test_the_same_bytes_count_once_and_others_are_tampering(here: Desk) -> None:
    """What a broker retains comes again at every reconnect; other counts for the same window are an offence."""
    here.clock.tick = START + TICKS + 2
    one = made(here, "d0", START, (4, 5))
    here.cohort.receive([one, one])
    here.cohort.close_due()
    here.cohort.receive([one])
    here.cohort.close_due()
    (total,) = sums(here)
    assert (total.devices, total.ticks) == (1, 9)
    here.cohort.receive([made(here, "d0", START, (5, 4), counts=(100, -91))])
    assert here.cohort.rejected[Reason.TAMPERED] == 1
    assert here.cohort.quarantined() == {"d0": Reason.TAMPERED}


def test_what_is_added_and_forgotten_does_not_come_late(here: Desk) -> None:
    """A broker that was not acknowledged in time sends a whole queue again: windows long added are no late ones."""
    here.clock.tick = START + 4 * TICKS + 2
    queue = [made(here, "d0", START + number * TICKS, (4, 5)) for number in range(4)]
    here.cohort.receive(queue)
    here.cohort.close_due()
    assert len(sums(here)) == 4
    assert collected(here) == 1
    here.cohort.receive(queue)
    here.cohort.close_due()
    assert len(sums(here)) == 4
    with here.engine.begin() as db:
        assert late_ticks(db, STREAM) == 0
    # A device that comes too late for all of them is counted once for each.
    late = [made(here, "d1", START + number * TICKS, (4, 5)) for number in range(4)]
    for _ in range(2):
        here.cohort.receive(late)
        here.cohort.close_due()
    with here.engine.begin() as db:
        assert late_ticks(db, STREAM) == 36


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"scope": "d9"}, Reason.WRONG_ADDRESS),
        ({"window": "other"}, Reason.WRONG_ADDRESS),
        ({"states": ("a", "b")}, Reason.POLICY_MISMATCH),
        ({"devices": 5}, Reason.POLICY_MISMATCH),
        ({"scale": SCALE * 0.99}, Reason.POLICY_MISMATCH),
        ({"first": START + 1, "last": START + TICKS}, Reason.IMPOSSIBLE_TICK),
        ({"last": START + TICKS}, Reason.IMPOSSIBLE_TICK),
        ({"ticks": TICKS + 1, "counts": (5, TICKS - 4)}, Reason.IMPOSSIBLE_TICK),
        ({"first": START + 1000, "last": START + 1000 + TICKS - 1}, Reason.FUTURE_TICK),
        ({"counts": (4, 6)}, Reason.MALFORMED),
    ],
)
def test_what_no_device_may_release_is_refused(here: Desk, changes: dict[str, Any], reason: Reason) -> None:
    """One reason each, and nothing of it is kept."""
    here.clock.tick = START + TICKS + 2
    here.cohort.receive([made(here, "d0", START, (4, 5), **changes)])
    assert here.cohort.rejected == {reason: 1}
    assert collected(here) == 0


def test_a_late_one_is_counted_and_never_added(here: Desk) -> None:
    """After its window is added up a release changes no sum; its ticks are reported as late, once."""
    here.clock.tick = START + TICKS + 2
    here.cohort.receive([made(here, "d0", START, (4, 5))])
    here.cohort.close_due()
    late = made(here, "d1", START, (2, 6))
    here.cohort.receive([late])
    here.cohort.receive([late])
    here.cohort.close_due()
    (total,) = sums(here)
    assert total.devices == 1
    with here.engine.begin() as db:
        assert late_ticks(db, STREAM) == 8


def test_our_own_releases_come_back_as_no_news(tmp_path: Path) -> None:
    """The calibrator hears its own releases and sums; they are neither refused nor collected."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(device_windows=WINDOWS, windows={"short": Window(ticks=20)}))
        here.window()
        here.cohort.close_due()
        here.cohort.receive([made(here, "d0", START, (4, 5))])
        here.cohort.close_due()
        echoes = [Arrived(one.topic, one.payload) for one in here.cohort.unsent()]
        assert len(echoes) == 2
        here.cohort.receive(echoes)
        assert not here.cohort.rejected
        assert collected(here) == 1


def test_the_table_does_not_grow(here: Desk) -> None:
    """Of what is added up each device's newest is kept, and one sum that was sent."""
    for number in range(6):
        first = START + number * TICKS
        here.clock.tick = first + TICKS + 2
        here.cohort.receive([made(here, f"d{n}", first, (4, 5)) for n in range(2)])
        here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())
    assert collected(here) == 2
    with here.engine.begin() as db:
        assert db.execute(select(func.count()).select_from(store.aggregate)).scalar_one() == 1
    here.clock.tick += TICKS
    here.cohort.receive([made(here, "d0", START + 6 * TICKS, (4, 5))])
    here.cohort.close_due()
    assert [one.entry for one in sums(here)] == [7]


def test_the_same_bytes_after_a_restart(tmp_path: Path) -> None:
    """A sum that was not acknowledged is published again as it is."""
    clock = Clock(START + TICKS + 2)
    with desk(sqlite(tmp_path), clock=clock) as first:
        first.adopt(POLICY)
        first.cohort.receive([made(first, "d0", START, (4, 5))])
        first.cohort.close_due()
        before = first.cohort.unsent()
    with desk(sqlite(tmp_path), clock=clock) as second:
        second.cohort.close_due()
        assert second.cohort.unsent() == before
        second.cohort.mark_sent(before)
        assert second.cohort.unsent() == []


def test_states_that_come_after_a_devices_own_window_are_not_late(here: Desk) -> None:
    """How far devices' own releases are added up says nothing about the windows of the sanitized stream."""
    here.clock.tick = START + TICKS + 2
    here.cohort.receive([made(here, "d0", START, (4, 5))])
    here.cohort.close_due()
    here.cohort.receive([from_device("d0", START, states(TICKS))])
    with here.engine.begin() as db:
        assert late_ticks(db, STREAM) == 0


def test_through_a_real_broker(broker: BrokerProcess, tmp_path: Path) -> None:
    """A device publishes its release with its own rights; the sum comes back on the cohort's topic."""
    config = write_config(tmp_path, broker)
    with process(config), Client(broker, "ops", TOPICS.all("release"), TOPICS.all("noise")) as ops:
        period = 100
        wanted = policy(period_ms=period, device_windows=WINDOWS)
        ops.say(TOPICS.policy, signed(wanted), retain=True)
        ops.wait_for_setting()
        setting = ops.setting()
        assert setting is not None
        first = int(time.time() * 1000 // period) // TICKS * TICKS - 2 * TICKS
        payload = made_by_agent(
            ClosedWindow("own", first, first + TICKS - 1, (4, 5)),
            STREAM,
            wanted.streams[STREAM],
            setting,
            device="wearable-1",
            entry=1,
        ).payload
        with Client(broker, "wearable-1") as wearable:
            wearable.say(TOPICS.release(STREAM, "own", "wearable-1"), payload, retain=True)
        topic = TOPICS.release(STREAM, "own", "cohort")
        wait_until(lambda: ops.heard[topic])
        total = decode(Release, ops.heard[topic][-1])
        assert (total.devices, total.ticks, total.first) == (1, 9, first)


def test_it_is_what_the_policy_says(here: Desk) -> None:
    """Windows of the calibrator's own are never taken from devices."""
    here.clock.tick = START + 30
    arrived = made(here, "d0", START, (4, 5), window="short")
    here.cohort.receive([Arrived(TOPICS.release(STREAM, "short", "d0"), arrived.payload)])
    assert collected(here) == 0
