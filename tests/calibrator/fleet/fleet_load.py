"""A device of each cohort of a small fleet, and what must hold in the end."""

from __future__ import annotations

import time
from collections import Counter

from sqlalchemy import select

from hushmq.calibrator.fleet.verify_cohorts import verify_cohort
from hushmq.calibrator.fleet_config import load_fleet
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_to_read, reading
from hushmq.calibrator.store.tick_counts import counted_ticks
from tests.calibrator.fleet.fleet_site import TICKS, Device, Fleet, Ops, tick
from tests.calibrator.site import STREAM, wait_until


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
