"""Stored releases on their way: handed to the connection once, until the broker has acknowledged them."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from functools import partial

from hushmq.calibrator.publish.outlet import Outlet
from hushmq.calibrator.windows.outgoing import Outgoing


class ReleaseQueue:
    """What waits in the database, and what of it the connection holds. Acknowledgements come on its thread."""

    def __init__(self) -> None:
        self._unsent: list[Outgoing] = []
        self._handed_over: set[Outgoing] = set()
        self._acknowledged: queue.SimpleQueue[Outgoing] = queue.SimpleQueue()

    def __len__(self) -> int:
        return len(self._unsent)

    def replace(self, unsent: Iterable[Outgoing]) -> None:
        """What waits now, as the database has it."""
        self._unsent = list(unsent)

    def publish_again(self) -> None:
        """Hand everything over again: a new connection holds nothing."""
        self._handed_over.clear()

    def publish(self, outlet: Outlet) -> None:
        """Hand over what the connection does not hold. Raises Offline."""
        for one in self._unsent:
            if one not in self._handed_over:
                outlet.publish(
                    one.topic, one.payload, retain=True, on_acknowledged=partial(self._acknowledged.put, one)
                )
                self._handed_over.add(one)

    def take_acknowledged(self) -> list[Outgoing]:
        """What the broker has acknowledged since the last call."""
        taken = []
        while not self._acknowledged.empty():
            taken.append(self._acknowledged.get_nowait())
        self._handed_over.difference_update(taken)
        return taken
