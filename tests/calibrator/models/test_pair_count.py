"""Transitions cost what is claimed, exactly, and their shares are unbiased within their errors: by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.calibrator.models.pair_count import CELLS_MOVED, PairCount, debiased
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish import oracles

TICKS = 5
TILT = 700_000_000
COUNT_SCALE, PAIR_SCALE = 2.5, 9.0
BOTH = 1 / COUNT_SCALE + CELLS_MOVED / PAIR_SCALE
"""The tilt of a count of ones and a table of pairs together."""


def table(path: tuple[int, ...], k: int) -> NDArray[np.int64]:
    found = np.zeros((k, k), dtype=np.int64)
    for before, after in itertools.pairwise(path):
        found[before, after] += 1
    return found


@pytest.mark.parametrize("k", [2, 3])
def test_one_state_moves_a_table_by_four_at_most(k: int) -> None:
    """Over all paths and all changes of one state; four is reached, so less must not be charged."""
    moved = 0
    for path in itertools.product(range(k), repeat=TICKS):
        for tick, state in itertools.product(range(TICKS), range(k)):
            other = (*path[:tick], state, *path[tick + 1 :])
            moved = max(moved, int(np.abs(table(path, k) - table(other, k)).sum()))
    assert moved == CELLS_MOVED


def transcripts(n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For all sanitized paths (columns) and the extreme outputs (rows), the likelihood of count and table together."""
    paths = [tuple(path) for path in oracles.states(n).T.tolist()]
    answers = np.array([[sum(path), *table(path, 2).ravel()] for path in paths], dtype=np.float64)
    scales = np.array([COUNT_SCALE, *[PAIR_SCALE] * 4])
    axes = [np.unique(answers[:, column])[[0, -1]] for column in range(5)]
    outputs = np.array(
        [*itertools.product(*axes), *answers.tolist()]
    )  # beyond the ends nothing changes; between them the ratio is largest at answers
    kernel = np.exp(-(np.abs(outputs[:, None] - answers[None]) / scales).sum(axis=2))
    return np.array(paths), kernel


def test_count_and_table_together_cost_their_sum() -> None:
    """Of a sanitized state; and it is reached, so that a claim of 1% less is wrong."""
    paths, kernel = transcripts(TICKS)
    worst = 0.0
    for one, other in itertools.product(range(len(paths)), repeat=2):
        if np.abs(paths[one] - paths[other]).sum() == 1:
            worst = max(worst, float(np.log(kernel[:, one] / kernel[:, other]).max()))
    assert worst == pytest.approx(BOTH, rel=1e-12)
    assert worst > 0.99 * BOTH


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_the_ledger_prices_them_by_that_sum(adversary: Adversary) -> None:
    """All true paths, all sanitized ones, all extreme outputs: the loss at no tick exceeds the timeline's price."""
    n, q, r, noise = TICKS, 0.15, 0.25, BinaryNoise(0.2, 0.3)
    release = transcripts(n)[1]
    likelihood = oracles.from_sanitized([(noise.rho0, noise.rho1)] * n, release)
    tau = noise.amplified(BOTH)
    entries = [Entry(0, n - 1, tau, tau)]
    price = BinaryTimeline(BinaryTheta.point(q, r), adversary, entries, span=(0, n - 1)).price().epsilon
    true = oracles.attack(q, r, likelihood, informed=adversary == "informed").loss
    assert true <= price + 1e-9
    assert true > 0.5 * price


@pytest.mark.parametrize(
    "laws",
    [((0.8, 0.2), (0.3, 0.7)), ((0.7, 0.2, 0.1), (0.15, 0.75, 0.1), (0.2, 0.2, 0.6))],
)
def test_shares_are_unbiased_and_their_variance_is_bounded(laws: tuple[tuple[float, ...], ...]) -> None:
    """Given any true path, over all sanitized ones: the mean is the true table, the variance at most what is stated."""
    emission, k, n = np.array(laws), len(laws), 4
    for truth in itertools.product(range(k), repeat=n):
        weights, shares = [], []
        for sent in itertools.product(range(k), repeat=n):
            weights.append(math.prod(laws[x][z] for x, z in zip(truth, sent, strict=True)))
            found = debiased([table(sent, k)], [emission], [n - 1], 1e-3)
            shares.append(found.shares)
        mean = np.average(shares, axis=0, weights=weights)
        assert mean == pytest.approx(table(truth, k) / (n - 1), abs=1e-12)
        variance = np.average((np.array(shares) - mean) ** 2, axis=0, weights=weights)
        assert (variance <= found.standard_errors**2 + 1e-12).all()


def test_noise_versions_and_holes_are_not_paired() -> None:
    """Pairs are of consecutive states of one device behind one noise; each version has a table of its own."""
    pieces = {
        ("a", 1): [(0, b"\0\1"), (2, b"\1"), (9, b"\1\1")],
        ("a", 2): [(3, b"\0\0\0")],
        ("b", 1): [(0, b"\1")],
    }
    count = PairCount(pieces, 2)
    noises = {1: BinaryNoise(1e-9, 1e-9), 2: BinaryNoise(1e-9, 1e-9)}
    loud = 4_000_000_000_000  # no noise to speak of
    drawn = count.draw(noises, tilt=loud)
    assert drawn is not None
    assert drawn.pairs == 5
    assert drawn.counts.tolist() == [[2, 1], [0, 2]]
    assert count.draw(noises, tilt=loud, device="b") is None


def test_the_noise_of_a_table_is_what_its_tilt_pays() -> None:
    """Scale 4/tilt, never less; the stated error is what draws have. Rejects a scale that is 30% off."""
    pieces = {("a", 1): [(0, bytes(200))]}
    noise = CategoricalNoise.response(3, 5.0)
    drawn = [PairCount(pieces, 3).draw({1: noise}, tilt=TILT) for _ in range(2000)]
    scale = CELLS_MOVED / (TILT / 1e9)
    cells = np.array([one.counts.ravel()[1:] for one in drawn if one is not None], dtype=np.float64)
    assert drawn[0] is not None
    assert drawn[0].scale >= scale
    spread = np.abs(cells).mean() / scale
    assert spread == pytest.approx(1, abs=0.06)  # 16,000 draws: 7 standard deviations
