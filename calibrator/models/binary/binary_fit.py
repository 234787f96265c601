"""Each device's chain and the spread of its cohort, fitted to charged statistics.

The model is hierarchical. A chain is described by a = logit π1 and b = logit((q+r)/2); device i has
a_i ~ N(μ_a, T_a) and b_i ~ N(μ_b, T_b). Its statistics have the mean and the covariance of
calibrator/models/binary/binary_moments.py, plus the charged noise. Each noise version has a row; the rows of a device
share its chain.

Fisher scoring gives each device's information; μ and T follow from the marginal likelihood, in which b is integrated
out numerically for a device with little information on it. T is taken not at its maximum likelihood but at the upper
end of its confidence interval, to cover a spread that the evidence does not show yet. A device's posterior then weights
its evidence and the cohort's by their precision (shrinkage).

A region computed with such a T is wider than needed, most of all where the devices are alike. So the part of a device's
deviation that is due to T is reduced by the share CAUTION; SPREAD_CONFIDENCE and CAUTION together keep the coverage of
95% regions between 93% and 98%, for equal devices and for very different ones (docs/estimation.md). At smaller errors
more of the error comes from cohorts whose T was underestimated, and less may be taken off:
calibrator/models/binary/binary_region.py undoes the reduction in part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.binary.binary_evidence import BinaryEvidence
from hushmq.calibrator.models.binary.binary_moments import STATISTICS, Floats, band_powers, covariance, mean
from hushmq.calibrator.models.binary.binary_statistics import REACH
from hushmq.calibrator.models.device_spread import HIGHEST, LOWEST, VAGUE, Likelihood, centred, upper_ends
from hushmq.calibrator.models.devices_alone import WEAK, DevicesAlone
from hushmq.calibrator.models.lag_bands import WIDTHS

FEWEST_DEVICES = 3
"""With two devices the spread of a cohort cannot be estimated."""
CAUTION = 0.33
"""By this share the part of a device's deviation that is due to T is reduced, for 95% regions."""
WIDE = 0.1
"""The variance of b beyond which a device's likelihood is integrated over b rather than taken as a normal one."""
NARROW = 0.09
"""The T below which N(μ, T) is narrower than any such likelihood, so that Gauss–Hermite quadrature suffices."""
NODES, _weights = np.polynomial.hermite_e.hermegauss(15)
WEIGHTS = _weights / _weights.sum()
GRID = np.linspace(LOWEST[1], HIGHEST[1], 39)
"""Otherwise b is integrated over its whole range in steps of 0.25; the integrand has a deviation of at least 0.21."""
_WIDTH = np.array(WIDTHS, dtype=float)
_REACH = np.array(REACH) / np.array([1, *WIDTHS])
"""What one state moves in the counts that are shares of ticks: a band's changes are summed over its lags."""


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """The cohort and each of its devices, in (a, b)."""

    devices: tuple[str, ...]
    centre: Floats
    spread: Floats
    """T_a and T_b, at the upper ends of a newcomer's intervals."""
    centre_variance: Floats
    chains: Floats
    covariances: Floats
    shrinkage: Floats
    """The weight of the cohort in each device's a and b: 1 without evidence of the device, 0 with plenty."""
    spread_share: Floats
    """The share of each device's deviations that is due to T, of which CAUTION is already taken off."""


def chain(x: Floats) -> tuple[Floats, Floats]:
    """π1 and λ of (a, b)."""
    return 1 / (1 + np.exp(-x[..., 0])), 1 - 2 / (1 + np.exp(-x[..., 1]))


def fit(evidence: BinaryEvidence) -> BinaryFit | None:
    """Fit the hierarchy; None where there are too few devices or no ticks."""
    m = len(evidence.devices)
    together = pooled(evidence)
    if m < FEWEST_DEVICES or together is None:
        return None
    statistics = BinaryShares.of(evidence)
    centre, spread = together[0], np.array([0.3, 0.5])
    x = np.repeat(centre[None, :], m, axis=0)
    for _ in range(4):
        devices = statistics.at(x)
        centre, spread = _hierarchy(devices, centre, spread)
        pull = devices.information + np.diag(1 / spread)
        step = np.linalg.solve(pull, (devices.score + (centre - x) / spread)[..., None])[..., 0]
        x = np.clip(x + np.clip(step, -1.0, 1.0), LOWEST, HIGHEST)
    return _concluded(evidence.devices, statistics.at(x), centre, spread)


def pooled(evidence: BinaryEvidence) -> tuple[Floats, Floats] | None:
    """The (a, b) that fits best if all devices had the same chain, and its covariance; None without ticks."""
    evidence = evidence.together()
    x = _starting_point(evidence)
    if x is None:
        return None
    statistics = BinaryShares.of(evidence)
    for _ in range(12):
        here = statistics.at(x[None, :])
        step = np.linalg.solve(here.information[0], here.score[0])
        x = np.clip(x + np.clip(step, -1.0, 1.0), LOWEST, HIGHEST)
        if np.abs(step).max() < 1e-4:
            break
    return x, np.linalg.inv(here.information[0])


def alone(evidence: BinaryEvidence) -> DevicesAlone:
    """The (a, b) that fits each device best, whatever the others are; there must be ticks."""
    together = pooled(evidence)
    if together is None:
        raise ValueError("there is no evidence of any device")
    statistics = BinaryShares.of(evidence)
    x = np.repeat(together[0][None, :], len(evidence.devices), axis=0)
    weak = np.eye(2) / WEAK
    for _ in range(12):
        here = statistics.at(x)
        pulled = here.score + (together[0] - x) / WEAK
        step = np.linalg.solve(here.information + weak, pulled[..., None])[..., 0]
        x = np.clip(x + np.clip(step, -1.0, 1.0), LOWEST, HIGHEST)
    covariances = np.asarray(np.linalg.inv(statistics.at(x).information + weak), dtype=np.float64)
    return DevicesAlone(evidence.devices, x, covariances)


def _starting_point(evidence: BinaryEvidence) -> Floats | None:
    """A first chain for all: π1 from the ones, λ by least squares on a grid."""
    s = 1 - evidence.rho0 - evidence.rho1
    weight = float((s * s * evidence.ticks).sum())
    if weight <= 0:
        return None
    pi1 = float((s * (evidence.ones - evidence.ticks * evidence.rho0)).sum()) / weight
    pi1 = min(0.95, max(0.05, pi1))
    b = np.linspace(-6.0, 1.0, 57)
    power, _ = band_powers(1 - 2 / (1 + np.exp(-b)))
    mu = evidence.rho0 + s * pi1
    # a share of changes has mean 2(μ(1−μ) − s²·π0·π1·Λ)
    height = (mu * (1 - mu))[:, None] - evidence.changes / _WIDTH / np.maximum(evidence.starts, 1) / 2
    strength = (s * s * pi1 * (1 - pi1))[:, None]
    square = (evidence.starts * strength**2).sum(axis=0) * _WIDTH
    product = (evidence.starts * strength * height).sum(axis=0) * _WIDTH
    return np.array([math.log(pi1 / (1 - pi1)), b[np.argmin(power**2 @ square - 2 * power @ product)]])


@dataclass(frozen=True, slots=True)
class _Devices:
    """Each device's likelihood near its x = (a, b): quadratic, and in b also as it really is.

    With Λ(b) the bands' mean powers of λ and a fixed, −2·log L = 2·linear·Λ + Λ·square·Λ, and the score of a is
    tilt + lean·Λ.
    """

    x: Floats
    information: Floats
    score: Floats
    linear: Floats
    square: Floats
    tilt: Floats
    lean: Floats

    def only(self, chosen: NDArray[np.bool_]) -> _Devices:
        return _Devices(*(getattr(self, name)[chosen] for name in _Devices.__slots__))


@dataclass(frozen=True, slots=True)
class BinaryShares:
    """What was observed: shares of ones and of changes, what they are shares of, and their charged variance."""

    evidence: BinaryEvidence
    shares: Floats
    roots: Floats
    charged: Floats

    @classmethod
    def of(cls, evidence: BinaryEvidence) -> BinaryShares:
        counts = np.concatenate([evidence.ticks[:, None], evidence.starts], axis=1)
        known = counts > 0
        counts = np.where(known, counts, 1.0)
        shares = np.concatenate([evidence.ones[:, None], evidence.changes / _WIDTH], axis=1) / counts
        # What was not counted gets a variance so large that it has no weight.
        charged = np.where(known, evidence.variance[:, None] * _REACH**2 / counts**2, 1e12)
        return cls(evidence, shares, np.sqrt(counts), charged)

    def at(self, x: Floats) -> _Devices:
        """Weight the statistics by their covariance at x, and sum each device's rows."""
        one = self.evidence
        pi1, lam = (values[one.device] for values in chain(x))
        expected, slopes = mean(pi1, lam, one.rho0, one.rho1)
        # by a: dπ1/da = π1(1−π1); by b: dλ/db = −(1−λ)(1+λ)/2
        slopes = slopes * np.stack([pi1 * (1 - pi1), -(1 - lam) * (1 + lam) / 2], axis=-1)[:, None, :]
        variance = covariance(pi1, lam, one.rho0, one.rho1) / (
            self.roots[:, :, None] * self.roots[:, None, :]
        )
        diagonal = np.arange(STATISTICS)
        variance[:, diagonal, diagonal] += self.charged
        weights = np.linalg.inv(variance)
        weighted = weights @ slopes
        residual = self.shares - expected
        # The residual at another b is `rest` + strength·Λ(b).
        strength = (2 * ((1 - one.rho0 - one.rho1) ** 2) * pi1 * (1 - pi1))[:, None]
        rest = residual.copy()
        rest[:, 1:] -= strength * band_powers(lam)[0]
        return _Devices(
            x,
            self._summed(np.swapaxes(weighted, 1, 2) @ slopes),
            self._summed((residual[:, None, :] @ weighted)[:, 0]),
            self._summed(strength * (rest[:, None, :] @ weights)[:, 0, 1:]),
            self._summed(strength[..., None] ** 2 * weights[:, 1:, 1:]),
            self._summed((rest * weighted[..., 0]).sum(axis=1)),
            self._summed(strength * weighted[:, 1:, 0]),
        )

    def _summed(self, rows: Floats) -> Floats:
        if len(rows) == len(self.evidence.devices):
            return rows  # one row each, in order
        total = np.zeros((len(self.evidence.devices), *rows.shape[1:]))
        np.add.at(total, self.evidence.device, rows)
        return total


def _hierarchy(devices: _Devices, centre: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """A few steps of μ and T towards the maximum of the marginal likelihood."""
    centre, spread = centre.copy(), spread.copy()
    for coordinate in (0, 1):
        likelihood = _marginal(devices, coordinate, centre, spread)
        for _ in range(2):
            mu, T = centre[coordinate], spread[coordinate]
            _, means, variances = likelihood(mu, T)
            mu = centred(mu, T, means, variances)
            centre[coordinate] = mu
            spread[coordinate] = max(1e-4, float((variances + (means - mu) ** 2).mean()))
    return np.clip(centre, LOWEST, HIGHEST), spread


def _marginal(devices: _Devices, coordinate: int, centre: Floats, spread: Floats) -> Likelihood:
    """The likelihood of one coordinate, the other profiled out with the cohort's N(μ, T) as its prior."""
    other = 1 - coordinate
    x, cross = devices.x, devices.information[:, 0, 1]
    held = devices.information[:, other, other] + 1 / spread[other]
    pull = (centre[other] - x[:, other]) / spread[other]
    V = 1 / np.maximum(devices.information[:, coordinate, coordinate] - cross**2 / held, 1e-12)
    z = x[:, coordinate] + V * (
        devices.score[:, coordinate] - cross / held * (devices.score[:, other] + pull)
    )

    def normal(mu: float, T: float) -> tuple[Floats, Floats, Floats]:
        total = V + T
        return -0.5 * (np.log(total) + (z - mu) ** 2 / total), (V * mu + T * z) / total, V * T / total

    wide = V > WIDE
    if coordinate == 0 or not wide.any():
        return Likelihood(normal, V)
    far = devices.only(wide)
    # With a at its best, (tilt + lean·Λ)²/held goes off the deviance; what is left is linear and quadratic in Λ.
    lean, held_far = far.lean, held[wide][:, None]
    linear = 2 * far.linear - 2 * (far.tilt + pull[wide])[:, None] * lean / held_far
    square = far.square - lean[:, :, None] * lean[:, None, :] / held_far[:, :, None]
    halves = -0.5 * np.concatenate([linear, square.reshape(len(lean), -1)], axis=1)

    def likelihoods(nodes: Floats) -> tuple[Floats, Floats]:
        """Of each device at each node, as a share of its largest; and the logarithm of that."""
        power, _ = band_powers(1 - 2 / (1 + np.exp(-nodes)))
        pairs = (power[:, :, None] * power[:, None, :]).reshape(len(nodes), -1)
        # einsum, since BLAS would start threads for so small a product, and wait for them
        log = np.einsum("df,nf->dn", halves, np.concatenate([power, pairs], axis=1))
        top = log.max(axis=1)
        return np.exp(log - top[:, None]), top

    everywhere = likelihoods(GRID)

    def integrated(mu: float, T: float) -> tuple[Floats, Floats, Floats]:
        if T < NARROW:
            nodes, weights = np.clip(mu + math.sqrt(T) * NODES, LOWEST[1], HIGHEST[1]), WEIGHTS
            shares, top = likelihoods(nodes)
        else:
            nodes, weights = GRID, _on_grid(mu, T)
            shares, top = everywhere
        off = nodes - mu
        total, first, second = (shares @ (weights[:, None] * np.stack([off**0, off, off**2], axis=1))).T
        total = np.maximum(total, 1e-300)
        first, second = first / total, second / total
        value, means, variances = normal(mu, T)
        value[wide] = top + np.log(total)
        means[wide] = mu + first
        variances[wide] = np.maximum(second - first**2, 1e-12 * T)
        return value, means, variances

    return Likelihood(integrated, V)


def _on_grid(mu: float, T: float) -> Floats:
    """The probabilities of the grid's values under N(μ, T); the ends have all that lies beyond them."""
    step, deviation = GRID[1] - GRID[0], math.sqrt(T)
    weights: Floats = np.exp(-((GRID - mu) ** 2) / (2 * T)) * step / (deviation * math.sqrt(2 * math.pi))
    law = NormalDist(mu, deviation)
    weights[0] = weights[0] / 2 + law.cdf(GRID[0])
    weights[-1] = weights[-1] / 2 + 1 - law.cdf(GRID[-1])
    return weights


def _concluded(names: tuple[str, ...], devices: _Devices, centre: Floats, spread: Floats) -> BinaryFit:
    """μ, T at the upper ends of its intervals, and each device's posterior under them."""
    m = len(names)
    at_upper_end, spread_, known = np.zeros((3, 2)), spread.copy(), np.zeros(2)
    centre = centre.copy()
    means, variances = np.zeros((m, 2)), np.zeros((m, 2))
    for coordinate in (0, 1):
        likelihood = _marginal(devices, coordinate, centre, spread)
        own, any_ = upper_ends(likelihood, centre[coordinate], m)
        at_upper_end[:, coordinate] = own.mu, own.T, own.variance
        centre[coordinate], spread_[coordinate], known[coordinate] = any_.mu, any_.T, any_.variance
        _, means[:, coordinate], variances[:, coordinate] = likelihood(own.mu, own.T)
    centre, means = (np.clip(values, LOWEST, HIGHEST) for values in (centre, means))
    _, upper, of_centre = at_upper_end
    joint = np.linalg.inv(devices.information + np.diag(1 / upper))
    correlation = joint[:, 0, 1] / np.sqrt(joint[:, 0, 0] * joint[:, 1, 1])
    shrinkage = np.minimum(1.0, variances / upper)
    whole = variances + shrinkage**2 * of_centre
    # A μ with a large variance is estimated from the likelihood, with the same caution as T.
    cautious = np.where(of_centre > VAGUE, whole, variances)
    spread_share = shrinkage * cautious / whole
    variances = whole * (1 - CAUTION * spread_share) ** 2
    covariances = np.zeros((m, 2, 2))
    covariances[:, [0, 1], [0, 1]] = variances
    covariances[:, 0, 1] = covariances[:, 1, 0] = correlation * np.sqrt(variances[:, 0] * variances[:, 1])
    return BinaryFit(names, centre, spread_, known, means, covariances, shrinkage, spread_share)
