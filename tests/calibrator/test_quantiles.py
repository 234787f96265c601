"""Quantiles against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrator.quantiles import chi_square_quantile, rectangle_quantiles, student_quantiles


@pytest.mark.parametrize("freedom", [2, 2.5, 3, 4, 5, 7, 10, 30, 499, 1e5])
@pytest.mark.parametrize("probability", [0.975, 0.9875, 0.995, 0.9999])
def test_student(probability: float, freedom: float) -> None:
    """Student's quantile agrees with scipy's to 0.1%."""
    normal = np.array([stats.norm.ppf(probability)])
    found = student_quantiles(normal, np.array([freedom]))[0]
    assert found == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-3)


@pytest.mark.parametrize("freedom", [2, 3, 7, 40, 999])
def test_chi_square(freedom: int) -> None:
    """The lower quantile agrees with scipy's to 1.1%."""
    assert chi_square_quantile(0.2, freedom) == pytest.approx(stats.chi2.ppf(0.2, freedom), rel=0.011)


@pytest.mark.parametrize("correlation", [-0.97, -0.3, 0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("confidence", [0.95, 0.9875])
def test_rectangle(confidence: float, correlation: float) -> None:
    """Both coordinates lie within the quantile with the confidence asked for, to 0.0003."""
    c = float(rectangle_quantiles(confidence, np.array([correlation]))[0])
    law = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], allow_singular=True)
    assert law.cdf([c, c], lower_limit=[-c, -c]) == pytest.approx(confidence, abs=3e-4)
