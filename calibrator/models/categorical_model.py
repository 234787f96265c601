"""The chain model of streams of more than two states: noise an emission matrix, Θ an interval of every transition.

It is priced by pufferfish/categorical/categorical_timeline.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushmq.broker.contract.noise_message import CategoricalNoiseMessage, CertificateMessage
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import CategoricalThetaMessage, categorical_theta_of, theta_message
from hushmq.calibrator.models.categorical import categorical_misfit, categorical_region
from hushmq.calibrator.models.categorical.categorical_count import count_categorical
from hushmq.calibrator.models.categorical.categorical_evidence import CategoricalEvidence
from hushmq.calibrator.models.categorical.categorical_fit import CategoricalFit, alone, fit
from hushmq.calibrator.models.categorical.categorical_statistics import (
    MULTIPLES,
    CategoricalSums,
    sensitivity,
)
from hushmq.calibrator.models.chain_model import MARGIN
from hushmq.calibrator.models.devices_alone import DevicesAlone
from hushmq.calibrator.models.draw_noise import noisy, variance
from hushmq.calibrator.models.meeting_regions import part_of_start
from hushmq.calibrator.models.misfit import Misfit
from hushmq.calibrator.models.stand_ins import perturbed_categories
from hushmq.calibrator.models.sufficient_statistics import Groups, NoisyStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.calibrator.policy.nano_nats import scale_for
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import certificate_for
from hushmq.pufferfish.categorical.strided_states import strided_certificate
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals


@dataclass(frozen=True, slots=True)
class FittedCategoricalCohort:
    """A fit, and the evidence it rests on."""

    evidence: CategoricalEvidence
    fit: CategoricalFit

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""
        return len(self.fit.devices)

    def cohort_region(self, confidence: float) -> CategoricalTheta:
        """Θ that holds the chain of any one device of the cohort."""
        return categorical_region.cohort_region(self.fit, confidence)

    def centre_region(self, confidence: float) -> CategoricalTheta:
        """Θ that holds the cohort's centre, whatever its spread."""
        return categorical_region.centre_region(self.fit, confidence)

    def device_regions(self, confidence: float) -> dict[str, CategoricalTheta]:
        """For every device, Θ that holds its chain."""
        return categorical_region.device_regions(self.fit, confidence)

    @property
    def coordinates(self) -> int:
        """The logits of all transitions to another state."""
        return len(self.fit.centre)

    def alone(self) -> DevicesAlone:
        """The logits of each device by itself."""
        return alone(self.evidence)

    def alone_regions(self, found: DevicesAlone, confidence: float) -> dict[str, CategoricalTheta]:
        """For every device, Θ that holds its chain by its own evidence."""
        return categorical_region.alone_regions(found, self.fit.k, confidence)

    def deviations(self, of: DevicesAlone) -> dict[str, float]:
        """In the logits of the transitions."""
        return of.deviations(self.fit.centre, self.fit.spread + np.diagonal(self.fit.centre_covariance))

    def misfit(self, error: float) -> Misfit:
        """The test against first-order chains."""
        return categorical_misfit.measure(self.evidence, self.fit, error)


@dataclass(frozen=True)
class CategoricalModel:
    """Streams of more than two states, which publish one of every `stride` ticks; Θ is about ticks.

    With a stride nothing is learned: what is published tells of the chain of so many steps, not of its roots.
    """

    stride: int = 1

    def count(self, stream: StreamPolicy, pieces: Pieces) -> WindowCount[CategoricalSums, CategoricalNoise]:
        """Count states, and pairs over bands of lags."""
        return count_categorical(len(stream.states), pieces)

    def add_noise(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """Laplace noise for each number that was counted, a band's as much wider as its entry of MULTIPLES."""
        scale = scale_for(sensitivity(bands), tilt)
        found: list[list[Sequence[int]]] = [list(groups) for groups in exact]
        for place in range(bands + 1):
            size = len(exact[0][place])
            wide = math.nextafter(scale * MULTIPLES[place], math.inf)
            flat = noisy([count for groups in exact for count in groups[place]], scale=wide)
            for number, groups in enumerate(found):
                groups[place] = flat[number * size : (number + 1) * size]
        return [*found]

    def noise_variance(self, *, tilt: int, bands: int) -> float:
        """On the counts; on a band's pairs it is that times the square of its entry of MULTIPLES."""
        return variance(scale_for(sensitivity(bands), tilt))

    def fit(self, rows: Sequence[tuple[NoisyStatistics, CategoricalNoise]]) -> FittedCategoricalCohort | None:
        """Fit the hierarchical model; None where there are too few devices."""
        if not rows:
            return None
        evidence = CategoricalEvidence.of(rows)
        found = fit(evidence)
        return None if found is None else FittedCategoricalCohort(evidence, found)

    def slowed(self, region: CategoricalTheta, shares: Sequence[float]) -> CategoricalTheta:
        """The chains of Θ slowed until they have these persistent shares."""
        return categorical_misfit.slowed(region, shares)

    def within(self, start: CategoricalTheta, region: CategoricalTheta) -> CategoricalTheta:
        """The part of it that the start allows; both where it clearly excludes the start."""
        return part_of_start(start, region, categorical_region.widened_theta(region))

    def while_hidden(self, start: CategoricalTheta, region: CategoricalTheta) -> CategoricalTheta:
        """All of the start: how slow the chains would have to be depends on the misfit."""
        return start

    def read_region(self, tree: Mapping[str, Any]) -> CategoricalTheta:
        """A region is a Θ."""
        return self.read_theta(tree)

    def theta_of(self, region: CategoricalTheta) -> CategoricalTheta:
        """The region itself."""
        return region

    def read_theta(self, tree: Mapping[str, Any]) -> CategoricalTheta:
        """`{"low": …, "high": …, "backward": {"low": …, "high": …}}`."""
        return CategoricalTheta(*(_intervals(one) for one in (tree, tree["backward"])))

    tilt_reductions = (0.0, 1e-6, 1e-3, 0.05)
    """A proof may fail by a rounding where that of a little less tilt succeeds."""

    def start(self, stream: StreamPolicy) -> CategoricalTheta:
        """Θ before anything is learned."""
        return categorical_theta_of(stream.theta.start)

    def floor(self, stream: StreamPolicy) -> CategoricalTheta:
        """What the learned Θ always contains."""
        return categorical_theta_of(stream.theta.floor)

    def theta_message(self, theta: CategoricalTheta) -> CategoricalThetaMessage:
        """`{low, high, backward}`."""
        return theta_message(theta)

    def unseen_variance(self, theta: CategoricalTheta, ticks: int) -> float:
        """That of a few chains of Θ (docs/theory-regimes.md, R4); devices are taken as independent."""
        return theta.sampling_variance(self.stride) / (ticks * self.stride) if self.stride > 1 else 0.0

    def best_noise(
        self, theta: CategoricalTheta, epsilon: float, adversary: Adversary, device_tilt: float, share: float
    ) -> CategoricalNoise:
        """Randomized response of the largest tilt that is proved to keep ε, less what device-made windows cost."""
        try:
            return theta.optimal_noise(epsilon - MARGIN, adversary, device_tilt, share, stride=self.stride)
        except ValueError as error:
            raise Problem(f"{error}: narrow theta.start, raise ε, or the scale of device windows") from None

    def out_of_reach(
        self,
        theta: CategoricalTheta,
        signal: float,
        *,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float,
        share: float,
    ) -> bool:
        """Randomized response of k states with signal s has e^τ = (1 + (k−1)·s)/(1 − s)."""
        tau = (math.log((1 + (theta.states - 1) * signal) / (1 - signal)) + device_tilt) / share
        return theta.constant_loss(tau, tau, adversary, stride=self.stride) > epsilon

    def noise_message(
        self,
        noise: CategoricalNoise,
        theta: CategoricalTheta,
        adversary: Adversary,
        device_tilt: float,
        share: float,
    ) -> CategoricalNoiseMessage:
        """The matrix, with a certificate for its tilt and that of device-made windows together, by its share."""
        whole = (noise.tilts[0] + device_tilt) / share * (1 + 2.0**-48)
        if self.stride > 1:
            proof = strided_certificate(theta, whole, self.stride)
        else:
            proof = certificate_for(theta, whole, informed=adversary == "informed")
        return CategoricalNoiseMessage(emission=noise.rows, certificate=CertificateMessage.of(proof))

    def stand_ins(self, noise: CategoricalNoise, state: int, count: int) -> bytes:
        """Outputs of the state's row of the emission matrix."""
        return perturbed_categories(noise.rows, state, count)

    def read_noise(self, tree: dict[str, Any]) -> CategoricalNoise | None:
        """`{"emission": [[…], …]}`."""
        if "emission" not in tree:
            return None
        return CategoricalNoise(tuple(tuple(map(float, row)) for row in tree["emission"]))


def _intervals(tree: Mapping[str, Any]) -> TransitionIntervals:
    low, high = (tuple(tuple(map(float, row)) for row in tree[end]) for end in ("low", "high"))
    return TransitionIntervals(low, high)


CATEGORICAL = CategoricalModel()
