"""Perturb each state once, with the operating system's randomness, and pack runs of ticks into batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hushmq.agent.sources.beat_schedule import LONGEST
from hushmq.agent.storage.outbox import MadeBatch
from hushmq.broker.contract.messages import Batch, NoiseSetting, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage, CategoricalNoiseMessage
from hushmq.broker.contract.packing import bits_for, pack
from hushmq.pufferfish.noise.perturber import CategoryPerturber, Draws, Perturber


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

    def prepare(self, count: int) -> Draws:
        """The noise of `count` ticks, drawn before their states are known."""
        return self._perturber.prepare(count)

    def batches(
        self,
        stream: str,
        first: int,
        states: Sequence[int],
        after: int | None,
        *,
        draws: Draws | None = None,
        parts: Iterable[tuple[int, int]] | None = None,
    ) -> list[MadeBatch]:
        """Perturb the states of the ticks `first`, `first` + 1, …, each once, and pack them.

        `after` is the last tick batched before `first`, `draws` is noise prepared for these ticks, and `parts` are the
        first and last tick of each batch; by default as few as possible.
        """
        draws = draws or self.prepare(len(states))
        perturbed = draws.select(states)
        made = []
        for begin, end in parts or _longest_parts(first, len(states)):
            batch = Batch(
                first=begin,
                after=after,
                count=end - begin + 1,
                bits=self._bits,
                states=pack(perturbed[begin - first : end - first + 1], self._bits),
                noise=self.setting.version,
            )
            made.append(MadeBatch(stream, batch.first, batch.last, encode(batch)))
            after = batch.last
        return made


def _longest_parts(first: int, count: int) -> list[tuple[int, int]]:
    return [
        (begin, min(begin + LONGEST, first + count) - 1) for begin in range(first, first + count, LONGEST)
    ]
