"""States become noisy states, one draw of the operating system's randomness each, and runs become batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from agent.outbox import Made
from broker.messages import Batch, NoiseSetting, encode
from broker.packing import pack
from pufferfish.draw import Perturber

LONGEST = 65_536
"""The most ticks one batch may hold."""


def runs(first: int, states: Sequence[int | None]) -> Iterator[tuple[int, list[int]]]:
    """The runs of consecutive ticks that have a state, from the states of the ticks `first`, `first` + 1, …"""
    tick = first
    for present, group in groupby(states, lambda state: state is not None):
        run = [state for state in group if state is not None] if present else None
        if run is None:
            tick += sum(1 for _ in group)
            continue
        for start in range(0, len(run), LONGEST):
            yield tick + start, run[start : start + LONGEST]
        tick += len(run)


class Mechanism:
    """The noise of one stream under one setting: ρ0 = P(Z=1|X=0), ρ1 = P(Z=0|X=1), independent at every tick."""

    def __init__(self, setting: NoiseSetting) -> None:
        self.version = setting.version
        self._perturber = Perturber(setting.noise)

    def batches(self, stream: str, first: int, states: Sequence[int | None], after: int | None) -> list[Made]:
        """Perturb each state once and pack the runs; `after` is the last tick made before `first`."""
        made = []
        for start, run in runs(first, states):
            noisy = self._perturber.perturb(run)
            batch = Batch(first=start, after=after, count=len(run), states=pack(noisy), noise=self.version)
            made.append(Made(stream, batch.first, batch.last, encode(batch)))
            after = batch.last
        return made
