"""One cohort of a fleet restored from a dump that is older than its high-water mark: nothing is spent twice."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from hushmq.__main__ import main
from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.store.cohort_schema import schema_of
from tests.calibrator import postgres
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_load import Load
from tests.calibrator.fleet.fleet_site import TICKS, Fleet, Ops, fleet_site, tell
from tests.calibrator.site import OPS, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def dump(fleet: Fleet, cohort: str, path: Path) -> None:
    """As docs/fleet.md says: the schema of one cohort."""
    url = fleet.database.replace("+psycopg", "")
    subprocess.run(
        [postgres.executable("pg_dump"), "-Fc", "-n", schema_of(cohort), "-f", path, url], check=True
    )


def restore(fleet: Fleet, cohort: str, path: Path) -> None:
    url = fleet.database.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"DROP SCHEMA {schema_of(cohort)} CASCADE".encode())
    subprocess.run([postgres.executable("pg_restore"), "-d", url, path], check=True)


def test_a_restored_cohort_waits_for_its_debits(
    postgres_databases: PostgresDatabases, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`hushmq fleet verify` names it, a worker charges nothing of it, `ledger reconcile` takes it into use again; the
    other cohort goes on all the while."""
    with ExitStack() as stack:
        nats = stack.enter_context(NatsServer(fleet_site(2), tmp_path / "nats"))
        fleet = Fleet(tmp_path / "fleet", nats, postgres_databases.fresh(), 2)
        for cohort in fleet.cohorts:
            create_cohort(fleet.database, cohort)
        ops = stack.enter_context(Ops(nats))
        load = Load(fleet)
        for device in load.devices:
            ops.push(device.cohort, ticks=TICKS)
            stack.enter_context(device.connected())

        def released(cohort: str, more_than: int) -> bool:
            load.beat()
            return len(ops.releases(cohort)) > more_than

        with fleet.worker(0) as worker:
            wait_until(lambda: all(ops.has_setting(cohort) for cohort in fleet.cohorts))
            wait_until(lambda: released("c0", 0))
            dump(fleet, "c0", tmp_path / "c0.dump")
            before = len(ops.releases("c0"))
            wait_until(lambda: released("c0", before + 1) and released("c1", 0))
            tell(worker, signal.SIGTERM)
            worker.join(30)
        restore(fleet, "c0", tmp_path / "c0.dump")

        config = str(fleet.config(0))
        capsys.readouterr()
        assert main(["fleet", "verify", "--config", config, "--json"]) == 1
        found = json.loads(capsys.readouterr().out)
        assert set(found["wrong"]) == {"c0"}

        with fleet.worker(1) as worker:
            wait_until(lambda: fleet.said(1, "ledger_behind"))
            heard, others = len(ops.releases("c0")), len(ops.releases("c1"))
            wait_until(lambda: released("c1", others + 1))
            assert len(ops.releases("c0")) == heard
            OPS.save(tmp_path / "ops.key")
            reconcile = ["ledger", "reconcile", "--config", config, "--cohort", "c0", "--yes"]
            assert main([*reconcile, "--key", str(tmp_path / "ops.key")]) == 0
            wait_until(lambda: released("c0", heard))
            tell(worker, signal.SIGTERM)
            worker.join(30)
        capsys.readouterr()
        assert main(["fleet", "verify", "--config", config, "--json"]) == 0
        firsts = [one.first for one in ops.releases("c0")]
        assert len(set(firsts)) == len(firsts), "a window has two payloads"
