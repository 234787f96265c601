"""Which of the chains that a policy lists a region leaves.

Statistics of pairs tell four coordinates of a chain, and intervals of these are a region. A listed chain, which may
have three regimes or different λ within them, lies wherever correlations like its own put it. A device's chain may lie
between two that are listed: so a region is taken as far as the next listed chain beyond each of its ends, in every
coordinate, and leaves all that it then meets. On a list that is spaced evenly the chains that remain enclose the
region, as far as the list goes; beyond its ends the chains at the end remain. Where none is left, all of them are: then
the list says nothing about such a device, and nothing may be concluded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_intervals import Interval, RegimeIntervals
from hushmq.calibrator.models.regime.regime_lattice import AXES, NODES, POSSIBLE, STEPS, correlations
from hushmq.calibrator.models.regime.regime_moments import Floats
from hushmq.calibrator.models.regime.regime_region import intervals_of
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

ALIKE = 0.04
"""Correlations within so much of those of the lattice's nearest chain are like a listed chain's own."""


def chains_left(listed: RegimeTheta, region: RegimeIntervals) -> RegimeTheta:
    """The listed chains that the region meets, or that are next to it on either side; all where there is none."""
    places = [place_of(chain) for chain in listed.members]
    reached = RegimeIntervals(
        *(
            _outwards(interval, [place.nearest[axis] for place in places])
            for axis, interval in enumerate(region.sides)
        )
    )
    found = [chain for chain, one in zip(listed.members, places, strict=True) if reached.meets(one.possible)]
    return RegimeTheta.of(found) if found else listed


def _outwards(region: Interval, listed: list[float]) -> Interval:
    """The interval as far as the next listed number at or beyond either end."""
    low, high = region
    below, above = [one for one in listed if one <= low], [one for one in listed if one >= high]
    return max(below, default=low), min(above, default=high)


@dataclass(frozen=True, slots=True)
class ListedPlace:
    """The coordinates of a listed chain: those of the node that is most like it, and all that it may have."""

    nearest: tuple[float, ...]
    possible: RegimeIntervals


@lru_cache(maxsize=1024)
def place_of(chain: RegimeChain) -> ListedPlace:
    """Where a listed chain lies: its share, and the coordinates of nodes with correlations like its own.

    As far as the next nodes, for its own may lie between them. A chain with one regime may have any slow rate.
    """
    off = np.abs(correlations(NODES, 1) - _band_correlations(chain)).max(axis=1)
    alike = NODES[POSSIBLE & (off <= off[POSSIBLE].min() + ALIKE)]
    ends = [
        np.array([alike[:, axis].min() - STEPS[axis], alike[:, axis].max() + STEPS[axis]])
        for axis in range(len(AXES))
    ]
    fast, slow_share, slow = NODES[POSSIBLE][off[POSSIBLE].argmin()]
    return ListedPlace(
        (chain.ones, 1 / (1 + math.exp(-slow_share)), math.exp(slow), math.exp(fast)),
        replace(intervals_of(np.zeros(2), *ends), share=(chain.ones, chain.ones)),
    )


def _band_correlations(chain: RegimeChain) -> Floats:
    """The mean correlation of the bits over each band of lags: lag i·n + j is i strides of n after j steps."""
    kernel, law = np.array(chain.kernel), np.array(chain.stationary)
    bits = np.arange(len(law)) % 2 - chain.ones
    before, after = [law * bits / (chain.ones * (1 - chain.ones))], [bits]
    n = math.isqrt(LONG_BANDS[-1][1]) + 1
    stride = np.linalg.matrix_power(kernel, n)
    for _ in range(n):
        before.append(before[-1] @ stride)
        after.append(kernel @ after[-1])
    found = (np.array(before) @ np.array(after[:n]).T).ravel()
    return np.array([found[first : last + 1].mean() for first, last in LONG_BANDS])
