"""How far data of k states is from a first-order chain: states recur over long lags more often than predicted.

The correlation over a band is (Σ_u P(X_t = u, X_{t+h} = u) − Σ π_u²)/(1 − Σ π_u²), averaged over its lags: 1 if the
state stays, 0 if it is forgotten. It is estimated from the pairs, debiased through the emission, and compared with that
of the devices' fitted chains, averaged over their posterior, whose deviation is part of the error.
Where a band's excess is significant, the chain with the observed correlation is slower than the fitted one:
I − κ·(I − P) with κ < 1 has the same π, and log κ is the shift. Θ covers it by reaching to chains slower by the κ that
its own slowest chain needs (calibrator/models/misfit.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hushmq.calibrator.models.categorical.categorical_evidence import CategoricalEvidence
from hushmq.calibrator.models.categorical.categorical_fit import CategoricalFit, CategoricalShares
from hushmq.calibrator.models.categorical.categorical_moments import (
    Floats,
    band_means,
    stationary,
    transitions,
)
from hushmq.calibrator.models.lag_bands import BANDS
from hushmq.calibrator.models.misfit import ERROR, Misfit, critical_value, pooled_bands
from hushmq.pufferfish.bisection import bisection
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.transition_intervals import Rows, TransitionIntervals

DRAWS = 48
"""Chains drawn for each device, with the same draws every time, to average over what is not known of it."""
SLOWEST = 1e-3
"""The smallest κ that is considered."""


def measure(evidence: CategoricalEvidence, found: CategoricalFit, error: float = ERROR) -> Misfit:
    """Compare the observed correlation with that of the fitted chains, pooled over devices by precision.

    First-order chains are taken for a misfit with at most the probability `error`.
    """
    k = found.k
    observed = CategoricalShares.of(evidence, found.centre)
    inverse = np.linalg.inv(evidence.emission)
    P = transitions(found.chains, k)[evidence.device]
    pi = stationary(P)
    alone = (pi**2).sum(axis=1)
    # Σ_u (B⁻ᵀ·J·B⁻¹)_uu is linear in the pairs J seen: Σ_ij C_ij·J_ij with C = B⁻¹·B⁻ᵀ.
    taking = np.einsum("riu,rju->rij", inverse, inverse)
    pairs = observed.shares[:, k:].reshape(-1, len(BANDS), k, k)
    strength = (1 - alone)[:, None]
    seen = (np.einsum("rij,rbij->rb", taking, pairs) - alone[:, None]) / strength
    flat = taking.reshape(len(taking), -1)
    sampling = np.stack(
        [
            (flat[:, None, :] @ observed.covariance[:, block, block] @ flat[:, :, None])[:, 0, 0]
            for block in (slice(k + band * k * k, k + (band + 1) * k * k) for band in range(len(BANDS)))
        ],
        axis=1,
    )
    weight = strength**2 / sampling
    drawn = _drawn(found)[evidence.device]
    # One draw is the same for all devices: their errors may have a common cause.
    deviation = ((weight[:, None] * drawn).sum(axis=0) / weight.sum(axis=0)).std(axis=0)
    bands = pooled_bands(seen, drawn.mean(axis=1), weight, critical_value(error), deviation)
    centre = transitions(found.centre, k)
    return Misfit(bands, min(0.0, *(_shift(centre, index, band.excess) for index, band in enumerate(bands))))


def correlations(P: Floats) -> Floats:
    """The correlation over each band; any leading axes."""
    pi = stationary(P)
    alone = (pi**2).sum(axis=-1)[..., None]
    stays = np.einsum("...u,...buu->...b", pi, band_means(P))
    found: Floats = (stays - alone) / (1 - alone)
    return found


def _drawn(found: CategoricalFit) -> Floats:
    """The correlations of chains drawn for each device, on a second axis.

    P_uv/P_uu is drawn as many times larger, or smaller, as the deviation of x says to first order: where it is all
    but nothing, the deviation of its logarithm is large, and its own is small.
    """
    rng = np.random.Generator(np.random.PCG64(1))
    roots = np.linalg.cholesky(found.covariances + 1e-12 * np.eye(found.chains.shape[1]))
    draws = rng.standard_normal((DRAWS // 2, found.chains.shape[1]))
    moved = np.einsum("dpq,nq->dnp", roots, np.concatenate([draws, -draws]))
    x = found.chains[:, None, :] + np.sign(moved) * np.log1p(np.abs(moved))
    return correlations(transitions(x, found.k))


def _shift(P: Floats, index: int, excess: float) -> float:
    """Log κ of the chain that has so much more correlation over a band than P."""
    if not excess:
        return 0.0
    wanted = float(correlations(P)[index]) + excess

    def enough(shift: float) -> bool:
        slow = np.eye(len(P)) + math.exp(shift) * (P - np.eye(len(P)))
        return bool(correlations(slow)[index] >= wanted)

    low, _ = bisection(enough, math.log(SLOWEST), 0.0, steps=40)
    return low


def slowed(theta: CategoricalTheta, shares: Sequence[float]) -> CategoricalTheta:
    """The chains of Θ, each with its transitions made rarer until the slowest chain has these persistent shares."""
    slowest = _slowest(theta.forward)
    own = correlations(slowest)
    kappa = math.exp(
        min(_shift(slowest, index, float(e * (1 - own[index]))) for index, e in enumerate(shares))
    )
    return CategoricalTheta(*(_slowed(each, kappa) for each in (theta.forward, theta.backward)))


def _slowest(intervals: TransitionIntervals) -> Floats:
    """The states as likely to stay as they can be, the rest shared as the middles of the intervals are."""
    P: Floats = (np.array(intervals.low) + np.array(intervals.high)) / 2
    stays = np.minimum(np.diag(np.array(intervals.high)), 1 - SLOWEST)
    np.fill_diagonal(P, 0.0)
    P *= ((1 - stays) / P.sum(axis=1))[:, None]
    np.fill_diagonal(P, stays)
    return P


def _slowed(intervals: TransitionIntervals, kappa: float) -> TransitionIntervals:
    def moved(rows: Rows) -> Rows:
        return tuple(
            tuple(1 - kappa * (1 - p) if u == v else kappa * p for v, p in enumerate(row))
            for u, row in enumerate(rows)
        )

    return TransitionIntervals(moved(intervals.low), moved(intervals.high))
