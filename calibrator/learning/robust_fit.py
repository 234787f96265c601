"""A fit of the cohort that a minority of devices cannot move far: those clearly apart from the others are outside.

A chain model fits a cohort with a normal spread, and one constant device among ten widens that without limit. So the
fit begins with the devices nearest to the median, and takes in whoever is not clearly apart from those already in it,
until nobody is left to take in. A device is clearly apart if its own region does not meet the region of the others, or
if it is further from their centre than their spread explains, with a stated error for the whole cohort. Of few devices
nobody can say which is the odd one, and the limit grows.

At most the share TOLERATED of the devices can be outside. If more than that are bad, they decide what the cohort is,
and what they can do then is bounded by the floor alone (docs/theory-world.md, Theorem 13).

Pure: charged statistics in, a fit out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist

from hushmq.calibrator.models.chain_model import FittedCohort
from hushmq.calibrator.models.meeting_regions import common
from hushmq.pufferfish.protocols import Region

TOLERATED = 0.25
"""The share of bad devices that a fit tolerates."""
SPREAD_ERROR = 10
"""So many times the error is the probability that the spread of the others is larger than it is taken to be."""

Fit = Callable[[Collection[str]], FittedCohort[Region] | None]
"""Fits the evidence of these devices; None where there is too little."""


@dataclass(frozen=True, slots=True)
class RobustFit:
    """The fit of the devices that belong together, and for each of the others the region that holds its chain."""

    fitted: FittedCohort[Region]
    outside: Mapping[str, Region] = field(default_factory=dict)


def robust_fit(devices: Collection[str], fit: Fit, error: float) -> RobustFit | None:
    """Fit the devices without those that are clearly apart from the rest; None where there is too little evidence.

    `error` is the probability that chance puts any device outside while all of them are of one kind.
    """
    whole = fit(devices)
    if whole is None:
        return None
    alone = whole.alone()
    own = whole.alone_regions(alone, 1 - error / 2 / len(devices))
    suspects = alone.furthest(int(TOLERATED * len(devices)))
    while suspects:
        core = fit([device for device in devices if device not in suspects])
        if core is None:
            break
        apart, region = core.deviations(alone), core.cohort_region(1 - error / 2)
        limit = largest_deviation(core.size, among=len(devices), coordinates=core.coordinates, error=error)
        outside = [
            device for device in suspects if apart[device] > limit or common(own[device], region) is None
        ]
        if len(outside) == len(suspects):
            return RobustFit(core, {device: own[device] for device in outside})
        suspects = outside
    return RobustFit(whole)


def largest_deviation(size: int, *, among: int, coordinates: int, error: float) -> float:
    """How many standard deviations from the centre of `size` devices chance explains, for the furthest of so many.

    Their spread is at the upper end of its interval already; here that end is moved up.
    """
    from hushmq.calibrator.models.device_spread import NEWCOMER_CONFIDENCE  # noqa: PLC0415  # numpy: at the first fit
    from hushmq.calibrator.models.quantiles import chi_square_quantile  # noqa: PLC0415  # as above

    freedom = size - 1
    known = chi_square_quantile(1 - NEWCOMER_CONFIDENCE, freedom)
    least = chi_square_quantile(SPREAD_ERROR * error, freedom)
    if least <= 0:
        return math.inf
    multiple = NormalDist().inv_cdf(1 - error / 2 / among / coordinates)
    return float(multiple * math.sqrt(known / least))
