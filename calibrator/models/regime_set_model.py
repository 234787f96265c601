"""The chain model of streams of two states with hidden regimes: Θ a finite set of chains, noise (ρ0, ρ1).

Windows are counted as those of any stream of two states. What is learned is a region of chains with two regimes, and Θ
is what it leaves of the chains that the policy lists (calibrator/models/regime/listed_chains.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import RegimeThetaMessage, regime_theta_of, theta_message
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.draw_noise import noisy_together
from hushmq.calibrator.models.regime.fitted_regimes import FittedRegimeCohort
from hushmq.calibrator.models.regime.listed_chains import chains_left
from hushmq.calibrator.models.regime.long_bands import strided_bands
from hushmq.calibrator.models.regime.regime_count import count_regimes
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import fit
from hushmq.calibrator.models.regime.regime_intervals import RegimeIntervals
from hushmq.calibrator.models.regime.regime_statistics import RegimeSums
from hushmq.calibrator.models.sufficient_statistics import Groups, NoisyStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.joint_noise import mean_square
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

_optimal_noise = lru_cache(maxsize=8192)(RegimeTheta.optimal_noise)

SLOW_TIMES_SEEN = 10
"""Of the slowest listed chain: a device that was seen for less has too little evidence (docs/estimation.md)."""

_ANY_TIME = (0.05, 0.95)
"""Shares of time in the upper regime, which statistics do not tell."""


@dataclass(frozen=True)
class RegimeModel:
    """Streams of two states with hidden regimes, which publish one of every `stride` ticks.

    Devices that were seen for fewer than `fewest_ticks` do not count as evidence.
    """

    stride: int = 1
    fewest_ticks: float = 0.0

    @classmethod
    def of(cls, listed: RegimeTheta, stride: int) -> RegimeModel:
        """For a policy that lists these chains: who has been in one regime all the time cannot know of the others."""
        return cls(stride, SLOW_TIMES_SEEN / min(chain.slowest_rate for chain in listed.members))

    def count(self, stream: StreamPolicy, pieces: Pieces) -> WindowCount[RegimeSums, BinaryNoise]:
        """Count ones, and changes over long bands of lags."""
        return count_regimes(pieces, self.stride)

    def add_noise(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """One draw for the ones and the changes of the bands that were counted, for each device."""
        counted = self._counted(bands)
        reach = [strided_bands(self.stride).reach[place] for place in counted]
        found: list[Groups] = []
        for groups in exact:
            sums = [one for (one,) in groups]
            noised = noisy_together([sums[place] for place in counted], reach=reach, tilt=tilt)
            for place, one in zip(counted, noised, strict=True):
                sums[place] = one
            found.append([[one] for one in sums])
        return found

    def noise_variance(self, *, tilt: int, bands: int) -> float:
        """On the ones; on a band's changes it is that times the square of their reach, or a little less."""
        reach = strided_bands(self.stride).reach
        return mean_square([reach[place] for place in self._counted(bands)], tilt / NANO)

    def _counted(self, bands: int) -> list[int]:
        """The groups that were counted: the ones, and the first so many bands that have a lag at this stride."""
        possible = [place for place, lags in enumerate(strided_bands(self.stride).lags, start=1) if lags]
        return [0, *possible[:bands]]

    def fit(self, rows: Sequence[tuple[NoisyStatistics, BinaryNoise]]) -> FittedRegimeCohort | None:
        """Fit the hierarchical model; None for fewer than three devices with enough evidence."""
        ticks: Counter[str] = Counter()
        for one, _ in rows:
            ticks[one.device] += one.ticks * self.stride
        known = [
            (one, noise, self.stride) for one, noise in rows if ticks[one.device] >= max(1, self.fewest_ticks)
        ]
        evidence = RegimeEvidence.of(known) if known else None
        found = None if evidence is None else fit(evidence)
        return None if evidence is None or found is None else FittedRegimeCohort(evidence, found)

    def slowed(self, region: RegimeIntervals, shares: Sequence[float]) -> RegimeIntervals:
        """The region with every slower rate and larger slow share: which chain has the excess is not known."""
        return replace(
            region,
            slow_share=(region.slow_share[0], 1.0),
            slow_rate=(0.0, region.slow_rate[1]),
            fast_rate=(0.0, region.fast_rate[1]),
        )

    def within(self, start: RegimeTheta, region: RegimeIntervals) -> RegimeTheta:
        """The listed chains that the region leaves, never another one."""
        return chains_left(start, region)

    def while_hidden(self, start: RegimeTheta, region: RegimeIntervals) -> RegimeTheta:
        """What any misfit would bring back, however large it is."""
        return self.within(start, self.slowed(region, ()))

    def read_region(self, tree: Mapping[str, Any]) -> RegimeIntervals:
        """`{"share": [low, high], "slow_share": …, "slow_rate": …, "fast_rate": …}`."""
        return RegimeIntervals.of_tree(tree)

    def theta_of(self, region: RegimeIntervals) -> RegimeTheta:
        """The chains at the slow end of the region, which price it as far as was searched (docs/estimation.md)."""
        return RegimeTheta.of(region.chains(_ANY_TIME))

    def read_theta(self, tree: Mapping[str, Any]) -> RegimeTheta:
        """`{"regimes": […]}`."""
        return RegimeTheta.from_tree(tree)

    tilt_reductions = (0.0,)

    def start(self, stream: StreamPolicy) -> RegimeTheta:
        """The chains that are listed: Θ before anything is learned."""
        return regime_theta_of(stream.theta.start)

    def floor(self, stream: StreamPolicy) -> RegimeTheta:
        """What Θ always contains."""
        return regime_theta_of(stream.theta.floor)

    def theta_message(self, theta: RegimeTheta) -> RegimeThetaMessage:
        """`{regimes}`."""
        return theta_message(theta)

    def unseen_variance(self, theta: RegimeTheta, ticks: int) -> float:
        """That of the worst listed chain (docs/theory-regimes.md, R4); devices are taken as independent."""
        return theta.sampling_variance(self.stride) / (ticks * self.stride)

    def best_noise(
        self, theta: RegimeTheta, epsilon: float, adversary: Adversary, device_tilt: float, share: float
    ) -> BinaryNoise:
        """The noise of the largest tilts, or of what device-made windows leave of them."""
        try:
            return _optimal_noise(theta, epsilon, adversary, device_tilt, share, stride=self.stride)
        except ValueError as error:
            raise Problem(f"{error}: raise ε, or the scale of device windows") from None

    def out_of_reach(
        self,
        theta: RegimeTheta,
        signal: float,
        *,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float,
        share: float,
    ) -> bool:
        """Never known quickly."""
        return False

    def noise_message(
        self, noise: BinaryNoise, theta: RegimeTheta, adversary: Adversary, device_tilt: float, share: float
    ) -> BinaryNoiseMessage:
        """ρ0 and ρ1: a device computes the loss itself (docs/theory-regime-sets.md, Theorem R12)."""
        return BinaryNoiseMessage(rho0=noise.rho0, rho1=noise.rho1)

    def stand_ins(self, noise: BinaryNoise, state: int, count: int) -> bytes:
        """Bits flipped with ρ0 or ρ1."""
        return BINARY.stand_ins(noise, state, count)

    def read_noise(self, tree: dict[str, Any]) -> BinaryNoise | None:
        """`{"rho0": …, "rho1": …}`."""
        return BINARY.read_noise(tree)


REGIMES = RegimeModel()
