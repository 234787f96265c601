"""Thousands of devices played by one connection, which speaks the wire contract as agents do.

A device has no states before its cohort has a noise setting, and a batch carries the one that was known at its first
tick. It keeps each batch until it is seen; what is not is sent again, after twice the time at each attempt. What it
would have sampled while the player was busy with something else is a gap, which the next batch declares.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass

from hushmq.broker.contract.messages import NoiseSetting, Seen, decode
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import verify
from hushmq.broker.contract.topics import ROOT, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from tests.calibrator.fleet.fleet_brokers import GATEWAY, FleetBrokers
from tests.calibrator.fleet.fleet_site import counts
from tests.calibrator.site import CALIBRATOR, STREAM, batch, states

PERIOD_MS = 100
AGAIN_S = 10.0
"""What was not seen for so long is sent again; agents wait for a minute."""


def tick() -> int:
    return time.time_ns() // (PERIOD_MS * 1_000_000)


@dataclass(slots=True)
class Waiting:
    """A batch that was not seen yet."""

    made: float
    again: float
    """When it is sent again."""
    last: int
    payload: bytes
    pause_s: float = AGAIN_S


class PlayedDevices:
    """All devices of some cohorts. `beat` is to be called a few times a second."""

    def __init__(
        self, brokers: FleetBrokers, cohorts: list[str], devices: int, beat_s: float, number: int = 0
    ) -> None:
        self.names = {f"{cohort}-{n}": cohort for cohort in cohorts for n in range(devices)}
        self._ticks = round(beat_s * 1000 / PERIOD_MS)
        self.sampled: Counter[str] = Counter()
        """Ticks of each device that were not gaps."""
        self.latencies: list[float] = []
        """Seconds from the last tick of a batch to its `seen`."""
        self._noise: dict[str, int] = {}
        self._next: dict[str, tuple[int, int]] = {}
        """The first tick of the next batch, and the noise known then."""
        self._last: dict[str, int] = {}
        self._waiting: dict[str, dict[int, Waiting]] = {name: {} for name in self.names}
        self._lock = threading.Lock()
        self.connection = Connection(
            endpoints=brokers.endpoints(GATEWAY, number),
            client_id=f"{GATEWAY}-{number}",
            subscriptions=[
                topic
                for cohort in cohorts
                for topic in (f"{ROOT}/{cohort}/seen/#", Topics(cohort).noise(STREAM))
            ],
            on_message=self._receive,
            keep_session=False,
            window=400,
            qos=0,
        )

    @property
    def ready(self) -> bool:
        """Whether every cohort has a setting."""
        return set(self._noise) == set(self.names.values())

    @property
    def waiting(self) -> int:
        """Batches that were not seen."""
        return sum(map(len, self._waiting.values()))

    @property
    def waiting_ticks(self) -> int:
        return self.waiting * self._ticks

    def beat(self) -> None:
        """Send what is due, and again what was not seen for long."""
        at = tick()
        for name, cohort in self.names.items():
            if cohort not in self._noise:
                continue
            if name not in self._next:  # each begins at another moment of the first beat
                self._next[name] = at + random.randrange(self._ticks), self._noise[cohort]
            first, noise = self._next[name]
            if at - first >= 2 * self._ticks:
                first = at - self._ticks  # nobody was there: a gap
            if first + self._ticks <= at:
                self._send(cohort, name, first, noise)
        self.send_again()

    def _send(self, cohort: str, name: str, first: int, noise: int) -> None:
        now, last = time.monotonic(), first + self._ticks - 1
        payload = batch(first, states(self._ticks, seed=first), after=self._last.get(name), noise=noise)
        with self._lock:
            self._waiting[name][first] = Waiting(now, now + AGAIN_S, last, payload)
        self._last[name], self._next[name] = last, (last + 1, self._noise[cohort])
        self.sampled[name] += self._ticks
        self._publish(cohort, name, payload)

    def send_again(self, *, soon: bool = False) -> None:
        """Send what was not seen for long; with `soon` without waiting longer at each attempt."""
        now = time.monotonic()
        with self._lock:
            due = [
                (name, one)
                for name, held in self._waiting.items()
                for one in held.values()
                if now >= (one.again - one.pause_s + AGAIN_S if soon else one.again)
            ]
        for name, one in due:
            one.pause_s = AGAIN_S if soon else 2 * one.pause_s
            one.again = now + one.pause_s
            self._publish(self.names[name], name, one.payload)

    def _publish(self, cohort: str, name: str, payload: bytes) -> None:
        with contextlib.suppress(Offline):
            self.connection.publish(Topics(cohort).batch(name, STREAM), payload)

    # On the network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        _, _, cohort, kind, *_ = topic.split("/")
        if kind == "seen":
            self._seen(topic.rsplit("/", 1)[1], payload)
        elif kind == "noise":
            with contextlib.suppress(Rejected):
                version = verify(NoiseSetting, payload, [CALIBRATOR.public]).version
                self._noise[cohort] = max(version, self._noise.get(cohort, 0))

    def _seen(self, name: str, payload: bytes) -> None:
        counted, now = decode(Seen, payload).streams.get(STREAM), time.monotonic()
        if counted is None or name not in self._waiting:
            return
        with self._lock:
            for first, one in list(self._waiting[name].items()):
                if counts(counted, first, one.last):
                    del self._waiting[name][first]
                    self.latencies.append(now - one.made)
