"""The start of a calibrator, and every reconnect: what the broker retains of it comes back first.

Before that has been taken in, nothing is charged and nothing of ours on the broker is overwritten: a high-water mark or
a setting among it may show that the database is an old one, and ops may have signed another policy meanwhile.
"""

from __future__ import annotations

import time

from hushmq.calibrator.ingest.inbox import Inbox

SETTLING_S = 1.0
"""So long after a connection, what the broker retains of us has arrived."""


class Settling:
    """Whether everything that arrived in the first second of a connection has been taken in."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._ends_at: float | None = None
        self._to_take: int | None = None
        self._settled = False
        self._complete_since: float | None = None
        self._asked_at: float | None = None
        self._waited = False

    def begin_again(self) -> None:
        """There is a new connection: what the broker retains comes again."""
        self._ends_at, self._to_take = time.monotonic() + SETTLING_S, None
        self._settled = False

    def settled(self, *, connected: bool) -> bool:
        """To be asked at every turn; once True it stays so until `begin_again`."""
        if self._settled or not connected:
            return self._settled
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + SETTLING_S
        if now >= self._ends_at:
            if self._to_take is None:
                self._to_take = self._inbox.received
            self._settled = self._inbox.taken >= self._to_take
        return self._settled

    def caught_up(self, *, connected: bool, grace_s: float) -> bool:
        """Whether nothing has kept batches from us for the whole grace: windows may close.

        They close by the clock, whatever arrived. So after a start or a break what devices kept for us comes first, and
        after a turn that took longer than the grace what came meanwhile; then they close, however slow we are.
        """
        if not (connected and self.settled(connected=connected)):
            self._complete_since = None
            return False
        now = time.monotonic()
        slow = self._asked_at is not None and now - self._asked_at > grace_s
        self._asked_at, self._waited = now, slow and not self._waited
        if self._complete_since is None or self._waited:
            self._complete_since = now
        return now - self._complete_since >= grace_s
