"""Quantiles that the regions need: normal rectangles and χ²."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from calibrator.moments import Floats

_NORMAL = NormalDist()
_ANGLES = np.linspace(0.0, math.pi / 2, 17)


def chi_square_quantile(probability: float, freedom: int) -> float:
    """By Wilson and Hilferty's cube: within 1% from one degree of freedom up, for the probabilities used here."""
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
