"""Batches leave in the order they were made, a window of them at a time, and again until they are seen.

The broker's acknowledgement frees a place in the window, nothing else: a batch stays in the outbox until the
calibrator has counted it. All that waits is sent again after a reconnect, and when the oldest one sent has not been
seen for the resend time, which doubles each time in vain (up to an hour) and starts anew when something is seen.
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
    """Sends what waits in the outbox. Used from one thread; `post` brings acknowledgements back to it."""

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
        """Releases that the broker has acknowledged, until the outbox knows."""
        self.sent = 0
        self._round = 0
        self.reconnected()
        self._resend_s = resend_s

    def _restart(self) -> None:
        """Begin again at the oldest; acknowledgements of what was sent before no longer count."""
        self._round += 1
        self._cursor = 0
        self._in_flight = 0
        self._ahead: deque[Waiting] = deque()
        self._handed: set[tuple[str, str, int]] = set()

    def reconnected(self) -> None:
        """Everything that waits is sent again: who knows what the broken connection swallowed."""
        self._restart()
        self._highest = 0
        self._watched: tuple[int, float] | None = None

    def forgotten(self) -> None:
        """Something was seen, or dropped: what was read ahead may be gone."""
        self._ahead.clear()
        self._resend_s = self._first_resend_s

    def pump(self, now: float) -> None:
        """Send as much as the window lets through."""
        self._look_back(now)
        self._pump_releases()
        while self._in_flight < self._window and self._connection.connected:
            if not self._ahead:
                self._ahead.extend(self._outbox.page(self._cursor, PAGE))
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
        for key, payload in self._outbox.unsent.items():
            if key in self._handed or key in self.delivered:
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

    def _look_back(self, now: float) -> None:
        """Begin again when what had been sent by the last look is still waiting after the resend time."""
        if self._watched is not None:
            sent, since = self._watched
            if now - since < self._resend_s:
                return
            oldest = self._outbox.oldest
            if oldest is not None and oldest <= sent:
                self._restart()
                self._resend_s = min(2 * self._resend_s, LONGEST_RESEND_S)
        self._watched = (self._highest, now)
