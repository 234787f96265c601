"""Each device's chain of k states and the spread of its cohort, fitted to charged statistics.

The model is that of calibrator/models/binary/binary_fit.py, in k·(k−1) coordinates: a chain is x with x_uv =
log(P_uv/P_uu), device i has x_i ~ N(μ, diag T), and its statistics have the mean and covariance of
calibrator/models/categorical/categorical_moments.py, plus the charged noise. Each noise version has a row; the rows of
a device share its chain.

Scoring with the weights of independent states gives each device's estimate, and the covariance that the statistics
really have gives its variance (a sandwich estimator). μ follows by generalised least squares, T coordinate by
coordinate from the restricted likelihood, at the upper end of its confidence interval, to cover a spread that the
evidence does not show yet. The part of a device's deviation that is due to T is then reduced, as for two states.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushmq.calibrator.models.binary.binary_fit import FEWEST_DEVICES
from hushmq.calibrator.models.categorical.categorical_evidence import CategoricalEvidence
from hushmq.calibrator.models.categorical.categorical_moments import (
    HIGHEST,
    LOWEST,
    RUNS,
    Floats,
    described,
    hidden,
    hidden_slopes,
    independent,
    seen,
    simulated,
    size,
    transitions,
)
from hushmq.calibrator.models.categorical.categorical_statistics import COARSENESS
from hushmq.calibrator.models.device_spread import NEGLIGIBLE
from hushmq.calibrator.models.devices_alone import WEAK, DevicesAlone
from hushmq.calibrator.models.lag_bands import BANDS, WIDTHS
from hushmq.calibrator.models.quantiles import chi_square_quantile

DEVIATIONS = np.geomspace(0.005, 3.0, 48)
"""Standard deviations between devices that are tried, in logits."""
OWN_CONFIDENCE = 0.99
"""One-sided, for each coordinate of the spread T in a device's region."""
ANY_CONFIDENCE = 0.9
"""One-sided, for each coordinate of the spread T in the region of a device without evidence."""
CAUTION = 0.35
"""By this share the part of a device's deviation that is due to T is reduced (docs/estimation.md)."""
PULL = 4.0
"""The variance around its starting point of the chain that fits all devices together: it only keeps it in bounds."""
SETTLED = 0.01
"""Scoring ends when a step moves no chain by more logits than this: no region would show another step."""
RIDGE = 1e-6
"""Information on a logit that is as good as none."""
SHARPEST = 1e-7
"""Shares are never taken to be known better than this variance."""
_SPACES = np.log([0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 0.95])


@dataclass(frozen=True, slots=True)
class CategoricalFit:
    """The cohort and each of its devices, in x."""

    k: int
    devices: tuple[str, ...]
    centre: Floats
    centre_covariance: Floats
    spread: Floats
    """T at the upper ends of a newcomer's intervals."""
    chains: Floats
    covariances: Floats


def fit(evidence: CategoricalEvidence) -> CategoricalFit | None:
    """Fit the hierarchy; None where there are too few devices or no ticks."""
    m = len(evidence.devices)
    if m < FEWEST_DEVICES or not evidence.ticks.sum() > 0:
        return None
    centre = pooled(evidence)
    statistics = CategoricalShares.of(evidence, centre)
    spread = np.full(len(centre), 0.3)
    x = np.repeat(centre[None, :], m, axis=0)
    for _ in range(6):
        devices = statistics.at(x)
        for _ in range(2):
            posterior = _posterior(devices, centre, spread)
            centre = np.clip(centre + np.clip(posterior.step, -1, 1), LOWEST, HIGHEST)
            spread = _spread(*posterior.alone(spread, centre))
        before, x = (
            x,
            np.clip(x + np.clip(_posterior(devices, centre, spread).means - x, -1, 1), LOWEST, HIGHEST),
        )
        if np.abs(x - before).max() < SETTLED:
            break
    devices = statistics.at(x)
    alone = _posterior(devices, centre, spread).alone(spread, centre)
    wide = _spread(*alone, confidence=ANY_CONFIDENCE)
    upper = _spread(*alone, confidence=OWN_CONFIDENCE)
    (middle, any_), (_, own) = (_settled(devices, centre, T) for T in (wide, upper))
    shrinkage = own.covariances / upper
    whole = own.covariances + shrinkage @ own.centre_covariance @ np.swapaxes(shrinkage, 1, 2)
    # The device's part of each coordinate's variance, and the share of it that is due to T.
    mine, share = (np.diagonal(each, axis1=1, axis2=2) for each in (own.covariances, shrinkage))
    narrower = 1 - CAUTION * share * mine / np.diagonal(whole, axis1=1, axis2=2)
    return CategoricalFit(
        evidence.k,
        evidence.devices,
        middle,
        any_.centre_covariance,
        wide,
        np.clip(own.means, LOWEST, HIGHEST),
        narrower[:, :, None] * whole * narrower[:, None, :],
    )


def _settled(devices: _Devices, centre: Floats, spread: Floats) -> tuple[Floats, _Posterior]:
    """μ after a step towards its best value under this T, and the devices' posteriors there."""
    centre = np.clip(centre + np.clip(_posterior(devices, centre, spread).step, -1, 1), LOWEST, HIGHEST)
    return centre, _posterior(devices, centre, spread)


def pooled(evidence: CategoricalEvidence) -> Floats:
    """The x that fits best if all devices had the same chain."""
    evidence = evidence.together()
    begin = x = _starting_point(evidence)
    for turn in range(15):
        if turn % 5 == 0:
            statistics = CategoricalShares.of(evidence, x, plain=True)
        here = statistics.at(x[None])
        information = here.information[0] + np.eye(len(x)) / PULL
        step = np.linalg.solve(information, here.score[0] + (begin - x) / PULL)
        x = np.clip(x + np.clip(step, -0.7, 0.7), LOWEST, HIGHEST)
        if np.abs(step).max() < 1e-3 and turn >= 5:
            break
    return x


def alone(evidence: CategoricalEvidence) -> DevicesAlone:
    """The x that fits each device best, whatever the others are."""
    centre = pooled(evidence)
    statistics = CategoricalShares.of(evidence, centre)
    weak = np.full(len(centre), WEAK)
    x = np.repeat(centre[None, :], len(evidence.devices), axis=0)
    for _ in range(12):
        found = _posterior(statistics.at(x), centre, weak)
        x = np.clip(x + np.clip(found.means - x, -1, 1), LOWEST, HIGHEST)
    return DevicesAlone(evidence.devices, x, _posterior(statistics.at(x), centre, weak).covariances)


def _starting_point(evidence: CategoricalEvidence) -> Floats:
    """A first chain for all: π from the counts, and of P = (1−b)·I + b·1π the b with the smallest residual."""
    k = evidence.k
    estimate = sum(
        counts @ np.linalg.inv(emission)
        for counts, emission in zip(evidence.counts, evidence.emission, strict=True)
    )
    pi = np.maximum(np.asarray(estimate) / evidence.ticks.sum(), 0.2 / k)
    pi /= pi.sum()
    chains = [described(np.eye(k) * (1 - b) + b * pi) for b in np.exp(_SPACES)]
    lost = []
    for x in chains:
        statistics = CategoricalShares.of(evidence, x, plain=True)
        residual = statistics.shares - seen(*hidden(x, k), evidence.emission)
        lost.append(float((residual[:, None, :] @ statistics.weights @ residual[:, :, None]).sum()))
    return chains[int(np.argmin(lost))]


@dataclass(frozen=True, slots=True)
class _Devices:
    """Each device's likelihood near its x: quadratic."""

    x: Floats
    information: Floats
    score: Floats


@dataclass(frozen=True, slots=True)
class CategoricalShares:
    """What was observed: shares, their weights, and the covariance that the shares have.

    Row by row; where all rows have as many ticks behind the same noise, one of both stands for all.
    """

    evidence: CategoricalEvidence
    shares: Floats
    weights: Floats
    covariance: Floats
    typical: Floats
    """The shares expected of the chain at which the covariance was found."""

    @classmethod
    def of(cls, evidence: CategoricalEvidence, x: Floats, *, plain: bool = False) -> CategoricalShares:
        """Weight the evidence as for the chain x; `plain` takes independent states' covariance for the real one."""
        k, rows = evidence.k, len(evidence.emission)
        cells = np.repeat([1, *[k * k] * len(BANDS)], [k, *[1] * len(BANDS)])
        per_band = np.repeat(np.array(WIDTHS, dtype=float), k * k)
        scale = np.concatenate([np.ones(k), per_band * np.repeat(np.array(COARSENESS, dtype=float), k * k)])
        width = np.concatenate([np.ones(k), per_band])
        n = np.repeat(
            np.concatenate([np.repeat(evidence.ticks[:, None], k, axis=1), evidence.starts], axis=1),
            cells,
            axis=1,
        )
        known = n > 0
        n = np.where(known, n, 1.0)
        sums = np.concatenate([evidence.counts, evidence.pairs.reshape(rows, -1)], axis=1)
        shares = np.where(known, sums / (width * n), 0.0)
        # What was not counted gets a variance so large that it has no weight.
        charged = np.where(known, evidence.variance[:, None] * (scale / width / n) ** 2, 1e6)
        typical = seen(*hidden(x, k), evidence.emission)
        roots = np.sqrt(n)
        size_ = shares.shape[1]
        same = all((each == each[0]).all() for each in (evidence.emission, n, evidence.variance))
        different = 1 if same else rows
        weights, covariance = np.empty((2, different, size_, size_))
        found: dict[bytes, tuple[Floats, Floats]] = {}
        diagonal = np.arange(size_)
        for row in range(different):
            key = evidence.emission[row].tobytes()
            if key not in found:
                alike = independent(typical[row, :k])
                real = alike if plain else simulated(transitions(x, k), evidence.emission[row])
                found[key] = alike, real
            over = roots[row][:, None] * roots[row]
            alike, real = (each / over for each in found[key])
            alike[diagonal, diagonal] += charged[row] + SHARPEST
            real[diagonal, diagonal] += charged[row]
            weights[row], covariance[row] = np.linalg.inv(alike), real
        return cls(evidence, shares, weights, covariance, typical)

    def at(self, x: Floats) -> _Devices:
        """Score the statistics at x, and sum each device's rows."""
        one, k = self.evidence, self.evidence.k
        p = size(k)
        pi, joint, pi_slopes, joint_slopes = (each[one.device] for each in hidden_slopes(x, k))
        expected = seen(pi, joint, one.emission)
        slopes = np.swapaxes(seen(pi_slopes, joint_slopes, one.emission[:, None]), 1, 2)
        weighted = self.weights @ slopes
        residual = self.shares - expected
        # A share's own deviation follows the device's chain; how shares go together is the cohort's.
        ratio = np.sqrt(np.maximum(expected * (1 - expected), 0) / (self.typical * (1 - self.typical)))
        scaled = ratio[:, :, None] * weighted
        # Without information on a direction both matrices say so, and its variance is 1/RIDGE.
        nothing = RIDGE * np.eye(p)
        H = self._summed(np.swapaxes(weighted, 1, 2) @ slopes) + nothing
        s = self._summed((residual[:, None, :] @ weighted)[:, 0])
        S = self._summed(np.swapaxes(scaled, 1, 2) @ self.covariance @ scaled) + nothing
        inverse = np.linalg.inv(H)
        # A covariance found from so many runs makes its inverse too large by this factor (Hartlap 2007).
        variance = inverse @ S @ inverse * RUNS / (RUNS - p - 1)
        information = _inverse((variance + np.swapaxes(variance, 1, 2)) / 2)
        return _Devices(x, information, (information @ inverse @ s[:, :, None])[:, :, 0])

    def _summed(self, rows: Floats) -> Floats:
        total = np.zeros((len(self.evidence.devices), *rows.shape[1:]))
        np.add.at(total, self.evidence.device, rows)
        return total


@dataclass(frozen=True, slots=True)
class _Posterior:
    """Each device's x given its evidence and the cohort's N(μ, T), and the step of μ towards its best value."""

    means: Floats
    covariances: Floats
    step: Floats
    centre_covariance: Floats

    def alone(self, spread: Floats, centre: Floats) -> tuple[Floats, Floats]:
        """Estimates and variances of each coordinate without its own prior, the others under theirs."""
        own = np.diagonal(self.covariances, axis1=1, axis2=2)
        variances = own / np.maximum(1 - own / spread, 1e-9)
        return variances * (self.means / own - centre / spread), variances


def _posterior(devices: _Devices, centre: Floats, spread: Floats) -> _Posterior:
    covariances = _inverse(devices.information + np.diag(1 / spread))
    pulled = devices.score + (centre - devices.x) / spread
    means = devices.x + (covariances @ pulled[:, :, None])[:, :, 0]
    # Σ (V_i + T)⁻¹ = Σ (T⁻¹ − T⁻¹·C_i·T⁻¹)
    total = (np.diag(1 / spread) - covariances / np.outer(spread, spread)).sum(axis=0)
    known = _inverse((total + total.T) / 2 + RIDGE * np.eye(len(centre)))
    return _Posterior(means, covariances, known @ ((means - centre) / spread).sum(axis=0), known)


def _inverse(matrices: Floats) -> Floats:
    return np.asarray(np.linalg.inv(matrices), dtype=np.float64)


def _spread(z: Floats, V: Floats, *, confidence: float | None = None) -> Floats:
    """T of each coordinate from estimates z with variances V: the likeliest, or the upper end of its interval.

    The height is the restricted log likelihood; for the interval see calibrator/models/device_spread.py.
    """
    m = len(z)
    T = DEVIATIONS**2
    weight = 1 / (V.T[:, None, :] + T[:, None])
    total = weight.sum(axis=-1)
    mu = (weight * z.T[:, None, :]).sum(axis=-1) / total
    square = weight * (z.T[:, None, :] - mu[..., None]) ** 2
    height = 0.5 * (np.log(weight).sum(axis=-1) - square.sum(axis=-1) - np.log(total))
    best = height.argmax(axis=1)
    if confidence is None:
        likeliest: Floats = T[best]
        return likeliest
    freedom = m - 1
    u = freedom / chi_square_quantile(1 - confidence, freedom)
    drop = freedom * (math.log(u) - 1 + 1 / u) / 2
    # Devices more alike than chance has them put the top at a negative T.
    squares = (weight[:, 0] ** 2).sum(axis=-1)
    slope = 0.5 * ((weight[:, 0] * square[:, 0]).sum(axis=-1) - total[:, 0] + squares / total[:, 0])
    scores = 0.5 * (weight[:, 0] * square[:, 0] - weight[:, 0])
    information = np.maximum(0.5 * squares, (scores**2).sum(axis=-1))
    at_the_end = T[0] * total[:, 0] < NEGLIGIBLE * m
    beyond = np.where((slope < 0) & at_the_end, slope**2 / (2 * information), 0.0)
    top = np.maximum(height.max(axis=1), height[:, 0] + beyond)
    inside = height >= (top - drop)[:, None]
    last = len(T) - 1 - inside[:, ::-1].argmax(axis=1)
    last = np.where(inside.any(axis=1), last, 0)
    highest: Floats = T[np.minimum(last + 1, len(T) - 1)]
    return highest
