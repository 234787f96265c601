"""One row of a benchmark: the measured value, its reference, and the aim."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measured value, the reference measured in the same run, and the aim.

    Without a value nothing could be measured, and `against` says why.
    """

    name: str
    value: float | None
    unit: str
    against: str = ""
    ratio: float | None = None
    aim: str = ""
