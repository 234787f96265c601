"""The tables of a cohort in the fleet's database: made when it is added, upgraded when a worker takes it up.

A worker that knows a newer revision upgrades the cohorts that it claims, one by one; workers of the old version leave
those alone from then on, in words, and go on with the others. So versions can be mixed while a fleet is upgraded.
"""

from __future__ import annotations

from sqlalchemy import Engine, text
from sqlalchemy.exc import ProgrammingError, SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet_config import FleetConfig
from hushmq.calibrator.store.cohort_schema import cohort_url, cohorts_in, schema_of
from hushmq.calibrator.store.migrate import cause, shown
from hushmq.calibrator.store.open_database import open_store, plain_engine, reading
from hushmq.calibrator.store.revisions import OURS, REVISION_TABLE
from hushmq.calibrator.store.storage_away import WRONG_SETTING, StorageAway, passes


def known_cohorts(config: FleetConfig) -> list[str]:
    """The cohorts in the database that workers with these settings serve; Problem where it cannot be opened."""
    engine = plain_engine(config.database)
    try:
        with reading(engine) as db:
            return [cohort for cohort in cohorts_in(db) if config.may_serve(cohort)]
    except SQLAlchemyError as error:
        raise Problem(f"database: {shown(engine)} cannot be opened: {cause(error)}") from None


def create_cohort(database: str, cohort: str, *, reopening: bool = True) -> bool:
    """Add a cohort to a fleet's database; whether it was not there before.

    StorageAway where that is not possible now; Problem where no waiting helps.
    """
    schema = schema_of(cohort)
    engine = plain_engine(database)
    try:
        with reading(engine) as db:
            if cohort in cohorts_in(db):
                return False
            db.execute(text(f'CREATE SCHEMA IF NOT EXISTS "{schema}"'))
            db.commit()
    except SQLAlchemyError as error:
        if not passes(error) or (not reopening and any(words in cause(error) for words in WRONG_SETTING)):
            raise Problem(f"database: {shown(engine)}: {cause(error)}") from None
        raise StorageAway(f"database: {shown(engine)}: {cause(error)}") from None
    open_store(cohort_url(database, cohort)).dispose()
    return True


def upgrade_cohort(engine: Engine, database: str, cohort: str, log: FilteringBoundLogger) -> None:
    """Bring the tables of a cohort that is claimed to the newest revision; Problem when they must be left alone."""
    try:
        with engine.begin() as db:
            found = db.execute(text(f"SELECT version_num FROM {REVISION_TABLE}")).scalars().all()  # noqa: S608
    except ProgrammingError:
        found = []  # whoever added the cohort was interrupted
    if list(found) != [OURS.newest]:
        open_store(cohort_url(database, cohort), log=log).dispose()
