"""Where the tables of a cohort are in a database that holds many: in a schema of PostgreSQL of its own.

A schema has the same tables as the database of a single cohort, its own ledger and its own locks; the names of the
schemas are the list of cohorts. Whoever opens `cohort_url` needs to know nothing of the others.
"""

from __future__ import annotations

from sqlalchemy import Connection, make_url, text
from sqlalchemy.exc import ArgumentError

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import LEVEL

PREFIX = "cohort_"
LONGEST = 63 - len(PREFIX)
"""Characters of a cohort's name: PostgreSQL cuts longer names of schemas off."""
CLAIM, WRITING = 0x6875_7301, 0x6875_7302
"""The first numbers of a cohort's two advisory locks; the second is the identifier of its schema.

A worker holds the first for as long as it serves the cohort, every transaction that may write holds the second."""
LOCK_NUMBER = "(oid::bigint - ((oid::bigint >> 31) << 32))::int"
"""The identifier of a schema as the signed number that advisory locks take."""


def schema_of(cohort: str) -> str:
    """The schema of a cohort; Problem where the name cannot be one."""
    if not LEVEL.fullmatch(cohort) or len(cohort) > LONGEST:
        raise Problem(
            f"cohort: {cohort!r} cannot be the name of a cohort in a fleet: use 1 to {LONGEST} of a-z, 0-9, '_' and '-'"
        )
    return f"{PREFIX}{cohort}"


def cohort_url(database: str, cohort: str) -> str:
    """The URL of a cohort's schema in a database of PostgreSQL."""
    url = make_url(database)
    if "options" in url.query:
        raise Problem("database: give the URL of a fleet no `options`: they choose the cohort")
    chosen = url.update_query_dict({"options": f"-csearch_path={schema_of(cohort)}"})
    return chosen.render_as_string(hide_password=False)


def is_postgres(database: str) -> bool:
    """Whether a URL is one of PostgreSQL; one that is no URL is not."""
    try:
        return make_url(database).get_backend_name() == "postgresql"
    except ArgumentError:
        return False


def cohorts_in(db: Connection) -> list[str]:
    """The cohorts that a database holds, in order."""
    found = db.execute(
        text("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, :prefix)"), {"prefix": PREFIX}
    )
    return sorted(name.removeprefix(PREFIX) for name in found.scalars())


def lock_cohort(db: Connection) -> bool:
    """Take the write lock of the cohort whose schema is in use until the transaction ends; False if it is none."""
    found = db.exec_driver_sql(
        f"SELECT pg_advisory_xact_lock({WRITING}, {LOCK_NUMBER}) FROM pg_namespace "  # noqa: S608  # numbers of ours
        f"WHERE nspname = current_schema() AND starts_with(nspname, '{PREFIX}')"
    )
    return found.first() is not None
