"""paho's client, with messages and acknowledgements read and written many at a time.

paho calls the system four times for every message that it reads, and keeps a record of every message that it sends.
Here whatever has arrived is read at once. Messages and their acknowledgements are taken from it and written here; every
other packet, and any message that is out of the ordinary, is handed to paho complete. What is written waits until
`flush`, so that the answers to many messages leave together.

This relies on two private methods of paho, which read and write the socket; tests/broker/mqtt/test_packet_client.py
compares all that is heard and written with paho alone.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

READ_BYTES = 1 << 16
"""Read at once."""
PUBLISH, PUBACK = 0x30, 0x40
LARGE_QOS = 0x04
"""Set in the first byte of a message with a quality of service above 1."""
REFUSED = 0x80
"""Codes of MQTT 5 from here on are refusals."""

Deliver = Callable[[str, bytes, bool], None]
"""Takes the topic of a message, its payload, and whether it was retained."""
Acknowledge = Callable[[int, str | None], None]
"""Takes the number of a message that was published, and the broker's reason if it was refused."""


class PacketClient(Client):
    """A client whose `loop_read` reads all that has arrived."""

    def __init__(self, *arguments: Any, deliver: Deliver, acknowledge: Acknowledge, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._deliver, self._acknowledge = deliver, acknowledge
        self._modern = self.protocol == MQTTProtocolVersion.MQTTv5
        self.accepted = False
        """To be set when CONNACK has come. Before it, paho reads for itself."""
        self._unread = b""
        """The beginning of a packet."""
        self._for_paho = b""
        self._unsent = bytearray()

    def send(self, topic: str, payload: bytes, *, retain: bool) -> int:
        """Queue a message of QoS 1 until `flush`, and return its number."""
        mid = self._mid_generate()
        name = topic.encode()
        middle = b"".join(
            (len(name).to_bytes(2, "big"), name, mid.to_bytes(2, "big"), b"\0" if self._modern else b"")
        )
        self._unsent += bytes([PUBLISH | 2 | retain]) + _length(len(middle) + len(payload)) + middle
        self._unsent += payload
        return mid

    def flush(self) -> None:
        """Write what is queued; BlockingIOError if the socket does not take all of it now, OSError if it is broken."""
        while self._unsent:
            sent = super()._sock_send(self._unsent)
            if not sent:
                raise BlockingIOError
            del self._unsent[:sent]
            self._last_msg_out = time.monotonic()  # no need of a ping

    def want_write(self) -> bool:
        return bool(self._unsent) or super().want_write()

    def loop_write(self) -> MQTTErrorCode:
        try:
            self.flush()
        except BlockingIOError:
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        except OSError:
            return MQTTErrorCode.MQTT_ERR_CONN_LOST
        return super().loop_write()

    def loop_read(self, max_packets: int = 1) -> MQTTErrorCode:
        """Handle all packets of which the last byte has come."""
        if not self.accepted:
            return super().loop_read(max_packets)
        try:
            arrived = self._read()
        except BlockingIOError:
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        except OSError:
            arrived = b""
        if not arrived:
            self.accepted = False
            return super().loop_read()  # finds the end, and says so
        self._last_bytes_received = time.monotonic()
        return self._handle(self._unread + arrived if self._unread else arrived)

    def _read(self) -> bytes:
        """Read what has arrived. TLS and WebSocket hand out one record of it at a time, mostly one message."""
        arrived = super()._sock_recv(READ_BYTES)
        if not arrived or type(self.socket()) is socket.socket:
            return arrived
        parts, size = [arrived], len(arrived)
        # An end or an error behind these bytes is met again by the next read.
        with contextlib.suppress(OSError):
            while size < READ_BYTES and (more := super()._sock_recv(READ_BYTES)):
                parts.append(more)
                size += len(more)
        return b"".join(parts)

    def _handle(self, data: bytes) -> MQTTErrorCode:
        at, size = 0, len(data)
        while at + 2 <= size:
            head, length, body = data[at], data[at + 1], at + 2
            shift = 7
            while length >> shift and body < size and shift < 28:
                # The highest bit of each byte of the length says that another one follows.
                length = (length ^ (1 << shift)) | data[body] << shift
                body, shift = body + 1, shift + 7
            end = body + length
            if length >> shift:
                if shift < 28:
                    break  # the length itself is not complete
                end = size  # no length: paho ends the connection for it
            if end > size:
                break
            if not self._taken(head, data, body, end):
                self._for_paho = data[at:end]
                rc = super().loop_read()
                if rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
                    return rc
            at = end
        self._unread = data[at:]
        return MQTTErrorCode.MQTT_ERR_SUCCESS

    def _taken(self, head: int, data: bytes, body: int, end: int) -> bool:
        """Handle a message or an acknowledgement; False if it is another packet, or an unusual one."""
        if head == PUBACK:
            if end - body < 2:
                return False
            code = data[body + 2] if end - body > 2 else 0
            self._acknowledge(data[body] << 8 | data[body + 1], None if code < REFUSED else _in_words(code))
            return True
        if head & (0xF0 | LARGE_QOS) != PUBLISH or end - body < 2:
            return False
        start = topic_end = body + 2 + (data[body] << 8 | data[body + 1])
        if head & 2:
            start += 2
        if self._modern:
            if start >= end or data[start]:
                return False  # it has properties
            start += 1
        if start > end:
            return False
        try:
            topic = data[body + 2 : topic_end].decode()
        except UnicodeDecodeError:
            return False
        self._deliver(topic, data[start:end], bool(head & 1))
        if head & 2:
            self._unsent += b"\x40\x02"
            self._unsent += data[topic_end : topic_end + 2]
        return True

    # Called by paho:

    def _sock_recv(self, bufsize: int) -> bytes:
        if not self.accepted:
            return super()._sock_recv(bufsize)
        if not self._for_paho:
            raise BlockingIOError
        found, self._for_paho = self._for_paho[:bufsize], self._for_paho[bufsize:]
        return found

    def _sock_send(self, buf: bytes | bytearray) -> int:
        self.flush()
        try:
            sent = super()._sock_send(buf)
        except BlockingIOError:
            sent = 0
        # TLS or WebSocket may hold the rest already: it must be the next that they are given.
        self._unsent += buf[sent:]
        return len(buf)


def _length(size: int) -> bytes:
    """The length of a packet as MQTT writes it: seven bits in a byte, the lowest first."""
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    found.append(size)
    return bytes(found)


def _in_words(code: int) -> str:
    try:
        return str(ReasonCode(PacketTypes.PUBACK, identifier=code)).lower()
    except (KeyError, ValueError):
        return f"reason {code:#x}"
