"""A window whose ticks carry different noise: what its histogram says, against all outputs and by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from hushmq.calibrator.models.binary import binary_count
from hushmq.calibrator.models.binary.binary_count import count_binary
from hushmq.calibrator.models.categorical import categorical_count
from hushmq.calibrator.models.categorical.categorical_count import count_categorical
from hushmq.calibrator.models.draw_noise import variance
from hushmq.calibrator.models.histogram import Histogram
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.inference.minimax_weights import minimax_weights
from hushmq.pufferfish.inference.nearest_distribution import nearest_distribution
from hushmq.pufferfish.protocols import Noise

TILT = NANO // 2
STRONG, WEAK = 1, 2
TWO: Mapping[int, Noise] = {STRONG: BinaryNoise(0.3, 0.2), WEAK: BinaryNoise(0.48, 0.42)}
THREE: Mapping[int, Noise] = {
    STRONG: CategoricalNoise.response(3, 1.5),
    WEAK: CategoricalNoise.response(3, 0.3),
}


def histogram(
    states: Mapping[int, Sequence[int]], noises: Mapping[int, Noise], tilt: int = TILT
) -> Histogram:
    """The histogram of one device's sanitized states, by noise version."""
    pieces, first = {}, 0
    for version, some in states.items():
        pieces["one", version] = [(first, bytes(some))]
        first += len(some)
    k = len(emission(noises[STRONG]))
    return (count_binary(pieces) if k == 2 else count_categorical(k, pieces)).histogram(noises, tilt=tilt)


def emission(noise: Noise) -> np.ndarray:
    if isinstance(noise, BinaryNoise):
        return np.array([[1 - noise.rho0, noise.rho0], [noise.rho1, 1 - noise.rho1]])
    assert isinstance(noise, CategoricalNoise)
    return np.array(noise.rows)


def outputs(
    truth: Mapping[int, Sequence[int]], noises: Mapping[int, Noise]
) -> Iterator[tuple[float, dict[int, tuple[int, ...]]]]:
    """Everything that may be published of these states, with its probability."""
    k = len(emission(noises[STRONG]))
    each = [
        [
            (math.prod(emission(noises[version])[u][z] for u, z in zip(states, seen, strict=True)), seen)
            for seen in product(range(k), repeat=len(states))
        ]
        for version, states in truth.items()
    ]
    for drawn in product(*each):
        yield math.prod(p for p, _ in drawn), dict(zip(truth, (seen for _, seen in drawn), strict=True))


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no noise for the release: it is independent of everything, with mean 0 and a known variance."""

    def noisy(counts: Sequence[int], **_: float) -> list[int]:
        return list(counts)

    for module in (binary_count, categorical_count):
        monkeypatch.setattr(module, "noisy", noisy)


def drawn(noise: Noise, ticks: int, scale: float) -> np.ndarray:
    """The variance of each share because of the release's noise; of two counts one is drawn, the other is the rest."""
    inverse = np.linalg.inv(emission(noise)) / ticks
    if len(inverse) == 2:
        return np.full(2, variance(scale) * (inverse[1, 1] - inverse[0, 1]) ** 2)
    return np.asarray(variance(scale) * (inverse**2).sum(axis=0))


def errors(truth: Mapping[int, Sequence[int]], noises: Mapping[int, Noise]) -> tuple[np.ndarray, np.ndarray]:
    """Bias and mean square of each frequency over all outputs, without the noise drawn for the release."""
    k = len(emission(noises[STRONG]))
    true = np.bincount(np.concatenate(list(truth.values())), minlength=k)
    found = [
        (p, np.array(histogram(seen, noises).frequencies) - true / true.sum())
        for p, seen in outputs(truth, noises)
    ]
    return np.asarray(sum(p * off for p, off in found)), np.asarray(sum(p * off**2 for p, off in found))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noises", "ticks"),
    [(TWO, {STRONG: 3, WEAK: 2}), (TWO, {STRONG: 2, WEAK: 4}), (THREE, {STRONG: 2, WEAK: 2})],
)
def test_bias_and_mean_square_are_within_their_bounds(
    monkeypatch: pytest.MonkeyPatch, noises: Mapping[int, Noise], ticks: Mapping[int, int]
) -> None:
    """Over all outputs, whatever the true states: a part alone is unbiased; parts together are biased by as much as
    the weights say and no more, and their mean square stays below its bound.
    """
    silent(monkeypatch)
    states = range(len(emission(noises[STRONG])))
    scale = histogram({STRONG: [0]}, noises).scale
    extra = {version: drawn(noises[version], some, scale) for version, some in ticks.items()}
    worst = {}
    for version, some in ticks.items():
        alone = [errors({version: part}, noises) for part in combinations_with_replacement(states, some)]
        assert max(np.abs(bias).max() for bias, _ in alone) < 1e-9
        worst[version] = max(float(np.max(square + extra[version])) for _, square in alone)
    weights = minimax_weights(list(ticks.values()), list(worst.values()))
    added = sum(a**2 * extra[v] for a, v in zip(weights.each, ticks, strict=True))
    bound = weights.bias**2 + sum(a**2 * worst[v] for a, v in zip(weights.each, ticks, strict=True))
    together = [
        errors(dict(zip(ticks, parts, strict=True)), noises)
        for parts in product(*(combinations_with_replacement(states, some) for some in ticks.values()))
    ]
    assert max(np.abs(bias).max() for bias, _ in together) == pytest.approx(weights.bias)
    assert weights.bias > 0.01
    assert max(np.max(square + added) for _, square in together) <= bound * (1 + 1e-9)


def laplace(rng: np.random.Generator) -> Callable[..., list[int]]:
    """Discrete Laplace noise that can be drawn again."""

    def noisy(counts: Sequence[int], *, scale: float) -> list[int]:
        p = -math.expm1(-1 / scale)
        return [int(count + rng.geometric(p) - rng.geometric(p)) for count in counts]

    return noisy


def simulated(
    monkeypatch: pytest.MonkeyPatch,
    parts: Mapping[int, Sequence[int]],
    noises: Mapping[int, Noise],
    times: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each window and state: how far the frequency was off, its standard error, its half width.

    `parts` says how many ticks of a version are in each state.
    """
    rng = np.random.default_rng(7)
    for module in (binary_count, categorical_count):
        monkeypatch.setattr(module, "noisy", laplace(rng))
    truth = np.sum(list(parts.values()), axis=0)
    off, error, width = [], [], []
    for _ in range(times):
        seen = {}
        for version, counts in parts.items():
            rows = emission(noises[version])
            seen[version] = np.concatenate(
                [rng.choice(len(row), n, p=row) for row, n in zip(rows, counts, strict=True)]
            ).tolist()
        one = histogram(seen, noises)
        off.append(np.array(one.frequencies) - truth / truth.sum())
        error.append(one.standard_errors)
        width.append(one.half_widths)
    return np.abs(off), np.array(error), np.array(width)


def symmetric(s: float) -> BinaryNoise:
    return BinaryNoise((1 - s) / 2, (1 - s) / 2)


MIXED: list[tuple[Mapping[int, Noise], Mapping[int, Sequence[int]]]] = [
    ({STRONG: symmetric(0.25), WEAK: symmetric(0.05)}, {STRONG: (2000, 0), WEAK: (0, 40)}),
    ({STRONG: symmetric(0.25), WEAK: symmetric(0.05)}, {STRONG: (0, 500), WEAK: (500, 0)}),
    ({STRONG: symmetric(0.6), WEAK: symmetric(0.1)}, {STRONG: (20, 0), WEAK: (0, 5)}),
    ({STRONG: BinaryNoise(0.05, 0.6), WEAK: BinaryNoise(0.2, 0.7)}, {STRONG: (300, 0), WEAK: (0, 50)}),
    ({STRONG: BinaryNoise(0.6, 0.05), WEAK: BinaryNoise(0.6, 0.3)}, {STRONG: (150, 150), WEAK: (0, 300)}),
    (
        {
            STRONG: CategoricalNoise.response(3, 2.0),
            WEAK: CategoricalNoise.response(3, 0.3),
        },
        {STRONG: (500, 0, 0), WEAK: (0, 0, 40)},
    ),
    (
        {
            STRONG: CategoricalNoise.response(4, 1.0),
            WEAK: CategoricalNoise.response(4, 0.5),
        },
        {STRONG: (30, 0, 300, 0), WEAK: (0, 200, 0, 100)},
    ),
    ({STRONG: symmetric(0.2)}, {STRONG: (300, 100)}),
    ({STRONG: symmetric(0.999)}, {STRONG: (300, 100)}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("noises", "parts"), MIXED)
def test_intervals_hold_whatever_the_parts_are(
    monkeypatch: pytest.MonkeyPatch,
    noises: Mapping[int, Noise],
    parts: Mapping[int, Sequence[int]],
) -> None:
    """Also where one part has only ones and the other none, 95% of intervals hold; errors are as large as stated."""
    off, error, width = simulated(monkeypatch, parts, noises, times=1500)
    assert (off <= width).mean(axis=0).min() > 0.935  # 2.7 deviations below
    assert np.sqrt((off**2).mean(axis=0) / (error**2).mean(axis=0)).max() < 1.06


@pytest.mark.slow
def test_a_few_weak_ticks_leave_the_error_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """50 of 2,000 ticks under strong noise: the error is that without them, where each tick alike would double it."""
    noises = {STRONG: symmetric(0.25), WEAK: symmetric(0.04)}
    without, *_ = simulated(monkeypatch, {STRONG: (1000, 950)}, noises, times=600)
    mixed, error, _ = simulated(monkeypatch, {STRONG: (1000, 950), WEAK: (20, 30)}, noises, times=600)
    alone, *_ = simulated(monkeypatch, {WEAK: (20, 30)}, noises, times=600)
    as_they_were = math.hypot(
        *(np.sqrt((off**2).mean()) * n for off, n in ((without, 0.975), (alone, 0.025)))
    )
    assert np.sqrt((mixed**2).mean()) < 1.1 * np.sqrt((without**2).mean())
    assert error.mean() < 1.2 * np.sqrt((without**2).mean())
    assert as_they_were > 1.6 * np.sqrt((without**2).mean())


@pytest.mark.slow
def test_intervals_are_no_wider_than_need_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one setting's window, symmetric or not, intervals a tenth narrower hold too seldom."""
    for noise in (symmetric(0.3), BinaryNoise(0.3, 0.1)):
        off, _, width = simulated(monkeypatch, {STRONG: (400, 400)}, {STRONG: noise}, times=2000)
        assert (off <= 0.88 * width).mean() < 0.94


def test_a_device_of_its_own_setting_is_released_as_if_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device's histogram has nothing of the others' parts; the cohort's has all of them."""
    silent(monkeypatch)
    mine, other = bytes([1, 0, 1, 1] * 25), bytes([0, 1, 0, 0] * 25)
    both = count_binary({("a", STRONG): [(0, mine)], ("b", WEAK): [(0, other)]})
    alone = count_binary({("a", STRONG): [(0, mine)]})
    assert both.histograms(TWO, tilt=TILT)["a"] == alone.histogram(TWO, tilt=TILT)
    whole = both.histogram(TWO, tilt=TILT)
    assert (whole.devices, whole.ticks, whole.counts) == (2, 200, (100, 100))


def test_the_nearest_distribution_is_nearer_to_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frequencies that are proper are never further from the truth than those they are made of."""
    noises, parts = MIXED[5]
    truth = np.sum(list(parts.values()), axis=0) / 540
    rng = np.random.default_rng(1)
    monkeypatch.setattr(categorical_count, "noisy", laplace(rng))
    for _ in range(50):
        seen = {version: rng.integers(0, 3, sum(counts)).tolist() for version, counts in parts.items()}
        raw = histogram(seen, noises).frequencies
        assert math.dist(nearest_distribution(raw), truth) <= math.dist(raw, truth) + 1e-12
