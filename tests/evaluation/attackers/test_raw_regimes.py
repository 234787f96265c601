"""Attackers who know regimes: their algorithm by enumeration, and the fit on simulated chains."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest

from hushmq.evaluation.attackers.block_smoother import smoothed
from hushmq.evaluation.attackers.raw_regimes import fitted_regimes, moved_odds
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import loss
from hushmq.pufferfish.regimes.product_tilt import product_loss
from hushmq.pufferfish.regimes.regime_chain import RegimeChain

CHAIN = RegimeChain.of([[0.9, 0.1], [0.2, 0.8]], [(0.1, 0.5), (0.6, 0.1)])


@pytest.mark.parametrize("fresh", [(), (3,), (1, 5)])
def test_blocks_are_the_forward_backward_algorithm(fresh: tuple[int, ...]) -> None:
    """Marginals and likelihood of seven ticks, by the sum over all paths, with and without new beginnings."""
    rng = np.random.default_rng(3)
    law, kernel, evidence = np.array([0.3, 0.7]), np.array([[0.8, 0.2], [0.4, 0.6]]), rng.random((7, 2))
    starts = np.isin(np.arange(7), fresh)
    found = smoothed(law, kernel, evidence, starts)
    weights = np.zeros((7, 2))
    for path in product((0, 1), repeat=7):
        weight = 1.0
        for tick, state in enumerate(path):
            anew = tick == 0 or starts[tick]
            weight *= (law[state] if anew else kernel[path[tick - 1], state]) * evidence[tick, state]
        for tick, state in enumerate(path):
            weights[tick, state] += weight
    assert found.marginals == pytest.approx(weights / weights.sum(axis=1, keepdims=True), abs=1e-12)
    assert found.log_likelihood == pytest.approx(math.log(weights[0].sum()), abs=1e-12)


def test_odds_by_enumeration() -> None:
    """Of six ticks of which every second is published, from all paths of regimes and states."""
    noise, published = BinaryNoise(0.2, 0.3), np.array([True, False] * 3)
    outputs = np.array([1, 0, 0, 1, 1, 0])
    law, kernel = np.array(CHAIN.stationary), np.array(CHAIN.kernel)
    by_bit = np.zeros((6, 2))
    for path in product(range(4), repeat=6):
        weight = law[path[0]] * math.prod(kernel[a, b] for a, b in pairwise(path))
        for tick in np.flatnonzero(published):
            flipped = outputs[tick] != path[tick] % 2
            rho = noise.rho1 if path[tick] % 2 else noise.rho0
            weight *= rho if flipped else 1 - rho
        for tick, state in enumerate(path):
            by_bit[tick, state % 2] += weight
    wanted = np.log(by_bit[:, 1] / by_bit[:, 0]) - math.log(CHAIN.ones / (1 - CHAIN.ones))
    assert moved_odds(CHAIN, outputs, published, noise) == pytest.approx(wanted, abs=1e-12)


def test_no_outputs_move_odds_farther_than_the_loss() -> None:
    """Constant outputs reach the loss of the product tilt, and no others pass it on a chain that is MTP2."""
    chain = RegimeChain.of([[0.9, 0.1], [0.1, 0.9]], [(0.2, 0.8), (0.7, 0.3)])
    noise = BinaryNoise(0.3, 0.3)
    limit = product_loss(chain, noise.tau0, noise.tau1)
    every = np.ones(200, dtype=bool)
    rng = np.random.default_rng(5)
    constant = np.abs(moved_odds(chain, np.zeros(200, dtype=np.int64), every, noise)).max()
    assert constant == pytest.approx(limit, abs=1e-6)
    for _ in range(20):
        outputs = rng.integers(0, 2, 200)
        assert np.abs(moved_odds(chain, outputs, every, noise)).max() <= limit + 1e-9


def test_equal_regimes_are_one_chain() -> None:
    """They lose what the chain loses, and an attacker who knows them moves the odds no farther."""
    chain = RegimeChain.of([[0.9, 0.1], [0.2, 0.8]], [(0.1, 0.3), (0.1, 0.3)])
    noise = BinaryNoise(0.3, 0.2)
    exact = loss(BinaryTheta.point(0.1, 0.3), tau0=noise.tau0, tau1=noise.tau1, adversary="prior")
    assert product_loss(chain, noise.tau0, noise.tau1) == pytest.approx(exact, rel=1e-9)
    outputs, every = np.random.default_rng(0).integers(0, 2, 400), np.ones(400, dtype=bool)
    assert np.abs(moved_odds(chain, outputs, every, noise)).max() <= exact


def test_a_simulated_chain_is_recovered() -> None:
    """From 16,000 ticks of two regimes, cut into pieces: shares and how long regimes last."""
    rng = np.random.default_rng(8)
    true = RegimeChain.of([[0.99, 0.01], [0.02, 0.98]], [(0.05, 0.4), (0.45, 0.05)])
    cumulative = np.cumsum(np.array(true.kernel), axis=1)
    state, bits = 0, np.empty(16_000, dtype=np.int64)
    for tick, draw in enumerate(rng.random(16_000)):
        state = min(3, int(np.searchsorted(cumulative[state], draw)))
        bits[tick] = state % 2
    found = fitted_regimes(np.split(bits, 4), rounds=25)
    assert found.ones == pytest.approx(bits.mean(), abs=0.03)
    for mine, theirs in zip(found.chains, true.chains, strict=True):
        assert mine == pytest.approx(theirs, abs=0.05)
    assert 1 / found.transition[0][1] == pytest.approx(100, rel=0.4)
