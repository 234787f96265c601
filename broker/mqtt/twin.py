"""Notices another client of the same name.

A broker that lets in a client ends the connection of an older one with the same client id, and both come back for
ever. With MQTT 5 it gives this as the reason. With MQTT 3.1.1 it just closes the connection, which it does for other
reasons, too: only when that happens again and again, and the broker lets us in each time, a twin is the likely one.
NATS does the same while its disk is full.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque

from hushmq.broker.mqtt.link import Link

TIMES, WITHIN_S = 3, 120.0
"""So many closed connections within so many seconds. Two that back off from each other meet twice in a minute."""


class TwinWatch:
    """Remembers which connections of a client the broker closed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._closed: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=TIMES))

    def in_words(self, broker: str, link: Link) -> str:
        """Return why a connection has ended, with what is known or supposed of a twin."""
        error = link.error or "the connection has ended"
        if link.taken_over:
            return f"another client has connected with the name {self._name}, so the broker ended this connection"
        if not link.closed:
            self.away(broker)
            return error
        # NATS makes a client wait that comes back soon, and sometimes closes its connection before it lets it in.
        times = self._closed[broker]
        if link.accepted:
            times.append(time.monotonic())
        if len(times) < TIMES or times[-1] - times[0] > WITHIN_S:
            return error
        return (
            f"{error} again and again: another client seems to use the name {self._name}, "
            "or the broker cannot store what is sent (its log says so)"
        )

    def away(self, broker: str) -> None:
        """Take note that the broker did not answer, or refused the client: what it closed before has that reason."""
        self._closed.pop(broker, None)
