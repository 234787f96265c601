"""What a reader gets of a window's ones: from the stream, from a release made of it, from a release of the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hushmq.evaluation.attackers.raw_regimes import fitted_regimes
from hushmq.evaluation.recordings import Recording, fitted
from hushmq.evaluation.sections.recorded_windows import Counts, RecordedCohort, Windows, cut
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from hushmq.pufferfish.thinning.theta_strides import largest_sampling_variance

Floats = NDArray[np.float64]
Theta = BinaryTheta | RegimeTheta

STREAM, RELEASE, DEVICE = (
    "operator, stream at ε",
    "release from the stream at 2ε",
    "release from the device",
)
WAYS = (STREAM, RELEASE, DEVICE)
FEWEST = 4
"""Published ticks of a whole window, at least."""
LONGEST = 1024


@dataclass(frozen=True)
class Promised:
    """What is promised to hold: Θ of each device, against whom; and whether ticks are left out."""

    name: str
    thetas: Sequence[Theta]
    adversary: Adversary
    thinned: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The windows as they are read in one way, and what noise and sampling add to the variance of a share."""

    windows: Windows
    strides: Sequence[int]
    noises: Sequence[BinaryNoise | None]
    tilts: Sequence[float]
    """Of the release from each device; infinite where there is none."""
    variances: Floats

    def ones(self, rng: np.random.Generator) -> Floats:
        """An unbiased estimate of the ones in each window, from one draw of the noise."""
        windows = self.windows
        tilts = np.array(self.tilts)[windows.device]
        drawn = discrete_laplace(tilts, rng)
        if self.noises[0] is None:
            return np.asarray(windows.ones + drawn, dtype=np.float64)
        rho0, rho1 = (self._rho(name) for name in ("rho0", "rho1"))
        published, ones = windows.published, windows.published_ones
        seen = rng.binomial(ones, 1 - rho1) + rng.binomial(published - ones, rho0) + drawn
        share = (seen / published - rho0) / (1 - rho0 - rho1)
        return np.asarray(share * windows.ticks, dtype=np.float64)

    def _rho(self, name: str) -> Floats:
        return np.array([getattr(noise, name) for noise in self.noises])[self.windows.device]


def discrete_laplace(tilts: Floats, rng: np.random.Generator) -> Counts:
    """Noise with P(x) ∝ e^(−tilt·|x|), a difference of two geometric draws; none where the tilt is infinite."""
    chances = -np.expm1(-np.where(np.isinf(tilts), 1.0, tilts))
    drawn = rng.geometric(chances, (2, len(tilts)))
    return np.asarray(np.where(np.isinf(tilts), 0, drawn[0] - drawn[1]), dtype=np.int64)


def laplace_variance(tilt: float) -> float:
    """That of such noise: 2p/(1−p)² with p = e^(−tilt)."""
    return 0.0 if math.isinf(tilt) else 2 * math.exp(-tilt) / math.expm1(-tilt) ** 2


def reading(
    cohort: RecordedCohort, window: str, promised: Promised, way: str, epsilon: float, *, growth: float = 1.4
) -> Reading:
    """The windows of a cohort as one way reads them at ε, each device with the stride that is best for its Θ.

    Of the strides that divide a window those are tried that are at least `growth` times the one before.
    """
    size = cohort.windows[window]
    typical = min(size, *(device.length for device in cohort.devices))
    strides = _strides(size, typical, growth) if promised.thinned else [1]
    chosen = [_setting(theta, promised, way, epsilon, strides, typical) for theta in promised.thetas]
    best = [one.stride for one in chosen]
    windows = cut(cohort.devices, size, 1 if way == DEVICE else best)
    published = windows.published if way != DEVICE else windows.ticks
    each = np.array([one.variance(1) for one in chosen])[windows.device]
    drawn = np.array([one.drawn for one in chosen])[windows.device]
    variances = each / published + drawn / published**2
    noises = [one.noise for one in chosen]
    return Reading(windows, best, noises, [one.tilt for one in chosen], np.asarray(variances))


@dataclass(frozen=True, slots=True)
class _Setting:
    """A stride, the noise for it and the tilt of a release; variances of a share, times the published ticks."""

    stride: int
    noise: BinaryNoise | None
    tilt: float
    sampling: float

    @property
    def drawn(self) -> float:
        """The variance of the release's own noise, times the published ticks squared."""
        return laplace_variance(self.tilt) / (1.0 if self.noise is None else self.noise.signal**2)

    def variance(self, published: float) -> float:
        """What the stream's noise and its stride add, at the worst share."""
        if self.noise is None:
            return 0.0
        flips = max(rho * (1 - rho) for rho in (self.noise.rho0, self.noise.rho1))
        return (flips / self.noise.signal**2 + self.sampling / self.stride) / published

    def error(self, ticks: float) -> float:
        """The variance of the share of a window."""
        published = ticks / self.stride
        return self.variance(published) + self.drawn / published**2


def _setting(
    theta: Theta, promised: Promised, way: str, epsilon: float, strides: Sequence[int], ticks: int
) -> _Setting:
    if way == DEVICE:
        return _Setting(1, None, min(theta.largest_tilts(epsilon, promised.adversary)), 0.0)
    tried = [_strided(theta, promised.adversary, way, epsilon, stride) for stride in strides]
    return min(tried, key=lambda one: one.error(ticks))


def _strides(size: int, ticks: int, growth: float) -> list[int]:
    """Divisors of a window, each at least `growth` times the one before, that leave some ticks of it."""
    found = [1]
    for stride in range(2, min(LONGEST, ticks // FEWEST) + 1):
        if size % stride == 0 and stride >= growth * found[-1]:
            found.append(stride)
    return found


@cache
def _strided(theta: Theta, adversary: Adversary, way: str, epsilon: float, stride: int) -> _Setting:
    noise = theta.optimal_noise(epsilon if way == STREAM else 2 * epsilon, adversary, stride=stride)
    tilt = math.inf
    if way == RELEASE:
        tilt = noise.release_tilt(min(theta.largest_tilts(epsilon, adversary, stride=stride)))
    return _Setting(stride, noise, tilt, _sampling(theta, stride))


@cache
def _sampling(theta: Theta, stride: int) -> float:
    """What it adds to the variance of a long window's share, times its ticks, that one of a stride is published."""
    if stride == 1:
        return 0.0
    if isinstance(theta, BinaryTheta):
        return largest_sampling_variance(theta, stride)
    return theta.sampling_variance(stride)


def promised(cohort: RecordedCohort, *, rounds: int = 60) -> list[Promised]:
    """First order with and without a stride, and regimes with one: of all devices together, and of each its own.

    Of heart rate Θ is all devices' chains together; of what is fitted to all people or to the household, one chain.
    """
    many = len(cohort.devices)
    if cohort.name == "heart rate":
        box = hull([first_order([one]) for one in cohort.devices])
        own = [RegimeTheta.of([_regimes(one, rounds)]) for one in cohort.devices]
        together = RegimeTheta.of([member for theta in own for member in theta.members])
    else:
        box = first_order(cohort.devices)
        own = []
        together = RegimeTheta.of([fitted_regimes(_pieces(cohort.devices), rounds=rounds)])
    found = [
        Promised("first order, every tick", [box] * many, "informed", False),
        Promised("first order, thinned", [box] * many, "informed", True),
        Promised("regimes, thinned", [together] * many, "prior", True),
    ]
    return [*found, Promised("each its own regimes, thinned", own, "prior", True)] if own else found


MOST = 300_000
"""Ticks that regimes are fitted to."""


def _pieces(devices: Sequence[Recording]) -> list[Counts]:
    pieces = [piece for one in devices for piece in one.pieces]
    kept = np.cumsum([len(piece) for piece in pieces]) <= MOST
    return [piece for piece, some in zip(pieces, kept, strict=True) if some] or [pieces[0][:MOST]]


@cache
def _regimes(recording: Recording, rounds: int) -> RegimeChain:
    return fitted_regimes(recording.pieces, rounds=rounds)


def hull(thetas: Sequence[BinaryTheta]) -> BinaryTheta:
    """The smallest Θ that contains all."""
    whole = thetas[0]
    for theta in thetas[1:]:
        whole = whole.hull(theta)
    return whole


def first_order(recordings: Sequence[Recording]) -> BinaryTheta:
    """The chain of neighbouring ticks."""
    P = fitted(recordings).transition
    return BinaryTheta.point(float(P[0, 1]), float(P[1, 0]))
