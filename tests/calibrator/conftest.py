"""Databases of both kinds: `database` runs a test on SQLite and on PostgreSQL."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psycopg
import pytest
from psycopg import sql

from hushmq.calibrator.store import tables as store
from tests.calibrator import postgres
from tests.calibrator.site import sqlite


class Databases(Protocol):
    """Databases for one test."""

    every: int
    """Tests that kill at every step take one of so many: all on SQLite, a third on PostgreSQL, where a copy takes long.

    HUSHMQ_EVERY_STEP=yes takes all of them.
    """

    def fresh(self) -> str:
        """The URL of an empty one."""

    def copy(self, url: str) -> str:
        """The URL of a copy of one that nobody has open."""


class SqliteDatabases:
    """Files in the test's folder."""

    every = 1

    def __init__(self, folder: Path) -> None:
        self._folder, self._made = folder, 0

    def fresh(self) -> str:
        self._made += 1
        folder = self._folder / f"database-{self._made}"
        folder.mkdir()
        return sqlite(folder)

    def copy(self, url: str) -> str:
        twin = self.fresh()
        shutil.copy(url.removeprefix("sqlite:///"), twin.removeprefix("sqlite:///"))
        return twin


class PostgresDatabases:
    """Databases of the worker's server. A copy is one database that is filled anew, as making many takes long."""

    every = 1 if os.environ.get("HUSHMQ_EVERY_STEP") else 3

    def __init__(self, server: postgres.Postgres) -> None:
        self._server = server
        self._twins: dict[str, str] = {}

    def fresh(self) -> str:
        return self._server.url(self._server.database())

    def copy(self, url: str) -> str:
        first = url not in self._twins
        twin = self._twins.get(url) or self._server.url(self._server.database(url.rsplit("/", 1)[1]))
        self._twins[url] = twin
        with psycopg.connect(twin.replace("+psycopg", "")) as db:
            tables = [sql.Identifier(table.name) for table in store.metadata.sorted_tables]
            if first:
                db.execute("CREATE SCHEMA kept")
            for table in tables if first else ():
                db.execute(sql.SQL("CREATE TABLE kept.{0} AS TABLE public.{0}").format(table))
            # Deleted in one round trip: truncating makes new files for every table, which takes three times as long.
            statements = [sql.SQL("DELETE FROM public.{}").format(table) for table in reversed(tables)]
            statements += [
                sql.SQL("INSERT INTO public.{0} SELECT * FROM kept.{0}").format(table) for table in tables
            ]
            db.execute(sql.SQL(";").join(statements))
        return twin


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[postgres.Postgres]:
    with postgres.running() as server:
        yield server


@pytest.fixture
def postgres_databases(request: pytest.FixtureRequest) -> PostgresDatabases:
    postgres.require()
    return PostgresDatabases(request.getfixturevalue("postgres_server"))


@pytest.fixture
def sqlite_databases(tmp_path: Path) -> SqliteDatabases:
    return SqliteDatabases(tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request: pytest.FixtureRequest) -> Databases:
    found: Databases = request.getfixturevalue(f"{request.param}_databases")
    return found
