"""Messages between the network thread, which brings them, and the calibrator's loop, which takes them in groups.

Bounded: what does not fit is dropped, and sent again by the device, which keeps it until `seen` covers it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

GROUP = 2_000
"""Messages taken in one transaction."""
COLLECT_S = 0.03
"""How long messages are collected for a group."""
CAPACITY = 20_000


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as the network brought it."""

    topic: str
    payload: bytes = field(repr=False)


class Inbox:
    """A bounded queue. `put` is called on the network thread, everything else by the loop."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log
        self._waiting: deque[Arrived] = deque()
        self._arrived = threading.Event()
        self.received = 0
        """Messages accepted since the start."""
        self.taken = 0
        """Messages handed to the loop since the start."""
        self.dropped = 0
        """Messages that did not fit since the start."""

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: Arrived) -> None:
        """Queue a message, or drop it when the inbox is full."""
        if len(self._waiting) < CAPACITY:
            self._waiting.append(message)
            self.received += 1
            if not self._arrived.is_set():
                self._arrived.set()
        else:
            if self.dropped % CAPACITY == 0:
                self._log.warning("inbox_full", dropped=self.dropped + 1)
            self.dropped += 1

    def take(self, timeout: float) -> list[Arrived]:
        """The next group of messages, waiting for the first of them for at most `timeout` seconds.

        A short wait collects more of them, since every group costs a write to the disk.
        """
        if timeout and self._arrived.wait(timeout) and len(self._waiting) < GROUP:
            time.sleep(COLLECT_S)
        self._arrived.clear()
        group = [self._waiting.popleft() for _ in range(min(GROUP, len(self._waiting)))]
        if self._waiting:
            self._arrived.set()
        self.taken += len(group)
        return group
