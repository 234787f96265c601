"""The epochs of a stream: from tick to tick, what its states mean and under which Θ they are accounted for.

An epoch begins with a policy that gives the states another meaning or that raises the number of the epoch, or where Θ
was contradicted and what was released exceeds the budget under the wider one. There is one timeline for all epochs;
each is priced at its own ticks, an ended one under the Θ that it ended with (docs/theory-world.md, Theorem 19).

From the second on, an epoch is sealed by an entry of the ledger, of tilt 0: its digest is part of the ledger's chain,
so that no epoch can be inserted, moved or removed unseen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, select

from hushmq.broker.contract.messages import EpochReason
from hushmq.calibrator.models.choose_model import read_theta
from hushmq.calibrator.store.tables import epoch
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.timeline.entry import Ticks

AUDIENCE = "epoch"
"""The audience of a ledger entry that begins an epoch."""
LAST_TICK = 2**53 - 1
"""The largest tick a message can carry."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch as it began. Settings of versions above `settings` were issued in it or later."""

    number: int = 1
    first: int = 0
    reason: Literal["first"] | EpochReason = "first"
    policy: int = 0
    ops: int = 1
    meaning: str = ""
    settings: int = 0


@dataclass(frozen=True, slots=True)
class PricedEpoch:
    """An epoch that has ended: its ticks, the Θ it is priced under, and why the next one began."""

    epoch: Epoch
    ticks: Ticks
    theta: Theta
    ended_by: EpochReason

    @property
    def number(self) -> int:
        return self.epoch.number


@dataclass(frozen=True, slots=True)
class Epochs:
    """All epochs of a stream."""

    current: Epoch = Epoch()
    ended: tuple[PricedEpoch, ...] = ()

    @property
    def ticks(self) -> Ticks | None:
        """The ticks of the current epoch; None where it is the only one, and has all there are."""
        return (self.current.first, LAST_TICK) if self.ended else None

    @property
    def meaning_since(self) -> int:
        """States with the noise of a version above it have the current meaning."""
        return self.settings_before(self.current)

    def settings_before(self, one: Epoch) -> int:
        """The highest version of a setting issued before the states got the meaning that they have in this epoch."""
        since = one
        for earlier in reversed([priced.epoch for priced in self.ended]):
            if earlier.number < since.number:
                if earlier.meaning != one.meaning:
                    break
                since = earlier
        return since.settings if since.number > 1 else 0

    def at(self, tick: int) -> Epoch:
        """The epoch that a tick is in."""
        for one in (self.current, *(priced.epoch for priced in reversed(self.ended))):
            if one.first <= tick:
                return one
        return self.ended[0].epoch if self.ended else self.current

    def keeps_meaning(self, tick: int) -> bool:
        """Whether the states meant the same in the epoch before the one that this tick is in."""
        here = self.at(tick)
        before = [one.epoch.meaning for one in self.ended if one.number == here.number - 1]
        return all(meaning == here.meaning for meaning in before)

    def of_version(self, version: int) -> Epoch:
        """The epoch in which a setting of this version was issued."""
        for one in (self.current, *(priced.epoch for priced in reversed(self.ended))):
            if version > one.settings:
                return one
        return self.ended[0].epoch if self.ended else self.current


_EPOCHS = select(epoch).where(epoch.c.stream == bindparam("stream")).order_by(epoch.c.number)


def read_epochs(db: Connection, stream: str, *, by_entry: int | None = None) -> Epochs:
    """The epochs of a stream, or those that had begun by an entry of its ledger.

    A stream that nothing is written of is in its first.
    """
    rows = [
        row
        for row in db.execute(_EPOCHS, {"stream": stream})
        if by_entry is None or row.entry is None or row.entry <= by_entry
    ]
    if not rows:
        return Epochs()
    all_ = [
        Epoch(row.number, row.first, row.reason, row.policy, row.ops, row.meaning, row.settings)
        for row in rows
    ]
    return Epochs(
        all_[-1],
        tuple(
            PricedEpoch(one, (one.first, after.first - 1), read_theta(after.ended_theta), after.reason)
            for one, after in zip(all_, rows[1:], strict=False)
        ),
    )


def is_written(db: Connection, stream: str) -> bool:
    """Whether the first epoch of a stream is written down."""
    return db.execute(_EPOCHS, {"stream": stream}).first() is not None


FIELDS = ("stream", "number", "first", "reason", "policy", "ops", "meaning", "settings", "ended_theta")


def seal(before: Mapping[str, Any], begun: Mapping[str, Any]) -> str:
    """What a ledger entry keeps of an epoch: a digest of the row that ends and of the one that begins."""
    content = [[row[name] for name in FIELDS] for row in (before, begun)]
    return blake2b(json.dumps(content, separators=(",", ":")).encode(), digest_size=16).hexdigest()
