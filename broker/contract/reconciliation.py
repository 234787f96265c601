"""What ops sign so that a ledger which was restored from an old backup may be charged again.

It charges what the marks prove was spent and the entries no longer show, at its worst case (docs/theory-accounts.md,
A11), and is kept in the ledger with its signature (calibrator/ledger/reconcile_ledger.py).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hushmq.broker.contract.message_base import Counter, Level, Message, NanoNats, Tick, Version

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class LostStretch(Message):
    """The ticks of a stream over which a ledger has lost entries, and the most that each of them can have cost."""

    entries: Counter
    """How many entries the ledger has had, as its high-water mark says, and the digest of the last."""
    head: Digest
    after: Counter
    """How many it has now, and the digest of the last."""
    after_head: Digest
    first: Tick
    last: Tick
    """The ticks up to when it was made: it is charged up to when it is applied."""
    public: NanoNats
    """The most by which what was released can tilt the true state of one of the ticks."""
    operator: NanoNats
    """The most by which the sanitized stream can."""
    settings: Counter
    """The highest version of a noise setting that anybody has: the next is above it."""
    policies: tuple[Version, ...]
    """The policies that can have been in force in that time."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.first > self.last:
            raise ValueError("first must not be after last")
        return self


class Reconciliation(Message):
    """Signed by ops: charge these stretches, and go on after them. It fits one ledger and one mark of each stream."""

    v: Literal[1] = 1
    cohort: Level
    streams: Annotated[dict[Level, LostStretch], Field(min_length=1)]
