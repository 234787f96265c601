"""The local socket that `hushmq agent status` reads. Read only."""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hushmq.agent.device_report import Report
from hushmq.broker.contract.problem import Problem

PATIENCE_S = 2.0
"""How long one client may take."""


def socket_path(folder: Path) -> Path:
    return folder / "agent.sock"


class StatusSocket:
    """Answers on a separate thread; `ask` gets the report from the loop, None when it does not answer in time."""

    def __init__(self, folder: Path, ask: Callable[[], Report | None]) -> None:
        self._ask = ask
        self._path = socket_path(folder)
        self._listener = _unix(self._path)
        self._wake_read, self._wake_write = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="status", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._wake_write.send(b"!")
        self._thread.join(PATIENCE_S)
        for each in (self._listener, self._wake_read, self._wake_write):
            each.close()
        self._path.unlink(missing_ok=True)

    def _run(self) -> None:
        while self._wake_read not in select.select([self._listener, self._wake_read], [], [])[0]:
            with suppress(OSError):
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(PATIENCE_S)
                    report = self._ask()
                    if report is not None:
                        connection.sendall(json.dumps(report.as_dict()).encode())


def _unix(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        listener.listen()
    except OSError as error:
        listener.close()
        raise Problem(f"folder: {path}: {error.strerror or error}") from None
    return listener


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """A name for the socket within the 107 bytes of a Unix address, however long its path is."""
    folder = os.open(path.parent, os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}" if sys.platform == "linux" else str(path)
    finally:
        os.close(folder)


def read_report(folder: Path) -> dict[str, Any] | None:
    """The report of the agent that runs in a folder; None when none answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asker:
        asker.settimeout(2 * PATIENCE_S)
        try:
            with _short(socket_path(folder)) as name:
                asker.connect(name)
            answer = b"".join(iter(lambda: asker.recv(65_536), b""))
        except OSError:
            return None
    return dict(json.loads(answer)) if answer else None
