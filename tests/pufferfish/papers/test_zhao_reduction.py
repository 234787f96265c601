"""Zhao et al.'s reduction against every adversary, known states and all."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import zhao_reduction as zhao
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish import laplace_oracle


def symmetric(theta: float) -> Chain:
    return Chain([[1 - theta, theta], [theta, 1 - theta]])


def bayesian_loss(chain: Chain, length: int, rho: float) -> float:
    """The loss of flipping each bit with ρ, over all instants, all sets of known states and all transcripts."""
    records = laplace_oracle.of_chain(chain, length)
    paths = records.values
    flips = (paths[:, None, :] != paths[None, :, :]).sum(axis=2)
    likelihood = rho**flips * (1 - rho) ** (length - flips)  # [transcript, path]
    worst = 0.0
    for i in range(length):
        others = [j for j in range(length) if j != i]
        for size in range(length):
            for known in itertools.combinations(others, size):
                for values in itertools.product((0, 1), repeat=size):
                    fits = np.all(paths[:, list(known)] == values, axis=1)
                    sides = []
                    for x in (0, 1):
                        weight = np.where(fits & (paths[:, i] == x), records.probabilities, 0)
                        sides.append(likelihood @ weight / weight.sum())
                    worst = max(worst, float(np.abs(np.log(sides[0] / sides[1])).max()))
    return worst


@settings(deadline=None, max_examples=15)
@given(st.floats(0.15, 0.49), st.floats(0.15, 0.49), st.sampled_from([1.0, 4.0, 12.0]))
def test_the_reduced_budget_is_enough_for_every_adversary(q: float, r: float, epsilon: float) -> None:
    """CGSSY Proposition 1: flipping with 1/(1+e^ε') is ε-BDP, whatever the adversary knows."""
    chain = Chain([[1 - q, q], [r, 1 - r]])
    try:
        rho = zhao.noise(chain, epsilon, 5)
    except ValueError:
        assume(False)
    assert bayesian_loss(chain, 5, rho) <= epsilon + 1e-9


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.integers(2, 3), st.sampled_from([0.3, 1.0, 5.0]), st.integers(1, 80))
def test_the_distance_found_is_the_best_of_all(seed: int, k: int, epsilon: float, length: int) -> None:
    """Halving intervals finds what trying every distance finds, or that none leaves a budget."""
    rng = np.random.default_rng(seed)
    chain = Chain(rng.dirichlet(np.full(k, rng.choice([0.7, 3.0, 20.0])), size=k) * 0.999 + 0.001 / k)
    budgets = []
    for t in range(1, max(1, length // 2) + 1):
        power = chain.power(t)
        ratio = float(np.log((power.max(axis=0) / power.min(axis=0)).max()))
        budgets.append((epsilon - 6 * ratio) / (2 * t - 1))
    if max(budgets) > 0:
        found = zhao.reduction(chain, epsilon, length)
        assert found.epsilon == pytest.approx(max(budgets), rel=1e-9)
        assert budgets[found.distance - 1] == pytest.approx(max(budgets), rel=1e-9)
    else:
        with pytest.raises(ValueError, match="is used up at every distance"):
            zhao.reduction(chain, epsilon, length)


@pytest.mark.parametrize(("theta", "t"), [(0.35, 1), (0.35, 4), (0.2, 7)])
def test_symmetric_chains_have_the_closed_ratio(theta: float, t: int) -> None:
    """CGSSY Proposition 1, second line: the ratio of P^t is (1+(1−2θ)^t)/(1−(1−2θ)^t)."""
    shrunk = (1 - 2 * theta) ** t
    power = symmetric(theta).power(t)
    assert power.max() / power.min() == pytest.approx((1 + shrunk) / (1 - shrunk))


def test_equation_six_has_a_factor_too_many() -> None:
    """With t=1 the noise is (1−θ)⁶/(θ⁶e^ε+(1−θ)⁶); CGSSY's twofold exceeds 1 where this is just above 1/2."""
    theta, epsilon = 0.35, 15.0
    assert zhao.reduction(symmetric(theta), epsilon).distance == 1
    right = (1 - theta) ** 6 / (theta**6 * math.exp(epsilon) + (1 - theta) ** 6)
    assert zhao.noise(symmetric(theta), epsilon) == pytest.approx(right, rel=1e-9)
    least = 6 * math.log((1 - theta) / theta)
    printed = 2 * (1 - theta) ** 6 / (theta**6 * math.exp(least) + (1 - theta) ** 6)
    assert printed == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: zhao.reduction(symmetric(0.3), 0.0), "epsilon is 0"),
        (lambda: zhao.reduction(symmetric(0.3), 1.0, 0), "length is 0"),
        (lambda: zhao.reduction(Chain([[0.5, 0.5], [0.5, 0.5]], [1, 0]), 1.0), "initial is given"),
        (lambda: zhao.reduction(Chain([[0, 1], [1, 0]]), 1.0), "is used up at every distance"),
        (lambda: zhao.noise(Chain(np.full((3, 3), 1 / 3)), 1.0), "the chain has 3 states"),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the setting and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()
