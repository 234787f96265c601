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
from psycopg import sql

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import die_with_parent, find_executable, free_port


def executable(name: str) -> Path:
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return find_executable(name, "run tests/install-postgres.sh, or install postgresql", *folders)


class Postgres:
    """A server on which databases are made from one another."""

    def __init__(self, port: int, user: str) -> None:
        self.port, self.user = port, user
        self._made = 0

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://{self.user}@127.0.0.1:{self.port}/{database}"

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
def running() -> Iterator[Postgres]:
    """Start a server, or raise Problem saying what to install."""
    initdb, server = executable("initdb"), executable("postgres")
    user = pwd.getpwuid(os.getuid()).pw_name
    as_whom = None
    if os.getuid() == 0:
        user = next((name for name in ("postgres", "nobody") if _exists(name)), "nobody")
        as_whom = user
    folder = Path(tempfile.mkdtemp(prefix="hushmq-postgres-"))
    if as_whom is not None:
        shutil.chown(folder, as_whom)
    port = free_port("127.0.0.1")
    child: subprocess.Popen[bytes] | None = None
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
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen(
                # The server is not what is killed, so it need not wait for the disk.
                [server, "-D", folder / "data", "-p", str(port), "-k", folder, "-h", "127.0.0.1", "-F"],
                user=as_whom,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent(),  # noqa: PLW1509  # it makes one system call and takes no lock
            )
        found = Postgres(port, user)
        _wait(found, child, folder / "log")
        yield found
    finally:
        if child is not None:
            child.send_signal(signal.SIGQUIT)  # at once: the folder goes anyway
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
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
