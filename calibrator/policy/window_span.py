"""One window of a tumbling sequence: what is closed, charged and released."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.broker.contract.topics import COHORT


@dataclass(frozen=True, slots=True)
class Span:
    """One window of a tumbling sequence, for the cohort or for each device."""

    stream: str
    window: str
    first: int
    last: int
    scope: str = COHORT
