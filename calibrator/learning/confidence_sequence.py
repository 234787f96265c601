"""The confidence sequence: every theta update intersects the learned Θ with confidence regions of new evidence.

A device is held by two regions of each update: the cohort's, which holds any device, and its own. Each may be wrong
with half the update's probability (calibrator/learning/update_schedule.py), so both hold together, and the device's Θ
is their intersection: never wider than the cohort's, under whose settings it began. Only a device whose own region
does not meet the cohort's, and which is not clearly apart from the others either, has its own alone. Pure: numbers in,
the next Θ out.
"""

from __future__ import annotations

from dataclasses import dataclass

from hushmq.calibrator.learning.learned_theta import LearnedTheta
from hushmq.calibrator.learning.update_schedule import update_confidence
from hushmq.calibrator.models.chain_model import FittedCohort
from hushmq.calibrator.models.meeting_regions import common
from hushmq.pufferfish.protocols import Region


@dataclass(frozen=True, slots=True)
class NextTheta:
    """The learned Θ after an update, and the devices whose region contradicts what was learned of them."""

    learned: LearnedTheta
    contradicted: frozenset[str]


def next_theta(learned: LearnedTheta, fitted: FittedCohort[Region], block: int) -> NextTheta | None:
    """The learned Θ intersected with the regions of this update; None where the cohort's have nothing in common."""
    confidence = update_confidence(block)
    region = fitted.cohort_region(confidence)
    whole = region if learned.cohort is None else common(region, learned.cohort)
    if whole is None:
        return None
    found: dict[str, Region | None] = dict(learned.devices)
    for device, own in fitted.device_regions(confidence).items():
        before = learned.devices.get(device)
        found[device] = own if before is None else common(own, before)
    devices = {device: common(own, whole) or own for device, own in found.items() if own is not None}
    contradicted = frozenset(device for device, own in found.items() if own is None)
    return NextTheta(LearnedTheta(whole, devices), contradicted)
