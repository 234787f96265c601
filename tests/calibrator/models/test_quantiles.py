"""Quantiles against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from hushmq.calibrator.models.quantiles import (
    chi_square_quantile,
    joint_quantiles,
    rectangle_quantiles,
    student_quantile,
)


@pytest.mark.parametrize("freedom", [2, 3, 7, 40, 999])
def test_chi_square(freedom: int) -> None:
    """The lower quantile agrees with scipy's to 3%."""
    assert chi_square_quantile(0.15, freedom) == pytest.approx(stats.chi2.ppf(0.15, freedom), rel=0.03)


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 10, 31])
@pytest.mark.parametrize("probability", [0.5, 0.75, 0.9, 0.975, 0.995])
def test_student(probability: float, freedom: int) -> None:
    """The quantile is scipy's."""
    found = student_quantile(probability, freedom)
    assert found == pytest.approx(stats.t.ppf(probability, freedom), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("correlation", [-0.97, -0.3, 0.0, 0.5, 0.9, 0.99, 0.9999])
@pytest.mark.parametrize("confidence", [0.95, 0.9875])
def test_rectangle(confidence: float, correlation: float) -> None:
    """Both coordinates lie within the quantile with the confidence asked for, to 0.0003."""
    c = float(rectangle_quantiles(confidence, np.array([correlation]))[0])
    law = stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], allow_singular=True)
    assert law.cdf([c, c], lower_limit=[-c, -c]) == pytest.approx(confidence, abs=3e-4)


@pytest.mark.slow
@pytest.mark.parametrize("confidence", [0.95, 0.99, 0.999])
@pytest.mark.parametrize(("freedom", "boxes"), [(6, 6), (6, 18), (12, 32), (30, 72)])
def test_boxes(confidence: float, freedom: int, boxes: int) -> None:
    """The quantile of the largest of correlated normals, however they are correlated, to 3%."""
    rng = np.random.default_rng(boxes)
    columns = rng.standard_normal((4, freedom, boxes))
    columns[1, :, boxes // 2 :] = columns[1, :, : boxes - boxes // 2]  # each one twice
    columns[2] += 3 * columns[2, :, :1]  # all of them much alike
    columns[3] = columns[3, :, :1]  # one and the same
    columns /= np.sqrt((columns**2).sum(axis=1, keepdims=True))
    largest = np.abs(rng.standard_normal((40_000, freedom)) @ columns).max(axis=-1)
    exact = np.quantile(largest, confidence, axis=1)
    assert joint_quantiles(confidence, columns) == pytest.approx(exact, rel=0.03)


def test_boxes_of_independent_normals_are_sidaks() -> None:
    """Where nothing is correlated the quantile is known exactly."""
    for freedom in (6, 12, 56):
        exact = stats.norm.ppf((1 + 0.95 ** (1 / freedom)) / 2)
        assert joint_quantiles(0.95, np.eye(freedom)[None])[0] == pytest.approx(exact, rel=0.003)
