"""The test of a path against Θ: never wrong too often, and soon right (docs/theory-world.md, Theorem 24)."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.inference import theta_test
from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound
from hushmq.pufferfish.inference.path_features import CELLS, LAGS, PathFeatures
from hushmq.pufferfish.inference.theta_test import ThetaTest
from tests.pufferfish.real_chains import heart_rate_states
from tests.recordings import needs_data

Rows = tuple[tuple[float, ...], ...]
Next = Callable[[list[int]], float]
"""The probability that a path of two states moves."""

WARNED, ALARMED = 1e3, 1e6


def two_states(q: tuple[float, float], r: tuple[float, float]) -> tuple[Rows, Rows]:
    return BinaryTheta(*q, *r).transition_bounds


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluate after every tick or two, in blocks of four."""
    monkeypatch.setattr(theta_test, "SOONEST", 1)
    monkeypatch.setattr(theta_test, "LATEST", 2)
    monkeypatch.setattr(theta_test, "BLOCK", 4)


def evidence(low: Rows, high: Rows, path: tuple[int, ...]) -> float:
    test = ThetaTest(low, high)
    test.add(path)
    return test.evidence


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    ("q", "r"), [((0.1, 0.3), (0.2, 0.6)), ((0.02, 0.03), (0.5, 0.9)), ((0.4, 0.4), (0.1, 0.9))]
)
def test_nobody_inside_theta_can_make_it_grow(q: tuple[float, float], r: tuple[float, float]) -> None:
    """Every path of nine states, every kernel in Θ that depends on the whole past, every stopping time."""
    low, high = two_states(q, r)

    @cache
    def value(path: tuple[int, ...]) -> float:
        now = evidence(low, high, path)
        if len(path) == 9:
            return now
        x = path[-1]
        stay, move = value((*path, x)), value((*path, 1 - x))
        return max(now, *(p * move + (1 - p) * stay for p in (q, r)[x]))

    assert max(value((0,)), value((1,))) <= 1


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize(
    "transition",
    [
        ((0.9, 0.1), (0.3, 0.7)),
        ((0.2, 0.8), (0.95, 0.05)),
        ((0.7, 0.2, 0.1), (0.25, 0.5, 0.25), (0.05, 0.05, 0.9)),
        ((0.5, 0.5, 0.0), (0.25, 0.5, 0.25), (0.0, 0.4, 0.6)),
    ],
)
def test_its_mean_is_what_the_proof_says(transition: Rows) -> None:
    """Under the only chain of Θ every ratio is a martingale: half the evidence since the beginning, and the block's."""
    length = 9 if len(transition) == 2 else 7
    mean = 0.0
    for path in itertools.product(range(len(transition)), repeat=length):
        chance = math.prod(transition[x][y] for x, y in itertools.pairwise(path)) / len(transition)
        mean += chance * evidence(transition, transition, path) if chance else 0.0
    block = 2 if length == 7 else 3
    assert mean == pytest.approx(0.5 + 0.5 / (block * (block + 1)), abs=1e-12)


KERNELS: dict[str, Next] = {
    "slowest": lambda path: (0.05, 0.1)[path[-1]],
    "fastest": lambda path: (0.3, 0.4)[path[-1]],
    "slow after long dwells": lambda path: (
        (0.05, 0.1)[path[-1]] if len(set(path[-4:])) == 1 else (0.3, 0.4)[path[-1]]
    ),
    "slow regimes": lambda path: ((0.05, 0.4), (0.3, 0.1))[len(path) // 60 % 2][path[-1]],
    "back to where it was": lambda path: (
        (0.05, 0.1)[path[-1]] if path[-16:][0] == path[-1] else (0.3, 0.4)[path[-1]]
    ),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=list(KERNELS))
def test_false_alarms_are_as_rare_as_stated(kernel: Next) -> None:
    """At a level of a tenth, so that it can fail: 400 runs of 256 ticks of kernels at the ends of Θ."""
    runs, alarms, generator = 400, 0, random.Random(7)
    for _ in range(runs):
        path = [0]
        while len(path) < 256:
            path.append(path[-1] ^ (generator.random() < kernel(path)))
        alarms += ThetaTest(*two_states((0.05, 0.3), (0.1, 0.4))).add(path) >= 10
    assert lower_confidence_bound(alarms, runs, 1e-6) <= 0.1


def moving(kernel: Next, seed: int) -> Iterator[int]:
    generator, path = random.Random(seed), [0]
    while True:
        path.append(path[-1] ^ (generator.random() < kernel(path[-600:])))
        yield path[-1]


def repeated(ticks: int, seed: int) -> Iterator[int]:
    generator = random.Random(seed)
    while True:
        yield from [generator.randrange(2)] * ticks


def ticks_until(threshold: float, low: Rows, high: Rows, path: Iterator[int], limit: int) -> int:
    test = ThetaTest(low, high)
    while test.ticks < limit and test.add(itertools.islice(path, 32)) < threshold:
        pass
    return test.ticks


README = two_states((0.05, 0.5), (0.05, 0.5))


@pytest.mark.parametrize("seed", range(5))
def test_a_reading_repeated_for_a_minute_is_found_in_minutes(seed: int) -> None:
    """Refreshed every 60 s, sampled at 2 Hz: a warning within ten readings, the alarm within fifteen."""
    assert ticks_until(WARNED, *README, repeated(120, seed), 1200) < 1200
    assert ticks_until(ALARMED, *README, repeated(120, seed), 1800) < 1800


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_that_moves_half_as_often_is_found(seed: int) -> None:
    path = moving(lambda path: (0.025, 0.2)[path[-1]], seed)
    assert ticks_until(ALARMED, *README, path, 10_000) < 10_000


@pytest.mark.parametrize("seed", range(3))
def test_hidden_regimes_are_found(seed: int) -> None:
    """The two regimes of N10 (share of ones .11 and .945, for 290 beats on average), Θ around the chain of lag one."""
    generator = random.Random(seed)
    regime = [0]

    def kernel(path: list[int]) -> float:
        regime[0] ^= generator.random() < 1 / 290
        return ((0.047, 0.383), (0.454, 0.026))[regime[0]][path[-1]]

    low, high = two_states((0.07, 0.11), (0.09, 0.13))
    assert ticks_until(ALARMED, low, high, moving(kernel, seed), 12_000) < 12_000


def test_a_change_after_a_long_time_is_found_soon() -> None:
    """After 100,000 ticks inside Θ about as soon as at the beginning: a block begins every 8,192 ticks."""
    test = ThetaTest(*README)
    assert test.add(itertools.islice(moving(lambda _: 0.2, 1), 100_000)) < WARNED
    since = test.ticks
    path = repeated(120, 1)
    while test.add(itertools.islice(path, 32)) < WARNED:
        assert test.ticks - since < 8192 + 2400


def test_a_third_state_that_is_entered_too_often_is_found() -> None:
    """Leaving is as Θ says; where the path goes is not."""
    low = ((0.6, 0.15, 0.15), (0.15, 0.6, 0.15), (0.15, 0.15, 0.6))
    high = ((0.7, 0.25, 0.25), (0.25, 0.7, 0.25), (0.25, 0.25, 0.7))
    generator, test, x = random.Random(3), ThetaTest(low, high), 0
    while test.add([x]) < ALARMED:
        assert test.ticks < 5000
        x = x if generator.random() < 0.65 else (x + 1 + (generator.random() < 0.1)) % 3


@needs_data
@pytest.mark.parametrize("subject", [f"N{n}" for n in range(1, 12)])
def test_a_sleeper_is_no_chain_of_lag_one(subject: str) -> None:
    """A heart rate against Θ of a fifth around the chain fitted at lag one, which fits all counts at lag one."""
    states = heart_rate_states(subject)
    n = {x: states[:-1].count(x) for x in (0, 1)}
    moves = {x: sum(a == x != b for a, b in itertools.pairwise(states)) for x in (0, 1)}
    q, r = moves[0] / n[0], moves[1] / n[1]
    low, high = two_states((q / 1.2, q * 1.2), (r / 1.2, r * 1.2))
    assert ticks_until(ALARMED, low, high, iter(states), 1000) < 1000


def test_a_tick_without_a_state_cuts_the_path() -> None:
    """No move is counted over the gap, and no feature reaches back over it."""
    test = ThetaTest(*README)
    test.add([0, None] * 1000)
    assert test.evidence == 0.75
    test.add([0] * 400)
    assert test.evidence > WARNED
    features = PathFeatures(2)
    for _ in range(300):
        features.extend(1)
    features.restart()
    assert features.extend(0) == PathFeatures(2).extend(0)


def test_features_against_the_whole_path() -> None:
    """In constant memory as computed from all states; no feature depends on what comes later."""
    generator = random.Random(5)
    path: list[int] = []
    features = PathFeatures(3)
    for _ in range(1500):
        path.append(path[-1] if path and generator.random() < 0.7 else generator.randrange(3))
        state = path[-1]
        dwell = next((n for n, x in enumerate(reversed(path)) if x != state), len(path))
        expected = [0, min(16, 1 + int(math.log2(dwell)))]
        expected += [17 + 2 * n + (path[-1 - lag] == state) for n, lag in enumerate(LAGS) if lag < len(path)]
        for n, horizon in enumerate((8, 64, 512)):
            weights = [(1 - 1 / horizon) ** age for age in range(len(path))]
            share = sum(w for w, x in zip(weights, reversed(path), strict=True) if x == state) / sum(weights)
            expected.append(27 + 4 * n + min(3, int(4 * share)))
        assert features.extend(state) == expected
        assert max(expected) < CELLS


def test_long_paths_overflow_nothing() -> None:
    """Averages are rescaled, ratios cut off."""
    test = ThetaTest(*README)
    test.add([0] * 60_000)
    assert ALARMED < test.evidence < math.inf


def test_nothing_shows_the_path() -> None:
    test, features = ThetaTest(*README), PathFeatures(2)
    test.add([1] * 100)
    features.extend(1)
    assert repr(test) == object.__repr__(test)
    assert repr(features) == object.__repr__(features)


def test_the_bounds_of_two_states_and_of_more_are_the_same() -> None:
    low, high = BinaryTheta(0.1, 0.2, 0.3, 0.6).transition_bounds
    assert low == ((0.8, 0.1), (0.3, 0.4))
    assert high == ((0.9, 0.2), (0.6, 0.7))
    assert CategoricalTheta.between(low, high).transition_bounds == (low, high)
