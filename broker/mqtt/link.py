"""One connection to one broker, from CONNECT until its socket closes. Used by the network thread only.

A paho client is driven through its read, write and misc calls, without paho's thread, and is discarded with the
connection: so paho never resends an old message, never queues, and none of its locks is shared. Messages and
acknowledgements are read and written many at a time (broker/mqtt/packet_client.py).

MQTT 5 is asked for first. A broker without it (NATS) refuses, and is asked again with MQTT 3.1.1. With MQTT 5 a broker
says that it forbids a message, which 3.1.1 cannot express.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import SystemRandom
from typing import Any

from paho.mqtt.client import Client, ConnectFlags, DisconnectFlags, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.mqtt.packet_client import PacketClient

CONNECT_TIMEOUT = 5.0
"""Seconds for the TCP connection, and for the TLS handshake."""
ANSWER_TIMEOUT = 10.0
"""Seconds for CONNACK, and for SUBACK: a NATS cluster that has just lost a node takes up to five to elect leaders."""
ACKNOWLEDGE_TIMEOUT = 20.0
"""Seconds after which an unacknowledged message ends the connection, so that another broker is tried."""

REFUSALS = 3
"""Refusals of a subscription after which the connection is given up: another node may be able to grant it."""
ASKED_TOGETHER = 24
"""Filters in one SUBSCRIBE: NATS makes a consumer for each before it answers."""
BUSY = 16
"""Messages within the time of `collect` from which on none are made to wait. Mosquitto sends 20 and waits for us."""
FEW = 4
"""With no more messages than this the next ones may wait twice as long."""

TAKEN_OVER = 0x8E
"""The reason "session taken over" (MQTT 5, 3.14.2.1)."""

SESSION_S = 14 * 86_400
"""Seconds for which a broker is asked, with MQTT 5, to keep the session of an absent client."""

_random = SystemRandom()


def back_off(attempt: int, *, first: float = 0.2, longest: float = 30.0) -> float:
    """Return the seconds to wait after failure number `attempt` (from 0): doubling, with jitter down to one half."""
    return float(min(longest, first * 2 ** min(attempt, 32))) * _random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Will:
    """The last will: the message that the broker publishes, with QoS 1, when the client disappears."""

    topic: str
    payload: bytes
    retain: bool = True


Acknowledged = Callable[[str | None], None]
"""Called once for a message: with None when it was acknowledged, with the broker's reason when it was refused."""


class Link:
    """A connection that is being established, usable, or ended; `error` says why it is not usable."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        client_id: str,
        subscriptions: Sequence[str],
        on_message: Callable[[str, bytes, bool], None],
        will: Will | None,
        keep_session: bool,
        subscribe_twice: bool,
        qos: int = 1,
        keepalive: int,
        version: MQTTProtocolVersion,
    ) -> None:
        self.usable = False
        self.error: str | None = None
        self.outdated = False
        """Whether the broker does not speak this version of MQTT."""
        self.accepted = False
        """Whether the broker has let the client in."""
        self.closed = False
        """Whether the broker has closed the connection and not said why."""
        self.taken_over = False
        """Whether the broker has ended the connection because another client came with the same client id."""
        self.receive_maximum = 65_535
        """How many unacknowledged messages the broker takes."""
        self._version = version
        self._endpoint = endpoint
        self._on_message = on_message
        self._deadline = 0.0
        self.granted: set[str] = set()
        """Subscriptions that the broker has granted."""
        self._wanted = dict.fromkeys(subscriptions)
        self._required = frozenset(subscriptions)
        self._subscribe_twice = subscribe_twice
        self._qos = qos
        self._asked: dict[int, tuple[list[str], bool]] = {}
        """By packet the filters that it asked for, and whether they are asked for once more when they are granted."""
        self._once_more: list[str] = []
        """Filters that were granted together with a refusal, to be asked for once more when that is mended."""
        self._ask_at: float | None = None
        self._refusals = 0
        self._unacknowledged: dict[int, tuple[float, Acknowledged]] = {}
        self._heard = 0
        """Messages and acknowledgements so far."""
        self._heard_before = 0
        self._collecting_since = 0.0
        self._keep_session = keep_session
        modern = version == MQTTProtocolVersion.MQTTv5
        self._client = client = PacketClient(
            CallbackAPIVersion.VERSION2,
            deliver=self._deliver,
            acknowledge=self._acknowledge,
            client_id=endpoint.secret_client_id(client_id),
            clean_session=None if modern else not keep_session,
            protocol=version,
            transport="tcp" if endpoint.path is None else "websockets",
            reconnect_on_failure=False,
        )
        if endpoint.path is not None:
            client.ws_set_options(path=endpoint.path)
        client.connect_timeout = CONNECT_TIMEOUT
        client.keepalive = keepalive
        client.username_pw_set(endpoint.username, endpoint.password)
        if endpoint.tls is not None:
            client.tls_set_context(endpoint.tls.context())
        if will is not None:
            client.will_set(will.topic, will.payload, qos=1, retain=will.retain)
        client.on_connect = self._connected
        client.on_subscribe = self._subscribed
        client.on_message = self._received
        client.on_disconnect = self._disconnected

    def open(self) -> None:
        """Open the socket and send CONNECT; raise OSError when that fails."""
        self._client.connect(
            self._endpoint.host,
            self._endpoint.port,
            keepalive=self._client.keepalive,
            **(self._session() if self._version == MQTTProtocolVersion.MQTTv5 else {}),
        )
        self._deadline = time.monotonic() + ANSWER_TIMEOUT

    def _session(self) -> dict[str, Any]:
        """What MQTT 5 asks for in the place of a clean session."""
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho's
        properties.SessionExpiryInterval = SESSION_S if self._keep_session else 0
        return {"clean_start": not self._keep_session, "properties": properties}

    @property
    def heard(self) -> frozenset[str]:
        """Subscriptions that are granted, and not asked for once more: what is retained there was sent before."""
        again = {name for names, _ in self._asked.values() for name in names}
        return frozenset(self.granted - again)

    def publish(self, topic: str, payload: bytes, *, retain: bool, on_acknowledged: Acknowledged) -> None:
        """Publish a message with QoS 1; it leaves with `flush`, or with the next step."""
        mid = self._client.send(topic, payload, retain=retain)
        self._unacknowledged[mid] = (time.monotonic(), on_acknowledged)

    def flush(self) -> None:
        """Write what is published, as far as the socket takes it now."""
        with contextlib.suppress(
            OSError
        ):  # also BlockingIOError; a broken connection is found by the next step
            self._client.flush()

    def change_subscriptions(self, added: Sequence[str], dropped: Sequence[str]) -> None:
        """Subscribe to more filters, and no longer to others, on a usable connection; a refusal does not end it."""
        if dropped:
            self.granted.difference_update(dropped)
            self._wanted = {name: None for name in self._wanted if name not in dropped}
            self._client.unsubscribe(list(dropped))
        self._wanted |= dict.fromkeys(added)
        self._ask(added, again=self._subscribe_twice)

    def step(self, wake: int, longest: float) -> bool:
        """Wait for the socket or for `wake`, and handle what is due; return False when the connection has ended."""
        peer = self._client.socket()
        if peer is None:
            return self._end("the broker closed the connection")
        poll = select.poll()  # not select.select, which is limited to the first 1024 descriptors
        poll.register(peer, select.POLLIN | (select.POLLOUT if self._client.want_write() else 0))
        poll.register(wake, select.POLLIN)
        # Bytes that TLS has decrypted already do not make the socket readable.
        buffered = bool(getattr(peer, "pending", int)())
        ready = dict(poll.poll(0 if buffered else max(0.0, min(longest, self._until_due())) * 1000))
        events = ready.get(peer.fileno(), 0)
        rc = MQTTErrorCode.MQTT_ERR_SUCCESS
        if events & ~select.POLLOUT or buffered:
            rc = self._client.loop_read()
        if rc == 0 and self._client.want_write():
            rc = self._client.loop_write()
        if rc == 0:
            rc = self._client.loop_misc()
        if rc != 0 and not self.accepted and self._version == MQTTProtocolVersion.MQTTv5:
            # Refused in words, or by closing the connection, as brokers older than MQTT 5 do.
            self.outdated = self.error is None or "protocol version" in self.error
        if rc == MQTTErrorCode.MQTT_ERR_PROTOCOL and not self.accepted:
            return self._end("the broker refuses: it does not support MQTT 3.1.1")
        if rc != 0 or self._client.socket() is None:
            self.closed = bool(events) and self.error is None
            return self._end("the broker closed the connection" if events else "the broker does not answer")
        return self._do_what_is_due()

    def collect(self, wake: int, seconds: float) -> None:
        """Where few messages come, wait so long for more of them, or for `wake`: they are then read together.

        With very few it is twice as long.
        """
        now = time.monotonic()
        if self._heard == self._heard_before or now - self._collecting_since < seconds:
            return
        came = self._heard - self._heard_before
        self._heard_before, self._collecting_since = self._heard, now
        if came < BUSY:
            poll = select.poll()
            poll.register(wake, select.POLLIN)
            poll.poll(seconds * 1000 * (2 if came <= FEW else 1))

    def close(self, timeout: float) -> None:
        """Send pending messages, then DISCONNECT, so that the last will is not published; within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        self._client.on_socket_close = lambda _client, _userdata, peer: _linger(peer, deadline)
        self._client.disconnect()
        while (peer := self._client.socket()) is not None and (left := deadline - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(peer, select.POLLOUT)
            poll.poll(left * 1000)
            self._client.loop_write()

    def abandon(self) -> None:
        """Close the socket without DISCONNECT."""
        self.usable = False
        if (peer := self._client.socket()) is not None:
            peer.close()

    def _end(self, why: str) -> bool:
        self.usable = False
        self.error = self.error or why
        return False

    def _until_due(self) -> float:
        due = [self._deadline if not self.accepted or self._asked else None, self._ask_at]
        if self._unacknowledged:
            due.append(next(iter(self._unacknowledged.values()))[0] + ACKNOWLEDGE_TIMEOUT)
        return min((at for at in due if at is not None), default=float("inf")) - time.monotonic()

    def _do_what_is_due(self) -> bool:
        now = time.monotonic()
        if now >= self._deadline and not self.accepted:
            return self._end("the broker does not answer CONNECT")
        if now >= self._deadline and self._asked:
            return self._end("the broker does not answer SUBSCRIBE")
        if self._ask_at is not None and now >= self._ask_at:
            if self._refusals >= REFUSALS and not self._required <= self.granted:
                return self._end("the broker refuses a subscription")
            self._ask_at = None
            asked = {name for names, _ in self._asked.values() for name in names}
            ungranted = [name for name in self._wanted if name not in self.granted | asked]
            self._ask(ungranted, again=self._subscribe_twice)
        if self._unacknowledged:
            sent, _ = next(iter(self._unacknowledged.values()))
            if now >= sent + ACKNOWLEDGE_TIMEOUT:
                return self._end("the broker does not acknowledge what is published")
        return True

    def _ask(self, names: Sequence[str], *, again: bool) -> None:
        """Subscribe, in packets that a broker answers in time; `again`: once more when it has granted them."""
        self._deadline = time.monotonic() + ANSWER_TIMEOUT
        for start in range(0, len(names), ASKED_TOGETHER):
            group = list(names[start : start + ASKED_TOGETHER])
            _, mid = self._client.subscribe([(name, self._qos) for name in group])
            if mid is not None:
                self._asked[mid] = group, again

    def _connected(
        self,
        _client: Client,
        _userdata: Any,
        _flags: ConnectFlags,
        reason: ReasonCode,
        properties: Properties | None,
    ) -> None:
        if reason.is_failure:
            self.error = f"the broker refuses: {str(reason).lower()}"
            return
        self.receive_maximum = getattr(properties, "ReceiveMaximum", self.receive_maximum)
        self.accepted = self._client.accepted = True
        self._ask(list(self._wanted), again=self._subscribe_twice)
        self.usable = not self._wanted

    def _disconnected(
        self,
        _client: Client,
        _userdata: Any,
        flags: DisconnectFlags,
        reason: ReasonCode,
        _properties: Properties | None,
    ) -> None:
        """With MQTT 5 brokers say why they end a connection."""
        if flags.is_disconnect_packet_from_server:
            self.taken_over = reason.value == TAKEN_OVER
            self.error = f"the broker ended the connection: {str(reason).lower()}"

    def _subscribed(
        self,
        _client: Client,
        _userdata: Any,
        mid: int,
        reasons: list[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        asked, again = self._asked.pop(mid, ([], False))
        self._deadline = time.monotonic() + ANSWER_TIMEOUT
        # 0x80 is a refusal (MQTT 3.1.1, 3.9.3); a lower QoS than requested would lose messages, too.
        refused = {name for name, reason in zip(asked, reasons, strict=True) if reason.value != self._qos}
        asked = [name for name in asked if name in self._wanted and name not in refused]
        self.granted.update(asked)
        self.granted.difference_update(refused)
        if refused & self._wanted.keys():
            self._ask_at = time.monotonic() + back_off(self._refusals)
            self._refusals += 1
        if missed := sorted(refused & self._required):
            self.error = f"the broker refuses the subscription {', '.join(missed)}"
            self._once_more += asked if again else ()
            return
        if self._required <= self.granted:
            self.usable, self.error = True, None
        if again:
            asked, self._once_more = [*self._once_more, *asked], []
            self._ask(asked, again=False)

    def _acknowledge(self, mid: int, refused: str | None) -> None:
        self._heard += 1
        if (entry := self._unacknowledged.pop(mid, None)) is not None:
            entry[1](refused)

    def _received(self, _client: Client, _userdata: Any, message: MQTTMessage) -> None:
        self._deliver(message.topic, bytes(message.payload), message.retain)

    def _deliver(self, topic: str, payload: bytes, retained: bool) -> None:
        self._heard += 1
        self._on_message(topic, payload, retained)


def _linger(peer: object, deadline: float) -> None:
    """Wait until the peer has read everything and has closed its side.

    Closing first, with unread data, resets the connection, and the peer may lose what it has not read yet.
    """
    if not isinstance(peer, socket.socket):
        return  # a WebSocket, which paho wraps; the broker answers its closing frame by itself
    with contextlib.suppress(OSError):
        peer.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            peer.settimeout(left)
            if not peer.recv(65536):
                return
