"""The chain model of streams of two states: noise (ρ0, ρ1), Θ an interval of P(0→1) and one of P(1→0)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import BinaryThetaMessage, binary_theta_of, theta_message
from hushmq.calibrator.models.binary import binary_misfit, binary_region
from hushmq.calibrator.models.binary.binary_count import count_binary
from hushmq.calibrator.models.binary.binary_evidence import BinaryEvidence
from hushmq.calibrator.models.binary.binary_fit import BinaryFit, alone, fit
from hushmq.calibrator.models.binary.binary_statistics import REACH, BinarySums
from hushmq.calibrator.models.binary.binary_strides import for_strides, for_ticks
from hushmq.calibrator.models.devices_alone import DevicesAlone
from hushmq.calibrator.models.draw_noise import noisy_together
from hushmq.calibrator.models.meeting_regions import part_of_start
from hushmq.calibrator.models.misfit import Misfit
from hushmq.calibrator.models.stand_ins import perturbed_bits
from hushmq.calibrator.models.sufficient_statistics import Groups, NoisyStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.noise.joint_noise import mean_square
from hushmq.pufferfish.thinning.theta_strides import largest_sampling_variance

ROOM = 1e-9
"""Share of ε left free, so that a timeline's price, rounded up more generously than a constant loss, is within it."""

_optimal_noise = lru_cache(maxsize=8192)(BinaryTheta.optimal_noise)


@dataclass(frozen=True, slots=True)
class FittedBinaryCohort:
    """A fit to what is published, one of every `stride` ticks, and the evidence it rests on; regions are for ticks."""

    evidence: BinaryEvidence
    fit: BinaryFit
    stride: int = 1

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""
        return len(self.fit.devices)

    def cohort_region(self, confidence: float) -> BinaryTheta:
        """Θ that holds the chain of any one device of the cohort."""
        return for_ticks(binary_region.cohort_region(self.fit, confidence), self.stride)

    def centre_region(self, confidence: float) -> BinaryTheta:
        """Θ that holds the cohort's centre, whatever its spread."""
        return for_ticks(binary_region.centre_region(self.fit, confidence), self.stride)

    def device_regions(self, confidence: float) -> dict[str, BinaryTheta]:
        """For every device, Θ that holds its chain."""
        return self._for_ticks(binary_region.device_regions(self.fit, confidence))

    @property
    def coordinates(self) -> int:
        """A and b."""
        return 2

    def alone(self) -> DevicesAlone:
        """A and b of each device by itself."""
        return alone(self.evidence)

    def alone_regions(self, found: DevicesAlone, confidence: float) -> dict[str, BinaryTheta]:
        """For every device, Θ that holds its chain by its own evidence."""
        return self._for_ticks(binary_region.alone_regions(found, confidence))

    def _for_ticks(self, regions: Mapping[str, BinaryTheta]) -> dict[str, BinaryTheta]:
        return {device: for_ticks(region, self.stride) for device, region in regions.items()}

    def deviations(self, of: DevicesAlone) -> dict[str, float]:
        """In a and b."""
        return of.deviations(self.fit.centre, self.fit.spread + self.fit.centre_variance)

    def misfit(self, error: float) -> Misfit:
        """The test against first-order chains."""
        return binary_misfit.measure(self.evidence, self.fit, error)


@dataclass(frozen=True)
class BinaryModel:
    """Streams of two states, which publish one of every `stride` ticks; Θ is about ticks."""

    stride: int = 1

    def count(self, stream: StreamPolicy, pieces: Pieces) -> WindowCount[BinarySums, BinaryNoise]:
        """Count ones, and changes over bands of lags."""
        return count_binary(pieces)

    def add_noise(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """One draw for the ones and the changes of the bands that were counted, for each device."""
        reach = REACH[: bands + 1]
        found: list[Groups] = []
        for groups in exact:
            sums = [one for (one,) in groups]
            noised = noisy_together(sums[: bands + 1], reach=reach, tilt=tilt)
            found.append([[one] for one in (*noised, *sums[bands + 1 :])])
        return found

    def noise_variance(self, *, tilt: int, bands: int) -> float:
        """On the ones; on a band's changes it is that times the square of their reach, or a little less."""
        return mean_square(REACH[: bands + 1], tilt / NANO)

    def fit(self, rows: Sequence[tuple[NoisyStatistics, BinaryNoise]]) -> FittedBinaryCohort | None:
        """Fit the hierarchical model; None for fewer than three devices."""
        if not rows:
            return None
        evidence = BinaryEvidence.of(rows)
        found = fit(evidence)
        return None if found is None else FittedBinaryCohort(evidence, found, self.stride)

    def slowed(self, region: BinaryTheta, shares: Sequence[float]) -> BinaryTheta:
        """The chains of Θ slowed until they have these persistent shares."""
        slowed = binary_misfit.slowed(for_strides(region, self.stride), shares)
        return for_ticks(slowed, self.stride)

    def within(self, start: BinaryTheta, region: BinaryTheta) -> BinaryTheta:
        """The part of it that the start allows; both where it clearly excludes the start."""
        return part_of_start(start, region, binary_region.widened_theta(region))

    def while_hidden(self, start: BinaryTheta, region: BinaryTheta) -> BinaryTheta:
        """All of the start: how slow the chains would have to be depends on the misfit."""
        return start

    def read_region(self, tree: Mapping[str, Any]) -> BinaryTheta:
        """A region is a Θ."""
        return self.read_theta(tree)

    def theta_of(self, region: BinaryTheta) -> BinaryTheta:
        """The region itself."""
        return region

    def read_theta(self, tree: Mapping[str, Any]) -> BinaryTheta:
        """`{"q": [low, high], "r": [low, high]}`."""
        return BinaryTheta(*tree["q"], *tree["r"])

    tilt_reductions = (0.0,)

    def start(self, stream: StreamPolicy) -> BinaryTheta:
        """Θ before anything is learned."""
        return binary_theta_of(stream.theta.start)

    def floor(self, stream: StreamPolicy) -> BinaryTheta:
        """What the learned Θ always contains."""
        return binary_theta_of(stream.theta.floor)

    def theta_message(self, theta: BinaryTheta) -> BinaryThetaMessage:
        """`{q, r}`."""
        return theta_message(theta)

    def best_noise(
        self, theta: BinaryTheta, epsilon: float, adversary: Adversary, device_tilt: float, share: float
    ) -> BinaryNoise:
        """The optimum in closed form, or what device-made windows leave of the largest tilts."""
        try:
            return _optimal_noise(
                theta, epsilon * (1 - ROOM), adversary, device_tilt, share, stride=self.stride
            )
        except ValueError as error:
            raise Problem(f"{error}: raise their scale or ε") from None

    def out_of_reach(
        self,
        theta: BinaryTheta,
        signal: float,
        *,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float,
        share: float,
    ) -> bool:
        """Against the informed adversary: whether even the prior one, who allows no less, leaves less signal."""
        return (
            adversary == "informed"
            and self.best_noise(theta, epsilon, "prior", device_tilt, share).signal < signal
        )

    def unseen_variance(self, theta: BinaryTheta, ticks: int) -> float:
        """That of the worst corner of Θ (docs/theory-regimes.md, R4); devices are taken as independent."""
        if self.stride == 1:
            return 0.0
        return largest_sampling_variance(theta, self.stride) / (ticks * self.stride)

    def noise_message(
        self, noise: BinaryNoise, theta: BinaryTheta, adversary: Adversary, device_tilt: float, share: float
    ) -> BinaryNoiseMessage:
        """ρ0 and ρ1: a device computes the loss itself."""
        return BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1)

    def stand_ins(self, noise: BinaryNoise, state: int, count: int) -> bytes:
        """Bits flipped with ρ0 or ρ1."""
        return perturbed_bits(noise.rho1 if state else noise.rho0, state, count)

    def read_noise(self, tree: dict[str, Any]) -> BinaryNoise | None:
        """`{"rho0": …, "rho1": …}`."""
        return BinaryNoise(tree["rho0"], tree["rho1"]) if "rho0" in tree else None


BINARY = BinaryModel()
