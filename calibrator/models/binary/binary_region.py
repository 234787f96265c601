"""Regions of a fit: boxes of (q, r) that hold a device's chain, or the cohort's centre, with a given confidence."""

from __future__ import annotations

import math

import numpy as np

from hushmq.calibrator.models.binary.binary_fit import CAUTION, Fit, chain
from hushmq.calibrator.models.binary.binary_moments import Floats
from hushmq.calibrator.models.quantiles import rectangle_quantiles
from hushmq.pufferfish.binary.stream_loss import Box

CONFIDENCE = 0.95
DOUBT = 1.5
"""A region this much wider, in angles arcsin √p, is what is not excluded beyond doubt."""


def cohort_region(found: Fit, confidence: float = CONFIDENCE) -> Box:
    """A box that holds the chain of a device of this cohort, whichever it is."""
    whole = np.diag(found.spread + found.centre_variance)[None]
    low, high = _boxes(found.centre[None], whole, confidence)
    return _box(low[0], high[0])


def device_regions(found: Fit, confidence: float = CONFIDENCE) -> dict[str, Box]:
    """For every device, a box that holds its own chain."""
    low, high = _boxes(found.chains, found.covariances * _given_back(found, confidence), confidence)
    return {name: _box(*ends) for name, *ends in zip(found.devices, low, high, strict=True)}


def _given_back(found: Fit, confidence: float) -> Floats:
    """What makes up for the caution in the covariances, where the error is smaller than the one it was found for."""
    share = min(1.0, (1 - confidence) / (1 - CONFIDENCE))
    factor = (1 - share * CAUTION * found.resting) / (1 - CAUTION * found.resting)
    both: Floats = factor[:, :, None] * factor[:, None, :]
    return both


def centre_region(found: Fit, confidence: float = CONFIDENCE) -> Box:
    """A box that holds the cohort's centre: how well the average is known, whatever the spread."""
    low, high = _boxes(found.centre[None], np.diag(found.centre_variance)[None], confidence)
    return _box(low[0], high[0])


def with_doubt(low: float, high: float) -> tuple[float, float]:
    """An interval of probabilities made wider by DOUBT."""
    a, b = math.asin(math.sqrt(low)), math.asin(math.sqrt(high))
    more = (DOUBT - 1) * (b - a) / 2
    return math.sin(max(0.0, a - more)) ** 2, math.sin(min(math.pi / 2, b + more)) ** 2


def _box(low: Floats, high: Floats) -> Box:
    return Box(float(low[0]), float(high[0]), float(low[1]), float(high[1]))


def _boxes(x: Floats, covariances: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Equal multiples of the standard deviations of logit q and logit r, so many that both hold with the confidence."""
    pi1, lam = chain(x)
    total = 1 - lam
    ends = np.clip(np.stack([total * pi1, total * (1 - pi1)], axis=1), 1e-6, 1 - 1e-6)
    # d logit q = ((1−π1)·da + (1−(q+r)/2)·db)/(1−q), and for r with −π1
    slopes = np.stack(
        [np.stack([1 - pi1, -pi1], axis=1), np.repeat((1 - total / 2)[:, None], 2, axis=1)], axis=2
    )
    slopes = slopes / (1 - ends)[:, :, None]
    there = slopes @ covariances @ np.swapaxes(slopes, 1, 2)
    deviation = np.sqrt(there[:, [0, 1], [0, 1]])
    correlation = there[:, 0, 1] / (deviation[:, 0] * deviation[:, 1])
    multiple = rectangle_quantiles(confidence, correlation)[:, None]
    middle = np.log(ends) - np.log1p(-ends)
    low, high = (
        1 / (1 + np.exp(-np.clip(middle + sign * multiple * deviation, -14, 14))) for sign in (-1, 1)
    )
    return low, high
