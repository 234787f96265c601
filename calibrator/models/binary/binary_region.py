"""Confidence regions of a fit: intervals of q and r that hold a device's chain, or the cohort's centre."""

from __future__ import annotations

import numpy as np

from hushmq.calibrator.models.binary.binary_fit import CAUTION, BinaryFit, chain
from hushmq.calibrator.models.binary.binary_moments import Floats
from hushmq.calibrator.models.confidence import CONFIDENCE, widened
from hushmq.calibrator.models.devices_alone import DevicesAlone
from hushmq.calibrator.models.quantiles import rectangle_quantiles
from hushmq.pufferfish.binary.binary_theta import BinaryTheta

UNRESTRICTED = BinaryTheta(1e-9, 1 - 1e-9, 1e-9, 1 - 1e-9)
"""No region is wider than this one."""


def cohort_region(found: BinaryFit, confidence: float = CONFIDENCE) -> BinaryTheta:
    """Θ that holds the chain of any one device of this cohort with the given confidence."""
    whole = np.diag(found.spread + found.centre_variance)[None]
    low, high = _rectangles(found.centre[None], whole, confidence)
    return _theta(low[0], high[0])


def device_regions(found: BinaryFit, confidence: float = CONFIDENCE) -> dict[str, BinaryTheta]:
    """For every device, Θ that holds its chain."""
    low, high = _rectangles(found.chains, found.covariances * _restored(found, confidence), confidence)
    return {name: _theta(*ends) for name, *ends in zip(found.devices, low, high, strict=True)}


def alone_regions(found: DevicesAlone, confidence: float = CONFIDENCE) -> dict[str, BinaryTheta]:
    """For every device, Θ that holds its chain by its own evidence."""
    low, high = _rectangles(found.places, found.covariances, confidence)
    return {name: _theta(*ends) for name, *ends in zip(found.devices, low, high, strict=True)}


def _restored(found: BinaryFit, confidence: float) -> Floats:
    """The factor that undoes part of CAUTION where the error is smaller than the one for which it was determined."""
    share = min(1.0, (1 - confidence) / (1 - CONFIDENCE))
    factor = (1 - share * CAUTION * found.spread_share) / (1 - CAUTION * found.spread_share)
    both: Floats = factor[:, :, None] * factor[:, None, :]
    return both


def centre_region(found: BinaryFit, confidence: float = CONFIDENCE) -> BinaryTheta:
    """Θ that holds the cohort's centre: how well the average is known, whatever the spread."""
    low, high = _rectangles(found.centre[None], np.diag(found.centre_variance)[None], confidence)
    return _theta(low[0], high[0])


def widened_theta(theta: BinaryTheta) -> BinaryTheta:
    """Θ with both intervals widened (calibrator/models/confidence.py), within UNRESTRICTED."""
    ends = (*widened(theta.q_low, theta.q_high), *widened(theta.r_low, theta.r_high))
    return BinaryTheta(*(min(UNRESTRICTED.q_high, max(UNRESTRICTED.q_low, end)) for end in ends))


def _theta(low: Floats, high: Floats) -> BinaryTheta:
    return BinaryTheta(float(low[0]), float(high[0]), float(low[1]), float(high[1]))


def _rectangles(x: Floats, covariances: Floats, confidence: float) -> tuple[Floats, Floats]:
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
