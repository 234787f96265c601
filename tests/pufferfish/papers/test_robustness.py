"""Beliefs outside Θ: the closeness against all paths, and the guarantee against any mechanism."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import robustness as robust
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish import laplace_oracle


def near(rng: np.random.Generator, chain: Chain) -> Chain:
    P = chain.transition * np.exp(rng.uniform(-0.2, 0.2, size=chain.transition.shape))
    return Chain(P / P.sum(axis=1, keepdims=True), rng.dirichlet(np.full(chain.k, 5.0)))


def conditionals(chain: Chain, length: int) -> list[np.ndarray]:
    """For each instant and state, the distribution over all paths given it; both chains must allow all paths."""
    records = laplace_oracle.of_chain(chain, length)
    assert len(records.values) == chain.k**length
    return [given for _, found in laplace_oracle.secrets(records) for given in found]


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(1, 4))
def test_closeness_is_the_largest_divergence_over_all_paths(seed: int, k: int, length: int) -> None:
    """The sums of log-ratios found step by step are those of whole paths, for the nearest member of Θ."""
    rng = np.random.default_rng(seed)
    belief = Chain(rng.dirichlet(np.full(k, 3.0), size=k))
    theta = [near(rng, belief) for _ in range(3)]
    expected = min(
        max(
            max(robust.max_divergence(p, q), robust.max_divergence(q, p))
            for p, q in zip(conditionals(belief, length), conditionals(chain, length), strict=True)
        )
        for chain in theta
    )
    assert robust.closeness(belief, theta, length) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6))
def test_no_mechanism_tells_a_close_adversary_more(seed: int) -> None:
    """SWC Theorem 2.4 for an arbitrary mechanism: what costs ε under Θ costs at most ε+2Δ under the belief."""
    rng = np.random.default_rng(seed)
    chain = Chain(rng.dirichlet([3, 3], size=2))
    belief = near(rng, chain)
    mechanism = rng.dirichlet(np.full(4, 0.3), size=2**4).T + 1e-6  # [output, path]

    def loss(under: Chain) -> float:
        worst = 0.0
        for _, found in laplace_oracle.secrets(laplace_oracle.of_chain(under, 4)):
            first, second = (np.log(mechanism @ given) for given in found)
            worst = max(worst, float(np.abs(first - second).max()))
        return worst

    bound = robust.loss(loss(chain), robust.closeness(belief, [chain], 4))
    assert loss(belief) <= bound + 1e-9


def test_the_bound_is_attained() -> None:
    """A mechanism that tells one record from the others, and a belief that shifts it oppositely under both secrets."""
    given_first, given_second = np.array([0.4, 0.6]), np.array([0.2, 0.8])
    believed_first, believed_second = np.array([0.44, 0.56]), np.array([0.2 / 1.1, 1 - 0.2 / 1.1])
    epsilon = math.log(0.4 / 0.2)  # the mechanism says whether it is the first record
    closeness = max(
        robust.max_divergence(*pair)
        for p, q in [(given_first, believed_first), (given_second, believed_second)]
        for pair in [(p, q), (q, p)]
    )
    assert closeness == pytest.approx(math.log(1.1))
    assert math.log(believed_first[0] / believed_second[0]) == pytest.approx(robust.loss(epsilon, closeness))


def test_divergence_is_infinite_where_the_other_law_is_zero() -> None:
    """SWC Definition 2.3 needs a common support; without one there is no guarantee."""
    assert robust.max_divergence([0.5, 0.5], [1.0, 0.0]) == math.inf
    assert robust.max_divergence([1.0, 0.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert robust.max_divergence([0.5, 0.25, 0.25], [0.25, 0.5, 0.25]) == pytest.approx(math.log(2))
    ring = Chain([[0.5, 0.5], [0.5, 0.5]])
    assert robust.closeness(ring, [Chain([[0.5, 0.5], [1, 0]])], 3) == math.inf
    assert robust.closeness(ring, [Chain([[0.5, 0.5], [0.5, 0.5]], [1, 0])], 3) == math.inf


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: robust.loss(-1.0, 0.0), "epsilon is -1"),
        (lambda: robust.loss(1.0, math.nan), "closeness nan"),
        (lambda: robust.max_divergence([1.0], [0.5, 0.5]), "must be alike"),
        (lambda: robust.closeness(Chain(np.full((2, 2), 0.5)), [], 3), "theta is empty"),
        (lambda: robust.closeness(Chain(np.full((2, 2), 0.5)), [Chain(np.full((3, 3), 1 / 3))], 3), "3"),
        (
            lambda: robust.closeness(Chain(np.full((2, 2), 0.5)), [Chain(np.full((2, 2), 0.5))], 0),
            "length is 0",
        ),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the setting and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()
