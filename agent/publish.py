"""Publish batches in order, with a bounded number in flight, and resend them until the calibrator has seen them.

The broker's acknowledgement only frees a place in flight: a batch stays in the outbox until the calibrator has
counted it. All waiting batches are sent again after a reconnect, and when the oldest one sent has not been seen within
the resend time, which doubles with each attempt (up to an hour) and is reset when something is seen.

What was made since the last call of `allow` is held back. The agent calls it at the beginning of a beat, so the
moment at which bytes leave does not depend on when their noise was drawn and stored.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from hushmq.agent.storage.outbox import Outbox, Waiting
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection, Offline

LONGEST_RESEND_S = 3600.0
PAGE = 64


class Publisher:
    """Sends what waits in the outbox. Used from one thread; `post` hands acknowledgements to that thread."""

    def __init__(
        self,
        outbox: Outbox,
        connection: Connection,
        topics: Topics,
        *,
        device: str,
        window: int,
        resend_s: float,
        post: Callable[[Callable[[], None]], None],
    ) -> None:
        self._outbox, self._connection, self._topics, self._device = outbox, connection, topics, device
        self._window, self._first_resend_s, self._post = window, resend_s, post
        self.acknowledged = 0
        self.delivered: set[tuple[str, str, int]] = set()
        """Releases that the broker has acknowledged and the outbox has not yet recorded."""
        self.sent = 0
        self._round = 0
        self.allow()
        self.reconnected()
        self._resend_s = resend_s

    def allow(self) -> None:
        """Let everything leave that the outbox holds now."""
        self._newest = self._outbox.newest
        self._releases = dict(self._outbox.releases.unsent)

    def _restart(self) -> None:
        """Start again at the oldest batch; acknowledgements of earlier sends are ignored."""
        self._round += 1
        self._cursor = 0
        self._in_flight = 0
        self._ahead: deque[Waiting] = deque()
        self._handed: set[tuple[str, str, int]] = set()

    def reconnected(self) -> None:
        """Send everything again that waits: the broken connection may have lost any of it."""
        self._restart()
        self._highest = 0
        self._watched: tuple[int, float] | None = None

    def forgotten(self) -> None:
        """Discard what was read ahead, because batches were deleted, and reset the resend time."""
        self._ahead.clear()
        self._resend_s = self._first_resend_s

    def pump(self, now: float) -> None:
        """Send as many batches as may be in flight."""
        self._resend_unseen(now)
        self._pump_releases()
        while self._in_flight < self._window and self._connection.connected:
            if not self._ahead:
                self._ahead.extend(self._outbox.page(self._cursor, PAGE, upto=self._newest))
                if not self._ahead:
                    return
            batch = self._ahead[0]
            topic = self._topics.batch(self._device, batch.stream)
            done = partial(self._post, partial(self._on_acknowledged, self._round))
            try:
                self._connection.publish(topic, batch.payload, on_acknowledged=done)
            except Offline:
                return
            self._ahead.popleft()
            self._cursor = batch.id
            self._highest = max(self._highest, batch.id)
            self._in_flight += 1
            self.sent += 1

    def _pump_releases(self) -> None:
        """Send each release of the device until it is acknowledged, the same bytes each time."""
        for key, payload in self._releases.items():
            if key in self._handed or key in self.delivered or key not in self._outbox.releases.unsent:
                continue
            topic = self._topics.release(key[0], key[1], self._device)
            done = partial(self._post, partial(self._on_delivered, key))
            try:
                self._connection.publish(topic, payload, retain=True, on_acknowledged=done)
            except Offline:
                return
            self._handed.add(key)

    def _on_delivered(self, key: tuple[str, str, int]) -> None:
        self.delivered.add(key)

    def _on_acknowledged(self, round_: int) -> None:
        self.acknowledged += 1
        if round_ == self._round:
            self._in_flight -= 1

    def _resend_unseen(self, now: float) -> None:
        """Start again if a batch sent before the last check still waits after the resend time."""
        if self._watched is not None:
            sent, since = self._watched
            if now - since < self._resend_s:
                return
            oldest = self._outbox.oldest
            if oldest is not None and oldest <= sent:
                self._restart()
                self._resend_s = min(2 * self._resend_s, LONGEST_RESEND_S)
        self._watched = (self._highest, now)
