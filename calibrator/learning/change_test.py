"""The change test: does the evidence since the last theta update contradict the learned Θ?

Where it puts the cohort's centre outside of the learned Θ, or several devices, the data has changed: the sequence
starts anew, for it is not known how much of the evidence is older than the change. Where it contradicts the learned Θ
of single devices, only they are reset: they get the cohort's Θ, like a newcomer, or where the evidence contradicts
that too, no restriction at all. Pure: numbers in, a verdict out.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.calibrator.learning.learned_theta import LearnedTheta
from hushmq.calibrator.learning.update_schedule import change_error
from hushmq.calibrator.models.chain_model import FittedCohort
from hushmq.pufferfish.protocols import Theta

MANY = 0.1
"""More than this share of the devices outside of the cohort's Θ, and more than one, contradict it."""


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """Whether the cohort has changed, or else which devices have.

    The learned Θ of `changed` devices is contradicted; for those `outside`, the cohort's Θ as well.
    """

    restart: bool = False
    changed: frozenset[str] = frozenset()
    outside: frozenset[str] = frozenset()


def change_test(learned: LearnedTheta, recent: FittedCohort[Theta], block: int) -> ChangeVerdict:
    """Test the fit of the statistics since the last update against the learned Θ; nothing where there is none."""
    if learned.cohort is None:
        return ChangeVerdict()
    whole, error = learned.cohort, change_error(block)
    regions = recent.device_regions(1 - error / 2 / recent.size)
    outside = frozenset(device for device, region in regions.items() if common(region, whole) is None)
    centre = recent.centre_region(1 - error / 2)
    if common(centre, whole) is None or len(outside) > max(1, MANY * len(regions)):
        return ChangeVerdict(restart=True)
    changed = frozenset(
        device
        for device, region in regions.items()
        if common(region, learned.devices.get(device, whole)) is None
    )
    return ChangeVerdict(changed=changed, outside=outside & changed)


def common(one: Theta, other: Theta) -> Theta | None:
    """The chains in both; None where there are none."""
    try:
        return one.intersect(other)
    except ValueError:
        return None
