"""paho's client with fewer calls to the system: one costs more than a packet, and lets another thread go first.

paho takes a packet from the socket in three or four pieces, and answers each with a call of its own. Here what has come
is taken at once, and what answers it goes out at once, after the last packet of it has been handled.
"""

from __future__ import annotations

from paho.mqtt.client import Client
from paho.mqtt.enums import MQTTErrorCode

READ = 65_536
"""Bytes taken from the socket at once."""


class EagerClient(Client):
    """For one connection, by one thread; `read` stands for `loop_read`."""

    _taken = b""
    _used = 0
    _answers = b""
    _answering = False

    def read(self) -> MQTTErrorCode:
        """Handle all packets among the bytes that have come, READ at most, and send the answers."""
        self._answering = True
        try:
            rc = self.loop_read()
            while rc == MQTTErrorCode.MQTT_ERR_SUCCESS and self._used < len(self._taken):
                rc = self.loop_read()
        finally:
            self._answering = False
        return self.loop_write() if rc == MQTTErrorCode.MQTT_ERR_SUCCESS else rc

    def want_write(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._answers) or super().want_write()

    def loop_write(self) -> MQTTErrorCode:
        """Write what waits, answers first."""
        if self._answers and not self._answering:
            try:
                while self._answers:
                    self._answers = self._answers[super()._sock_send(self._answers) :]
            except BlockingIOError:
                return MQTTErrorCode.MQTT_ERR_SUCCESS
            except OSError:
                return self._loop_rc_handle(MQTTErrorCode.MQTT_ERR_CONN_LOST)
        return super().loop_write()

    def _sock_recv(self, bufsize: int) -> bytes:
        if self._used == len(self._taken):
            self._taken, self._used = super()._sock_recv(READ), 0
        first = self._used
        found = self._taken[first : first + bufsize]
        self._used = first + len(found)
        return found

    def _sock_send(self, buf: bytes | bytearray) -> int:
        if self._answering:
            self._answers += buf
            return len(buf)
        return super()._sock_send(buf)  # paho comes here through `loop_write` alone
