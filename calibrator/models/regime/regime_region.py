"""Confidence regions of a fit: intervals of all four coordinates that hold a device's chain together."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from hushmq.calibrator.models.confidence import CONFIDENCE
from hushmq.calibrator.models.regime.regime_fit import RegimeFit, marginal
from hushmq.calibrator.models.regime.regime_intervals import Interval, RegimeIntervals
from hushmq.calibrator.models.regime.regime_lattice import AXES, STEPS
from hushmq.calibrator.models.regime.regime_moments import Floats

_HALVINGS = 12


def device_regions(found: RegimeFit, confidence: float = CONFIDENCE) -> dict[str, RegimeIntervals]:
    """For every device, intervals that hold its chain.

    All four have the same share of their posterior outside, as much as leaves the confidence for all together.
    """
    posteriors = found.posteriors()
    cumulative = [_cumulative(marginal(posteriors, axis)) for axis in range(len(AXES))]
    low, high = np.zeros(len(found.devices)), np.full(len(found.devices), 1 - confidence)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        ends = [_ends(axis, cumulative[axis], middle) for axis in range(len(AXES))]
        enough = _mass(posteriors, ends) * (1 - middle) >= confidence
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    ends = [_ends(axis, cumulative[axis], low) for axis in range(len(AXES))]
    multiple = np.array([NormalDist().inv_cdf(1 - outside / 2) for outside in np.maximum(low, 1e-12)])
    # Student's quantile, to first order: of few regimes the mean is not normal.
    multiple *= 1 + (multiple**2 + 1) / (4 * np.maximum(found.cycles, 2.0))
    off = multiple * np.sqrt(found.logit_variances)
    logits = np.stack([found.logits - off, found.logits + off], axis=1)
    return {
        name: intervals_of(logits[place], *(one[place] for one in ends))
        for place, name in enumerate(found.devices)
    }


def cohort_region(found: RegimeFit, confidence: float = CONFIDENCE) -> RegimeIntervals:
    """Intervals that hold the chain of any one device of this cohort."""
    return _around(found, [one.whole for one in (found.newcomer_logit, *found.newcomer)], confidence)


def centre_region(found: RegimeFit, confidence: float = CONFIDENCE) -> RegimeIntervals:
    """Intervals that hold the cohort's centre, whatever its spread."""
    return _around(found, [one.variance for one in (found.newcomer_logit, *found.newcomer)], confidence)


def _around(found: RegimeFit, variances: list[float], confidence: float) -> RegimeIntervals:
    """Intervals around the cohort's centre that hold together what has these variances."""
    multiple = NormalDist().inv_cdf((1 + confidence ** (1 / (len(AXES) + 1))) / 2)
    centres = [one.centre for one in (found.newcomer_logit, *found.newcomer)]
    ends = [
        np.array([centre - off, centre + off])
        for centre, off in zip(centres, multiple * np.sqrt(variances), strict=True)
    ]
    return intervals_of(*ends)


def _cumulative(marginals: Floats) -> Floats:
    """The mass below the edges of the cells, from 0 to 1."""
    summed = np.cumsum(marginals, axis=1)
    return np.concatenate([np.zeros((len(summed), 1)), summed / summed[:, -1:]], axis=1)


def _edges(axis: int) -> Floats:
    places, step = AXES[axis], STEPS[axis]
    return np.concatenate([places - step / 2, [places[-1] + step / 2]])


def _ends(axis: int, cumulative: Floats, outside: Floats) -> Floats:
    """The interval of each device with so much of its mass outside, half of it on either side."""
    edges = _edges(axis)
    return np.array(
        [
            np.interp([share / 2, 1 - share / 2], mass, edges)
            for mass, share in zip(cumulative, outside, strict=True)
        ]
    )


def _mass(posteriors: Floats, ends: list[Floats]) -> Floats:
    """The posterior mass within these intervals; a cell that is cut counts as far as it is inside."""
    shares = []
    for axis, (places, step) in enumerate(zip(AXES, STEPS, strict=True)):
        low = np.maximum(places - step / 2, ends[axis][:, :1])
        high = np.minimum(places + step / 2, ends[axis][:, 1:])
        shares.append(np.clip((high - low) / step, 0.0, 1.0))
    found: Floats = np.einsum("zabc,za,zb,zc->z", posteriors, *shares)
    return found


def intervals_of(logit: Floats, fast: Floats, slow_share: Floats, slow: Floats) -> RegimeIntervals:
    """The intervals themselves, given in logits and logarithms, within what the lattice has.

    An end of the lattice beyond which chains only become more like independent bits is open: no part of the variance
    between regimes, or rates up to 1.
    """

    def ends(axis: int, interval: Floats) -> tuple[float, float, float, float]:
        edges = _edges(axis)
        low, high = np.clip(interval, edges[0], edges[-1])
        return float(low), float(high), float(edges[0]), float(edges[-1])

    def rates(axis: int, interval: Floats) -> Interval:
        low, high, _, last = ends(axis, interval)
        return math.exp(low), 1.0 if high >= last else min(1.0, math.exp(high))

    low, high, first, _ = ends(1, slow_share)
    return RegimeIntervals(
        (_probability(float(logit[0])), _probability(float(logit[1]))),
        (0.0 if low <= first else _probability(low), _probability(high)),
        rates(2, slow),
        rates(0, fast),
    )


def _probability(logit: float) -> float:
    return 1 / (1 + math.exp(-min(14.0, max(-14.0, logit))))
