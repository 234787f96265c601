"""The chain model of streams of two states with hidden regimes: Θ a finite set of chains, noise (ρ0, ρ1).

Windows are counted as those of any stream of two states. Nothing is learned: Θ stays the policy's start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.theta_message import RegimeThetaMessage, regime_theta_of, theta_message
from hushmq.calibrator.models.binary.binary_statistics import BinarySums
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.chain_model import FittedCohort
from hushmq.calibrator.models.sufficient_statistics import Groups, NoisyStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta

_optimal_noise = lru_cache(maxsize=8192)(RegimeTheta.optimal_noise)


class RegimeModel:
    """Streams of two states with hidden regimes."""

    def count(self, stream: StreamPolicy, pieces: Pieces) -> WindowCount[BinarySums, BinaryNoise]:
        """Count ones, as of every stream of two states."""
        return BINARY.count(stream, pieces)

    def add_noise(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """As for every stream of two states."""
        return BINARY.add_noise(exact, tilt=tilt, bands=bands)

    def noise_variance(self, *, tilt: int, bands: int) -> float:
        """As for every stream of two states."""
        return BINARY.noise_variance(tilt=tilt, bands=bands)

    def fit(self, rows: Sequence[tuple[NoisyStatistics, BinaryNoise]]) -> FittedCohort[RegimeTheta] | None:
        """Nothing: Θ stays the start."""
        return None

    def slowed(self, theta: RegimeTheta, shares: Sequence[float]) -> RegimeTheta:
        """Unchanged: what regimes leave unexplained is not measured."""
        return theta

    def widened(self, theta: RegimeTheta) -> RegimeTheta:
        """Unchanged: a finite set has no neighbourhood."""
        return theta

    def read_theta(self, tree: Mapping[str, Any]) -> RegimeTheta:
        """`{"regimes": […]}`."""
        return RegimeTheta.from_tree(tree)

    tilt_reductions = (0.0,)

    def start(self, stream: StreamPolicy) -> RegimeTheta:
        """Θ, as nothing is learned."""
        return regime_theta_of(stream.theta.start)

    def floor(self, stream: StreamPolicy) -> RegimeTheta:
        """What Θ always contains."""
        return regime_theta_of(stream.theta.floor)

    def theta_message(self, theta: RegimeTheta) -> RegimeThetaMessage:
        """`{regimes}`."""
        return theta_message(theta)

    def unseen_variance(self, theta: RegimeTheta, ticks: int) -> float:
        """None: every tick is published."""
        return 0.0

    def best_noise(
        self, theta: RegimeTheta, epsilon: float, adversary: Adversary, device_tilt: float, share: float
    ) -> BinaryNoise:
        """The noise of the largest tilts, or of what device-made windows leave of them."""
        try:
            return _optimal_noise(theta, epsilon, adversary, device_tilt, share)
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
