"""Quantiles that the regions need: normal rectangles and boxes, and χ²."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np

from calibrator.moments import Floats

_NORMAL = NormalDist()
_ANGLES = np.linspace(0.0, math.pi / 2, 17)
DRAWS, TRIES = 256, 4
"""Draws on which a box is looked at, and sizes of it that are tried."""


def chi_square_quantile(probability: float, freedom: int) -> float:
    """By Wilson and Hilferty's cube: within 2% from ten degrees of freedom up, for the probabilities used here.

    With fewer it is too small the further out it is: what is made with it is too wide, never too narrow.
    """
    share = 2 / (9 * freedom)
    return freedom * (1 - share + _NORMAL.inv_cdf(probability) * math.sqrt(share)) ** 3


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

    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if inside(middle) < confidence else (low, middle)
    return high


def box_quantiles(confidence: float, columns: Floats) -> Floats:
    """C with P(|a_e·Z| ≤ c for all e) = confidence for Z standard normal, to 1%, or 3% where all are nearly one.

    `columns` has the a_e, of length 1, in its last axis, for each of its first. The chance that some |a_e·Z| exceeds c
    is Σ_e P(|a_e·Z| > c) times the mean of 1/(how many exceed it) over draws in which a chosen one does (Naiman and
    Wynn 1997). The draws are the same every time. C lies between the quantile of one and Šidák's, for independent ones.
    """
    freedom, boxes = columns.shape[-2:]
    least, most = (_NORMAL.inv_cdf((1 + confidence ** (1 / number)) / 2) for number in (1, boxes))
    tries = np.linspace(least, most, TRIES)
    draws, places = _draws(freedom)
    chosen = np.arange(DRAWS) % boxes
    values = draws @ columns
    towards = (np.swapaxes(columns, -1, -2) @ columns)[:, chosen]
    values -= values[:, np.arange(DRAWS), chosen][..., None] * towards
    logs = []
    for c in tries.tolist():
        beyond = np.array([-_NORMAL.inv_cdf(place * _NORMAL.cdf(-c)) for place in places.tolist()])
        exceeding = np.abs(values + beyond[:, None] * towards) > c
        distinct = (1 / np.maximum(1, exceeding.sum(axis=-1))).mean(axis=-1)
        logs.append(np.log(2 * boxes * _NORMAL.cdf(-c) * distinct))
    wanted = math.log(1 - confidence)
    return np.array([np.interp(-wanted, -one, tries) for one in np.stack(logs, axis=-1)])


@cache
def _draws(freedom: int) -> tuple[Floats, Floats]:
    """Normal draws, and a place in the tail for each, spread evenly and in no order."""
    rng = np.random.Generator(np.random.PCG64(1))
    return rng.standard_normal((DRAWS, freedom)), (rng.permutation(DRAWS) + 0.5) / DRAWS
