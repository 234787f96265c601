"""A cohort's use of a worker's connection: only while its subscriptions are heard and its claim is held for certain.

The broker cannot tell a worker that has lost its claim from the one that has it now, so the worker asks its own clock
before every message. What a pause between that question and the socket lets through is harmless: bytes that are stored
and published again, settings whose older versions devices refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.calibrator.fleet.worker_session import WorkerSession


@dataclass(frozen=True, slots=True)
class WorkerOutlet:
    """Takes messages of one cohort to publish."""

    connection: Connection
    session: WorkerSession
    filters: tuple[str, ...]
    """What the cohort reads."""

    @property
    def connected(self) -> bool:
        """Whether messages can be published and everything that is read arrives."""
        return self.session.fresh and self.connection.hears(self.filters)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Publish one message; raise Offline when that is not possible now."""
        if not self.session.fresh:
            raise Offline("the claim is not certain: the database has not answered for too long")
        self.connection.publish(topic, payload, retain=retain, on_acknowledged=on_acknowledged)
