"""One line of a benchmark: what was measured, against what, and what we aim at."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """A measured value, the side it was compared with in the same run, and the aim.

    Without a value nothing could be measured, and `against` says why.
    """

    name: str
    value: float | None
    unit: str
    against: str = ""
    ratio: float | None = None
    aim: str = ""
