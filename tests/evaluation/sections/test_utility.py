"""What a reader gets, against closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hushmq.evaluation.recordings import Recording
from hushmq.evaluation.sections import utility_categorical
from hushmq.evaluation.sections.utility import (
    cut,
    from_device,
    from_stream,
    from_stream_release,
    hull,
    per_cohort,
    per_device,
)
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import largest_tilts, optimal_noise
from tests.evaluation.conftest import Result
from tests.recordings import needs_data

THETA = BinaryTheta.point(0.0893, 0.1092)


@pytest.fixture
def rng() -> np.random.Generator:
    """The same draws for every test, whatever ran before it."""
    return np.random.default_rng(7)


def devices(count: int, length: int, rng: np.random.Generator) -> list[Recording]:
    return [Recording(f"d{i}", 2, [rng.integers(0, 2, length)]) for i in range(count)]


def test_windows() -> None:
    """Ticks fall into windows from the first on, gaps counted; a window less than half filled is left out."""
    pieces = [np.array([1, 1, 0]), np.array([1, 0]), np.array([1, 1, 1, 1])]
    found = cut([Recording("d", 2, pieces, [10, 15, 20])], 4)
    # ticks 0,1,2 | 5,6 | 10,11 | 12,13
    assert found.window.tolist() == [0, 1, 2, 3]
    assert found.ticks.tolist() == [3, 2, 2, 2]
    assert found.ones.tolist() == [2, 1, 2, 2]
    # ticks 0,1,2,5 | 6,10,11 | 12,13: of six
    assert cut([Recording("d", 2, pieces, [10, 15, 20])], 6).window.tolist() == [0, 1]


def test_error_from_the_device(rng: np.random.Generator) -> None:
    """Discrete Laplace noise of tilt τ has E|x| = 2a/(1−a²), a = e^−τ, per window."""
    windows = cut(devices(40, 100_000, rng), 1000)
    a = math.exp(-min(largest_tilts(THETA, 1.0)))
    expected = 100 * 2 * a / (1 - a * a) / 1000
    found = per_device(windows, from_device(windows, THETA, 1.0, rng))
    assert found == pytest.approx(expected, rel=0.08)
    assert found != pytest.approx(1.3 * expected, rel=0.08)


def test_error_from_the_stream(rng: np.random.Generator) -> None:
    """It is normal, with the variance of the flips over the signal's square; the release adds Laplace noise."""
    windows = cut(devices(40, 100_000, rng), 1000)
    for epsilon, way in ((2.0, from_stream), (1.0, from_stream_release)):
        noise = optimal_noise(THETA, 2.0)
        signal = 1 - noise.rho0 - noise.rho1
        flips = (noise.rho0 * (1 - noise.rho0) + noise.rho1 * (1 - noise.rho1)) / 2 * 1000
        laplace = (
            2 / noise.release_tilt(min(largest_tilts(THETA, epsilon))) ** 2
            if way is from_stream_release
            else 0.0
        )
        expected = 100 * math.sqrt(2 / math.pi * (flips + laplace)) / signal / 1000
        assert per_device(windows, way(windows, THETA, epsilon, rng)) == pytest.approx(expected, rel=0.05)


def test_a_cohort_adds_up(rng: np.random.Generator) -> None:
    """Errors of devices average out as the root of their number."""
    windows = cut(devices(25, 100_000, rng), 1000)
    ones = from_stream(windows, THETA, 2.0, rng)
    assert per_cohort(windows, ones) == pytest.approx(per_device(windows, ones) / 5, rel=0.2)


def test_hull() -> None:
    """The hull of several Θ contains each of them."""
    boxes = [BinaryTheta.point(0.1, 0.3), BinaryTheta.point(0.2, 0.05)]
    assert all(hull(boxes).contains(box) for box in boxes)


class TestFourStates:
    """Whole histograms."""

    def test_windows(self) -> None:
        """Every state is counted in its window; a window less than half filled is left out."""
        pieces = [np.array([0, 3, 3]), np.array([2]), np.array([1, 1])]
        counts, places = utility_categorical.cut([Recording("d", 4, pieces, [5, 9, 14])], 4)
        # ticks 0,1,2 | 4 | 9,10
        assert counts.tolist() == [[1, 0, 0, 2], [0, 2, 0, 0]]
        assert places.tolist() == [0, 2]

    def test_errors(self, rng: np.random.Generator) -> None:
        """From the device k·E|discrete Laplace of scale 2/τ|/2; from the stream, unbiased, with response's variance."""
        tau, n = 0.5, 10_000
        counts = np.full((2000, 4), n // 4)
        ticks = np.full(2000, float(n))
        a = math.exp(-tau / 2)
        found = utility_categorical.misplaced(
            utility_categorical.from_device(counts, tau, rng) - counts, ticks
        )
        assert found == pytest.approx(50 * 4 * 2 * a / (1 - a * a) / n, rel=0.03)
        off = utility_categorical.from_stream(counts, tau, rng) - counts
        assert off.mean(axis=0) == pytest.approx(np.zeros(4), abs=30)
        # Of uniform states each output is as likely: variance n·¼·¾ less what the states themselves fix.
        truth = math.exp(tau) / (3 + math.exp(tau))
        lie = (1 - truth) / 3
        variance = n / 4 * (truth * (1 - truth) + 3 * lie * (1 - lie)) / (truth - lie) ** 2
        expected = 50 * 4 * math.sqrt(2 / math.pi * variance) / n
        assert utility_categorical.misplaced(off, ticks) == pytest.approx(expected, rel=0.03)

    def test_together(self) -> None:
        """Devices' windows of the same number add up."""
        values = np.array([[1.0, 0.0], [2.0, 5.0], [4.0, 1.0]])
        assert utility_categorical.together(values, np.array([0, 2, 0])).tolist() == [[5.0, 1.0], [2.0, 5.0]]


class TestReal:
    """On the recordings."""

    pytestmark = needs_data

    @pytest.mark.slow
    def test_order(self, quick: Callable[..., Result]) -> None:
        """From the device is better than from the stream, and errors fall in ε."""
        rows = quick("utility").table("errors")
        assert len(rows) == 5 * (2 + 1 + 4 + 2)
        for row in rows:
            assert row["release from the device"] < row["operator, stream at ε"]
            if row["ε"] == 8.0:
                assert row["release from the device"] < row["no data: the long-run average"]
