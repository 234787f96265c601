"""The change test: does the evidence since the last theta update contradict the learned Θ?

Where it puts the cohort's centre outside of the learned Θ, or more devices than a fit tolerates, the data has changed:
the sequence starts anew, for it is not known how much of the evidence is older than the change. Where it contradicts
the learned Θ of single devices, only they are reset: they get the cohort's Θ, like a newcomer; where the evidence
contradicts that too, they are left out of the roster. Pure: numbers in, a verdict out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hushmq.calibrator.learning.learned_theta import LearnedTheta
from hushmq.calibrator.learning.robust_fit import TOLERATED, RobustFit
from hushmq.calibrator.learning.update_schedule import change_error
from hushmq.calibrator.models.meeting_regions import common
from hushmq.pufferfish.protocols import Region


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """Whether the cohort has changed, or else which devices have.

    The learned Θ of `changed` devices is contradicted. Those `outside`, with the regions that hold their chains,
    contradict the cohort's as well, or are clearly apart from the others.
    """

    restart: bool = False
    changed: frozenset[str] = frozenset()
    outside: Mapping[str, Region] = field(default_factory=dict)


def change_test(learned: LearnedTheta, recent: RobustFit, block: int) -> ChangeVerdict:
    """Test the fit of the statistics since the last update against the learned Θ; nothing where there is none."""
    if learned.cohort is None:
        return ChangeVerdict()
    whole, error = learned.cohort, change_error(block)
    count = recent.fitted.size + len(recent.outside)
    regions = {**recent.outside, **recent.fitted.device_regions(1 - error / 2 / count)}
    outside = {
        device: region
        for device, region in regions.items()
        if device in recent.outside or common(region, whole) is None
    }
    centre = recent.fitted.centre_region(1 - error / 2)
    if common(centre, whole) is None or len(outside) > max(1, TOLERATED * count):
        return ChangeVerdict(restart=True)
    changed = frozenset(
        device
        for device, region in regions.items()
        if common(region, learned.devices.get(device, whole)) is None
    )
    return ChangeVerdict(changed=changed | outside.keys(), outside=outside)
