"""Recorded cohorts of two states, and their windows: what is true in each, and what a stride publishes of it."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.recordings import Recording, household, people, sleepers
from hushmq.evaluation.section_list import Job

Counts = NDArray[np.int64]
Scope = Literal["device", "cohort"]


@dataclass(frozen=True, slots=True)
class RecordedCohort:
    """Devices with binary states, and the lengths of their windows."""

    name: str
    devices: Sequence[Recording]
    windows: dict[str, int]


@dataclass(frozen=True, slots=True)
class Windows:
    """For each window of each device: the device, the number of the window, its ticks and its ones.

    `published` are the ticks of it that the device publishes, `published_ones` the ones among them.
    """

    device: Counts
    window: Counts
    ticks: Counts
    ones: Counts
    published: Counts
    published_ones: Counts


def cohorts(job: Job) -> list[RecordedCohort]:
    """The recordings, as two states each."""
    nights, minutes, house = sleepers(job), people(job), household(job)
    feet = [
        Recording(one.subject, 2, [(piece >= 2).astype(np.int64) for piece in one.pieces], one.starts)
        for one in minutes
    ]
    mean = house.states().mean()
    power = Recording(
        "household", 2, [(piece >= mean).astype(np.int64) for piece in house.pieces], house.starts
    )
    hour, day = 60, 1440
    return [
        RecordedCohort("heart rate", nights, {"hour": 3600, "night": 1 << 20}),
        RecordedCohort("activity", feet, {"hour": hour, "day": day}),
        RecordedCohort("power", [power], {"hour": hour, "day": day}),
    ]


def cut(devices: Sequence[Recording], size: int, strides: Sequence[int] | int = 1) -> Windows:
    """The windows of every device from its first tick on, without those that are less than half filled.

    Of the ticks of a stride one is published: which one follows from the device's name. A window of which none is
    published is left out, too.
    """
    each = [strides] * len(devices) if isinstance(strides, int) else strides
    found = []
    for number, (device, stride) in enumerate(zip(devices, each, strict=True)):
        begin = device.starts[0]
        ticks = np.concatenate(
            [
                np.arange(len(piece)) + start - begin
                for piece, start in zip(device.pieces, device.starts, strict=True)
            ]
        )
        place, ones = ticks // size, device.states()
        there = ticks % stride == zlib.crc32(device.subject.encode()) % stride
        last = int(place[-1]) + 1
        counts = np.bincount(place, minlength=last), np.bincount(place[there], minlength=last)
        sums = (
            np.bincount(place, weights=ones, minlength=last),
            np.bincount(place[there], weights=ones[there], minlength=last),
        )
        kept = np.flatnonzero((counts[0] >= min(size, device.length) / 2) & (counts[1] > 0))
        found.append(
            (
                np.full(len(kept), number),
                kept,
                *(pair[side][kept].astype(np.int64) for side in (0, 1) for pair in (counts, sums)),
            )
        )
    return Windows(*(np.concatenate(column) for column in zip(*found, strict=True)))


def scopes(cohort: RecordedCohort, windows: Windows) -> tuple[Scope, ...]:
    """A single device is not a cohort, and for a single window of a cohort the long-run average is exact."""
    return ("device", "cohort") if len(cohort.devices) > 1 and windows.window.max() > 0 else ("device",)
