"""What differs between streams of two states and of more: one protocol, implemented by one module for each model.

The values themselves (pufferfish/protocols.py) carry what can be computed from them; a chain model says how the
calibrator makes, writes and reads them. Θ and noise of one stream are of one model, which `model_of`
(calibrator/models/choose_model.py) chooses by the policy: the only place that does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from hushmq.broker.contract.noise_message import NoiseMessage
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.theta_message import ThetaMessage
from hushmq.calibrator.models.sufficient_statistics import Groups, NoisyStatistics
from hushmq.calibrator.models.window_count import Pieces, WindowCount
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Noise, Region, Theta

if TYPE_CHECKING:
    from hushmq.calibrator.models.devices_alone import DevicesAlone
    from hushmq.calibrator.models.misfit import Misfit

T = TypeVar("T", bound=Theta)
N = TypeVar("N", bound=Noise)
R = TypeVar("R", bound=Region)
R_co = TypeVar("R_co", bound=Region, covariant=True)

MARGIN = 1e-8
"""What a timeline's certificate may add to a closed form: with so much less of ε, rounding never exceeds it."""


class FittedCohort(Protocol[R_co]):
    """A fit of the hierarchical model to charged statistics: what it says of the cohort and of each device."""

    @property
    def size(self) -> int:
        """How many devices there is evidence of."""

    def cohort_region(self, confidence: float) -> R_co:
        """The region that holds the chain of any one device of the cohort."""

    def centre_region(self, confidence: float) -> R_co:
        """The region that holds the cohort's centre, whatever its spread."""

    def device_regions(self, confidence: float) -> Mapping[str, R_co]:
        """For every device, the region that holds its chain."""

    @property
    def coordinates(self) -> int:
        """How many numbers describe a chain."""

    def alone(self) -> DevicesAlone:
        """What the evidence of each device says by itself."""

    def alone_regions(self, found: DevicesAlone, confidence: float) -> Mapping[str, R_co]:
        """For every device, the region that holds its chain by its own evidence."""

    def deviations(self, of: DevicesAlone) -> Mapping[str, float]:
        """How far each of these devices is from this cohort's centre, in standard deviations."""

    def misfit(self, error: float) -> Misfit:
        """The test against the model's chains, which rejects them with at most the probability `error`."""


class ChainModel(Protocol[T, R, N]):
    """One way to describe the chains of a stream, their noise and their statistics."""

    def count(self, stream: StreamPolicy, pieces: Pieces) -> WindowCount[Any, N]:
        """Count the states of one window, exactly."""

    def add_noise(self, exact: Sequence[Groups], *, tilt: int, bands: int) -> list[Groups]:
        """Draw the noise of sufficient statistics in which the first so many bands were counted.

        A state that is in one of the windows costs at most `tilt` nano-nats.
        """

    def noise_variance(self, *, tilt: int, bands: int) -> float:
        """The variance of that noise on the first group."""

    def fit(self, rows: Sequence[tuple[NoisyStatistics, N]]) -> FittedCohort[R] | None:
        """Fit charged statistics, each with the noise it was counted behind; None where there are too few."""

    def slowed(self, region: R, shares: Sequence[float]) -> R:
        """Its chains slowed until they have these persistent shares, one for each band of lags."""

    def within(self, start: T, region: R) -> T:
        """What a region leaves of the policy's start.

        Where it clearly excludes all of it, a model whose regions can be priced has both; any other keeps the start.
        """

    def while_hidden(self, start: T, region: R) -> T:
        """What Θ keeps as long as a misfit could be undetected: all that it would have if one were found.

        So a misfit that is detected later does not put over budget what was released in the meantime.
        """

    def read_region(self, tree: Mapping[str, Any]) -> R:
        """The region whose `as_tree` this is, exactly."""

    def theta_of(self, region: R) -> T:
        """Θ for a chain in this region, whatever the policy's start is."""

    def read_theta(self, tree: Mapping[str, Any]) -> T:
        """The Θ whose `as_tree` this is, exactly."""

    def start(self, stream: StreamPolicy) -> T:
        """Θ before anything is learned."""

    def floor(self, stream: StreamPolicy) -> T:
        """What the learned Θ always contains."""

    def theta_message(self, theta: T) -> ThetaMessage:
        """Θ as it is published."""

    def unseen_variance(self, theta: T, ticks: int) -> float:
        """The variance of a share of the ticks published, so many, about that of all ticks; 0 without a stride."""

    @property
    def tilt_reductions(self) -> tuple[float, ...]:
        """Shares of a tilt to leave out, one after the other, until devices accept the proof for what remains."""

    def best_noise(
        self, theta: T, epsilon: float, adversary: Adversary, device_tilt: float, share: float
    ) -> N:
        """The noise with the most signal within ε of the operator, beside `device_tilt` at every tick.

        `device_tilt` is what device-made windows cost, in nats, `share` the stream's share of its account. Problem
        where no noise keeps ε.
        """

    def out_of_reach(
        self,
        theta: T,
        signal: float,
        *,
        epsilon: float,
        adversary: Adversary,
        device_tilt: float,
        share: float,
    ) -> bool:
        """Whether no noise with this signal keeps ε: a quick test, which may answer False where there is none."""

    def noise_message(
        self, noise: N, theta: T, adversary: Adversary, device_tilt: float, share: float
    ) -> NoiseMessage:
        """The noise as it is pushed, with the proof that devices need; ValueError where there is no proof."""

    def stand_ins(self, noise: N, state: int, count: int) -> bytes:
        """So many perturbed copies of one state, one byte each, drawn as a device would."""

    def read_noise(self, tree: dict[str, Any]) -> N | None:
        """The noise whose stored JSON this is; None if it is of another model."""


AnyModel = ChainModel[Any, Any, Any]
"""A model beside values that are known to be its own: those of one stream."""
