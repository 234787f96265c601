"""Retained topics: each is a state, of which only the newest value waits to be published.

Releases are published by calibrator/publish/release_queue.py, and are here once they are acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable

from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.publish.outlet import Outlet

REPAIR_S = 1.0
"""A setting that was overwritten is published again at most this often."""


class RetainedTopics:
    """The newest bytes of every topic of ours, and which of them wait to be published."""

    def __init__(self) -> None:
        self._newest: dict[str, bytes] = {}
        self._waiting: dict[str, None] = {}
        self._settings: set[str] = set()
        """Topics of noise settings: published again when somebody overwrites them."""
        self._read_back: set[str] = set()
        """Topics that we read ourselves at a start, to find out whether the database is an old one."""
        self._repair_next: dict[str, float] = {}

    def set(self, topic: str, payload: bytes) -> None:
        """Publish these bytes, unless they are the newest already."""
        if self._newest.get(topic) != payload:
            self._newest[topic] = payload
            self._waiting[topic] = None

    def set_setting(self, topic: str, payload: bytes) -> None:
        """Publish a noise setting."""
        self._settings.add(topic)
        self._read_back.add(topic)
        self.set(topic, payload)

    def set_ledger(self, topic: str, payload: bytes) -> None:
        """Publish a ledger state with a sealed mark."""
        self._read_back.add(topic)
        self.set(topic, payload)

    def clear(self, topic: str) -> None:
        """Have the broker retain nothing on this topic."""
        self._settings.discard(topic)
        self.set(topic, b"")

    def hold_back(self, topic: str) -> None:
        """Leave what the broker retains on this topic as it is, also after a reconnect."""
        self._read_back.add(topic)
        self._waiting.pop(topic, None)
        self._newest.pop(topic, None)

    def acknowledged(self, topic: str, payload: bytes) -> None:
        """The broker has these bytes: they are published again only after a reconnect."""
        self._newest[topic] = payload

    def publish_again(self) -> None:
        """Publish everything again: after a reconnect the broker may have lost it."""
        self._waiting |= dict.fromkeys(self._newest)

    def repair_overwritten(self, arrived: Iterable[Arrived], now: float) -> None:
        """Publish a setting again, once in a while, where somebody else has published to its topic."""
        for item in arrived:
            ours = self._newest.get(item.topic) if item.topic in self._settings else None
            if ours not in {None, item.payload} and now >= self._repair_next.get(item.topic, 0.0):
                self._repair_next[item.topic] = now + REPAIR_S
                self._waiting[item.topic] = None

    def publish(self, outlet: Outlet, *, overwrite: bool) -> None:
        """Publish what waits; without `overwrite`, only topics that are not read back. Raises Offline.

        Longer topics first: a device receives its device-specific setting before that of the cohort.
        """
        ordered = sorted(
            (topic for topic in self._waiting if overwrite and topic in self._read_back),
            key=lambda one: (-one.count("/"), one),
        )
        # Thousands of `seen` may wait, of which the connection takes a hundred at once: they are not sorted.
        others = [topic for topic in self._waiting if topic not in self._read_back]
        for topic in (*ordered, *others):
            outlet.publish(topic, self._newest[topic], retain=True)
            del self._waiting[topic]
