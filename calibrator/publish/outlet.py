"""Where a cohort's messages go: the connection of a calibrator, or a worker's as far as it may use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Outlet(Protocol):
    """Takes messages to publish."""

    @property
    def connected(self) -> bool:
        """Whether messages can be published and everything that is read arrives."""

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        retain: bool = False,
        on_acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Publish one message; raise Offline when that is not possible now."""
