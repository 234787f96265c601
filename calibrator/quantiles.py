"""Quantiles that the regions need: normal rectangles, Student's t, χ²."""

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


def student_quantiles(normal: Floats, freedom: Floats) -> Floats:
    """Student quantiles at the probabilities at which the normal law has these, all positive.

    Hill's asymptotic expansion (Communications of the ACM 13, algorithm 396), for two or more degrees of freedom.
    """
    n, x = np.maximum(freedom, 2.0), np.asarray(normal, dtype=float)
    a = 1 / (n - 0.5)
    b = 48 / a**2
    c = ((20700 * a / b - 98) * a - 16) * a + 96.36
    d = ((94.5 / (b + c) - 3) / b + 1) * np.sqrt(a * math.pi / 2) * n
    tail = np.array([math.erfc(one / math.sqrt(2)) for one in x.reshape(-1).tolist()]).reshape(x.shape)
    power = (d * tail) ** (2 / n)
    # far in the tail
    far = ((1 / (((n + 6) / (n * power) - 0.089 * d - 0.822) * (n + 2) * 3) + 0.5 / (n + 4)) * power - 1) * (
        n + 1
    ) / (n + 2) + 1 / power
    # nearer
    c = np.where(n < 5, c + 0.3 * (n - 4.5) * (x + 0.6), c)
    c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c
    y = x * x
    y = (((((0.4 * y + 6.3) * y + 36) * y + 94.5) / c - y - 3) / b + 1) * x
    near = np.expm1(a * y * y)
    found: Floats = np.sqrt(n * np.where(power > 0.05 + a, near, far))
    return found
