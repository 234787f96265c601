"""A fit of chains with regimes and the evidence it rests on: what learning asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hushmq.calibrator.models.devices_alone import DevicesAlone
from hushmq.calibrator.models.misfit import Misfit
from hushmq.calibrator.models.regime import regime_misfit, regime_region
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import RegimeFit, alone, marginal, means
from hushmq.calibrator.models.regime.regime_intervals import RegimeIntervals
from hushmq.calibrator.models.regime.regime_lattice import AXES


@dataclass(frozen=True)
class FittedRegimeCohort:
    """The cohort and each device, in logit π1, log fast rate, logit slow share and log slow rate."""

    evidence: RegimeEvidence
    fit: RegimeFit

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""
        return len(self.fit.devices)

    def cohort_region(self, confidence: float) -> RegimeIntervals:
        """The region that holds the chain of any one device of the cohort."""
        return regime_region.cohort_region(self.fit, confidence)

    def centre_region(self, confidence: float) -> RegimeIntervals:
        """The region that holds the cohort's centre, whatever its spread."""
        return regime_region.centre_region(self.fit, confidence)

    def device_regions(self, confidence: float) -> dict[str, RegimeIntervals]:
        """For every device, the region that holds its chain."""
        return regime_region.device_regions(self.fit, confidence)

    @property
    def coordinates(self) -> int:
        """The share of ones, and the lattice's three."""
        return 1 + len(AXES)

    @cached_property
    def _each(self) -> RegimeFit:
        return alone(self.evidence)

    def alone(self) -> DevicesAlone:
        """The four coordinates of each device by itself."""
        posteriors = self._each.posteriors()
        middle = means(posteriors)
        spread = [
            marginal(posteriors, axis) @ places**2 - middle[:, axis] ** 2 for axis, places in enumerate(AXES)
        ]
        variances = np.stack([self._each.logit_variances, *np.maximum(spread, 0.0)], axis=1)
        return DevicesAlone(
            self._each.devices,
            np.concatenate([self._each.logits[:, None], middle], axis=1),
            variances[:, :, None] * np.eye(self.coordinates),
        )

    def alone_regions(self, found: DevicesAlone, confidence: float) -> dict[str, RegimeIntervals]:
        """For every device, the region that holds its chain by its own evidence."""
        return regime_region.device_regions(self._each, confidence)

    def deviations(self, of: DevicesAlone) -> dict[str, float]:
        """In all four coordinates."""
        spreads = (self.fit.newcomer_logit, *self.fit.newcomer)
        return of.deviations(
            np.array([one.centre for one in spreads]), np.array([one.whole for one in spreads])
        )

    def misfit(self, error: float) -> Misfit:
        """The test against chains with two regimes."""
        return regime_misfit.measure(self.evidence, self.fit, error)
