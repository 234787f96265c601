"""Intervals hold as often as they say: against simulation, and at both ends in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmq.pufferfish.inference.half_width import half_width


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize(
    ("sigma", "b"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (1.0, 4.0), (5.0, 1.0), (9.0, 1.0)]
)
def test_it_holds_as_often_as_it_says(sigma: float, b: float, confidence: float) -> None:
    """Of a million sums as many lie within the interval as were asked for, and a tenth narrower fewer do."""
    rng = np.random.default_rng(1)
    sums = np.abs(rng.normal(0, sigma, 1_000_000) + rng.laplace(0, b, 1_000_000))
    width = half_width(sigma**2, 2 * b**2, confidence)
    assert (sums <= width).mean() == pytest.approx(confidence, abs=0.0015)
    assert (sums <= 0.9 * width).mean() < confidence - 0.004


def test_the_ends() -> None:
    """Without Laplace noise 1.96 deviations, without sampling error b·log 20."""
    assert half_width(4.0, 0.0) == pytest.approx(2 * 1.959964, rel=1e-6)
    assert half_width(0.0, 2.0) == pytest.approx(math.log(20), rel=1e-9)


def test_one_stands_for_several() -> None:
    """The interval of one Laplace term holds a sum of three of the same total variance at least as often."""
    rng = np.random.default_rng(2)
    sums = np.abs(rng.laplace(0, 1, (3, 400_000)).sum(axis=0))
    assert (sums <= half_width(0.0, 6.0)).mean() >= 0.95


@pytest.mark.parametrize("bias", [0.1, 1.0, 30.0])
@pytest.mark.parametrize(("sigma", "b"), [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0), (5.0, 1.0), (0.01, 1.0)])
def test_it_makes_room_for_the_bias(sigma: float, b: float, bias: float) -> None:
    """With the largest bias it holds as often as it says, with less of it more often, and is no wider than need be."""
    rng = np.random.default_rng(3)
    sums = rng.normal(0, sigma, 1_000_000) + rng.laplace(0, b, 1_000_000)
    width = half_width(sigma**2, 2 * b**2, bias=bias)
    assert (np.abs(sums + bias) <= width).mean() == pytest.approx(0.95, abs=0.0015)
    assert (np.abs(sums - bias / 2) <= width).mean() > 0.95
    assert width < bias + half_width(sigma**2, 2 * b**2)


def test_without_noise_only_the_bias_is_left() -> None:
    """Nothing random: the interval is the bias."""
    assert half_width(0.0, 0.0, bias=0.25) == 0.25
