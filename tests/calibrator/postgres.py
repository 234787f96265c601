"""A private PostgreSQL: Debian's binaries, a temporary folder, a free port, not root, gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import die_with_parent, find_executable, free_port


def executable(name: str) -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return find_executable(name, "run tests/install-postgres.sh, or install postgresql", *folders)


def require() -> None:
    """Go on where PostgreSQL can be run; elsewhere skip with the reason, or fail with CI=true."""
    try:
        executable("initdb")
    except Problem as problem:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(problem))


class Postgres:
    """A server on which databases are made from one another."""

    def __init__(
        self, port: int, user: str, folder: Path, as_whom: str | None, hosts: str = "127.0.0.1"
    ) -> None:
        self.port, self.user, self._hosts = port, user, hosts
        self._folder = folder
        self.as_whom = as_whom
        """The user that the server runs as, where that is another one."""
        self._made = 0
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with (self._folder / "log").open("ab") as log:
            self._child = subprocess.Popen(
                # It is never cut off from its power, so it need not wait for the disk.
                [
                    *(executable("postgres"), "-D", self._folder / "data", "-p", str(self.port)),
                    *("-k", self._folder, "-h", self._hosts, "-F"),
                ],
                user=self.as_whom,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),  # noqa: PLW1509  # it makes one system call and takes no lock
            )
        _wait(self, self._child, self._folder / "log")

    def stop(self) -> None:
        """End the server at once, without a word to its clients and without a checkpoint."""
        if self._child is not None:
            self._child.send_signal(signal.SIGQUIT)
            try:
                self._child.wait(5)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._child = None

    def kill(self) -> None:
        """Kill the server with SIGKILL; the processes of its sessions notice, and end by themselves."""
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{self.user}@127.0.0.1:{self.port}/{database}"

    def promote(self) -> None:
        """Make a standby the server that writes."""
        with self.connect() as db:
            db.execute("SELECT pg_promote(wait => true)")

    def replayed(self, primary: Postgres) -> bool:
        """Whether this standby has everything that its primary has written."""
        with primary.connect() as db, self.connect() as mine:
            (written,) = db.execute("SELECT pg_current_wal_lsn()").fetchall()
            (found,) = mine.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written).fetchall()
        return bool(found[0])

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user=self.user, dbname="postgres", autocommit=True
        )

    def database(self, template: str = "template1") -> str:
        """A new database like another one, which nobody is connected to."""
        self._made += 1
        name = f"hush{self._made}"
        with self.connect() as db:
            db.execute(
                sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
                    sql.Identifier(name), sql.Identifier(template)
                )
            )
        return name

    def drop(self, name: str) -> None:
        with self.connect() as db:
            db.execute(sql.SQL("DROP DATABASE {}").format(sql.Identifier(name)))


@contextmanager
def running(hosts: str = "127.0.0.1") -> Iterator[Postgres]:
    """Start a server that listens on these addresses, or raise Problem saying what to install."""
    initdb = executable("initdb")
    user = pwd.getpwuid(os.getuid()).pw_name
    as_whom = None
    if os.getuid() == 0:
        user = next((name for name in ("postgres", "nobody") if _exists(name)), "nobody")
        as_whom = user
    folder = Path(tempfile.mkdtemp(prefix="hushmq-postgres-"))
    if as_whom is not None:
        shutil.chown(folder, as_whom)
    port = free_port("127.0.0.1")
    found = Postgres(port, user, folder, as_whom, hosts)
    try:
        made = subprocess.run(
            [initdb, "-D", folder / "data", "-A", "trust", "-U", user, "-E", "UTF8", "--no-sync"],
            user=as_whom,
            cwd=folder,
            env=os.environ | {"LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
        if made.returncode:
            raise Problem(f"initdb failed: {made.stderr.decode(errors='replace').strip()[-300:]}")
        with (folder / "data" / "pg_hba.conf").open("a") as allowed:
            allowed.write("host all all samenet trust\n")
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def standby_of(primary: Postgres) -> Iterator[Postgres]:
    """A second server that follows the first by streaming replication, from a base backup of it."""
    folder = Path(tempfile.mkdtemp(prefix="hushmq-standby-"))
    if primary.as_whom is not None:
        shutil.chown(folder, primary.as_whom)
    found = Postgres(free_port("127.0.0.1"), primary.user, folder, primary.as_whom)
    try:
        copied = subprocess.run(
            [
                *(
                    executable("pg_basebackup"),
                    "-D",
                    folder / "data",
                    "-h",
                    "127.0.0.1",
                    "-p",
                    str(primary.port),
                ),
                *("-U", primary.user, "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"),
            ],
            user=primary.as_whom,
            cwd=folder,
            capture_output=True,
            check=False,
        )
        if copied.returncode:
            raise Problem(f"pg_basebackup failed: {copied.stderr.decode(errors='replace').strip()[-300:]}")
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True


def _wait(server: Postgres, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and child.poll() is None:
        try:
            server.connect().close()
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise Problem(f"postgres did not start: {log.read_text(errors='replace')[-300:]}")
