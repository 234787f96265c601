"""A connection loses and truncates no packet and keeps their order, however the bytes are split."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from hushmq.broker.mqtt import link as link_module
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.mqtt.link import Link


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
    """A connection, the broker's end of its socket, and the messages the connection has received."""

    link: Link
    wake: int
    broker: socket.socket
    received: list[bytes] = field(default_factory=list)

    def sent(self, size: int) -> bytes:
        """Return the next bytes that the client has sent."""
        found = b""
        while len(found) < size:
            more = self.broker.recv(size - len(found))
            assert more, f"only {found!r}"
            found += more
        return found

    def step_until(self, condition: Callable[[], object]) -> None:
        for _ in range(10_000):
            if condition():
                return
            assert self.link.step(self.wake, 5.0), self.link.error
        raise AssertionError("it did not come about")


@pytest.fixture
def pair() -> Iterator[Pair]:
    """A link after CONNECT and CONNACK, without subscriptions."""
    received: list[bytes] = []
    wake, end = os.pipe()
    with socket.create_server(("127.0.0.1", 0)) as server:
        link = Link(
            Endpoint.parse(f"mqtt://127.0.0.1:{server.getsockname()[1]}"),
            client_id="c",
            subscriptions=[],
            on_message=lambda _topic, payload, _retained: received.append(payload),
            will=None,
            keep_session=True,
            subscribe_twice=False,
            keepalive=60,
            version=MQTTProtocolVersion.MQTTv311,
        )
        link.open()
        broker, _ = server.accept()
    with broker:
        broker.settimeout(10)
        found = Pair(link, wake, broker, received)
        head = found.sent(2)
        found.sent(head[1])
        broker.sendall(b"\x20\x02\x00\x00")
        found.step_until(lambda: link.usable)
        yield found
        link.abandon()
    os.close(wake)
    os.close(end)


def test_a_burst_is_received_and_acknowledged_in_order(pair: Pair) -> None:
    payloads = [b"%d" % n * 20 for n in range(1, 501)]
    pair.broker.sendall(b"".join(publish(n, payload) for n, payload in enumerate(payloads, start=1)))
    pair.step_until(lambda: len(pair.received) == 500)
    assert pair.received == payloads
    assert pair.sent(4 * 500) == acknowledgements(1, 500)


def test_a_packet_may_be_cut_anywhere(pair: Pair) -> None:
    """A packet split after any byte arrives complete once the rest has been received."""
    packet = publish(1, b"x" * 200) + publish(2, b"y")
    for cut in [*range(1, 12), 100, *range(len(packet) - 12, len(packet))]:
        pair.received.clear()
        pair.broker.sendall(packet[:cut])
        assert pair.link.step(pair.wake, 5.0)
        pair.broker.sendall(packet[cut:])
        pair.step_until(lambda: len(pair.received) == 2)
        assert pair.received == [b"x" * 200, b"y"]
        assert pair.sent(8) == acknowledgements(1, 2)


@pytest.mark.slow
def test_nothing_is_mixed_up_where_the_socket_is_full(pair: Pair) -> None:
    """While a packet is partly written, answers follow its rest, and later packets follow the answers."""
    acknowledged: list[int] = []
    large, many = b"z" * 60_000, 200

    def say(number: int, payload: bytes) -> None:
        pair.link.publish(
            "t", payload, retain=False, on_acknowledged=lambda _refused: acknowledged.append(number)
        )

    for number in range(many):
        say(number, large)
    for _ in range(50):
        assert pair.link.step(pair.wake, 0.01)
    pair.broker.sendall(publish(1, b"one") + publish(2, b"two"))
    pair.step_until(lambda: len(pair.received) == 2)
    say(many, b"later")
    expected = b"".join(publish(n, large) for n in range(1, many + 1))
    expected += acknowledgements(1, 2) + publish(many + 1, b"later")
    found = bytearray()
    pair.broker.setblocking(False)
    while len(found) < len(expected):
        assert pair.link.step(pair.wake, 0.01)
        try:
            found += pair.broker.recv(1_000_000)
        except BlockingIOError:
            continue
    assert bytes(found) == expected
    pair.broker.setblocking(True)
    pair.broker.sendall(acknowledgements(1, many + 1))
    pair.step_until(lambda: acknowledged == [*range(many + 1)])


def test_the_end_is_noticed_after_what_came_before_it(pair: Pair) -> None:
    """Messages received before the broker closes are delivered; then the connection is lost."""
    pair.broker.sendall(publish(1, b"last"))
    pair.broker.shutdown(socket.SHUT_WR)
    while pair.link.step(pair.wake, 5.0):
        pass
    assert pair.received == [b"last"]
    assert pair.link.error == "the broker closed the connection"
    assert not pair.link.usable


def test_only_few_messages_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """After none there is no wait, after few a double one, after some a single one; under load nothing waits."""
    now, waits = [1000.0], list[float]()
    polls = SimpleNamespace(register=lambda *_: None, poll=waits.append)
    monkeypatch.setattr(link_module, "select", SimpleNamespace(poll=lambda: polls, POLLIN=1))
    monkeypatch.setattr(link_module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    link = Link(
        Endpoint.parse("mqtt://127.0.0.1:1883"),
        client_id="c",
        subscriptions=[],
        on_message=lambda *_: None,
        will=None,
        keep_session=True,
        subscribe_twice=False,
        keepalive=15,
        version=MQTTProtocolVersion.MQTTv311,
    )
    for came in (0, link_module.FEW, link_module.FEW + 1, link_module.BUSY, 1000):
        link._heard += came
        now[0] += 0.2
        link.collect(0, 0.1)
    assert waits == [200.0, 100.0]
    link._heard += 1
    link.collect(0, 0.1)  # too soon after the load to say that it has ended
    assert len(waits) == 2
