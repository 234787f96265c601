"""The calibrator's database, opened so that nothing can be written: not by a mistake here, either."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from anyio import to_thread
from sqlalchemy import URL, Connection, Engine, event, make_url
from sqlalchemy.exc import SQLAlchemyError

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store.migrate import cause, shown
from hushmq.calibrator.store.open_database import open_to_read, plain_engine

T = TypeVar("T")


class ReadOnlyDatabase:
    """Opened when it is first asked, so that the console may start before the calibrator has made it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine: Engine | None = None

    async def read(self, query: Callable[[Connection], T]) -> T:
        """The result of a query, which runs on a worker thread; raise Problem when the database does not answer."""
        return await to_thread.run_sync(self.read_here, query)

    def read_here(self, query: Callable[[Connection], T]) -> T:
        """The same on this thread."""
        with self._connected() as db:
            return query(db)

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        if self._engine is None:
            self._engine = _open(self.url)
        try:
            with self._engine.connect() as db:
                yield db
        except SQLAlchemyError as error:
            raise Problem(f"database: {shown(self._engine)} cannot be read: {cause(error)}") from None

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()


def _open(url: str) -> Engine:
    """An engine whose connections cannot write; raise Problem when the database is not there or not ours."""
    open_to_read(url).dispose()
    engine = plain_engine(_read_only(url))
    if engine.dialect.name == "postgresql":

        @event.listens_for(engine, "connect")
        def _read_only_session(connection: Any, _record: object) -> None:
            with connection.cursor() as cursor:
                cursor.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            connection.commit()

    return engine


def _read_only(url: str) -> str:
    """A SQLite URL with which the file is opened for reading; another database's URL as it is."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return url
    file = f"file:{quote(str(Path(parsed.database).absolute()))}"
    return URL.create(
        parsed.drivername, database=file, query={"mode": "ro", "uri": "true"}
    ).render_as_string()
