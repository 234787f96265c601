"""The local socket that `hushmq agent status` reads, and `/metrics` over HTTP on request. Read only."""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hushmq.agent.device_report import Report, metrics
from hushmq.broker.contract.problem import Problem

PATIENCE_S = 2.0
"""How long one asker may take."""


def socket_path(folder: Path) -> Path:
    return folder / "agent.sock"


class Server:
    """Answers on a thread of its own; `ask` gets the report from the loop, None when it does not answer in time."""

    def __init__(
        self, folder: Path, *, host: str, port: int | None, ask: Callable[[], Report | None], log: Any
    ) -> None:
        self._ask, self._log = ask, log
        self._path = socket_path(folder)
        self._selector = selectors.DefaultSelector()
        self._wake_read, self._wake_write = socket.socketpair()
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._listen(_unix(self._path), self._answer_socket)
        self.port: int | None = None
        if port is not None:
            http = _http(host, port)
            self.port = http.getsockname()[1]
            self._listen(http, self._answer_http)
        self._thread = threading.Thread(target=self._run, name="serve", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._wake_write.send(b"!")
        self._thread.join(PATIENCE_S)
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._wake_write.close()
        self._selector.close()
        self._path.unlink(missing_ok=True)

    def _listen(self, listener: socket.socket, answer: Callable[[socket.socket], None]) -> None:
        self._selector.register(listener, selectors.EVENT_READ, answer)

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                if isinstance(key.fileobj, socket.socket):
                    with suppress(OSError):
                        connection, _ = key.fileobj.accept()
                        with connection:
                            connection.settimeout(PATIENCE_S)
                            key.data(connection)

    def _answer_socket(self, connection: socket.socket) -> None:
        report = self._ask()
        if report is not None:
            connection.sendall(json.dumps(report.as_dict()).encode())

    def _answer_http(self, connection: socket.socket) -> None:
        request = connection.recv(4096)
        report = self._ask() if request.startswith(b"GET /metrics ") else None
        if report is None:
            known = request.startswith(b"GET /metrics ")
            connection.sendall(b"HTTP/1.0 %s\r\n\r\n" % (b"503 Busy" if known else b"404 Not Found"))
            return
        body = metrics(report).encode()
        head = (
            b"HTTP/1.0 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n"
            % len(body)
        )
        connection.sendall(head + body)


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
    """A name for a socket's path that fits into the 107 bytes an address has, however deep the folder lies."""
    folder = os.open(path.parent, os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}" if sys.platform == "linux" else str(path)
    finally:
        os.close(folder)


def _http(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port))
    except OSError as error:
        raise Problem(f"metrics.port: {host}:{port}: {error.strerror}") from None


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
