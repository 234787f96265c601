"""Workers as processes, with a real PostgreSQL and a real NATS: they die, they are paused, and nothing is lost."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.verify_cohorts import verify_cohort
from hushmq.calibrator.fleet_config import load_fleet
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_to_read, reading
from hushmq.calibrator.store.tick_counts import counted_ticks
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_site import TICKS, Device, Fleet, Ops, fleet_site, tell, tick
from tests.calibrator.site import STREAM, wait_until

COHORTS = 3
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def fleet(postgres_databases: PostgresDatabases, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet with a broker and a database, and no worker yet."""
    with NatsServer(fleet_site(COHORTS), tmp_path / "nats") as nats:
        found = Fleet(tmp_path / "fleet", nats, postgres_databases.fresh(), COHORTS)
        for cohort in found.cohorts:
            create_cohort(found.database, cohort)
        yield found


class Load:
    """A device of each cohort, which sends a batch at every beat."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.devices = [Device(cohort, f"{cohort}-0", fleet.broker) for cohort in fleet.cohorts]
        self._next = tick() // TICKS * TICKS

    def beat(self) -> None:
        """The ticks since the last beat, as batches."""
        while self._next + TICKS <= tick():
            for device in self.devices:
                device.send(self._next)
            self._next += TICKS
        time.sleep(0.1)

    def until_seen(self) -> None:
        """Send again until everything is counted."""

        def seen() -> bool:
            for device in self.devices:
                device.send_again()
            time.sleep(0.2)
            return not any(device.waiting for device in self.devices)

        wait_until(seen)


def check(fleet: Fleet, load: Load, ops: Ops) -> None:
    """The identity, one payload for each window, and the ledgers, of every cohort."""
    config = load_fleet(fleet.config(0))
    for device in load.devices:
        with reading(open_to_read(fleet.url(device.cohort))) as db:
            assert counted_ticks(db)[device.name, STREAM] == TICKS * len(device.sent)
            stored = Counter(
                (row.window, row.scope, row.first)
                for row in db.execute(select(store.ledger).where(store.ledger.c.tilt > 0))
            )
            payloads = set(db.execute(select(store.release.c.payload)).scalars())
        assert set(stored.values()) == {1}, "a window was charged twice"
        heard = ops.releases(device.cohort)
        assert len({one.first for one in heard}) == len(heard), "a window has two payloads"
        assert ops.payloads(device.cohort) <= payloads
        assert verify_cohort(config.settings_of(device.cohort)) == []


def test_kill_9_and_a_pause_past_the_claim(fleet: Fleet) -> None:
    """Two workers share the cohorts. One is killed: the other has all of them. One that is paused for longer than its
    claim loses them, writes nothing when it wakes up, and takes its share again later."""
    with ExitStack() as stack:
        ops = stack.enter_context(Ops(fleet.broker))
        first = stack.enter_context(fleet.worker(0))
        second = stack.enter_context(fleet.worker(1))
        for cohort in fleet.cohorts:
            ops.push(cohort)
        wait_until(lambda: sorted(Counter(fleet.claimants().values()).values()) == [1, 2])
        wait_until(lambda: all(ops.has_setting(cohort) for cohort in fleet.cohorts))
        load = Load(fleet)
        for device in load.devices:
            stack.enter_context(device.connected())

        def served_by(*names: str) -> bool:
            load.beat()
            claimants = fleet.claimants()
            return len(claimants) == COHORTS and set(claimants.values()) == set(names)

        wait_until(lambda: load.beat() or all(ops.releases(cohort) for cohort in fleet.cohorts))
        tell(first, signal.SIGKILL)
        wait_until(lambda: served_by("worker-1"))

        third = stack.enter_context(fleet.worker(2))
        wait_until(lambda: served_by("worker-1", "worker-2"))
        tell(second, signal.SIGSTOP)
        wait_until(lambda: served_by("worker-2"))
        released = {cohort: len(ops.releases(cohort)) for cohort in fleet.cohorts}
        wait_until(
            lambda: load.beat() or all(len(ops.releases(one)) > released[one] for one in fleet.cohorts)
        )
        tell(second, signal.SIGCONT)
        wait_until(lambda: load.beat() or fleet.said(1, "storage_away"))
        wait_until(lambda: served_by("worker-1", "worker-2"))
        load.until_seen()
        for child in (second, third):
            tell(child, signal.SIGTERM)
        for child in (second, third):
            child.join(60)
            assert child.exitcode == 0
        assert fleet.claimants() == {}
        check(fleet, load, ops)
