"""Killed with -9 at every step of collecting what devices released, adding it up and publishing the sum.

The steps are those of test_crash: every statement that writes, every commit, acknowledgement and publication.
"""

from __future__ import annotations

import itertools
import signal
from pathlib import Path

import pytest
from sqlalchemy import func, select

from hushmq.broker.contract.messages import Release, decode
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.open_database import open_to_read
from hushmq.calibrator.store.tick_counts import late_ticks
from tests.calibrator.conftest import Databases
from tests.calibrator.site import START, STREAM, Clock, Desk, desk
from tests.calibrator.steps import Steps
from tests.calibrator.windows.test_collect_device_windows import POLICY, TICKS, made
from tests.child import in_child

IN_TIME, LATE, NEXT = "in time", "late", "next"
"""Two devices release a window in time, a third too late; then the two release the next window."""


class World:
    """Files outside the database that only grow: what devices were told is durable, and what was published."""

    def __init__(self, folder: Path) -> None:
        self._acknowledged, self._published = folder / "acknowledged", folder / "published"

    def acknowledge(self, name: str) -> None:
        self._append(self._acknowledged, name.encode())

    def publish(self, payload: bytes) -> None:
        self._append(self._published, payload)

    @property
    def acknowledged(self) -> set[str]:
        return {line.decode() for line in self._lines(self._acknowledged)}

    @property
    def published(self) -> list[bytes]:
        return self._lines(self._published)

    @staticmethod
    def _append(path: Path, line: bytes) -> None:
        with path.open("ab", buffering=0) as file:
            file.write(line + b"\n")

    @staticmethod
    def _lines(path: Path) -> list[bytes]:
        return path.read_bytes().splitlines() if path.exists() else []


def work(url: str, world: World, step: Steps, released: dict[str, list[Arrived]], *, again: bool) -> None:
    """What the daemon does with two windows; all releases come again, or only those that were not acknowledged."""
    known = set() if again else world.acknowledged
    with desk(url, clock=Clock(START + TICKS + 0.5)) as here:
        step.follow(here.engine)

        def take(part: str) -> None:
            for number, one in enumerate(released[part]):
                if f"{part} {number}" not in known:
                    here.cohort.receive([one])
                    step()
                    world.acknowledge(f"{part} {number}")

        take(IN_TIME)
        here.clock.tick = START + TICKS + 2
        _close_and_publish(here, world, step)
        take(LATE)
        take(NEXT)
        here.clock.tick = START + 2 * TICKS + 2
        _close_and_publish(here, world, step)
        assert not here.cohort.rejected
    step()


def _close_and_publish(here: Desk, world: World, step: Steps) -> None:
    here.cohort.close_due()
    step()
    for one in here.cohort.unsent():
        step()
        world.publish(one.payload)
        step()
        here.cohort.mark_sent([one])


def check(url: str, world: World, released: dict[str, list[Arrived]]) -> None:
    """Each window's sum holds each device once, and was the same bytes whenever it was published; late is late once."""
    found = {payload: decode(Release, payload) for payload in world.published}
    assert sorted(one.entry for one in found.values()) == [1, 2], "a sum was made twice or never"
    for one, part in zip(sorted(found.values(), key=lambda one: one.first), (IN_TIME, NEXT), strict=True):
        each = [decode(Release, arrived.payload) for arrived in released[part]]
        assert (one.first, one.devices, one.ticks) == (each[0].first, 2, 18)
        assert one.counts == tuple(map(sum, zip(*(release.counts for release in each), strict=True)))
    engine = open_to_read(url)
    with engine.connect() as db:
        assert late_ticks(db, STREAM) == 9
        assert db.execute(select(func.count()).select_from(store.ledger)).scalar_one() == 0
        assert set(db.execute(select(store.aggregate.c.payload)).scalars()) <= set(found)
    engine.dispose()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_every_step_of_collecting(databases: Databases, tmp_path: Path) -> None:
    """Killed at any step and started again with the releases that were not acknowledged: nothing is lost. Then all of
    them come once more: nothing is counted twice.
    """
    prepared = databases.fresh()
    with desk(prepared) as here:
        here.adopt(POLICY)
        released = {
            IN_TIME: [made(here, device, START, (4, 5)) for device in ("d0", "d1")],
            LATE: [made(here, "d2", START, (3, 6))],
            NEXT: [made(here, device, START + TICKS, (2, 7)) for device in ("d0", "d1")],
        }
    once = tmp_path / "once"
    once.mkdir()
    work(databases.copy(prepared), World(once), Steps(None), released, again=False)
    for at in itertools.count(1, databases.every):
        url, folder = databases.copy(prepared), tmp_path / f"run-{at}"
        folder.mkdir()
        world = World(folder)

        def until_killed(url: str = url, world: World = world, at: int = at) -> None:
            work(url, world, Steps(at), released, again=False)

        def afterwards(url: str = url, world: World = world) -> None:
            work(url, world, Steps(None), released, again=False)
            work(url, world, Steps(None), released, again=True)

        ended = in_child(until_killed)
        assert ended in {0, signal.SIGKILL}, f"step {at} ended with {ended}"
        assert in_child(afterwards) == 0
        check(url, world, released)
        if ended == 0:
            break
    assert at > 45
