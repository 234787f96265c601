"""Discrete Laplace noise: the stated law, and no other."""

from __future__ import annotations

import math

import pytest

from hushmq.calibrator.models.draw_noise import noisy, variance

DRAWS = 20_000


def mean_size(scale: float) -> float:
    """E|k| = 2p/(1−p²) with p = e^(−1/scale)."""
    p = math.exp(-1 / scale)
    return 2 * p / (1 - p * p)


@pytest.mark.parametrize("scale", [0.7, 3.0, 40.0])
def test_the_law_is_discrete_laplace_of_the_stated_scale(scale: float) -> None:
    """Mean size within 5.5 standard errors of the stated law (wrong once in 10⁷), which rejects 30% off either way."""
    drawn = [value - 5 for value in noisy([5] * DRAWS, scale=scale)]
    found = sum(map(abs, drawn)) / DRAWS
    error = math.sqrt((variance(scale) - mean_size(scale) ** 2) / DRAWS)
    assert abs(found - mean_size(scale)) < 5.5 * error
    for off in (scale * 0.7, scale * 1.3):
        assert abs(found - mean_size(off)) > 5.5 * error
    assert abs(sum(drawn) / DRAWS) < 5.5 * math.sqrt(variance(scale) / DRAWS)
    spread = sum(value * value for value in drawn) / DRAWS
    assert spread == pytest.approx(variance(scale), rel=0.15)


def test_no_two_runs_draw_the_same() -> None:
    """There is no seed: two draws of the same counts differ."""
    assert noisy([0] * 50, scale=20.0) != noisy([0] * 50, scale=20.0)
