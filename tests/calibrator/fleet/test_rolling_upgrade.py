"""Workers of two versions on one fleet: each cohort has tables of one version, and no data is lost between them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from hushmq.broker.provision.nats import NatsServer
from hushmq.calibrator.fleet import worker
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.store.cohort_schema import cohort_url, schema_of
from hushmq.calibrator.store.open_database import plain_engine
from hushmq.calibrator.store.revisions import OURS, REVISION_TABLE, Revisions
from tests.calibrator.conftest import PostgresDatabases
from tests.calibrator.fleet.fleet_load import Load, check
from tests.calibrator.fleet.fleet_site import Fleet, Ops, fleet_site, tell
from tests.calibrator.site import wait_until
from tests.calibrator.store.later import NEXT, later_revisions

COHORTS = 3
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def be_newer(later: Revisions) -> None:
    """Make this process one of the next version, whose tables have another column and another table."""
    object.__setattr__(OURS, "folder", later.folder)
    worker.version = lambda _: "9.9"  # type: ignore[assignment]


@contextmanager
def newer(later: Revisions) -> Iterator[None]:
    """Read as the next version does, for a while."""
    before = OURS.folder
    object.__setattr__(OURS, "folder", later.folder)
    try:
        yield
    finally:
        object.__setattr__(OURS, "folder", before)


def revision(fleet: Fleet, cohort: str) -> str:
    engine = plain_engine(cohort_url(fleet.database, cohort))
    with engine.connect() as db:
        found = db.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalar_one()  # noqa: S608  # ours
    engine.dispose()
    return str(found)


def make_older(fleet: Fleet, cohort: str) -> str:
    """A cohort with the tables of an older version of ours; its revision."""
    older = OURS.numbers[-3]
    engine = plain_engine(fleet.database)
    with engine.begin() as db:
        db.execute(text(f"CREATE SCHEMA {schema_of(cohort)}"))
        db.execute(text(f"SET LOCAL search_path = {schema_of(cohort)}"))
        OURS.run(db, older)
    engine.dispose()
    return older


def test_versions_are_mixed_for_a_while(postgres_databases: PostgresDatabases, tmp_path: Path) -> None:
    """A worker upgrades the cohorts that it claims, also those of an older release. When a newer one dies half-way, the
    old worker leaves what it has upgraded alone, in words, and goes on with the others; replaced, all is served."""
    later = later_revisions(tmp_path)
    with ExitStack() as stack:
        nats = stack.enter_context(NatsServer(fleet_site(COHORTS), tmp_path / "nats"))
        fleet = Fleet(tmp_path / "fleet", nats, postgres_databases.fresh(), COHORTS)
        for cohort in fleet.cohorts[:-1]:
            create_cohort(fleet.database, cohort)
        older = make_older(fleet, fleet.cohorts[-1])
        assert revision(fleet, fleet.cohorts[-1]) == older
        ops = stack.enter_context(Ops(nats))
        for cohort in fleet.cohorts:
            ops.push(cohort)
        old = stack.enter_context(fleet.worker(0))
        wait_until(lambda: all(ops.has_setting(cohort) for cohort in fleet.cohorts))
        assert {revision(fleet, cohort) for cohort in fleet.cohorts} == {OURS.newest}
        load = Load(fleet)
        for device in load.devices:
            stack.enter_context(device.connected())

        first = stack.enter_context(fleet.worker(1, begin=lambda: be_newer(later)))
        wait_until(lambda: load.beat() or set(fleet.claimants().values()) == {"worker-0", "worker-1"})
        wait_until(lambda: load.beat() or NEXT in {revision(fleet, cohort) for cohort in fleet.cohorts})
        tell(first, signal.SIGKILL)
        wait_until(lambda: load.beat() or fleet.said(0, "cohort_failed"))
        refused = {one["cohort"] for one in fleet.said(0, "cohort_failed")}
        for one in fleet.said(0, "cohort_failed"):
            assert f"was written by a newer version of hushmq (revision {NEXT})" in one["why"]
        upgraded = {cohort for cohort in fleet.cohorts if revision(fleet, cohort) == NEXT}
        assert refused <= upgraded < set(fleet.cohorts)
        others = [device for device in load.devices if device.cohort not in upgraded]
        wait_until(lambda: load.beat() or all(len(device.waiting) <= 2 for device in others))

        second = stack.enter_context(fleet.worker(2, begin=lambda: be_newer(later)))
        wait_until(
            lambda: (
                load.beat() or upgraded <= {one for one, by in fleet.claimants().items() if by == "worker-2"}
            )
        )
        tell(old, signal.SIGTERM)
        wait_until(lambda: load.beat() or set(fleet.claimants().values()) == {"worker-2"})
        wait_until(lambda: load.beat() or all(ops.releases(cohort) for cohort in fleet.cohorts))
        load.until_seen()
        for child in (old, second):
            tell(child, signal.SIGTERM)
            child.join(60)
            assert child.exitcode == 0
        assert {revision(fleet, cohort) for cohort in fleet.cohorts} == {NEXT}
        with newer(later):
            check(fleet, load, ops)
