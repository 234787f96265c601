"""Quantiles that the regions need: of two and of several normal variables jointly, of χ² and of Student's t."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from hushmq.calibrator.models.binary.binary_moments import Floats
from hushmq.pufferfish.bisection import bisection

_NORMAL = NormalDist()
_ANGLES = np.linspace(0.0, math.pi / 2, 17)
DRAWS, TRIES = 256, 4
"""Draws for a joint quantile, and values that are tried for it."""
TOGETHER = 16
"""Regions computed together: so many fit into a processor's cache."""


def chi_square_quantile(probability: float, freedom: int) -> float:
    """By Wilson and Hilferty's cube: within 2% from ten degrees of freedom up, for the probabilities used here.

    With fewer it is too small the further out it is: what is made with it is too wide, never too narrow.
    """
    share = 2 / (9 * freedom)
    return freedom * (1 - share + _NORMAL.inv_cdf(probability) * math.sqrt(share)) ** 3


def student_quantile(probability: float, freedom: int) -> float:
    """Of Student's t, from its closed form for whole degrees of freedom; for probabilities of at least one half."""
    if not (0.5 <= probability < 1 and freedom >= 1):
        raise ValueError(f"no quantile for {probability!r} and {freedom!r}")

    def below(t: float) -> float:
        angle = math.atan(t / math.sqrt(freedom))
        sine, cosine = math.sin(angle), math.cos(angle)
        odd = freedom % 2
        term, terms = (cosine if odd else 1.0), 0.0
        for step in range(1 + odd, freedom, 2):
            terms += term
            term *= cosine**2 * step / (step + 1)
        inside = 2 / math.pi * (angle + sine * terms) if odd else sine * terms
        return (1 + inside) / 2

    highest = 1.0
    while below(highest) < probability:
        highest *= 2
    return bisection(lambda t: below(t) < probability, 0.0, highest, relative=1e-12, steps=200)[1]


def rectangle_quantiles(confidence: float, correlations: Floats) -> Floats:
    """C with P(|X| ≤ c and |Y| ≤ c) = confidence for standard normal X and Y of these correlations."""
    known = np.array([_rectangle(confidence, float(angle)) for angle in _ANGLES])
    found: Floats = np.interp(np.arccos(np.minimum(np.abs(correlations), 1.0)), _ANGLES, known)
    return found


@lru_cache(maxsize=1024)
def _rectangle(confidence: float, angle: float) -> float:
    """C for the correlation cos(angle): in the angle it is smooth, also where X = Y."""
    if angle == 0:
        return _NORMAL.inv_cdf((1 + confidence) / 2)
    correlation, rest = math.cos(angle), math.sin(angle)
    points, weights = np.polynomial.legendre.leggauss(64)

    def inside(c: float) -> float:
        """∫ φ(x)·P(|Y| ≤ c | X = x) over |x| ≤ c."""
        return c * sum(
            weight
            * _NORMAL.pdf(c * point)
            * (
                _NORMAL.cdf((c - correlation * c * point) / rest)
                - _NORMAL.cdf((-c - correlation * c * point) / rest)
            )
            for point, weight in zip(points.tolist(), weights.tolist(), strict=True)
        )

    _, high = bisection(lambda c: inside(c) < confidence, 0.0, 10.0, steps=40)
    return high


def joint_quantiles(confidence: float, columns: Floats) -> Floats:
    """C with P(|a_e·Z| ≤ c for all e) = confidence for Z standard normal, to 1%, or 3% where all are nearly one.

    `columns` has the a_e, of length 1, in its last axis, for each of its first. The chance that some |a_e·Z| exceeds c
    is Σ_e P(|a_e·Z| > c) times the mean of 1/(how many exceed it) over draws in which a chosen one does (Naiman and
    Wynn 1997). The draws are the same every time. C lies between the quantile of one and Šidák's, for independent ones.
    """
    count = columns.shape[-1]
    least, most = (_NORMAL.inv_cdf((1 + confidence ** (1 / number)) / 2) for number in (1, count))
    tries = np.linspace(least, most, TRIES)
    known = np.array([2 * count * _NORMAL.cdf(-c) for c in tries.tolist()])
    draws, places = _draws(columns.shape[-2])
    beyond = np.array(
        [[-_NORMAL.inv_cdf(place * _NORMAL.cdf(-c)) for place in places] for c in tries.tolist()]
    )
    parts = [columns[first : first + TOGETHER] for first in range(0, len(columns), TOGETHER)]
    exceeded = np.concatenate([known * _distinct(tries, beyond, draws, part) for part in parts])
    return np.array([np.interp(-math.log(1 - confidence), -np.log(one), tries) for one in exceeded])


def _distinct(tries: Floats, beyond: Floats, draws: Floats, columns: Floats) -> Floats:
    """For each region and each size c: the mean of 1/(how many exceed c) over draws in which a chosen one does."""
    each, chosen = np.arange(DRAWS), np.arange(DRAWS) % columns.shape[-1]
    values = draws @ columns
    towards = (np.swapaxes(columns, -1, -2) @ columns)[:, chosen]
    values -= values[:, each, chosen][..., None] * towards
    found = np.empty((len(columns), len(tries)))
    for number, c in enumerate(tries):
        exceeding = np.abs(values + beyond[number][:, None] * towards) > c
        found[:, number] = (1 / np.maximum(1, np.count_nonzero(exceeding, axis=-1))).mean(axis=-1)
    return found


@cache
def _draws(freedom: int) -> tuple[Floats, list[float]]:
    """Normal draws, and a place in the tail for each, spread evenly and in no order."""
    rng = np.random.Generator(np.random.PCG64(1))
    places = (rng.permutation(DRAWS) + 0.5) / DRAWS
    return rng.standard_normal((DRAWS, freedom)), places.tolist()
