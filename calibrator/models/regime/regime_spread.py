"""The centre and the spread of one coordinate between devices, from what each device's evidence says on a lattice.

As for first-order chains (calibrator/models/device_spread.py) the spread T is taken at the upper end of its one-sided
likelihood-ratio interval, to cover a spread that the evidence does not show yet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hushmq.calibrator.models.quantiles import chi_square_quantile
from hushmq.calibrator.models.regime.regime_moments import Floats

_TRIED = 14
_ROUNDS = 6


@dataclass(frozen=True, slots=True)
class Spread:
    """A coordinate is N(centre, T) between devices; `variance` is that of the centre."""

    centre: float
    T: float
    variance: float

    @property
    def whole(self) -> float:
        """The variance of one device around the estimated centre."""
        return self.T + self.variance


def log_prior(places: Floats, step: float, centre: float, T: float) -> Floats:
    """The logarithm of N(centre, T)'s share of every place's cell, which is `step` long."""
    whole = T + step**2 / 12
    log: Floats = -((places - centre) ** 2) / (2 * whole)
    return log - float(np.log(np.exp(log).sum()))


def spreads(marginals: Floats, places: Floats, confidences: tuple[float, ...]) -> list[Spread]:
    """From rows of log likelihoods at the places: the upper ends of T for these confidences."""
    step, m = float(places[1] - places[0]), len(marginals)
    marginals = marginals - marginals.max(axis=1, keepdims=True)
    likelihood = np.exp(marginals)
    flat = likelihood / likelihood.sum(axis=1, keepdims=True)
    own = (flat * places**2).sum(axis=1) - (flat @ places) ** 2 + step**2 / 12
    tried = []
    centre = float((flat @ places).mean())
    for deviation in np.geomspace(float(places[-1] - places[0]) / 2, step / 8, _TRIED):
        T = float(deviation) ** 2
        for _ in range(_ROUNDS):
            weights = likelihood * np.exp(log_prior(places, step, centre, T))
            centre = float(((weights @ places) / weights.sum(axis=1)).mean())
        known = float((1 / (own + T)).sum())
        height = float(np.log(likelihood @ np.exp(log_prior(places, step, centre, T))).sum())
        tried.append((T, centre, 1 / known, height - 0.5 * math.log(known)))
    return [_upper_end(tried, m - 1, confidence) for confidence in confidences]


def _upper_end(tried: list[tuple[float, float, float, float]], k: int, confidence: float) -> Spread:
    """The largest T within its interval: where 2·log L is below its top by as much as for m equal normal devices."""
    u = k / chi_square_quantile(1 - confidence, k)
    threshold = max(one[3] for one in tried) - k * (math.log(u) - 1 + 1 / u) / 2
    inside = next(place for place, one in enumerate(tried) if one[3] >= threshold)
    T, centre, variance, height = tried[inside]
    if inside:
        beyond = tried[inside - 1]
        share = (height - threshold) / max(height - beyond[3], 1e-9)
        T = math.exp(math.log(T) + share * (math.log(beyond[0]) - math.log(T)))
    return Spread(centre, T, variance)
