"""The client that reads and answers many packets at once loses none, cuts none, and keeps their order."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from hushmq.broker.eager import EagerClient

SUCCESS = MQTTErrorCode.MQTT_ERR_SUCCESS


def publish(number: int, payload: bytes) -> bytes:
    """A PUBLISH of QoS 1."""
    body = b"\x00\x01t" + number.to_bytes(2, "big") + payload
    size, length = len(body), b""
    while True:
        size, rest = divmod(size, 128)
        length += bytes([rest | (128 if size else 0)])
        if not size:
            return b"\x32" + length + body


def acknowledgements(first: int, last: int) -> bytes:
    return b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in range(first, last + 1))


@dataclass
class Pair:
    """A client, the broker's end of its connection, and what the client was told."""

    client: EagerClient
    broker: socket.socket
    heard: list[bytes] = field(default_factory=list)

    def sent(self, size: int) -> bytes:
        """The next bytes that the client has sent."""
        found = b""
        while len(found) < size:
            more = self.broker.recv(size - len(found))
            assert more, f"only {found!r}"
            found += more
        return found


@pytest.fixture
def pair() -> Iterator[Pair]:
    """Connected, CONNECT and CONNACK done."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = EagerClient(CallbackAPIVersion.VERSION2, client_id="c", reconnect_on_failure=False)
        client.connect(*server.getsockname())
        broker, _ = server.accept()
    with broker:
        broker.settimeout(10)
        found = Pair(client, broker)

        def hear(_client: Client, _userdata: object, message: MQTTMessage) -> None:
            found.heard.append(bytes(message.payload))

        client.on_message = hear
        head = found.sent(2)
        found.sent(head[1])
        broker.sendall(b"\x20\x02\x00\x00")
        read_until(found, client.is_connected)
        yield found
        if (peer := client.socket()) is not None:
            peer.close()


def read_next(pair: Pair) -> None:
    """Wait for bytes and read what there is."""
    peer = pair.client.socket()
    assert isinstance(peer, socket.socket)
    peer.settimeout(10)
    peer.recv(1, socket.MSG_PEEK)
    peer.setblocking(False)
    assert pair.client.read() == SUCCESS


def read_until(pair: Pair, condition: Callable[[], object]) -> None:
    while not condition():
        read_next(pair)


def test_a_burst_is_read_and_answered_with_few_calls(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """500 messages take a few calls to the system each way; all are heard and acknowledged, in order.

    Were paho to read or write past the methods that are overridden, this would be the test to say so.
    """
    calls = {"recv": 0, "send": 0}
    recv, send = Client._sock_recv, Client._sock_send

    def counted_recv(self: Client, size: int) -> bytes:
        calls["recv"] += 1
        return recv(self, size)

    def counted_send(self: Client, data: bytes) -> int:
        calls["send"] += 1
        return send(self, data)

    monkeypatch.setattr(Client, "_sock_recv", counted_recv)
    monkeypatch.setattr(Client, "_sock_send", counted_send)
    payloads = [b"%d" % n * 20 for n in range(1, 501)]
    pair.broker.sendall(b"".join(publish(n, payload) for n, payload in enumerate(payloads, start=1)))
    read_until(pair, lambda: len(pair.heard) == 500)
    assert pair.heard == payloads
    assert pair.sent(4 * 500) == acknowledgements(1, 500)
    assert 1 <= calls["recv"] < 50
    assert 1 <= calls["send"] < 50


def test_a_packet_may_be_cut_anywhere(pair: Pair) -> None:
    """Whatever byte the first piece ends with, the packet arrives whole when the rest has come."""
    packet = publish(1, b"x" * 200) + publish(2, b"y")
    for cut in [*range(1, 12), 100, *range(len(packet) - 12, len(packet))]:
        pair.heard.clear()
        pair.broker.sendall(packet[:cut])
        read_next(pair)
        pair.broker.sendall(packet[cut:])
        read_until(pair, lambda: len(pair.heard) == 2)
        assert pair.heard == [b"x" * 200, b"y"]
        assert pair.sent(8) == acknowledgements(1, 2)


def test_nothing_is_mixed_up_where_the_socket_is_full(pair: Pair) -> None:
    """With a packet half out, answers wait behind its rest, and later packets come after them."""
    client, many = pair.client, 0
    while not client.want_write():
        client.publish("t", b"z" * 60_000)
        many += 1
        time.sleep(0.02)  # for what the system moves from one buffer to the next
        client.loop_write()
    pair.broker.sendall(publish(1, b"one") + publish(2, b"two"))
    read_until(pair, lambda: len(pair.heard) == 2)
    client.publish("t", b"later")
    expected = (b"\x30\xe3\xd4\x03\x00\x01t" + b"z" * 60_000) * many
    expected += acknowledgements(1, 2) + b"\x30\x08\x00\x01tlater"
    found = bytearray()
    while len(found) < len(expected):
        assert client.loop_write() == SUCCESS
        found += pair.broker.recv(1_000_000)
    assert bytes(found) == expected
    assert not client.want_write()


def test_the_end_is_noticed_after_what_came_before_it(pair: Pair) -> None:
    """Messages before the broker's end are heard; then the connection is lost."""
    pair.broker.sendall(publish(1, b"last"))
    pair.broker.shutdown(socket.SHUT_WR)
    read_until(pair, lambda: pair.heard == [b"last"])
    while (rc := pair.client.read()) == SUCCESS:
        pass
    assert rc == MQTTErrorCode.MQTT_ERR_CONN_LOST
    assert pair.client.socket() is None
