"""The timelines of an account that several streams share, kept until one of them has followed another entry."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hushmq.calibrator.ledger.audience_timelines import finite_price
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Theta, Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks


@dataclass(slots=True)
class JointTimelines:
    """What all streams have released, priced once under each Θ, at some ticks, against each adversary."""

    _followed: tuple[int, ...] = ()
    _priced: dict[tuple[Theta, Ticks | None, Adversary], Timeline] = field(default_factory=dict)

    def price(
        self,
        followed: tuple[int, ...],
        held: Callable[[], Iterable[Entry]],
        theta: Theta,
        ticks: Ticks | None,
        adversary: Adversary,
        further: Iterable[Entry] = (),
    ) -> Price:
        """The price of what is held, and more.

        `followed` are the entries that the streams have followed: as long as they are the same, so is what is held.
        """
        if followed != self._followed:
            self._followed = followed
            self._priced.clear()
        key = theta, ticks, adversary
        if key not in self._priced:
            self._priced[key] = theta.timeline(adversary, held(), ticks)
        timeline = copy.copy(self._priced[key])
        for entry in further:
            timeline.add(entry)
        return finite_price(timeline)
