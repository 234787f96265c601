"""Workers as processes, with a real PostgreSQL and a real NATS: they die, they are paused, and nothing is lost."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_load import Load, check
from tests.calibrator.fleet.fleet_site import Fleet, Ops, fleet_site, tell
from tests.calibrator.site import wait_until

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
