"""Someone at the broker who reads all topics, and keeps what must not differ: bytes of a tick, result of a window."""

from __future__ import annotations

import io
import threading
import time
from collections import Counter

from hushmq.broker.contract.messages import Batch, Release, Status, decode
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.broker.contract.topics import parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.service.log import logger
from tests.calibrator.site import TOPICS


class Observer:
    """Hears batches, releases, statuses and `seen`, from several threads' point of view under one lock."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._lock = threading.Lock()
        self._batches: dict[tuple[str, str, int], bytes] = {}
        self._releases: dict[tuple[str, int], bytes] = {}
        self.statuses: dict[str, Status] = {}
        self._status_at: dict[str, float] = {}
        self.seen_at: dict[str, float] = {}
        """When something was last heard on a device's `seen`, by the monotonic clock."""
        self.heard: Counter[str] = Counter()
        self._strange: list[tuple[str, str]] = []
        topics = [TOPICS.all(kind) for kind in ("z", "status", "release", "seen", "noise")]
        self.connection = Connection(
            endpoints=[broker.endpoint("observer")],
            client_id="observer",
            subscriptions=topics,
            on_message=self._hear,
            keep_session=False,
            log=logger("error", "json", io.StringIO()),
        )

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        if address is None:
            return
        with self._lock:
            self.heard[address.kind] += 1
            try:
                self._keep(address.kind, topic, payload)
            except Rejected:
                self.heard["garbage"] += 1

    def _keep(self, kind: str, topic: str, payload: bytes) -> None:
        address = parse(topic)
        assert address is not None
        device, stream = address.device or "", address.stream or ""
        if kind == "z":
            batch = decode(Batch, payload)
            if self._batches.setdefault((device, stream, batch.first), payload) != payload:
                self._strange.append(
                    (device, f"{device}: {stream}: tick {batch.first} came with other bytes")
                )
        elif kind == "release" and payload:
            release = decode(Release, payload)
            if self._releases.setdefault((topic, release.first), payload) != payload:
                self._strange.append(
                    (address.scope or "", f"{topic}: window {release.first} has two results")
                )
        elif kind == "status" and payload:
            self.statuses[device], self._status_at[device] = decode(Status, payload), time.monotonic()
        elif kind == "seen":
            self.seen_at[device] = time.monotonic()
        elif kind == "noise" and device and payload:
            self.heard["device-specific settings"] += 1

    def news_of(self, since: float) -> dict[str, Status]:
        """By device, the last status, if it was heard since then (by the monotonic clock)."""
        with self._lock:
            return {name: one for name, one in self.statuses.items() if self._status_at[name] >= since}

    def totals(self) -> tuple[int, int, int]:
        """Ticks sampled, waiting and dropped, of all devices, by their last status."""
        with self._lock:
            streams = [one for status in self.statuses.values() for one in status.streams.values()]
        return (
            sum(one.sampled for one in streams),
            sum(one.buffered for one in streams),
            sum(one.dropped for one in streams),
        )

    def broken(self, apart: set[str]) -> list[str]:
        """Ticks with two noises and windows with two results, but of devices set apart, whose name two have used."""
        with self._lock:
            found = [what for device, what in self._strange if device not in apart]
            runs: dict[tuple[str, str], TickRuns] = {}
            for (device, stream, first), payload in sorted(self._batches.items()):
                last = decode(Batch, payload).last
                mine = runs.setdefault((device, stream), TickRuns())
                if mine.overlaps(first, last) and device not in apart:
                    found.append(f"{device}: {stream}: ticks {first} to {last} are in two batches")
                mine.add(first, last)
        return found
