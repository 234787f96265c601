"""The states of one window, counted exactly by device and noise version, and the histogram drawn from them.

A chain model says what is summed of the states (`StateSums`) and how noise is drawn on the counts (`DrawCounts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from hushmq.broker.contract.release_answers import Linear
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
    sums: Sequence[Part] = ()
    """The same parts, with the weighted sums of shares that were asked for as their columns."""


TICKS_AT_ONCE = 1 << 20
"""Ticks that are summed up at once, which bounds the memory it takes."""

S = TypeVar("S", bound=StateSums)
N = TypeVar("N", bound=Noise)

SumUp = Callable[[Sequence[list[bytes]]], Sequence[S]]
"""From the runs of consecutive states of each device and noise version: the sums of each."""

Rows = Sequence[Sequence[float]]
"""Weights of the states in sums of their shares; each row has a range of at most one."""

DrawCounts = Callable[
    [Sequence[Mapping[int, Sequence[S]]], Mapping[int, N], int, Rows], Sequence[DrawnCounts]
]
"""From the sums of each histogram, the noise of each version and a tilt in nano-nats: the noisy counts of each.

The states of each noise version are counted and noised separately. These counts are over disjoint states, so that one
state pays for one of them, also where each device has a histogram.
"""


class WindowCount(Generic[S, N]):
    """The exact counts of one window. Secret: only what `histogram` and `histograms` return carries noise."""

    def __init__(self, pieces: Pieces, sum_up: SumUp[S], draw: DrawCounts[S, N]) -> None:
        self._draw = draw
        each = [list(runs(sorted(found))) for found in pieces.values()]
        self._sums: dict[tuple[str, int], S] = dict(zip(pieces, sum_up(each), strict=True))

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

    def histogram(self, noises: Mapping[int, N], *, tilt: int, rows: Rows = ()) -> Histogram:
        """Draw the histogram of all devices together, for `tilt` nano-nats; `noises` by version."""
        sums: dict[int, list[S]] = {version: [] for version in sorted({key[1] for key in self._sums})}
        for (_, version), one in self._sums.items():
            sums[version].append(one)
        (drawn,) = self._draw([sums], noises, tilt, rows)
        return _histogram(drawn, sums, devices=len(self.devices))

    def histograms(self, noises: Mapping[int, N], *, tilt: int, rows: Rows = ()) -> dict[str, Histogram]:
        """Draw the histogram of each device, for `tilt` nano-nats, in the order of `devices`."""
        sums: dict[str, dict[int, list[S]]] = {}
        for (device, version), one in sorted(self._sums.items(), key=lambda item: item[0]):
            sums.setdefault(device, {})[version] = [one]
        drawn = self._draw(list(sums.values()), noises, tilt, rows)
        return {
            device: _histogram(one, sums[device], devices=1) for device, one in zip(sums, drawn, strict=True)
        }


def _histogram(drawn: DrawnCounts, sums: Mapping[int, Sequence[StateSums]], *, devices: int) -> Histogram:
    """The frequencies that follow from noisy counts."""
    found, weighted = whole(drawn.parts, drawn.sums)
    return Histogram(
        devices=devices,
        ticks=sum(one.ticks for each in sums.values() for one in each),
        counts=drawn.counts,
        frequencies=found.frequencies,
        standard_errors=found.standard_errors,
        half_widths=found.half_widths,
        scale=drawn.scale,
        bias=found.bias,
        sums=tuple(
            Linear(*both) for both in zip(weighted.standard_errors, weighted.half_widths, strict=True)
        ),
    )


def summed_by_length(
    each: Sequence[list[bytes]], new: Callable[[], S], together: Callable[[list[bytes]], Sequence[S]]
) -> list[S]:
    """The sums of each: where there is one run, `together` with all of its length; else one run after the other."""
    alike: dict[int, list[int]] = {}
    found: dict[int, S] = {}
    for at, mine in enumerate(each):
        if len(mine) == 1:
            alike.setdefault(len(mine[0]), []).append(at)
            continue
        found[at] = new()
        for run in mine:
            found[at].add(run)
    for length, places in alike.items():
        most = max(1, TICKS_AT_ONCE // length)
        for start in range(0, len(places), most):
            some = places[start : start + most]
            found |= zip(some, together([each[at][0] for at in some]), strict=True)
    return [found[at] for at in range(len(each))]


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
