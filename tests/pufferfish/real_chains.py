"""Chains fitted to the real recordings, by counting transitions between consecutive samples.

Only rows that really follow each other count: a change of subject, a gap or an imputed row breaks the chain.
"""

from __future__ import annotations

import csv
import gzip
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.recordings import DATA


def heart_rate_states(subject: str) -> list[int]:
    """A sleeper's heart rate, beat by beat: 1 at or above its mean."""
    rates = _rates(subject)
    return [int(rate) for rate in rates >= rates.mean()]


def heart_rate(subject: str = "N10", bins: int = 4) -> Chain:
    """A sleeper's heart rate, beat by beat, in bins between its quantiles."""
    rates = _rates(subject)
    edges = np.quantile(rates, np.arange(1, bins) / bins)
    states = np.searchsorted(edges, rates, side="right")
    return _fit(states, np.ones(len(states) - 1, dtype=bool), bins)


def activity() -> Chain:
    """Lying, sitting, standing, active, minute by minute, of thirty people."""
    rows = _columns("extrasensory/labels_30users", 0, 1, 2)
    who = np.array([row[0] for row in rows])
    when, states = (np.array([int(row[column]) for row in rows]) for column in (1, 2))
    follows = (who[1:] == who[:-1]) & (np.diff(when) <= 90) & (states[1:] >= 0) & (states[:-1] >= 0)
    return _fit(states, follows, 4)


def occupancy() -> Chain:
    """A room, empty or not, minute by minute."""
    rows = _columns("occupancy_uci/occupancy_per_min", 0, 2)
    where = np.array([row[0] for row in rows])
    return _fit(np.array([int(row[1]) for row in rows]), where[1:] == where[:-1], 2)


def power() -> Chain:
    """A household's power, minute by minute, in 51 bins of 200 W, the last open."""
    path = DATA / "power_uci" / "global_active_power_W_per_min.csv.gz"
    table = np.loadtxt(path, delimiter=",", skiprows=1, dtype=np.int64)
    real = table[:, 1] == 0
    return _fit(np.minimum(table[:, 0] // 200, 50), real[1:] & real[:-1], 51)


def _rates(subject: str) -> NDArray[np.float64]:
    """A sleeper's beats per minute."""
    return np.array(
        [float(bpm) for name, bpm in _columns("meditation/normal_N1-N11", 0, 2) if name == subject]
    )


@cache
def _rows(name: str) -> list[list[str]]:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as file:
        return list(csv.reader(file))[1:]


def _columns(name: str, *columns: int) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in columns) for row in _rows(name)]


def _fit(states: NDArray[np.int64], follows: NDArray[np.bool_], k: int) -> Chain:
    """The maximum-likelihood chain from the pairs of neighbours for which `follows` is true."""
    counts = np.zeros((k, k))
    np.add.at(counts, (states[:-1][follows], states[1:][follows]), 1)
    return Chain(counts / counts.sum(axis=1, keepdims=True))
