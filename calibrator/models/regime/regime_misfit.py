"""How far data is from chains with two regimes: correlation over long bands beyond what the fitted chains have.

As for first-order chains (calibrator/models/misfit.py): the observed correlation of every band against that of the
devices' chains, averaged over what is not known of them, pooled by precision. A node of the lattice stands for its
cell, so before they are compared the fitted chains move within it, all alike, to where they explain most.
"""

from __future__ import annotations

import numpy as np

from hushmq.calibrator.models.misfit import ERROR, Misfit, critical_value, pooled_bands
from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import RegimeFit, means, seen_chains, shares_of_ones
from hushmq.calibrator.models.regime.regime_lattice import NODES, STEPS, correlations
from hushmq.calibrator.models.regime.regime_moments import Floats

_LEAST = 1e-9
"""The weight of a band that nobody counted: its standard error says that it was not seen."""

_SWEEPS = 40


def measure(evidence: RegimeEvidence, found: RegimeFit, error: float = ERROR) -> Misfit:
    """Compare the observed correlation with that of the fitted chains.

    Chains with two regimes are taken for a misfit with at most the probability `error`. No shift is computed: which
    chain would have the excess as well, three regimes or slower ones, correlations alone do not say.
    """
    posteriors = found.posteriors()
    ones, middle = shares_of_ones(found.logits), means(posteriors)
    observed, spread = evidence.autocovariances(seen_chains(evidence, ones, middle))
    variance = (ones * (1 - ones))[evidence.device][:, None]
    flat = posteriors.reshape(len(ones), -1)
    fitted = np.zeros_like(observed)
    across = np.zeros((len(STEPS), *observed.shape))
    for stride in np.unique(evidence.stride):
        rows = evidence.stride == stride
        fitted[rows] = (flat @ correlations(NODES, int(stride)))[evidence.device[rows]]
        for axis, half in enumerate(np.diag(STEPS / 2)):
            there = correlations(middle + half, int(stride)) - correlations(middle - half, int(stride))
            across[axis, rows] = there[evidence.device[rows]]
    places = np.arange(len(LONG_BANDS))
    weight = np.where(evidence.starts > 0, variance**2 / spread[:, places, places], 0.0) + _LEAST
    critical = critical_value(error, len(LONG_BANDS))
    fitted += _within_cells(observed / variance - fitted, across, weight)
    return Misfit(pooled_bands(observed / variance, fitted, weight, critical, bands=LONG_BANDS), 0.0)


def _within_cells(excess: Floats, across: Floats, weight: Floats) -> Floats:
    """What a common move of all chains within their cells explains of the pooled excess, by row and band.

    `across` is how correlations change from one side of a cell to the other, by axis. Weighted least squares, one
    coordinate after the other, each within its cell.
    """
    total = weight.sum(axis=0)
    left = (weight * excess).sum(axis=0) / total
    slopes = (weight * across).sum(axis=1) / total
    moved = np.zeros(len(slopes))
    for _ in range(_SWEEPS):
        for axis, slope in enumerate(slopes):
            best = moved[axis] + (total * slope) @ left / max((total * slope) @ slope, 1e-300)
            step = min(0.5, max(-0.5, best)) - moved[axis]
            moved[axis] += step
            left = left - step * slope
    found: Floats = np.einsum("a,anb->nb", moved, across)
    return found
