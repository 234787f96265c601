"""Sanitized streams of many simulated k-state chains, and their noisy sufficient statistics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.categorical.categorical_evidence import CategoricalEvidence
from hushmq.calibrator.models.categorical.categorical_moments import FULL, lookup, stationary
from hushmq.calibrator.models.categorical.categorical_statistics import MULTIPLES, CategoricalSums, pairs_of
from hushmq.calibrator.models.draw_noise import variance
from hushmq.calibrator.models.lag_bands import BANDS

Floats = NDArray[np.float64]
WINDOW = 7_200


def sanitized(P: Floats, emission: Floats, *, ticks: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """One row per chain of P: its states through the emission."""
    return next(windows(P, emission, ticks=ticks, window=ticks, rng=rng))


def windows(
    P: Floats, emission: Floats, *, ticks: int, window: int = WINDOW, rng: np.random.Generator
) -> Iterator[NDArray[np.uint8]]:
    """The same window by window. Sixteen random bits decide each step: probabilities are rounded to 1/65536."""
    count, k = P.shape[:2]
    ends = np.rint(np.cumsum(P, axis=2)[:, :, :-1] * FULL).astype(np.uint32).reshape(count * k, k - 1)
    columns = [np.ascontiguousarray(column) for column in ends.T]
    lies, _ = lookup(emission)
    first = np.arange(count, dtype=np.int32) * k
    state = (rng.random((count, 1)) > np.cumsum(stationary(P), axis=1)[:, :-1]).sum(axis=1, dtype=np.int32)
    for start in range(0, ticks, window):
        states = np.empty((min(window, ticks - start), count), dtype=np.uint8)
        for here in states:
            drawn = rng.integers(0, FULL, (2, count), dtype=np.uint16)
            here[:] = lies[(state << 16) | drawn[0]]
            place = first + state
            state = np.zeros(count, dtype=np.int32)
            for column in columns:
                state += drawn[1] >= column[place]
        yield np.ascontiguousarray(states.T)


def evidence(
    runs: Iterable[NDArray[np.uint8]], emission: Floats, *, scale: float, draws: int, rng: np.random.Generator
) -> CategoricalEvidence:
    """Evidence of one device per row of the windows' states, with simulated noise of the charged scale."""
    k = len(emission)
    ticks, starts = 0, np.zeros(len(BANDS))
    counts, pairs = np.zeros(k), np.zeros((len(BANDS), k, k))
    for states in runs:
        ticks += states.shape[1]
        starts += [max(0, states.shape[1] - last) for _, last in BANDS]
        counts = counts + np.stack([(states == u).sum(axis=1) for u in range(k)], axis=1)
        pairs = pairs + pairs_of(states, k)
    count = len(counts)
    exact = (np.full(count, float(ticks)), counts, np.repeat(starts[None], count, axis=0), pairs)
    return _charged(*exact, emission, scale=scale, draws=draws, rng=rng)


def evidence_of(
    sums: Iterable[CategoricalSums], emission: Floats, *, scale: float, draws: int, rng: np.random.Generator
) -> CategoricalEvidence:
    """Evidence of one device for each of the sums."""
    exact = zip(*((one.ticks, one.counts, one.starts, one.pairs) for one in sums), strict=True)
    ticks, counts, starts, pairs = (np.array(each, dtype=float) for each in exact)
    return _charged(ticks, counts, starts, pairs, emission, scale=scale, draws=draws, rng=rng)


def _charged(
    ticks: Floats,
    counts: Floats,
    starts: Floats,
    pairs: Floats,
    emission: Floats,
    *,
    scale: float,
    draws: int,
    rng: np.random.Generator,
) -> CategoricalEvidence:
    """What was counted, with simulated noise of the charged scale, drawn so many times."""
    count = len(ticks)
    for _ in range(draws):
        counts = counts + _drawn(scale, counts.shape, rng)
        noise = [
            _drawn(scale * multiple, pairs.shape[0:1] + pairs.shape[2:], rng) for multiple in MULTIPLES[1:]
        ]
        pairs = pairs + np.stack(noise, axis=1)
    return CategoricalEvidence(
        tuple(f"device-{number}" for number in range(count)),
        np.arange(count),
        np.repeat(emission[None], count, axis=0),
        ticks,
        counts,
        starts,
        pairs,
        np.full(count, draws * variance(scale)),
    )


def _drawn(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.int64]:
    p = -np.expm1(-1 / scale)
    return rng.geometric(p, shape) - rng.geometric(p, shape)


def in_cohorts(found: CategoricalEvidence, size: int) -> Iterator[CategoricalEvidence]:
    """The same evidence as if so many devices each were a cohort."""
    for first in range(0, len(found.devices), size):
        mine = slice(first, first + size)
        rows = (getattr(found, name)[mine] for name in CategoricalEvidence.__slots__[2:])
        yield CategoricalEvidence(found.devices[mine], np.arange(size), *rows)
