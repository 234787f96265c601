"""Messages between the network thread, which brings them, and the calibrator's loop, which takes them in groups.

Bounded: what does not fit is dropped, and sent again by the device, which keeps it until `seen` covers it.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

GROUP = 2_000
"""Messages taken in one transaction."""
MANY = 500
"""So many are taken at once: the transaction then costs little beside its messages."""
CAPACITY = 20_000
CAPACITY_BYTES = 64 * 2**20
"""Of payloads: a broker accepts packets of a megabyte, from whoever may publish anything."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as the network brought it."""

    topic: str
    payload: bytes = field(repr=False)


class Inbox:
    """A bounded queue. `put` is called on the network thread, everything else by the loop."""

    def __init__(self, log: FilteringBoundLogger, *, collect_s: float = 0.03) -> None:
        self._log = log
        self.collect_s = collect_s
        """How long messages are collected where few are waiting."""
        self._waiting: deque[Arrived] = deque()
        self._put_bytes = self._taken_bytes = 0  # each is written by one thread
        self._arrived = threading.Event()
        self._many = threading.Event()
        self.received = 0
        """Messages accepted since the start."""
        self.taken = 0
        """Messages handed to the loop since the start."""
        self.dropped = 0
        """Messages that did not fit since the start."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def waiting_bytes(self) -> int:
        """The size of the payloads that wait."""
        return self._put_bytes - self._taken_bytes

    def put(self, message: Arrived) -> None:
        """Queue a message, or drop it when the inbox is full."""
        size = len(message.payload)
        if len(self._waiting) < CAPACITY and self.waiting_bytes + size <= CAPACITY_BYTES:
            self._waiting.append(message)
            self._put_bytes += size
            self.received += 1
            if not self._arrived.is_set():
                self._arrived.set()
            if len(self._waiting) >= MANY and not self._many.is_set():
                self._many.set()
        else:
            if self.dropped % CAPACITY == 0:
                self._log.warning("inbox_full", dropped=self.dropped + 1)
            self.dropped += 1

    def put_back(self, group: list[Arrived]) -> None:
        """Put a group that was taken and could not be written in front again."""
        self._waiting.extendleft(reversed(group))
        self.taken -= len(group)
        self._taken_bytes -= sum(len(one.payload) for one in group)
        self._arrived.set()

    def take(self, timeout: float) -> list[Arrived]:
        """The next group of messages, waiting for the first of them for at most `timeout` seconds.

        Where few are waiting, more are collected for a short time, since every group costs a write to the disk.
        """
        if timeout and self._arrived.wait(timeout):
            self._many.wait(self.collect_s)
        self._arrived.clear()
        self._many.clear()
        group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
        if self._waiting:
            self._arrived.set()
        if len(self._waiting) >= MANY:
            self._many.set()
        self.taken += len(group)
        self._taken_bytes += sum(len(one.payload) for one in group)
        return group
