"""A connection that keeps what is handed to it, and may be offline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hushmq.broker.mqtt.connection import Offline


@dataclass(slots=True)
class FakeConnection:
    """Takes `room` messages, then it is offline."""

    room: int = 1000
    published: list[tuple[str, bytes]] = field(default_factory=list)
    acknowledge: list[Callable[[], object]] = field(default_factory=list)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool,
        on_acknowledged: Callable[[], object] | None = None,
    ) -> None:
        assert retain
        if not self.room:
            raise Offline
        self.room -= 1
        self.published.append((topic, payload))
        if on_acknowledged is not None:
            self.acknowledge.append(on_acknowledged)

    def take(self) -> list[tuple[str, bytes]]:
        taken, self.published = self.published, []
        return taken
