"""A bare paho client for tests: what any client with the credentials can do, without the Connection class."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.broker.mqtt.endpoint import Endpoint

PATIENCE = 10.0
"""Seconds after which a test fails because an expected event has not happened."""


class Plain:
    """Connects on entering the context; records all messages it receives."""

    def __init__(self, endpoint: Endpoint, client_id: str = "", *, keep_session: bool = False) -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        self.refusal: str | None = None
        self._endpoint = endpoint
        self._changed = threading.Condition()
        self._granted: dict[int, list[int]] = {}
        self._accepted = False
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=not keep_session)
        self.client.username_pw_set(endpoint.username, endpoint.password)
        if endpoint.tls is not None:
            self.client.tls_set_context(endpoint.tls.context())
        self.client.on_connect = self._on_connect
        self.client.on_subscribe = self._on_subscribe
        self.client.on_message = self._on_message

    def _on_connect(
        self, _client: Client, _userdata: Any, _flags: Any, reason: Any, _properties: Any
    ) -> None:
        with self._changed:
            self._accepted = not reason.is_failure
            self.refusal = str(reason) if reason.is_failure else None
            self._changed.notify_all()

    def _on_subscribe(self, _client: Client, _userdata: Any, mid: int, codes: Any, _properties: Any) -> None:
        with self._changed:
            self._granted[mid] = [code.value for code in codes]
            self._changed.notify_all()

    def _on_message(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        with self._changed:
            self.received.append((message.topic, bytes(message.payload), message.retain))
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), f"waited in vain for {what}"

    def __enter__(self) -> Self:
        self.client.connect(self._endpoint.host, self._endpoint.port)
        self.client.loop_start()
        self.wait(lambda: self._accepted, "CONNACK")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def subscribe(self, *filters: str) -> list[int]:
        """Subscribe with QoS 1; return the codes of the SUBACK."""
        _, mid = self.client.subscribe([(name, 1) for name in filters])
        assert mid is not None
        self.wait(lambda: mid in self._granted, f"SUBACK for {', '.join(filters)}")
        return self._granted[mid]

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish with QoS 1 and wait for the acknowledgement."""
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(PATIENCE)

    def payloads(self, topics: Sequence[str] | None = None) -> list[bytes]:
        return [payload for topic, payload, _ in self.received if topics is None or topic in topics]

    def wait_payload(self, payload: bytes) -> None:
        self.wait(lambda: payload in self.payloads(), f"the payload {payload!r}")
