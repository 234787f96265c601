"""Each device's chain with regimes and the spread of its cohort, fitted to charged statistics at long lags.

The model is hierarchical, as that for first-order chains is (calibrator/models/binary/binary_fit.py). A chain has four
coordinates that statistics of pairs can tell (calibrator/models/regime/regime_coordinates.py): logit π1, log fast rate,
logit slow share and log slow rate; each is normal between devices. A device's share of ones is a normal estimate. Of
the other three every node of a lattice (calibrator/models/regime/regime_lattice.py) has its likelihood, with the
covariance of the statistics that chains near the node have.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.calibrator.models.device_spread import NEWCOMER_CONFIDENCE, Likelihood, upper_ends
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_lattice import (
    AXES,
    POSSIBLE,
    SHAPE,
    STEPS,
    classes,
    components,
    correlations,
    log_likelihoods,
)
from hushmq.calibrator.models.regime.regime_moments import Floats, SeenChains
from hushmq.calibrator.models.regime.regime_spread import Spread, log_prior, spreads

FEWEST_DEVICES = 3
"""With two devices the spread of a cohort cannot be estimated."""
OWN_CONFIDENCE = 0.9
"""One-sided, for the spread T in a device's region: measured with it, docs/estimation.md."""
WEAK = 3.0
"""The deviations of what is assumed before there is evidence, in logarithms and logits: hardly anything."""
UNKNOWN = tuple(Spread(centre, WEAK**2, 0.0) for centre in (float(np.log(0.4)), -1.0, float(np.log(1 / 200))))
ROUNDS = 3
CLASSES = tuple(classes(4, 4))
_PI_ENDS = (0.02, 0.98)
_LETTERS = "abc"


@dataclass(frozen=True, slots=True)
class RegimeFit:
    """The cohort and each of its devices.

    `likelihoods` are those of the lattice's nodes, as shares of each device's largest. `own` and `newcomer` are the
    spreads of the lattice's coordinates for devices' regions and for a device without evidence; `logits` and
    `logit_variances` are the posterior of logit π1, and `own_logit`, `newcomer_logit` its spreads.
    """

    devices: tuple[str, ...]
    likelihoods: Floats
    own: tuple[Spread, ...]
    newcomer: tuple[Spread, ...]
    logits: Floats
    logit_variances: Floats
    newcomer_logit: Spread
    cycles: Floats
    """How many regimes a device is thought to have been seen in: with few its estimates are far from normal."""

    def posteriors(self) -> Floats:
        """Of every node, for every device."""
        return weighted(self.likelihoods, self.own)


def fit(evidence: RegimeEvidence) -> RegimeFit | None:
    """Fit the hierarchy; None where there are too few devices or no ticks."""
    if len(evidence.devices) < FEWEST_DEVICES or not evidence.ticks.any():
        return None
    return _fit(evidence, together=True)


def alone(evidence: RegimeEvidence) -> RegimeFit:
    """Each device by its own evidence, whatever the others are."""
    return _fit(evidence, together=False)


def _fit(evidence: RegimeEvidence, *, together: bool) -> RegimeFit:
    m = len(evidence.devices)
    assumed: tuple[Spread, ...] = UNKNOWN
    x = [np.tile([one.centre for one in UNKNOWN], (m, 1))]
    logits, variances = np.zeros(m), np.full(m, WEAK**2)
    for number in range(ROUNDS):
        logits, variances = _logits(evidence, x, logits, together=together)
        likelihoods = _likelihoods(evidence, x[0], logits, variances, classes=number + 1 == ROUNDS)
        if together:
            assumed = _spreads(likelihoods, assumed, (0.5,))[0]
        x = _plausible(weighted(likelihoods, assumed))
    cycles = _cycles(evidence, x[0])
    if not together:
        flat = Spread(0.0, WEAK**2, 0.0)
        return RegimeFit(evidence.devices, likelihoods, UNKNOWN, UNKNOWN, logits, variances, flat, cycles)
    own, newcomer = _spreads(likelihoods, assumed, (OWN_CONFIDENCE, NEWCOMER_CONFIDENCE))
    estimates, errors = _estimates(evidence, x, logits)
    first, second = upper_ends(_normal(estimates, errors), float(logits.mean()), m)
    whole = first.T + first.variance
    shrunk = errors * whole / (errors + whole)
    logits = shrunk * (estimates / errors + first.mu / whole)
    return RegimeFit(
        evidence.devices,
        likelihoods,
        own,
        newcomer,
        logits,
        shrunk,
        Spread(second.mu, second.T, second.variance),
        cycles,
    )


def _cycles(evidence: RegimeEvidence, x: Floats) -> Floats:
    ticks = np.bincount(evidence.device, evidence.ticks * evidence.stride, len(x)).astype(float)
    return np.asarray(ticks * np.exp(x[:, 2]), dtype=np.float64)


def weighted(likelihoods: Floats, assumed: tuple[Spread, ...]) -> Floats:
    """Posteriors: likelihoods times the priors of the coordinates, normalised."""
    found = likelihoods
    for axis, (places, step, one) in enumerate(zip(AXES, STEPS, assumed, strict=True)):
        shape = [1] * (len(AXES) + 1)
        shape[axis + 1] = len(places)
        found = found * np.exp(log_prior(places, float(step), one.centre, one.whole)).reshape(shape)
    total = found.sum(axis=tuple(range(1, found.ndim)), keepdims=True)
    posterior: Floats = found / np.maximum(total, 1e-300)
    return posterior


def means(posteriors: Floats) -> Floats:
    """The posterior means of the lattice's coordinates."""
    return np.stack([marginal(posteriors, axis) @ AXES[axis] for axis in range(len(AXES))], axis=1)


def marginal(posteriors: Floats, axis: int) -> Floats:
    """Summed over all axes of the lattice but one."""
    found: Floats = posteriors.sum(axis=tuple(one + 1 for one in range(len(AXES)) if one != axis))
    return found


def _plausible(posteriors: Floats) -> list[Floats]:
    """The posterior means, and two chains a deviation slower or with more of the variance between regimes.

    The variance of a device's share of ones is averaged over them.
    """
    middle = means(posteriors)
    found = [middle]
    for axis, sign in ((1, 1.0), (2, -1.0)):
        off = np.zeros_like(middle)
        off[:, axis] = sign * np.sqrt(
            np.maximum(marginal(posteriors, axis) @ AXES[axis] ** 2 - middle[:, axis] ** 2, 0.0)
        )
        found.append(np.clip(middle + off, [axis[0] for axis in AXES], [axis[-1] for axis in AXES]))
    return found


def _spreads(
    likelihoods: Floats, assumed: tuple[Spread, ...], confidences: tuple[float, ...]
) -> list[tuple[Spread, ...]]:
    """For each confidence the spreads of all coordinates, each from its marginal likelihood under the others."""
    priors = [
        np.exp(log_prior(places, float(step), one.centre, one.whole))
        for places, step, one in zip(AXES, STEPS, assumed, strict=True)
    ]
    found = []
    for axis, places in enumerate(AXES):
        others = [one for one in range(len(AXES)) if one != axis]
        spelled = f"z{_LETTERS},{','.join(_LETTERS[one] for one in others)}->z{_LETTERS[axis]}"
        summed = np.einsum(spelled, likelihoods, *(priors[one] for one in others))
        found.append(spreads(np.log(np.maximum(summed, 1e-280)), places, confidences))
    return [tuple(each) for each in zip(*found, strict=True)]


def shares_of_ones(logits: Floats) -> Floats:
    """π1, away from 0 and 1."""
    return np.clip(1 / (1 + np.exp(-logits)), *_PI_ENDS)


def skews(ones: Floats, x: Floats) -> Floats:
    """Of the fast and the slow component: that of the bits; and the mean over all possible times in the upper regime.

    With u of the time in it, c² = 1/(u(1−u)) − 4.
    """
    weights, rates = components(x)
    fast, slow = 1 - rates[:, 0], 1 - rates[:, 1]
    shrunk = (1 - fast * slow) * np.maximum(slow - fast, 0.0) / (rates[:, 0] ** 2 * slow)
    between = weights[:, 1] * ones * (1 - ones) * shrunk + 1e-6
    least, largest = between / ((1 - ones) ** 2 + between), ones**2 / (ones**2 + between)
    middle = np.clip((least + largest) / 2, 0.02, 0.98)
    half = np.maximum(0.01, (largest - least) / 2)
    low, high = np.clip(middle - half, 0.01, 0.98), np.clip(middle + half, 0.02, 0.99)
    square = (np.log(high / (1 - high)) - np.log(low / (1 - low))) / (high - low) - 4
    inner = (1 - 2 * ones) / np.sqrt(ones * (1 - ones))
    return np.stack([inner, np.sign(1 - 2 * middle) * np.sqrt(np.maximum(square, 0.0))], axis=1)


def _estimates(evidence: RegimeEvidence, x: list[Floats], logits: Floats) -> tuple[Floats, Floats]:
    """Each device's own estimate of logit π1, and its variance."""
    ones = shares_of_ones(logits)
    spread = np.mean([evidence.share_variances(seen_chains(evidence, ones, one)) for one in x], axis=0)
    precision = np.where(evidence.ticks > 0, 1 / spread, 0.0)
    total = np.bincount(evidence.device, precision, len(ones))
    mean = np.bincount(evidence.device, precision * evidence.shares(), len(ones)) / np.maximum(total, 1e-9)
    slope = ones * (1 - ones)
    return logits_near(ones, mean, slope), 1 / np.maximum(total * slope**2, 1e-6)


def logits_near(ones: Floats, shares: Floats, slope: Floats) -> Floats:
    """The logits of shares that may lie outside of 0 … 1: exactly inside, along the tangent at `ones` outside."""
    inside = np.clip(shares, *_PI_ENDS)
    return np.log(inside / (1 - inside)) + (shares - inside) / slope


def seen_chains(evidence: RegimeEvidence, ones: Floats, x: Floats) -> SeenChains:
    """The chains of devices with these shares of ones and coordinates on the lattice, as every row sees them."""
    weights, rates = components(x)
    return evidence.seen(ones, weights, rates, skews(ones, x))


def _logits(
    evidence: RegimeEvidence, x: list[Floats], logits: Floats, *, together: bool
) -> tuple[Floats, Floats]:
    """Logit π1 of each device, shrunk towards the others by a first estimate of their spread, and its variance."""
    estimates, errors = _estimates(evidence, x, logits)
    if not together:
        whole = WEAK**2
        centre = 0.0
    else:
        weight = 1 / (errors + 0.25)
        centre = float((weight * estimates).sum() / weight.sum())
        whole = max(0.02, float((weight * ((estimates - centre) ** 2 - errors)).sum() / weight.sum()))
    variance = errors * whole / (errors + whole)
    return variance * (estimates / errors + centre / whole), variance


def _normal(estimates: Floats, errors: Floats) -> Likelihood:
    def normal(mu: float, T: float) -> tuple[Floats, Floats, Floats]:
        total = errors + T
        value = -0.5 * (np.log(total) + (estimates - mu) ** 2 / total)
        return value, (errors * mu + T * estimates) / total, errors * T / total

    return Likelihood(normal, errors)


def _likelihoods(
    evidence: RegimeEvidence, x: Floats, logits: Floats, variances: Floats, *, classes: bool
) -> Floats:
    """Of every node, for every device, as shares of the device's largest.

    With `classes`, the covariance of the statistics is that of a node's own class of slow shares and rates, rather than
    that of the chain assumed so far: who has seen few regimes by chance would believe in faster ones, with which the
    statistics would be better known than they are.
    """
    ones = shares_of_ones(logits)
    total = np.full((len(ones), len(POSSIBLE)), -np.inf)
    if not classes:
        nodes = np.flatnonzero(POSSIBLE)
        total[:, nodes] = _log_likelihoods(evidence, x, ones, variances, nodes)
    else:
        for nodes, slow_share, slow in CLASSES:
            there = x.copy()
            there[:, 1], there[:, 2] = slow_share, slow
            there[:, 0] = np.maximum(there[:, 0], slow + np.log(2))
            total[:, nodes] = _log_likelihoods(evidence, there, ones, variances, nodes)
    found: Floats = np.exp(total - total.max(axis=1, keepdims=True)).reshape(-1, *SHAPE)
    return found


def _log_likelihoods(
    evidence: RegimeEvidence, x: Floats, ones: Floats, variances: Floats, nodes: NDArray[np.int64]
) -> Floats:
    observed, spread = evidence.autocovariances(seen_chains(evidence, ones, x))
    each = evidence.device
    variance = (ones * (1 - ones))[each]
    found = np.zeros((len(each), len(nodes)))
    for stride in np.unique(evidence.stride):
        rows: NDArray[np.bool_] = evidence.stride == stride
        there = spread[rows] + _uncertain(x[each[rows]], ones[each[rows]], variances[each[rows]], int(stride))
        found[rows] = log_likelihoods(observed[rows], there, variance[rows], int(stride), nodes)
    if len(each) == len(ones):
        return found  # one row each, in order
    total = np.zeros((len(ones), len(nodes)))
    np.add.at(total, each, found)
    return total


def _uncertain(x: Floats, ones: Floats, variances: Floats, stride: int) -> Floats:
    """What the size of a cell, and not knowing π1, add to the covariance of the autocovariances."""
    variance = ones * (1 - ones)
    moved = variance * (1 - 2 * ones) * np.sqrt(variances)
    found = _outer(correlations(x, stride) * moved[:, None])
    for axis, step in enumerate(STEPS):
        off = np.zeros(len(STEPS))
        off[axis] = step / 2
        across = correlations(x + off, stride) - correlations(x - off, stride)
        found += _outer(across * variance[:, None]) / 12
    return found


def _outer(rows: Floats) -> Floats:
    return rows[:, :, None] * rows[:, None, :]
