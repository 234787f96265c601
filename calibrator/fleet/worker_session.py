"""The one session of a worker with PostgreSQL: it holds the claims of its cohorts and does all their writing.

A claim is an advisory lock of the session. The server releases it when the session ends: at once when the worker dies,
and after `claim_s` when it is silent (idle_session_timeout), be it paused or cut off. Since every statement of the
worker goes through this very session, a worker that has lost its claims can write nothing: there is no session any more
that would take it, and none is opened in its place. A thread keeps the session awake while something is computed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import StaticPool

from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.fleet.cohort_claims import Claims, Peer
from hushmq.calibrator.fleet.fleet_survey import CLAIMANTS, WORKERS
from hushmq.calibrator.store.cohort_schema import CLAIM, LOCK_NUMBER, WRITING, schema_of
from hushmq.calibrator.store.migrate import cause
from hushmq.calibrator.store.open_database import STATEMENT_MS
from hushmq.calibrator.store.storage_away import WRONG_SETTING, StorageAway

if TYPE_CHECKING:
    import psycopg

OLDEST_SERVER = 140_000
"""PostgreSQL 14 is the first with idle_session_timeout."""
HEARTBEATS = 5
"""How often within `claim_s` the session is kept awake."""


def boot_clock() -> float:
    """Seconds that go on while the process is stopped and while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class WorkerSession:
    """Owns the session. `fresh` may be asked on any thread."""

    def __init__(self, url: str, peer: Peer, *, claim_s: float, reopening: bool = False) -> None:
        """Connect; StorageAway where that is not possible now, Problem where no waiting helps.

        With `reopening` it was possible before: whatever the server says may pass.
        """
        self.claim_s = claim_s
        self._name = make_url(url).render_as_string(hide_password=True)
        self._claimed: dict[str, int] = {}
        """The cohorts whose claims this session holds, with the numbers of their locks."""
        self._confirmed_at = boot_clock()
        self._lost: str | None = None
        self._over = threading.Event()
        self._db = self._connect(url, peer, reopening=reopening)
        self._backend = self._asked_backend()
        self._engine = self._make_engine(url)
        self._thread = threading.Thread(target=self._keep_awake, name="claims", daemon=True)
        self._thread.start()

    @property
    def fresh(self) -> bool:
        """Whether the claims are held for certain: the server has answered within `claim_s`, by the clock here."""
        return self._lost is None and boot_clock() - self._confirmed_at < self.claim_s

    @property
    def claimed(self) -> set[str]:
        """The cohorts claimed."""
        return set(self._claimed)

    def engine_of(self, cohort: str) -> Engine:
        """An engine whose transactions run on this session, in the schema of a cohort, while it is claimed."""
        return self._engine.execution_options(hushmq_cohort=cohort)

    def survey(self) -> Claims:
        """Every cohort of the database and who claims it, and every worker."""
        return Claims.read(self._execute(CLAIMANTS), self._execute(WORKERS), self._backend)

    def claim(self, cohorts: Iterable[str]) -> list[str]:
        """Claim cohorts; those that were had, which others have not claimed meanwhile."""
        wanted = {schema_of(cohort): cohort for cohort in cohorts if cohort not in self._claimed}
        rows = self._execute(
            f"SELECT nspname, number, pg_try_advisory_lock({CLAIM}, number) FROM "  # noqa: S608  # as above
            f"(SELECT nspname, {LOCK_NUMBER} AS number FROM pg_namespace WHERE nspname = ANY(%s)) AS wanted",
            (list(wanted),),
        )
        had = {wanted[name]: number for name, number, locked in rows if locked}
        self._claimed |= had
        return list(had)

    def release(self, cohort: str) -> None:
        """Give a claim up: another worker may have it from now on."""
        number = self._claimed.pop(cohort, None)
        if number is not None:
            self._execute(f"SELECT pg_advisory_unlock({CLAIM}, {number})")

    def close(self) -> None:
        """End the session, and all claims with it."""
        self._over.set()
        self._lost = self._lost or "the session was closed"
        self._claimed.clear()
        with suppress(Exception):  # whatever state it is in, the server ends it
            self._db.close()
        self._engine.dispose()
        self._thread.join(2.0)

    def _connect(self, url: str, peer: Peer, *, reopening: bool) -> psycopg.Connection[Any]:
        try:
            import psycopg  # noqa: PLC0415  # an extra that a calibrator with SQLite does not have
        except ModuleNotFoundError as error:
            raise Problem(
                f"database: {self._name} needs {error.name}: pip install 'hushmq[postgres]'"
            ) from None
        given, silent_s = make_url(url), max(1, round(self.claim_s / 2))
        more: dict[str, Any] = dict(given.query)
        try:
            db = psycopg.connect(
                **given.translate_connect_args(username="user", database="dbname"),
                **more,
                autocommit=True,
                prepare_threshold=None,  # a plan is for one schema
                application_name=peer.text(),
                connect_timeout=max(2, silent_s),
                tcp_user_timeout=round(self.claim_s * 1000),
                keepalives_idle=silent_s,
                keepalives_interval=1,
                keepalives_count=3,
            )
        except psycopg.Error as error:
            if not reopening and any(words in cause(error) for words in WRONG_SETTING):
                raise Problem(f"database: {self._name} cannot be opened: {cause(error)}") from None
            raise StorageAway(f"database: {self._name}: {cause(error)}") from None
        if db.info.server_version < OLDEST_SERVER:
            db.close()
            raise Problem(
                f"database: {self._name} is older than PostgreSQL 14, which cannot end silent sessions"
            )
        silent_ms = round(self.claim_s * 1000)
        db.execute(
            f"SET idle_session_timeout = {silent_ms}; SET idle_in_transaction_session_timeout = {silent_ms}; "
            f"SET tcp_user_timeout = {silent_ms}; SET client_connection_check_interval = 1000; "
            f"SET statement_timeout = {STATEMENT_MS}; SET synchronous_commit = on"
        )
        return db

    def _make_engine(self, url: str) -> Engine:
        """An engine with this session alone: when it is lost, there is no other."""
        given = iter((self._db,))

        def only_once() -> Any:
            try:
                return next(given)
            except StopIteration:
                raise OperationalError(
                    None, None, ConnectionError(self._lost or "the session has ended")
                ) from None

        engine = create_engine(make_url(url), creator=only_once, poolclass=StaticPool, hide_parameters=True)

        @event.listens_for(engine, "begin")
        def _begin(connection: Any) -> None:
            cohort = connection.get_execution_options().get("hushmq_cohort")
            number = self._claimed.get(cohort)
            if number is None:
                raise OperationalError(None, None, PermissionError(f"the claim of {cohort} was given up"))
            backend = self._asked_backend(
                f"BEGIN; SELECT pg_backend_pid(), set_config('search_path', '{schema_of(cohort)}', true), "
                f"pg_advisory_xact_lock({WRITING}, {number})"
            )
            if backend != self._backend:
                self._lost = "another session answers: a pooler that shares sessions stands in between"
                raise OperationalError(None, None, ConnectionError(self._lost))

        return engine

    def _asked_backend(self, statements: str = "SELECT pg_backend_pid()") -> int:
        """The server process that executes statements, of which the last says so; the claims are confirmed."""
        asked_at = boot_clock()
        found = self._execute(statements)
        self._confirmed_at = asked_at
        return int(found[0][0])

    def _execute(self, statements: str, parameters: tuple[Any, ...] | None = None) -> list[tuple[Any, ...]]:
        """The rows of the last of these statements; OperationalError where the session is lost."""
        import psycopg  # noqa: PLC0415  # as above

        try:
            cursor = self._db.execute(statements, parameters)
            while cursor.nextset():
                pass
            return cursor.fetchall()
        except psycopg.Error as error:
            if self._db.closed:
                self._lost = self._lost or cause(error)
            raise OperationalError(None, None, error) from None

    def _keep_awake(self) -> None:
        """Ask the server something, again and again, until the session ends."""
        import psycopg  # noqa: PLC0415  # as above

        while not self._over.wait(self.claim_s / HEARTBEATS):
            try:
                self._asked_backend()
            except OperationalError as error:
                if isinstance(error.orig, psycopg.errors.InFailedSqlTransaction):
                    continue  # the loop is about to roll it back; the server has answered
                if self._lost is not None:
                    return
