"""The real recordings as sequences of states, cut where consecutive rows are not consecutive in time.

A change of subject, a gap, a row without a label or an imputed row ends a piece. Chains are fitted by maximum
likelihood, from the transition counts at lag 1 over all pieces.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.section_list import Job
from hushmq.pufferfish.quilt.markov_chain import Chain

States = NDArray[np.int64]

MEDITATION = "meditation/normal_N1-N11.csv.gz"
EXTRASENSORY = "extrasensory/labels_30users.csv.gz"
OCCUPANCY = "occupancy_uci/occupancy_per_min.csv.gz"
POWER = "power_uci/global_active_power_W_per_min.csv.gz"

GAP = 90
"""Seconds: rows farther apart are not consecutive minutes."""
WATT = 200
LEVELS = 51


@dataclass(frozen=True, eq=False)
class Recording:
    """The pieces of one subject, their states numbered from 0, and the tick at which each piece begins."""

    subject: str
    k: int
    pieces: Sequence[States]
    starts: Sequence[int] = (0,)

    @property
    def length(self) -> int:
        """The number of states in all pieces."""
        return sum(map(len, self.pieces))

    @property
    def longest(self) -> int:
        """The length of the longest piece."""
        return max(map(len, self.pieces))

    def states(self) -> States:
        """All pieces, concatenated."""
        return np.concatenate(list(self.pieces))


def fitted(recordings: Sequence[Recording]) -> Chain:
    """The maximum likelihood chain."""
    k = recordings[0].k
    counts = np.zeros((k, k))
    for recording in recordings:
        for piece in recording.pieces:
            np.add.at(counts, (piece[:-1], piece[1:]), 1)
    return Chain(counts / counts.sum(axis=1, keepdims=True))


def heart_rates(job: Job) -> dict[str, NDArray[np.float64]]:
    """Beats per minute of the sleepers N1 … N11, beat by beat."""
    found: dict[str, list[float]] = {}
    for row in _rows(job.recording(MEDITATION)):
        found.setdefault(row[0], []).append(float(row[2]))
    return {subject: np.array(rates) for subject, rates in found.items()}


def sleepers(job: Job) -> list[Recording]:
    """Heart rate, 1 at or above the record's mean (CGSSY section 4.3)."""
    return [
        Recording(subject, 2, [(rates >= rates.mean()).astype(np.int64)])
        for subject, rates in heart_rates(job).items()
    ]


def binned(subject: str, rates: NDArray[np.float64], bins: int) -> Recording:
    """Heart rate in bins between its quantiles."""
    edges = np.quantile(rates, np.arange(1, bins) / bins)
    return Recording(subject, bins, [np.searchsorted(edges, rates, side="right").astype(np.int64)])


def people(job: Job) -> list[Recording]:
    """Lying, sitting, standing, active, minute by minute, of thirty people; ticks are minutes."""
    rows = _rows(job.recording(EXTRASENSORY))
    who = np.array([row[0] for row in rows])
    when, states = (np.array([int(row[column]) for row in rows]) for column in (1, 2))
    follows = (who[1:] == who[:-1]) & (np.diff(when) <= GAP) & (states[1:] >= 0) & (states[:-1] >= 0)
    found: dict[str, tuple[list[States], list[int]]] = {}
    for piece in np.split(np.arange(len(rows)), np.flatnonzero(~follows) + 1):
        if states[piece[0]] >= 0:
            pieces, starts = found.setdefault(str(who[piece[0]]), ([], []))
            pieces.append(states[piece].astype(np.int64))
            starts.append(int(when[piece[0]]) // 60)
    return [Recording(name, 4, pieces, starts) for name, (pieces, starts) in found.items()]


def room(job: Job) -> Recording:
    """A room, empty or not, minute by minute."""
    rows = _rows(job.recording(OCCUPANCY))
    where = np.array([row[0] for row in rows])
    states = np.array([int(row[2]) for row in rows], dtype=np.int64)
    return Recording("room", 2, np.split(states, np.flatnonzero(where[1:] != where[:-1]) + 1))


def household(job: Job) -> Recording:
    """A household's power, minute by minute, in 51 levels of 200 W, the last open."""
    return _household(job.recording(POWER))


@cache
def _household(path: Path) -> Recording:
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    states, real = np.minimum(table[:, 0] // WATT, LEVELS - 1), table[:, 1] == 0
    runs = np.split(np.arange(len(table)), np.flatnonzero(real[1:] != real[:-1]) + 1)
    kept = [run for run in runs if real[run[0]]]
    return Recording("household", LEVELS, [states[run] for run in kept], [int(run[0]) for run in kept])


@cache
def _rows(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        return list(csv.reader(file))[1:]
