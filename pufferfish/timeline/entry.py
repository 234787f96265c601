"""The values of a timeline: entries with their tilts, and the price of all of them."""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.pufferfish.adversary import check_tilts


@dataclass(frozen=True, slots=True)
class Entry:
    """A publication: it tilts every tick from first to last, both included, by at most τ0 and τ1."""

    first: int
    last: int
    tau0: float
    tau1: float

    def __post_init__(self) -> None:
        if self.first > self.last:
            raise ValueError(f"last is {self.last}; it must not be before first, {self.first}")
        check_tilts(self.tau0, self.tau1)


Ticks = tuple[int, int]
"""The first and the last of some ticks, both included."""


@dataclass(frozen=True, slots=True)
class Price:
    """The largest loss, and a tick that attains it; None if nothing was published."""

    epsilon: float
    tick: int | None


LossAtTick = tuple[float, int | None]
"""A loss and the tick that attains it; None for the loss 0 of an empty timeline."""

NO_LOSS: LossAtTick = (0.0, None)
