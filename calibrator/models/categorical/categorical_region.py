"""Confidence regions of a fit of k states: entrywise intervals of the transitions forward and backward in time.

An interval is a multiple of the standard deviation of the entry's logit, or of its angle arcsin √p, whichever reaches
further on either side: where little is known an entry may be all but nothing, and no logit says so. Where next to
nothing is known, standard deviations are unreliable as well: the interval is [0, 1]. The multiple makes all
2·k² intervals hold at once with the confidence asked for, given their correlation: k·(k−1) numbers decide them all.
"""

from __future__ import annotations

import numpy as np

from hushmq.calibrator.models.categorical.categorical_fit import CategoricalFit
from hushmq.calibrator.models.categorical.categorical_moments import Floats, stationary, transitions
from hushmq.calibrator.models.confidence import CONFIDENCE, widened
from hushmq.calibrator.models.devices_alone import DevicesAlone
from hushmq.calibrator.models.quantiles import joint_quantiles
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import Rows, TransitionIntervals

VAGUE = 3.0
"""Logits beyond which an interval's half says that next to nothing is known: then nothing is claimed."""
_STEP = 1e-5
_LEAST = 1e-6


def entries(x: Floats, k: int) -> Floats:
    """P, and the transitions of the time reversal π_v·P_vu/π_u, on a new axis before the matrices."""
    P = transitions(x, k)
    pi = stationary(P)
    back = np.swapaxes(pi[..., :, None] * P, -1, -2) / pi[..., :, None]
    return np.stack([P, back], axis=-3)


def intervals(x: Floats, covariances: Floats, k: int, confidence: float) -> tuple[Floats, Floats]:
    """Low and high ends of all entries, forward and backward, for chains x known up to these covariances."""
    p = x.shape[-1]
    there = entries(x[:, None, :] + np.concatenate([np.zeros((1, p)), _STEP * np.eye(p)]), k)
    middle = np.clip(there[:, 0], _LEAST, 1 - _LEAST)
    slopes = ((there[:, 1:] - there[:, :1]) / _STEP).reshape(len(x), p, -1)
    columns = np.swapaxes(np.linalg.cholesky(covariances), 1, 2) @ slopes
    deviation = np.sqrt((columns**2).sum(axis=1))
    multiple = joint_quantiles(confidence, columns / np.maximum(deviation, 1e-300)[:, None, :])
    reach = (multiple[:, None] * deviation).reshape(middle.shape)
    logit, far = np.log(middle) - np.log1p(-middle), np.minimum(reach / (middle * (1 - middle)), 40.0)
    angle, wide = np.arcsin(np.sqrt(middle)), reach / np.sqrt(4 * middle * (1 - middle))
    low = np.minimum(1 / (1 + np.exp(far - logit)), np.sin(np.maximum(angle - wide, 0.0)) ** 2)
    high = np.maximum(1 / (1 + np.exp(-far - logit)), np.sin(np.minimum(angle + wide, np.pi / 2)) ** 2)
    low, high = np.minimum(low, there[:, 0]), np.maximum(high, there[:, 0])
    return np.where(far > VAGUE, 0.0, low), np.where(far > VAGUE, 1.0, high)


def cohort_intervals(found: CategoricalFit, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """Ends that hold the chain of a device of this cohort, whichever it is."""
    whole = (found.centre_covariance + np.diag(found.spread))[None]
    low, high = intervals(found.centre[None], whole, found.k, confidence)
    return low[0], high[0]


def device_intervals(found: CategoricalFit, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """For every device, ends that hold its own chain."""
    return intervals(found.chains, found.covariances, found.k, confidence)


def cohort_region(found: CategoricalFit, confidence: float = CONFIDENCE) -> CategoricalTheta:
    """Θ that holds the chain of any one device of this cohort with the given confidence."""
    return _theta(*cohort_intervals(found, confidence))


def device_regions(found: CategoricalFit, confidence: float = CONFIDENCE) -> dict[str, CategoricalTheta]:
    """For every device, Θ that holds its chain."""
    ends = zip(*device_intervals(found, confidence), strict=True)
    return {name: _theta(*one) for name, one in zip(found.devices, ends, strict=True)}


def alone_regions(found: DevicesAlone, k: int, confidence: float = CONFIDENCE) -> dict[str, CategoricalTheta]:
    """For every device, Θ that holds its chain by its own evidence."""
    ends = zip(*intervals(found.places, found.covariances, k, confidence), strict=True)
    return {name: _theta(*one) for name, one in zip(found.devices, ends, strict=True)}


def centre_region(found: CategoricalFit, confidence: float = CONFIDENCE) -> CategoricalTheta:
    """Θ that holds the cohort's centre: how well the average is known, whatever the spread."""
    low, high = intervals(found.centre[None], found.centre_covariance[None], found.k, confidence)
    return _theta(low[0], high[0])


def point(x: Floats, k: int) -> CategoricalTheta:
    """One chain."""
    both = entries(x, k)
    return _theta(both, both)


def _theta(low: Floats, high: Floats) -> CategoricalTheta:
    """What was found in both directions. That either implies bounds on the other is not used: it is never narrower."""
    return CategoricalTheta(
        *(TransitionIntervals(_rows(less), _rows(more)) for less, more in zip(low, high, strict=True))
    )


def _rows(matrix: Floats) -> Rows:
    return tuple(tuple(map(float, row)) for row in matrix)


def widened_theta(theta: CategoricalTheta) -> CategoricalTheta:
    """Θ with every interval widened (calibrator/models/confidence.py)."""
    return CategoricalTheta(*(_widened(each) for each in (theta.forward, theta.backward)))


def _widened(intervals: TransitionIntervals) -> TransitionIntervals:
    ends = [
        [widened(*both) for both in zip(*rows, strict=True)]
        for rows in zip(intervals.low, intervals.high, strict=True)
    ]
    low, high = (tuple(tuple(both[end] for both in row) for row in ends) for end in (0, 1))
    return TransitionIntervals(low, high)
