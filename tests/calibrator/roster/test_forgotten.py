"""A forgotten device: its rows and its retained topics go; its debits, and what prices them, stay."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select

from hushmq.broker.contract.messages import Release, Status, decode, encode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from hushmq.calibrator.ingest.inbox import Arrived, Inbox
from hushmq.calibrator.ledger.verify_ledger import verify
from hushmq.calibrator.roster.forgotten import ROWS, forget_device, forgotten_devices, topics_of
from hushmq.calibrator.serve_cohort import ServedCohort
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_store
from tests.calibrator.conftest import Databases
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.site import (
    START,
    STREAM,
    TOPICS,
    batch,
    desk,
    from_device,
    policy,
    signed,
    sqlite,
    states,
    wait_until,
)

EVERYTHING = f"{TOPICS.policy.rsplit('/', 1)[0]}/#"
KEPT = {"setting", "learned_theta"}
"""Tables with a device's name whose rows stay: they price the past."""


def test_every_table_with_a_device_is_dealt_with() -> None:
    """A table that is added later is deleted from, or kept on purpose."""
    named = {table.name for table in store.metadata.tables.values() if "device" in table.c}
    assert named == {table.name for table in ROWS} | KEPT | {"roster", "accounted"}


def test_rows_go_and_debits_stay(databases: Databases) -> None:
    """Later windows are without it; the ledger is right; none of its ticks counts again, and new ones do."""
    with desk(databases.fresh()) as here:
        here.adopt()
        for number in range(2):
            here.window(number)
            here.cohort.close_due()
        here.cohort.receive([from_device("d0", START + 45, states(5), after=START + 42)])
        with here.engine.begin() as db:
            entries = db.execute(select(func.count()).select_from(store.ledger)).scalar()
            db.execute(insert(store.quarantine).values(device="d0", reason="tampered", strikes=9, until=1e12))
            assert forget_device(db, "d0") > 4
            assert forget_device(db, "d0") == 0
            assert [
                table.name for table in ROWS if "d0" in set(db.execute(select(table.c.device)).scalars())
            ] == []
            assert forgotten_devices(db) == {"d0"}
            assert db.execute(select(func.count()).select_from(store.ledger)).scalar() == entries
            assert all(one.passed for one in verify(db, STREAM))
        here.window(2, devices=3)  # its old ticks and new ones: what was used is not counted again
        with here.engine.begin() as db:
            runs = db.execute(
                select(store.accounted.c.first, store.accounted.c.last).where(
                    store.accounted.c.device == "d0"
                )
            ).all()
            assert [tuple(run) for run in runs] == [(START, START + 59)]
            assert forgotten_devices(db) == set()
            counted = dict(db.execute(select(store.tally.c.device, store.tally.c.counted)).all())
        assert (counted["d0"], counted["d1"]) == (10, 60)


def test_a_window_in_progress_goes_on_without_it(tmp_path: Path) -> None:
    """Who is forgotten is decided by ops, so that a release tells nothing of the device by leaving it out."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0)
        with here.engine.begin() as db:
            forget_device(db, "d1")
        here.cohort.close_due()
        (release,) = [decode(Release, one.payload) for one in here.cohort.unsent()]
        assert release.devices == 2


def test_the_topics_of_one_device_alone(tmp_path: Path) -> None:
    """A name that ends like another, and a character that SQL reads as any, name nobody else."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        for entry, device in enumerate(("a_1", "ab1", "xa_1"), 1):
            row = dict.fromkeys(("stream", "window", "audience", "noise_digest", "why", "at", "digest"), "")
            db.execute(insert(store.ledger).values(id=entry, first=0, last=0, tilt=0, noise=0, **row))
            topic = TOPICS.release("old", "hour", device)
            db.execute(insert(store.release).values(entry=entry, topic=topic, payload=b"", sent=True))
            versions = {"stream": "old", "version": entry, "policy": 1, "noise": "{}", "payload": b""}
            db.execute(insert(store.setting).values(device=device, **versions))
        assert topics_of(db, "a_1", TOPICS, [(STREAM, "short")]) == sorted(
            [
                TOPICS.noise("old", "a_1"),
                TOPICS.release("old", "hour", "a_1"),
                TOPICS.release(STREAM, "short", "a_1"),
                TOPICS.seen("a_1"),
            ]
        )


def test_a_cleared_status_is_no_status(tmp_path: Path) -> None:
    """Of a device that is not forgotten nothing else is cleared."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0)
        for payload in (encode(Status(online=True)), b""):
            received = here.cohort.receive([Arrived(TOPICS.status("d0"), payload)])
        assert here.cohort.statuses == {}
        assert received.forgotten == frozenset()
        with here.engine.begin() as db:
            forget_device(db, "d0")
        assert here.cohort.receive([Arrived(TOPICS.status("d0"), b"")]).forgotten == {"d0"}


class HeldOutlet:
    """A broker that retains what it is given, and acknowledges it when it is told to."""

    connected = True

    def __init__(self) -> None:
        self.retained: dict[str, bytes] = {}
        self._held: list[Callable[[], None]] = []

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        assert retain
        self.retained[topic] = payload
        if on_acknowledged is not None:
            self._held.append(on_acknowledged)

    def acknowledge(self) -> None:
        while self._held:
            self._held.pop()()


@pytest.mark.parametrize("acknowledged", ["before", "with", "after"])
@pytest.mark.parametrize("published", [True, False])
def test_a_release_on_its_way_does_not_come_back(tmp_path: Path, acknowledged: str, published: bool) -> None:
    """Whenever its acknowledgement comes, and where it is published only after its topic was cleared."""
    windows = {"short": Window(ticks=20, scopes=("device",))}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=windows))
        here.window(0)
        here.cohort.close_due()
        inbox, outlet = Inbox(logger("error", "json", io.StringIO())), HeldOutlet()
        served = ServedCohort(here.cohort, inbox, grace_s=1.0, seen_every_s=0.0)
        gone, stays = (TOPICS.release(STREAM, "short", name) for name in ("d0", "d1"))
        if published:
            served.begin()
            served.turn(outlet)
            assert outlet.retained[gone]
        if acknowledged == "before":
            outlet.acknowledge()
            served.turn(outlet)
        with here.engine.begin() as db:
            forget_device(db, "d0")
        if not published:
            served.begin()
        inbox.put(Arrived(TOPICS.status("d0"), b""))
        if acknowledged == "with":
            outlet.acknowledge()
        served.turn(outlet)
        for _ in range(2):
            outlet.acknowledge()
            served.turn(outlet)
        assert (outlet.retained[gone], outlet.retained[TOPICS.seen("d0")]) == (b"", b"")
        assert outlet.retained[stays]
        assert here.cohort.unsent() == []


@pytest.mark.slow
def test_a_running_calibrator_clears_its_topics(broker: BrokerProcess, tmp_path: Path) -> None:
    """When the status is cleared; they stay clear when it starts again. A device that comes back is seen."""
    config = write_config(tmp_path / "calibrator", broker)
    windows = {"short": Window(ticks=200, scopes=("device",))}
    gone, stays = "wearable-1", "wearable-2"
    used = 0

    def sent(ops: Client, name: str) -> None:
        """A device sends ticks that nobody has sent before, and they are seen."""
        nonlocal used
        setting = ops.setting()
        assert setting is not None
        first = max(used + 1, int(time.time() * 1000) // 20)
        used = first + 399
        with Client(broker, name) as device:
            device.say(TOPICS.status(name), encode(Status(online=True)), retain=True)
            device.say(TOPICS.batch(name, STREAM), batch(first, states(400), noise=setting.version))
        wait_until(lambda: (one := ops.seen(name)) is not None and one.streams[STREAM].highest >= used)

    def retained() -> set[str]:
        """What a newcomer finds, besides policy, noise and ledger of the cohort."""
        with Client(broker, "ops", EVERYTHING) as newcomer:
            wait_until(lambda: newcomer.heard.get(TOPICS.ledger(STREAM)))
            time.sleep(0.2)
            return {topic for topic, heard in newcomer.heard.items() if heard[-1]}

    with process(config), Client(broker, "ops", EVERYTHING) as ops:
        ops.say(TOPICS.policy, signed(policy(period_ms=20, windows=windows)), retain=True)
        ops.wait_for_setting()
        for name in (gone, stays):
            sent(ops, name)
        both = [TOPICS.release(STREAM, "short", name) for name in (gone, stays)]
        wait_until(lambda: all(ops.heard.get(topic) for topic in both))
        engine = open_store(sqlite(tmp_path / "calibrator"))
        with engine.begin() as db:
            assert forget_device(db, gone) > 0
        engine.dispose()
        ops.say(TOPICS.status(gone), b"", retain=True)
        wait_until(lambda: not any(topic.endswith(gone) for topic in retained()))
        assert {TOPICS.seen(stays), both[1]} <= retained()
    with process(config), Client(broker, "ops", EVERYTHING) as ops:
        ops.wait_for_setting()
        sent(ops, stays)
        assert not any(topic.endswith(gone) for topic in retained())
        sent(ops, gone)
        wait_until(lambda: TOPICS.seen(gone) in retained())
