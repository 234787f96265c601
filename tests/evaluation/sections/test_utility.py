"""What a reader gets, against closed forms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from hushmq.evaluation.recordings import Recording
from hushmq.evaluation.sections import utility_categorical
from hushmq.evaluation.sections.reading_ways import (
    DEVICE,
    RELEASE,
    STREAM,
    WAYS,
    Promised,
    Reading,
    hull,
    reading,
)
from hushmq.evaluation.sections.recorded_windows import RecordedCohort, cut
from hushmq.evaluation.sections.strong_attackers import shown
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from tests.evaluation.conftest import Result
from tests.recordings import needs_data

Q, R = 0.0893, 0.1092
THETA = BinaryTheta.point(Q, R)
REGIMES = RegimeTheta.of([RegimeChain.of([[0.99, 0.01], [0.01, 0.99]], [(0.05, 0.4), (0.45, 0.05)])])


@pytest.fixture
def rng() -> np.random.Generator:
    """The same draws for every test, whatever ran before it."""
    return np.random.default_rng(7)


def simulated(count: int, length: int, rng: np.random.Generator) -> RecordedCohort:
    """Devices that follow the chain (Q, R), in windows of 1,000 ticks."""
    states = np.empty((count, length), dtype=np.int64)
    here = rng.random(count) < Q / (Q + R)
    for tick in range(length):
        here ^= rng.random(count) < np.where(here, R, Q)
        states[:, tick] = here
    return RecordedCohort(
        "simulated", [Recording(f"d{i}", 2, [row]) for i, row in enumerate(states)], {"w": 1000}
    )


def test_windows() -> None:
    """Ticks fall into windows from the first on, gaps counted; a window less than half filled is left out."""
    pieces = [np.array([1, 1, 0]), np.array([1, 0]), np.array([1, 1, 1, 1])]
    found = cut([Recording("d", 2, pieces, [10, 15, 20])], 4)
    # ticks 0,1,2 | 5,6 | 10,11 | 12,13
    assert found.window.tolist() == [0, 1, 2, 3]
    assert found.ticks.tolist() == [3, 2, 2, 2]
    assert found.ones.tolist() == [2, 1, 2, 2]
    assert found.published.tolist() == found.ticks.tolist()
    assert found.published_ones.tolist() == found.ones.tolist()
    # ticks 0,1,2,5 | 6,10,11 | 12,13: of six
    assert cut([Recording("d", 2, pieces, [10, 15, 20])], 6).window.tolist() == [0, 1]


def test_a_stride_publishes_one_tick_of_each() -> None:
    """And the ones among them are counted."""
    found = cut([Recording("d", 2, [np.tile([1, 0, 0, 0], 5)])], 20, 4)
    assert found.published.tolist() == [5]
    assert found.published_ones.tolist() in ([5], [0])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("thinned", [False, True])
def test_errors_are_as_predicted(way: str, thinned: bool, rng: np.random.Generator) -> None:
    """The mean square error is the variance that a reader is told, at most, and not far below it."""
    cohort = simulated(30, 10_000, rng)
    promised = Promised("first order", [THETA] * 30, "informed", thinned)
    read = reading(cohort, "w", promised, way, 2.0)
    assert (max(read.strides) > 1) == (thinned and way != DEVICE)
    found = np.mean([_error(read, rng) for _ in range(5)])
    assert found == pytest.approx(float(read.variances.mean()), rel=0.12)
    assert found != pytest.approx(1.3 * float(read.variances.mean()), rel=0.12)


def _error(read: Reading, rng: np.random.Generator) -> float:
    off = (read.ones(rng) - read.windows.ones) / read.windows.ticks
    return float(np.mean(off**2))


def test_thinning_and_regimes(rng: np.random.Generator) -> None:
    """A thinned stream has less error at the same ε; noise for regimes keeps ε for them."""
    cohort = simulated(4, 4000, rng)
    every, thinned = (
        reading(cohort, "w", Promised("", [THETA] * 4, "informed", some), STREAM, 2.0)
        for some in (False, True)
    )
    assert thinned.variances.mean() < 0.5 * every.variances.mean()
    read = reading(cohort, "w", Promised("", [REGIMES] * 4, "prior", True), RELEASE, 2.0)
    noise = read.noises[0]
    assert noise is not None
    assert REGIMES.constant_loss(noise.tau0, noise.tau1, "prior", stride=read.strides[0]) <= 4.0
    assert read.tilts[0] < math.inf


def test_hull() -> None:
    """The hull of several Θ contains each of them."""
    boxes = [BinaryTheta.point(0.1, 0.3), BinaryTheta.point(0.2, 0.05)]
    assert all(hull(boxes).contains(box) for box in boxes)


def test_what_claims_show(rng: np.random.Generator) -> None:
    """Of randomized response at ε a learned attacker's claims show ε, whatever odds it claims; of coins nothing."""
    ones = rng.random(40_000) < 0.4
    seen = ones ^ (rng.random(40_000) < 1 / (1 + math.e))
    claims = np.where(seen, 0.999, 0.001) + 1e-9 * rng.random(40_000)
    assert shown(claims, ones) == pytest.approx(1.0, abs=0.12)
    assert shown(rng.random(40_000), ones) < 0.2


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
        """From the device is better than from the stream, thinned better than not, smoothed no worse than raw.

        Nor worse than the long-run average, where Θ says what that is. A box of several sleepers' chains does not, and
        a night has no releases before it: what no reader knows is not to be had from noise that hides it.
        """
        rows = quick("utility").table("errors")
        errors = {(row["recordings"], row["Θ"]): row for row in rows}
        for row in rows:
            assert row[DEVICE] < row[STREAM]
            assert row["stream, smoothed"] < 1.2 * row[STREAM]
            if (row["recordings"], row["Θ"]) != ("heart rate", "first order, every tick"):
                assert row["stream, smoothed"] < 1.2 * row["no data: the long-run average"]
        for name in ("heart rate", "activity", "power"):
            thinned, every = (errors[name, f"first order, {how}"] for how in ("thinned", "every tick"))
            assert thinned[STREAM] < every[STREAM]

    @pytest.mark.slow
    def test_strong_attackers(self, quick: Callable[..., Result]) -> None:
        """Noise for lag 1 loses more than ε if regimes are true; noise for regimes does not, and nobody passes it."""
        by = {row["noise for"]: row for row in quick("strong").table("attackers")}
        assert by["lag 1"]["loss, two regimes"] > 2.0
        assert by["lag 1"]["two regimes: moved"] > 2.0
        assert by["two regimes"]["loss, two regimes"] <= 2.0
        assert by["two regimes"]["two regimes: moved"] <= 2.0
