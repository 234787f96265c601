"""Chains with two hidden regimes, fitted to recordings: what a policy lists as Θ where first-order chains do not fit.

A chain is fitted to the mean correlations over bands of lags, which is what the calibrator learns regimes from
(calibrator/models/regime/): least squares over its lattice, and then within the cell of the best node. How much of the
time the upper regime lasts, which correlations do not tell, is what makes the recording most likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_coordinates import RegimeCoordinates
from hushmq.calibrator.models.regime.regime_lattice import AXES, NODES, POSSIBLE, STEPS, correlations
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import MOST_MEMBERS, RegimeTheta

Floats = NDArray[np.float64]

TIMES_SEEN = 10
"""A band of lags counts if the recording is at least so many times as long as its last lag."""
MISFIT = 0.05
"""First-order chains do not fit where the correlation over a band exceeds theirs by more than this."""
QUICKER = (1.0, 4.0, 16.0)
"""For each recording its chain is listed, and chains whose regimes end so many times sooner."""
TIMES_TRIED = 15
_REFINED = 4


@dataclass(frozen=True, slots=True)
class FittedRegimes:
    """What was fitted to one recording."""

    coordinates: RegimeCoordinates
    upper_time: float
    excess: float
    """By how much the correlation over some band exceeds that of the first-order chain fitted at lag 1."""

    @property
    def chain(self) -> RegimeChain:
        """The chain itself."""
        return self.coordinates.chain(self.upper_time)

    def quicker(self, factor: float) -> RegimeChain:
        """The chain whose regimes end so many times sooner, at most half as slow as the inner chains forget."""
        found = self.coordinates
        rate = min(found.slow_rate * factor, found.fast_rate / 2)
        nearer = RegimeCoordinates(found.share, found.slow_share, rate, found.fast_rate)
        return nearer.chain(_possible(nearer, self.upper_time))


def fit_regimes(states: Sequence[int]) -> FittedRegimes:
    """Fit two regimes to a recording of two states; ValueError where it is too short, or has no regimes."""
    bits = np.asarray(states, dtype=float)
    share = float(bits.mean())
    seen, counted = _band_correlations(bits - share)
    if counted.sum() < 4:
        raise ValueError(f"{len(bits)} rows are too few to tell regimes")
    lag1 = seen[0]
    lone = np.array([np.mean(lag1 ** np.arange(low, high + 1)) for low, high in LONG_BANDS])
    excess = float((seen - lone)[counted].max())
    fast, slow_share, slow = _nearest(seen, counted)
    found = RegimeCoordinates(
        share, float(1 / (1 + math.exp(-slow_share))), math.exp(slow), min(1.0, math.exp(fast))
    )
    if found.upper_times() is None:
        raise ValueError("no two regimes have its correlations")
    return FittedRegimes(found, _upper_time(states, found), excess)


def listed(
    fits: Sequence[FittedRegimes], wider: Sequence[RegimeChain] = ()
) -> tuple[RegimeTheta, RegimeTheta]:
    """Θ before any evidence, and the Θ that is never narrowed; ValueError for too many recordings.

    The start has the wider chains, which cover people who were not recorded, the chain of every recording, and as far
    as there is room ones with quicker regimes. The floor is the chain of the recording that allows most: evidence may
    take away all others.
    """
    factors = list(QUICKER)
    while len(fits) * len(factors) + len(wider) > MOST_MEMBERS:
        factors.pop()
        if not factors:
            raise ValueError(
                f"{len(fits)} recordings are too many: a policy lists at most {MOST_MEMBERS} chains"
            )
    start = RegimeTheta.of([*wider, *(one.quicker(factor) for one in fits for factor in factors)])
    own = [one.quicker(1.0) for one in fits]
    floor = max(own, key=lambda chain: min(RegimeTheta.of([chain]).largest_tilts(2.0, "prior")))
    return start, RegimeTheta.of([floor])


def _band_correlations(centred: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The mean correlation over each band, by Fourier transform, and which bands the recording is long enough for."""
    size = len(centred)
    transform = np.fft.rfft(centred, 2 * size)
    sums = np.fft.irfft(np.abs(transform) ** 2)[:size]
    counted = np.array([last * TIMES_SEEN <= size for _, last in LONG_BANDS])
    found = np.zeros(len(LONG_BANDS))
    for band, (first, last) in enumerate(LONG_BANDS):
        if counted[band]:
            lags = np.arange(first, last + 1)
            found[band] = float(np.mean(sums[lags] / (size - lags)) / (sums[0] / size))
    return found, counted


def _nearest(seen: Floats, counted: NDArray[np.bool_]) -> Floats:
    """The coordinates of least squares: the best node, and finer lattices around it, within the lattice's ends."""
    ends = np.array([(axis.min(), axis.max()) for axis in AXES])
    best: Floats = NODES[POSSIBLE][_off(NODES[POSSIBLE], seen, counted).argmin()]
    width = STEPS.copy()
    for _ in range(_REFINED):
        around = np.stack(
            np.meshgrid(*(np.linspace(-w, w, 7) for w in width), indexing="ij"), axis=-1
        ).reshape(-1, len(AXES))
        tried = np.clip(best + around, ends[:, 0], ends[:, 1])
        tried = tried[tried[:, 2] <= tried[:, 0] - math.log(2)]
        best = tried[_off(tried, seen, counted).argmin()]
        width /= 3
    return best


def _off(x: Floats, seen: Floats, counted: NDArray[np.bool_]) -> Floats:
    found: Floats = np.square(correlations(x, 1) - seen)[:, counted].sum(axis=1)
    return found


def _upper_time(states: Sequence[int], found: RegimeCoordinates) -> float:
    """The time under which the recording is most likely, of those that such regimes can have."""
    low, high = found.upper_times() or (0.5, 0.5)
    tried = [low + (high - low) * (place + 0.5) / TIMES_TRIED for place in range(TIMES_TRIED)]
    return max(tried, key=lambda time: _log_likelihood(states, found.chain(time)))


def _log_likelihood(states: Sequence[int], chain: RegimeChain) -> float:
    """Of all states but the first, by the filter of the regime."""
    (stay, up), (down, remain) = chain.transition
    (q0, r0), (q1, r1) = chain.chains
    # The probability of the next state given the one before, in either regime.
    lower, upper = ((1 - q0, q0), (r0, 1 - r0)), ((1 - q1, q1), (r1, 1 - r1))
    below, above = down / (up + down), up / (up + down)
    found = 0.0
    for before, after in pairwise(states):
        below, above = (
            (below * stay + above * down) * lower[before][after],
            (below * up + above * remain) * upper[before][after],
        )
        whole = below + above
        found += math.log(whole)
        below, above = below / whole, above / whole
    return found


def _possible(found: RegimeCoordinates, upper_time: float) -> float:
    """The nearest time that such regimes can have."""
    ends = found.upper_times()
    if ends is None:
        raise ValueError("no two regimes have such correlations")
    return min(ends[1], max(ends[0], upper_time))
