"""Two test doubles on a socket: a broker with scripted answers, and a proxy that can stop forwarding."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import BinaryIO, Self

from hushmq.broker.mqtt.endpoint import Endpoint
from tests.broker.plain import PATIENCE

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 14


def wait_for(condition: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
    """Wait until the condition holds; fail with `what` when it does not."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


class _Listener:
    """Accepts connections on a free port, one thread each, until the context ends."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("127.0.0.1", self.port)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._open.append(client)
                threading.Thread(target=self._guarded, args=(client,), daemon=True).start()

    def _guarded(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            self.serve(client)
        client.close()

    def serve(self, client: socket.socket) -> None:
        raise NotImplementedError

    def drop_all(self) -> None:
        """Close every connection, abruptly."""
        while self._open:
            client = self._open.pop()
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self.drop_all()


class ScriptedBroker(_Listener):
    """Implements enough of MQTT 3.1.1 to accept clients; its attributes determine its answers."""

    def __init__(self) -> None:
        self.connack: int | None = 0
        self.acknowledge = True
        self.subacks: list[int] = []
        """Codes for the next subscriptions, one each; afterwards 1 (granted)."""
        self.connects: list[float] = []
        self.subscribed: list[str] = []
        self.published: list[list[bytes]] = []
        """The received payloads of each connection."""
        self.disconnects = 0
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        with client.makefile("rb") as stream:
            self._answer(client, stream)

    def _answer(self, client: socket.socket, stream: BinaryIO) -> None:
        mine: list[bytes] = []
        while head := stream.read(1):
            length = shift = 0
            while True:
                byte = stream.read(1)[0]
                length |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    break
            body, kind = stream.read(length), head[0] >> 4
            if kind == CONNECT and body[6] > 4:
                client.sendall(bytes([CONNACK << 4, 2, 0, 1]))  # no MQTT 5, as NATS says it
                return
            if kind == CONNECT:
                self.connects.append(time.monotonic())
                self.published.append(mine)
                if self.connack is not None:
                    client.sendall(bytes([CONNACK << 4, 2, 0, self.connack]))
            elif kind == SUBSCRIBE:
                position, codes = 2, b""
                while position < len(body):
                    size = int.from_bytes(body[position : position + 2], "big")
                    self.subscribed.append(body[position + 2 : position + 2 + size].decode())
                    position += size + 3
                    codes += bytes([self.subacks.pop(0) if self.subacks else 1])
                client.sendall(bytes([SUBACK << 4, 2 + len(codes)]) + body[:2] + codes)
            elif kind == PUBLISH:
                size = int.from_bytes(body[:2], "big")
                mine.append(body[size + 4 :])
                if self.acknowledge:
                    client.sendall(bytes([PUBACK << 4, 2]) + body[size + 2 : size + 4])
            elif kind == PINGREQ:
                client.sendall(bytes([0xD0, 0]))
            elif kind == DISCONNECT:
                self.disconnects += 1
                return


class Proxy(_Listener):
    """Forwards bytes to a broker; while `silent` it discards them, in both directions, and closes nothing."""

    def __init__(self, target: Endpoint) -> None:
        self.silent = False
        self._target = target
        super().__init__()

    def serve(self, client: socket.socket) -> None:
        upstream = socket.create_connection((self._target.host, self._target.port))
        self._open.append(upstream)
        threading.Thread(target=self._pump, args=(upstream, client), daemon=True).start()
        self._pump(client, upstream)

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not self.silent:
                    target.sendall(data)
            if not self.silent:
                target.shutdown(socket.SHUT_WR)
