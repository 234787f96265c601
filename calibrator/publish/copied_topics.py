"""The newest release of every window and the status of every device, as the site's broker has them.

They are copied byte for byte to a home's own broker: whatever noise paid for a release has paid for its copy.
"""

from __future__ import annotations

import threading
import time

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.calibrator.calibrator_config import Config

READ_BACK_S = 1.0
"""So long after a connection, what a broker retains has arrived."""


def copied_filters(cohort: str) -> list[str]:
    """Return the filters of all topics that are copied."""
    return [Topics(cohort).all("release"), Topics(cohort).all("status")]


class CopiedTopics:
    """Reads with a connection of its own, on whose thread `_heard` and `_changed` are called."""

    def __init__(self, config: Config, log: FilteringBoundLogger) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, bytes] = {}
        self._read_at: float | None = None
        self._connection = Connection(
            endpoints=config.broker.endpoints(),
            client_id=f"calibrator-{config.cohort}-{config.name}-copies",
            subscriptions=copied_filters(config.cohort),
            on_message=self._heard,
            on_change=self._changed,
            keep_session=False,
            subscribe_twice=True,
            log=log,
        )

    def start(self) -> None:
        self._connection.start()

    def stop(self) -> None:
        self._connection.stop()

    def newest(self) -> dict[str, bytes] | None:
        """Return the bytes of every topic, none for one that was cleared since the last connection.

        None while the site's broker is away or has not sent all of them.
        """
        with self._lock:
            complete = self._read_at is not None and time.monotonic() >= self._read_at
            return dict(self._held) if complete else None

    def _heard(self, topic: str, payload: bytes, _retained: bool) -> None:
        with self._lock:
            self._held[topic] = payload

    def _changed(self, connected: bool) -> None:
        with self._lock:
            self._read_at = time.monotonic() + READ_BACK_S if connected else None
            if not connected:
                self._held.clear()
