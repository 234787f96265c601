"""What a window contributes to learning, by device and noise version: exact sums, and the same with charged noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Groups = Sequence[Sequence[int]]
"""Counts of states, then those of each band of lags."""


@dataclass(frozen=True, slots=True)
class ExactStatistics:
    """The sums over one device's states under one noise version. `groups` are secret until noise is added.

    `starts` has for each band the number of ticks from which all its lags could be counted.
    """

    device: str
    noise: int
    ticks: int
    starts: Sequence[int]
    groups: Groups = field(repr=False)


@dataclass(frozen=True, slots=True)
class NoisyStatistics:
    """The same with charged noise. `variance` is that of the noise on the first group, summed over draws."""

    device: str
    noise: int
    ticks: int
    starts: Sequence[int]
    groups: Groups
    variance: float


def summed(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """Two lists of counts, added element by element."""
    return [a + b for a, b in zip(one, other, strict=True)]


def summed_groups(one: Groups, other: Groups) -> list[list[int]]:
    """The groups of two windows, added element by element."""
    return [summed(*both) for both in zip(one, other, strict=True)]
