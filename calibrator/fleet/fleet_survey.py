"""Who claims which cohort of a database, and which workers there are: from PostgreSQL's own views."""

from __future__ import annotations

from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet.cohort_claims import Claims, Peer
from hushmq.calibrator.store.cohort_schema import CLAIM, PREFIX
from hushmq.calibrator.store.migrate import cause, shown
from hushmq.calibrator.store.open_database import plain_engine, reading

CLAIMANTS = (
    "SELECT nspname, l.pid FROM pg_namespace n LEFT JOIN pg_locks l ON l.locktype = 'advisory' "  # noqa: S608  # numbers of ours
    "AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    f"AND l.classid = {CLAIM} AND l.objid = n.oid AND l.objsubid = 2 AND l.granted "
    f"WHERE starts_with(nspname, '{PREFIX}')"
)
"""Every cohort, and the session that claims it."""
WORKERS = (
    "SELECT pid, application_name FROM pg_stat_activity "  # noqa: S608  # as above
    f"WHERE datname = current_database() AND starts_with(application_name, '{Peer.MARK}')"
)
"""Every session of a worker, and what it says of itself."""


def survey(database: str) -> Claims:
    """Who claims what now; Problem where the database cannot be opened."""
    engine = plain_engine(database)
    try:
        with reading(engine) as db:
            return Claims.read(
                list(map(tuple, db.exec_driver_sql(CLAIMANTS))), list(map(tuple, db.exec_driver_sql(WORKERS)))
            )
    except SQLAlchemyError as error:
        raise Problem(f"database: {shown(engine)} cannot be opened: {cause(error)}") from None
