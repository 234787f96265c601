"""How far data is from chains with two regimes: correlation over long bands beyond what the fitted chains have.

As for first-order chains (calibrator/models/misfit.py): the observed correlation of every band against that of the
devices' chains, averaged over what is not known of them, pooled by precision.
"""

from __future__ import annotations

import numpy as np

from hushmq.calibrator.models.misfit import ERROR, Misfit, critical_value, pooled_bands
from hushmq.calibrator.models.regime.long_bands import LONG_BANDS
from hushmq.calibrator.models.regime.regime_evidence import RegimeEvidence
from hushmq.calibrator.models.regime.regime_fit import RegimeFit, means, seen_chains, shares_of_ones
from hushmq.calibrator.models.regime.regime_lattice import NODES, correlations

_LEAST = 1e-9
"""The weight of a band that nobody counted: its standard error says that it was not seen."""


def measure(evidence: RegimeEvidence, found: RegimeFit, error: float = ERROR) -> Misfit:
    """Compare the observed correlation with that of the fitted chains.

    Chains with two regimes are taken for a misfit with at most the probability `error`. No shift is computed: which
    chain would have the excess as well, three regimes or slower ones, correlations alone do not say.
    """
    posteriors = found.posteriors()
    ones = shares_of_ones(found.logits)
    observed, spread = evidence.autocovariances(seen_chains(evidence, ones, means(posteriors)))
    variance = (ones * (1 - ones))[evidence.device][:, None]
    flat = posteriors.reshape(len(ones), -1)
    fitted = np.zeros_like(observed)
    for stride in np.unique(evidence.stride):
        rows = evidence.stride == stride
        fitted[rows] = (flat @ correlations(NODES, int(stride)))[evidence.device[rows]]
    places = np.arange(len(LONG_BANDS))
    weight = np.where(evidence.starts > 0, variance**2 / spread[:, places, places], 0.0) + _LEAST
    critical = critical_value(error, len(LONG_BANDS))
    return Misfit(pooled_bands(observed / variance, fitted, weight, critical, bands=LONG_BANDS), 0.0)
