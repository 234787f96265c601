"""Perturb each state once, with the operating system's randomness, and pack runs of ticks into batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from hushmq.agent.storage.outbox import MadeBatch
from hushmq.broker.contract.messages import Batch, NoiseSetting, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage
from hushmq.broker.contract.packing import bits_for, pack
from hushmq.pufferfish.noise.perturber import CategoryPerturber, Perturber

LONGEST = 65_536
"""Maximum number of ticks in one batch."""


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
    """The noise of one stream under one setting, independent at every tick: flips of bits, or an emission matrix."""

    def __init__(self, setting: NoiseSetting) -> None:
        self.setting = setting
        self._bits = bits_for(setting.noise.k)
        self._perturber: Perturber | CategoryPerturber
        match setting.noise:
            case BinaryNoiseMessage(noise=flips):
                self._perturber = Perturber(flips)
            case CategoricalNoiseMessage(emission=emission):
                self._perturber = CategoryPerturber(emission)

    def batches(
        self, stream: str, first: int, states: Sequence[int | None], after: int | None
    ) -> list[MadeBatch]:
        """Perturb each state once and pack the runs; `after` is the last tick batched before `first`."""
        made = []
        for start, run in runs(first, states):
            states_sent = pack(self._perturber.perturb(run), self._bits)
            batch = Batch(
                first=start,
                after=after,
                count=len(run),
                bits=self._bits,
                states=states_sent,
                noise=self.setting.version,
            )
            made.append(MadeBatch(stream, batch.first, batch.last, encode(batch)))
            after = batch.last
        return made
