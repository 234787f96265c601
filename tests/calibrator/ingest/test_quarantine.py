"""A device that misbehaves is set aside; its data stays with it, and the cohort goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.calibrator_config import DevicesSection
from hushmq.calibrator.ingest.inbox import Arrived
from tests.calibrator.site import START, STREAM, TOPICS, Clock, desk, from_device, sqlite

STRICT = DevicesSection(skew_s=5, messages_per_s=1, burst=5, strikes=3, quarantine_s=100)
FUTURE, PAST = from_device("bad", START + 1000, [1]), from_device("bad", START - 1000, [1])


@pytest.mark.parametrize(
    ("offence", "reason"), [(FUTURE, Reason.FUTURE_TICK), (PAST, Reason.IMPOSSIBLE_TICK)]
)
def test_three_impossible_batches(tmp_path: Path, offence: Arrived, reason: Reason) -> None:
    """Two are forgiven; after the third nothing of the device is counted or `seen`, and it is told in the log."""
    with desk(sqlite(tmp_path), devices=STRICT) as here:
        here.adopt()
        for count in (1, 2):
            here.cohort.receive([offence])
            assert here.cohort.quarantined() == {}
            assert here.cohort.rejected[reason] == count
        assert here.cohort.receive([from_device("bad", START, [1])]).devices == {"bad"}
        here.cohort.receive([offence])
        assert here.cohort.quarantined() == {"bad": reason}
        assert '"quarantined"' in here.log.getvalue()
        good = [from_device("bad", START + 1, [1]), from_device("good", START, [0])]
        assert here.cohort.receive(good).devices == {"good"}
        assert here.cohort.rejected[Reason.QUARANTINED] == 1
        assert here.seen("bad").streams[STREAM].highest == START


def test_tampering_is_not_forgiven(tmp_path: Path) -> None:
    """One tick with two states is enough."""
    with desk(sqlite(tmp_path), devices=STRICT) as here:
        here.adopt()
        here.cohort.receive([from_device("bad", START, [1, 0]), from_device("bad", START, [0, 0])])
        assert here.cohort.quarantined() == {"bad": Reason.TAMPERED}


def test_faster_than_any_device(tmp_path: Path) -> None:
    """A burst is allowed, and a pace; what goes beyond is refused, and kept up it means quarantine."""
    with desk(sqlite(tmp_path), devices=STRICT) as here:
        here.adopt()
        batches = [from_device("bad", START - 3 + n % 4, [1]) for n in range(6)]
        here.cohort.receive(batches)
        assert here.cohort.rejected[Reason.TOO_FAST] == 1
        here.clock.tick += 1
        here.cohort.receive([from_device("bad", START + 1, [1])])
        assert here.cohort.rejected[Reason.TOO_FAST] == 1
        here.cohort.receive(batches[:2])
        assert here.cohort.quarantined() == {"bad": Reason.TOO_FAST}


def test_quarantine_survives_a_restart_and_ends(tmp_path: Path) -> None:
    """The records are durable; after the time the device is heard again, with one strike left."""
    clock = Clock()
    with desk(sqlite(tmp_path), devices=STRICT, clock=clock) as here:
        here.adopt()
        here.cohort.receive([FUTURE] * 3)
    clock.tick += 99
    with desk(sqlite(tmp_path), devices=STRICT, clock=clock) as here:
        assert here.cohort.quarantined() == {"bad": Reason.FUTURE_TICK}
        clock.tick += 2
        assert here.cohort.receive([from_device("bad", START + 50, [1])]).devices == {"bad"}
        here.cohort.receive([FUTURE])
        assert here.cohort.quarantined() == {"bad": Reason.FUTURE_TICK}


def test_refusals_are_counted_always_and_logged_once(tmp_path: Path) -> None:
    """A flood of refused messages does not flood the log."""
    with desk(sqlite(tmp_path), devices=STRICT) as here:
        here.adopt()
        here.cohort.receive([from_device("d", START, [1], noise=9)] * 5)
        assert here.cohort.rejected[Reason.POLICY_MISMATCH] == 5
        assert here.log.getvalue().count("policy-mismatch") == 1


def test_a_device_that_invents_streams_does_not_flood_the_log(tmp_path: Path) -> None:
    """Refusals on as many topics as a device can write to are logged as one sender's, each reason once a minute."""
    with desk(sqlite(tmp_path), devices=STRICT) as here:
        here.adopt()
        payload = from_device("d", START, [1]).payload
        here.cohort.receive(Arrived(TOPICS.batch("d", f"invented-{n}"), payload) for n in range(500))
        here.cohort.receive(
            Arrived(TOPICS.release(f"invented-{n}", "w", "d"), b"garbage") for n in range(500)
        )
        here.cohort.receive(Arrived(f"{TOPICS.policy}/invented-{n}", b"garbage") for n in range(500))
        assert sum(here.cohort.rejected.values()) >= 1000
        assert here.log.getvalue().count('"rejected"') <= 4
