"""Admission to the roster: a device comes after its first counted batch, so many in a window at most.

The limit is what keeps invented devices from outnumbering those that are there at once. Who has to wait is counted as
usual, and asks again with every batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, insert, select
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.policy.clocks import Clocks
from hushmq.calibrator.store.tables import roster

# Built once: SQLAlchemy takes longer to build a statement than SQLite to run it.
_MEMBERSHIPS = select(roster.c.stream, roster.c.device, roster.c.until, roster.c.left_out).where(
    roster.c.device.in_(bindparam("mine", expanding=True))
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A device of which a batch was counted, with the first tick of that batch."""

    stream: str
    device: str
    first: int


@dataclass(slots=True)
class Admission:
    """Admits devices within the limits."""

    limits: RosterSection
    clocks: Clocks
    log: FilteringBoundLogger
    _full: dict[str, int] = field(default_factory=dict)
    """By stream the last window in which a device had to wait."""

    def admit(
        self, db: Connection, candidates: Iterable[Candidate], streams: Mapping[str, StreamPolicy]
    ) -> list[Candidate]:
        """Put those that are on no roster on theirs, as many as the limit allows, and return them."""
        asking: dict[tuple[str, str], Candidate] = {}
        for one in candidates:
            asking.setdefault((one.stream, one.device), one)
        rows = db.execute(_MEMBERSHIPS, {"mine": list({device for _, device in asking})})
        ended: dict[tuple[str, str], int] = {}
        for row in rows:
            key = row.stream, row.device
            if row.until is None or row.left_out is not None:
                asking.pop(key, None)
            else:
                ended[key] = max(row.until, ended.get(key, 0))
        admitted = []
        for stream in dict.fromkeys(stream for stream, _ in asking):
            policy = streams[stream]
            if not policy.windows:
                continue
            number = self.clocks.tick(policy) // min(map(policy.strides_of, policy.windows.values()))
            mine = [one for key, one in asking.items() if key[0] == stream]
            room = self._room(db, stream, number)
            if len(mine) > room and self._full.get(stream) != number:
                self._full[stream] = number
                self.log.warning("admission_full", stream=stream, waiting=len(mine) - room)
            for one in mine[:room]:
                since = max(one.first, ended.get((stream, one.device), 0))
                db.execute(
                    insert(roster).values(stream=stream, device=one.device, since=since, admitted=number)
                )
                self.log.info("admitted", stream=stream, device=one.device, since=since)
                admitted.append(Candidate(stream, one.device, since))
        return admitted

    def _room(self, db: Connection, stream: str, number: int) -> int:
        """How many more devices this window may admit."""
        here = (roster.c.stream == stream) & roster.c.until.is_(None) & roster.c.left_out.is_(None)
        since = list(db.execute(select(roster.c.admitted).where(here)).scalars())
        now = since.count(number)
        most = max(self.limits.admit_least, int(self.limits.admit_share * (len(since) - now)))
        return max(0, most - now)
