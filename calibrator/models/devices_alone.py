"""Devices by themselves: what the evidence of each says of its chain without the cohort, and how far it is from others.

In a fit of the cohort a device that is far from all others may be taken for one of them whose evidence is bad luck. By
itself it stands where it stands. Coordinates are logits. Where a probability is all but 0 or 1, next to nothing is
known of its logit, and much of its angle arcsin √p: so both are compared, and the larger deviation counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hushmq.calibrator.models.binary.binary_moments import Floats

ALIKE = 0.05
"""Devices within so many logits of the median are alike, however close together the others are."""
WEAK = 4.0
"""The variance around the chain that fits all devices together: it only keeps a device with no evidence in bounds."""


@dataclass(frozen=True, slots=True)
class DevicesAlone:
    """A row for each device: where its chain is, and the covariance of what is known of it."""

    devices: tuple[str, ...]
    places: Floats
    covariances: Floats

    @property
    def variances(self) -> Floats:
        """Of each coordinate of each device."""
        found: Floats = np.diagonal(self.covariances, axis1=1, axis2=2)
        return found

    def deviations(self, centre: Floats, spread: Floats) -> dict[str, float]:
        """How far each device is from a centre, in standard deviations, at the coordinate that is furthest.

        `spread` is the variance of a device's coordinates around the centre.
        """
        logits = np.abs(self.places - centre) / np.sqrt(spread + self.variances)
        angle, slope = _angle(self.places)
        middle, slope_there = _angle(centre)
        angles = np.abs(angle - middle) / np.sqrt(spread * slope_there**2 + self.variances * slope**2)
        return dict(zip(self.devices, map(float, np.maximum(logits, angles).max(axis=1)), strict=True))

    def furthest(self, count: int) -> list[str]:
        """So many devices with the largest deviation from the median, given the median distance from it."""
        middle = np.median(self.places, axis=0)
        off = np.maximum(ALIKE, np.median(np.abs(self.places - middle), axis=0))
        apart = self.deviations(middle, off**2)
        return sorted(apart, key=lambda device: (-apart[device], device))[:count]


def _angle(logits: Floats) -> tuple[Floats, Floats]:
    """Arcsin √p of these logits, and its derivative √(p(1−p))/2."""
    p = 1 / (1 + np.exp(-logits))
    return np.arcsin(np.sqrt(p)), np.sqrt(p * (1 - p)) / 2
