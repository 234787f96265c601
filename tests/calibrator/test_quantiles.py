"""Quantiles against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from calibrator.quantiles import chi_square_quantile, rectangle_quantiles


@pytest.mark.parametrize("freedom", [2, 3, 7, 40, 999])
def test_chi_square(freedom: int) -> None:
    """The lower quantile agrees with scipy's to 3%."""
    assert chi_square_quantile(0.15, freedom) == pytest.approx(stats.chi2.ppf(0.15, freedom), rel=0.03)


@pytest.mark.parametrize("correlation", [-0.97, -0.3, 0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("confidence", [0.95, 0.9875])
def test_rectangle(confidence: float, correlation: float) -> None:
    """Both coordinates lie within the quantile with the confidence asked for, to 0.0003."""
    c = float(rectangle_quantiles(confidence, np.array([correlation]))[0])
    law = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], allow_singular=True)
    assert law.cdf([c, c], lower_limit=[-c, -c]) == pytest.approx(confidence, abs=3e-4)
