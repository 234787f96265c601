"""The states of one window, counted exactly by device and noise version, and the histogram drawn from them.

A chain model says what is summed of the states (`StateSums`) and how noise is drawn on the counts (`DrawCounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hushmq.calibrator.models.histogram import Histogram
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.models.window_parts import Part, whole
from hushmq.pufferfish.protocols import Noise

Pieces = Mapping[tuple[str, int], Sequence[tuple[int, bytes]]]
"""A window's states by device and noise version: pieces with their first ticks."""


class StateSums(Protocol):
    """Exact sums over the states of one device under one noise version. Secret until noise is added."""

    ticks: int
    starts: list[int]

    @property
    def groups(self) -> list[list[int]]:
        """What noise is drawn for."""

    def add(self, states: bytes) -> None:
        """Count one run of consecutive ticks, one byte per state."""


@dataclass(frozen=True, slots=True)
class DrawnCounts:
    """Noisy counts of each state, and the part of the window under each noise version."""

    counts: tuple[int, ...]
    parts: Sequence[Part]
    scale: float


S = TypeVar("S", bound=StateSums)
N = TypeVar("N", bound=Noise)

DrawCounts = Callable[[Mapping[int, Sequence[S]], Mapping[int, N], int], DrawnCounts]
"""From the sums and the noise of each version and a tilt in nano-nats: the noisy counts.

The states of each noise version are counted and noised separately. These counts are over disjoint states, so that one
state pays for one of them, also where each device has a histogram.
"""


class WindowCount(Generic[S, N]):
    """The exact counts of one window. Secret: only what `histogram` returns carries noise."""

    def __init__(self, pieces: Pieces, new_sums: Callable[[], S], draw: DrawCounts[S, N]) -> None:
        self._draw = draw
        self._sums: dict[tuple[str, int], S] = {}
        for key, found in pieces.items():
            self._sums[key] = new_sums()
            for run in runs(sorted(found)):
                self._sums[key].add(run)

    @property
    def devices(self) -> list[str]:
        """The devices with states in the window, sorted."""
        return sorted({device for device, _ in self._sums})

    def statistics(self) -> list[ExactStatistics]:
        """The sufficient statistics for learning, exactly."""
        return [
            ExactStatistics(device, version, one.ticks, one.starts, one.groups)
            for (device, version), one in self._sums.items()
        ]

    def histogram(self, noises: Mapping[int, N], *, tilt: int, device: str | None = None) -> Histogram:
        """Draw the histogram of all devices or of one, for `tilt` nano-nats; `noises` by version."""
        sums = {key: one for key, one in self._sums.items() if device in {None, key[0]}}
        by_version: dict[int, list[S]] = {version: [] for version in sorted({key[1] for key in sums})}
        for (_, version), one in sums.items():
            by_version[version].append(one)
        drawn = self._draw(by_version, noises, tilt)
        found = whole(drawn.parts)
        return Histogram(
            devices=len({key[0] for key in sums}),
            ticks=sum(one.ticks for one in sums.values()),
            counts=drawn.counts,
            frequencies=found.frequencies,
            standard_errors=found.standard_errors,
            half_widths=found.half_widths,
            scale=drawn.scale,
        )


def runs(pieces: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    """Join pieces (first tick, states), in order of their ticks, wherever one continues the one before."""
    parts: list[bytes] = []
    following: int | None = None
    for first, states in pieces:
        if first != following and parts:
            yield b"".join(parts)
            parts = []
        parts.append(states)
        following = first + len(states)
    if parts:
        yield b"".join(parts)
