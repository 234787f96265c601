"""Cohorts at two brokers, served by one worker with a connection to each."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from tests.brokers import require_mosquitto
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_site import TICKS, Device, Fleet, Ops, fleet_site, tick
from tests.calibrator.site import wait_until


@pytest.mark.slow
def test_a_cohort_is_served_at_its_cluster_only(
    postgres_databases: PostgresDatabases, tmp_path: Path
) -> None:
    """NATS has c0, Mosquitto the others. What is of one cohort never reaches the other broker, and when one broker is
    away the cohorts of the other go on."""
    require_mosquitto()
    with ExitStack() as stack:
        north = stack.enter_context(NatsServer(fleet_site(2), tmp_path / "north"))
        south = stack.enter_context(MosquittoServer(fleet_site(2), tmp_path / "south"))
        clusters = {"north": ("c0", north), "south": ("*", south)}
        fleet = Fleet(tmp_path / "fleet", north, postgres_databases.fresh(), 2, clusters=clusters)
        for cohort in fleet.cohorts:
            create_cohort(fleet.database, cohort)
        stack.enter_context(fleet.worker(0))
        at = {"c0": stack.enter_context(Ops(north)), "c1": stack.enter_context(Ops(south))}
        devices = [Device("c0", "c0-0", north), Device("c1", "c1-0", south)]
        for device in devices:
            at[device.cohort].push(device.cohort)
            stack.enter_context(device.connected())
        wait_until(lambda: all(ops.has_setting(cohort) for cohort, ops in at.items()))
        for device in devices:
            device.send(tick() - TICKS)
        wait_until(lambda: not any(device.waiting for device in devices))
        for cohort, ops in at.items():
            assert {topic.split("/")[2] for topic in ops.heard} == {cohort}

        south.kill()
        wait_until(lambda: fleet.said(0, "disconnected"))
        devices[0].send(tick())
        wait_until(lambda: not devices[0].waiting)
        assert [one["cluster"] for one in fleet.said(0, "disconnected")] == ["south"]
