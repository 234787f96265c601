"""The single owner of an MQTT connection: reconnects for ever, and never queues a message while it is offline.

What it promises. `publish` passes the message to the network thread at once or raises Offline. When a connection
breaks, its unacknowledged messages are discarded: they are not sent again, and their `on_acknowledged` is never called.
An exception in a callback does not end the connection. `stop` returns within its time-out whatever the broker does.
`connected` is true only while the broker has accepted the client and granted every subscription.

Callbacks run on the network thread, with no lock held: they may publish, and must be quick. An acknowledgement proves
only that the broker has read the message: with MQTT 3.1.1 brokers also acknowledge messages that they forbid. With
MQTT 5 they say so; such a message is logged, and its `on_acknowledged` is never called.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import structlog
from paho.mqtt.client import WebsocketConnectionError
from paho.mqtt.enums import MQTTProtocolVersion

from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.endpoint import Endpoint, Tls
from hushmq.broker.mqtt.link import Link, Will, back_off
from hushmq.broker.mqtt.twin import TwinWatch

__all__ = ["Connection", "Endpoint", "Offline", "Tls", "Will"]

SETTLED = 5.0
"""Seconds for which a connection must be usable to reset the back-off; a shorter one counts as a failure."""
WATCH = 1.0
"""The network thread checks its deadlines (keep-alive, time-outs) at least this often, in seconds."""
HUNG = 120.0
"""Seconds without progress after which the network thread is considered hung. A pause, a failing name lookup and a
handshake that times out together take less."""


class Offline(Exception):
    """Raised when a message cannot be sent now: there is no connection, or the in-flight window is full."""


class Connection:
    """One client of the broker, with its own network thread."""

    def __init__(
        self,
        *,
        endpoints: Sequence[Endpoint],
        client_id: str,
        subscriptions: Sequence[str] = (),
        on_message: Callable[[str, bytes, bool], None] | None = None,
        on_change: Callable[[bool], None] | None = None,
        will: Will | None = None,
        keep_session: bool = True,
        subscribe_twice: bool = False,
        qos: int = 1,
        collect_s: float = 0.0,
        window: int = 50,
        keepalive: int = 15,
        log: Any | None = None,
    ) -> None:
        if not endpoints:
            raise Problem("broker: no address is given; at least one is needed")
        for endpoint in endpoints:
            if endpoint.tls is not None:
                endpoint.tls.context()  # raises Problem now, instead of failing later on the network thread
        self._endpoints = tuple(endpoints)
        self._outdated = set[Endpoint]()
        self._refused = set[str]()
        """Topics that the broker has forbidden: each is logged once."""
        self._client_id = client_id
        self._twin = TwinWatch(client_id)
        self._subscriptions = tuple(subscriptions)
        self._added: dict[str, None] = {}
        """Subscriptions that were added later: the connection is usable without them."""
        self._changes: deque[tuple[tuple[str, ...], tuple[str, ...]]] = deque()
        """Subscriptions that were added and dropped since the network thread last took them up."""
        self._granted: frozenset[str] = frozenset()
        self._on_message = on_message
        self._on_change = on_change
        self._will = will
        self._keep_session = keep_session
        # NATS looks up retained messages before a new subscription is active, so that one published in between is
        # missed. Subscribing a second time delivers it, at the price of delivering all retained messages twice.
        self._subscribe_twice = subscribe_twice
        # With 0 a broker keeps nothing for us, and NATS makes no consumer for a subscription.
        self._qos = qos
        # Where few messages come, they may wait so long to be read together, which takes less processor time.
        self._collect_s = collect_s
        self._window = self._present_window = window
        self._keepalive = keepalive
        self._log = log if log is not None else structlog.get_logger()
        self.last_error: str | None = None
        self.failures = 0
        """Exceptions that callbacks have raised so far."""
        self._lock = threading.Condition()
        self._connected = False
        self._in_flight = 0
        self._pending: deque[tuple[str, bytes, bool, Callable[[], None] | None]] = deque()
        self._stopping = threading.Event()
        self._stop_timeout = 2.0
        self._came_round = time.monotonic()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{client_id}", daemon=True)

    @property
    def connected(self) -> bool:
        """Whether the broker has accepted the client and granted every subscription."""
        return self._connected

    @property
    def alive(self) -> bool:
        """Whether the network thread runs and makes progress."""
        return self._thread.is_alive() and time.monotonic() - self._came_round < HUNG

    @property
    def in_flight(self) -> int:
        """The number of messages published and not yet acknowledged."""
        return self._in_flight

    def start(self) -> None:
        """Connect in the background, trying the endpoints in turn, for ever, with jittered back-off."""
        self._came_round = time.monotonic()
        self._thread.start()

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Publish one message with QoS 1; raise Offline when that is not possible now."""
        if not topic or any(character in topic for character in "+#\0"):
            raise ValueError(f"{topic!r} is not a topic to publish to: it is empty or has a wildcard")
        with self._lock:
            if not self._connected:
                raise Offline(
                    "stopped" if self._stopping.is_set() else self.last_error or "not connected yet"
                )
            if self._in_flight >= self._present_window:
                raise Offline(f"{self._in_flight} messages await their acknowledgement, the maximum")
            self._in_flight += 1
            self._pending.append((topic, payload, retain, on_acknowledged))
            if len(self._pending) == 1:
                self._wake()

    def subscribe(self, filters: Iterable[str]) -> None:
        """Subscribe to these filters as well, now and after every reconnect; `hears` says when that is done.

        Other than for those given at the start, a refusal does not end the connection.
        """
        with self._lock:
            added = tuple(name for name in filters if name not in self._added)
            self._added |= dict.fromkeys(added)
            self._changes.append((added, ()))
            self._wake()

    def unsubscribe(self, filters: Iterable[str]) -> None:
        """Give up subscriptions that were added."""
        with self._lock:
            dropped = tuple(name for name in filters if name in self._added)
            for name in dropped:
                del self._added[name]
            self._granted -= set(dropped)
            self._changes.append(((), dropped))
            self._wake()

    def hears(self, filters: Iterable[str]) -> bool:
        """Whether the broker has granted all of these subscriptions on the present connection."""
        return self._connected and self._granted.issuperset(filters)

    def wait_connected(self, timeout: float) -> bool:
        """Wait until connected; return False on time-out."""
        with self._lock:
            return self._lock.wait_for(lambda: self._connected, timeout)

    def stop(self, timeout: float = 2.0) -> None:
        """Send pending messages and DISCONNECT, and end the thread; return after `timeout` seconds at the latest."""
        with self._lock:
            self._stop_timeout = timeout
            self._stopping.set()
            self._connected = False
            self._wake()
        if self._thread.ident is None:
            self._close_wake()
        elif self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _wake(self) -> None:
        # If the socket is full, a wake-up is pending already; if it is closed, the thread has ended.
        with contextlib.suppress(OSError):
            self._wake_write.send(b"!")

    def _close_wake(self) -> None:
        with self._lock:
            self._wake_read.close()
            self._wake_write.close()

    def _run(self) -> None:
        turn = failed = 0
        try:
            while not self._stopping.is_set():
                self._came_round = time.monotonic()
                settled = self._connect_once(self._endpoints[turn % len(self._endpoints)])
                failed = 1 if settled else failed + 1
                turn += 1
                # Pausing before every attempt avoids a thundering herd; the pause grows once all endpoints have failed.
                self._stopping.wait(back_off((failed - 1) // len(self._endpoints)))
        finally:
            self._close_wake()

    def _connect_once(self, endpoint: Endpoint) -> bool:
        """Serve one connection until it ends; return whether it was usable for at least SETTLED seconds.

        A broker that does not speak MQTT 5 is connected to again at once, and from then on, with MQTT 3.1.1.
        """
        settled, outdated = self._serve(endpoint)
        if outdated and not self._stopping.is_set():
            self._outdated.add(endpoint)
            settled, _ = self._serve(endpoint)
        return settled

    def _serve(self, endpoint: Endpoint) -> tuple[bool, bool]:
        """Serve one connection; return whether it was usable for long enough, and whether its MQTT was too new."""
        version = MQTTProtocolVersion.MQTTv311 if endpoint in self._outdated else MQTTProtocolVersion.MQTTv5
        link: Link | None = None
        usable_since: float | None = None
        with self._lock:
            self._changes = deque([(tuple(self._added), ())])
        try:
            link = Link(
                endpoint,
                client_id=self._client_id,
                subscriptions=self._subscriptions,
                on_message=self._received,
                will=self._will,
                keep_session=self._keep_session,
                subscribe_twice=self._subscribe_twice,
                qos=self._qos,
                keepalive=self._keepalive,
                version=version,
            )
            link.open()
            while not self._stopping.is_set() and link.step(self._wake_read.fileno(), WATCH):
                self._came_round = time.monotonic()
                if link.usable and usable_since is None:
                    usable_since = time.monotonic()
                    self._present_window = min(self._window, link.receive_maximum)
                    self._usable(endpoint)
                elif link.error is not None and not link.outdated:
                    self._failed(endpoint, link.error)
                self._change_subscriptions(link)
                self._send_pending(link)
                if self._collect_s:
                    link.collect(self._wake_read.fileno(), self._collect_s)
            if self._stopping.is_set():
                self._send_pending(link)
                link.close(self._stop_timeout)
            elif link.error is not None and not link.outdated:
                self._failed(endpoint, self._twin.in_words(endpoint.url, link))
        except Exception as error:  # noqa: BLE001  # whatever paho or the system raises, the thread goes on
            self._twin.away(endpoint.url)
            self._failed(endpoint, _in_words(error))
        finally:
            if link is not None:
                link.abandon()
            if usable_since is not None:
                self._lost()
        settled = usable_since is not None and time.monotonic() - usable_since >= SETTLED
        return settled, link is not None and link.outdated

    def _usable(self, endpoint: Endpoint) -> None:
        with self._lock:
            self._connected = not self._stopping.is_set()
            self.last_error = None
            self._lock.notify_all()
        version = "3.1.1" if endpoint in self._outdated else "5"
        self._log.info("broker_connected", broker=endpoint.url, mqtt=version)
        self._call(self._on_change, True)

    def _failed(self, endpoint: Endpoint, why: str) -> None:
        message = f"{endpoint.url}: {why}"
        if message != self.last_error:
            self._log.warning("broker_unusable", broker=endpoint.url, error=why)
        self.last_error = message

    def _lost(self) -> None:
        with self._lock:
            self._connected = False
            self._in_flight = 0
            self._granted = frozenset()
            self._pending.clear()
            self._drain_wake()
        self._call(self._on_change, False)

    def _send_pending(self, link: Link) -> None:
        if not self._pending:
            return
        with self._lock:
            handed, self._pending = self._pending, deque()
            self._drain_wake()
        for topic, payload, retain, on_acknowledged in handed:
            link.publish(
                topic,
                payload,
                retain=retain,
                on_acknowledged=partial(self._acknowledged, topic, on_acknowledged),
            )
        link.flush()

    def _change_subscriptions(self, link: Link) -> None:
        if self._changes:
            with self._lock:
                self._drain_wake()
            while self._changes and link.usable:
                link.change_subscriptions(*self._changes.popleft())
        if not self._changes and self._granted != (heard := link.heard):
            self._granted = heard

    def _drain_wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_read.recv(64)

    def _acknowledged(
        self, topic: str, on_acknowledged: Callable[[], None] | None, refused: str | None
    ) -> None:
        with self._lock:
            self._in_flight -= 1
        if refused is None:
            self._call(on_acknowledged)
            return
        if topic not in self._refused:
            self._refused.add(topic)
            self._log.warning("publish_refused", topic=topic, reason=refused)

    def _received(self, topic: str, payload: bytes, retained: bool) -> None:
        self._call(self._on_message, topic, payload, retained)

    def _call(self, callback: Callable[..., None] | None, *arguments: object) -> None:
        """Call a callback; count an exception and log its class only, because its text may contain data."""
        if callback is None:
            return
        try:
            callback(*arguments)
        except Exception as error:  # noqa: BLE001  # a caller's mistake must not end the connection
            self.failures += 1
            self._log.error(
                "callback_failed",
                callback=getattr(callback, "__qualname__", type(callback).__name__),
                error=type(error).__name__,
            )


def _in_words(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: the broker's certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'failed').lower().replace('_', ' ')}"
    if isinstance(error, TimeoutError):
        return "no answer"
    if isinstance(error, WebsocketConnectionError):
        return f"no WebSocket there: {str(error).lower()}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) if isinstance(error, Problem) else type(error).__name__
