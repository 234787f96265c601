"""Releases of a cohort, read over MQTT as a subscriber reads them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint, Tls, refuse_clear_text
from hushmq.broker.service.log import logger

__all__ = ["Rejected", "Release", "ReleaseReader", "read_release"]

CONNECT_S = 10.0
"""How long the broker may take to let a reader in."""


def read_release(payload: bytes) -> Release:
    """The release in an MQTT payload, for programs with an MQTT client of their own.

    Raises Rejected if it is none: too large, of an unknown version, malformed or inconsistent in itself.
    """
    return decode(Release, payload)


class ReleaseReader:
    """Releases of one cohort as they are published, each once, beginning with the newest of every window.

        with ReleaseReader("mqtts://broker.lan", cohort="home", username="grafana", password=secret) as reader:
            for release in reader:
                print(release.stream, dict(zip(release.states, release.frequencies)))

    It connects again by itself when the broker goes away. Use a `subscriber` identity: that one can read nothing else.
    """

    def __init__(
        self,
        *brokers: str,
        cohort: str,
        username: str | None = None,
        password: str | None = None,
        ca: Path | None = None,
        certificate: Path | None = None,
        certificate_key: Path | None = None,
        password_in_clear_text: bool = False,
    ) -> None:
        """Raises Problem on a bad address, certificate or cohort, and where a password would be sent in clear text.

        Args:
            brokers: `mqtt://host[:port]` or `mqtts://host[:port]`; several, the nodes of a cluster, are tried in turn.
            cohort: The cohort whose releases are read.
            username: The identity at the broker.
            password: Its password.
            ca: A PEM file with the authorities that vouch for the broker; the system's by default.
            certificate: One's own certificate, a PEM file.
            certificate_key: The key of that certificate.
            password_in_clear_text: Send it without TLS to other hosts, too, where everybody on the network can read it.
        """
        tls = Tls(ca, certificate, certificate_key) if ca or certificate or certificate_key else None
        endpoints = [Endpoint.parse(url, username=username, password=password, tls=tls) for url in brokers]
        if not password_in_clear_text:
            refuse_clear_text(endpoints, setting="brokers", risk="password_in_clear_text=True")
        try:
            topics = Topics(cohort)
        except ValueError as error:
            raise Problem(f"cohort: {error}") from None
        self.rejected = 0
        """Payloads so far that were no release of their topic."""
        self._newest: dict[str, bytes] = {}
        self._arrived: SimpleQueue[Release | None] = SimpleQueue()
        self._connection = Connection(
            endpoints=endpoints,
            client_id=f"reader-{cohort}-{time.monotonic_ns():x}",
            subscriptions=[topics.all("release")],
            on_message=self._on_message,
            keep_session=False,
            subscribe_twice=True,
            log=logger("error"),
        )

    def __enter__(self) -> Self:
        """Connect. Raises Problem when no broker lets the reader in within ten seconds."""
        self._connection.start()
        if not self._connection.wait_connected(CONNECT_S):
            self.close()
            raise Problem(f"broker: {self._connection.last_error or 'no answer'}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Release]:
        """Every release from now on; ends when the reader is closed, which another thread may do."""
        while (release := self._arrived.get()) is not None:
            yield release

    def read(self, *, timeout: float) -> Release | None:
        """The next release, or None when `timeout` seconds are over before or the reader is closed."""
        try:
            return self._arrived.get(timeout=timeout)
        except Empty:
            return None

    def close(self) -> None:
        """Disconnect, and end iterations."""
        self._connection.stop()
        self._arrived.put(None)

    def _on_message(self, topic: str, payload: bytes, _retained: bool) -> None:
        """Retained releases come again with every connection: a payload is taken once."""
        address = parse(topic)
        if address is None or not payload or self._newest.get(topic) == payload:
            return
        self._newest[topic] = payload
        try:
            release = read_release(payload)
        except Rejected:
            self.rejected += 1
            return
        if (release.stream, release.window, release.scope) != (address.stream, address.window, address.scope):
            self.rejected += 1
            return
        self._arrived.put(release)
