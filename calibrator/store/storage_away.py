"""Storage that has gone away and may come back: a database that restarts, a full disk, a lock, a missing file.

What cannot be written now is not counted, charged or published. The calibrator waits and then starts anew from what is
stored (calibrator/run_calibrator.py). Anything else that a database says is a mistake, and ends it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, InterfaceError, InternalError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store.migrate import cause, shown

READ_ONLY = "25006"
"""PostgreSQL's code for writing where only reading is allowed: a standby before it is promoted, for instance."""
WRONG_SETTING = ("authentication failed", "does not exist", "pg_hba.conf", "unable to open database file")
"""What a driver says where no waiting helps: the setting `database` is wrong, or the server does not know us."""


class StorageAway(Problem):  # named like its base, and by what is the matter
    """Raised when what must be written cannot be written now, and may be later."""


def passes(error: SQLAlchemyError) -> bool:
    """Whether the cause may pass by itself: the server, the network, the disk, a lock; and not our statement."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if isinstance(error, InternalError):
        return getattr(error.orig, "sqlstate", None) == READ_ONLY
    return isinstance(error, OperationalError | InterfaceError | NoConnectionError)


def in_words(engine: Engine, error: SQLAlchemyError) -> str:
    return f"database: {shown(engine)}: {cause(error)}"


@contextmanager
def away_in_words(engine: Engine) -> Iterator[None]:
    """Raise StorageAway where an error of the database may pass."""
    try:
        yield
    except SQLAlchemyError as error:
        if not passes(error):
            raise
        raise StorageAway(in_words(engine, error)) from None
