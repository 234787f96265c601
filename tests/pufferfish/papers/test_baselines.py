"""The baselines do what they claim, and no more: each against the loss by definition."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import baselines
from hushmq.pufferfish.papers.baselines import InfluenceMatrix, _norm_below_one
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish import laplace_oracle


def influence_matrix(chain: Chain, length: int) -> np.ndarray:
    """Γ by its definition, from the probabilities of all paths."""
    records = laplace_oracle.of_chain(chain, length)
    weight = {
        tuple(row): p for row, p in zip(records.values.tolist(), records.probabilities.tolist(), strict=True)
    }
    gamma = np.zeros((length, length))
    states = range(chain.k)
    for i in range(length):
        conditional = {}
        for rest in itertools.product(states, repeat=length - 1):
            given = np.array([weight.get((*rest[:i], x, *rest[i:]), 0.0) for x in states])
            if given.sum() > 0:
                conditional[rest] = given / given.sum()
        for first, second in itertools.permutations(conditional, 2):
            differing = [j for j in range(length - 1) if first[j] != second[j]]
            if len(differing) == 1:
                j = differing[0] + (differing[0] >= i)
                ratio = float(np.log((conditional[first] / conditional[second]).max()))
                gamma[i, j] = max(gamma[i, j], ratio / 2)
    return gamma


def weak_chain(seed: int, k: int, start: bool) -> Chain:
    rng = np.random.default_rng(seed)
    return Chain(rng.dirichlet(np.full(k, 40.0), size=k), rng.dirichlet(np.full(k, 40.0)) if start else None)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 3), st.booleans(), st.integers(2, 4))
def test_gk16_is_twice_the_largest_row_sum_of_the_inverse(
    seed: int, k: int, start: bool, length: int
) -> None:
    """The scale from three-term recursions is that of the full influence matrix, inverted."""
    chain = weak_chain(seed, k, start)
    gamma = influence_matrix(chain, length)
    assume(np.linalg.norm(gamma, 2) < 0.999)
    expected = 2 * np.linalg.inv(np.eye(length) - gamma).sum(axis=1).max() / 0.5
    assert baselines.gk16([chain], length, 0.5).scale == pytest.approx(expected, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 2.0]))
def test_gk16_keeps_epsilon(seed: int, epsilon: float) -> None:
    """The loss of a noisy count stays within ε; it uses half of it at most, for the bound has a factor 2 to spare."""
    rng = np.random.default_rng(seed)
    chain = Chain(rng.dirichlet([15, 15], size=2))
    try:
        scale = baselines.gk16([chain], 7, epsilon).scale
    except ValueError:
        assume(False)
    reached = laplace_oracle.loss(laplace_oracle.of_chain(chain, 7), lambda row: [sum(row)], scale)
    assert reached <= epsilon / 2 + 1e-9


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 10**6), st.integers(2, 9), st.floats(5, 60))
def test_gk16_applies_exactly_where_the_spectral_norm_is_below_one(
    seed: int, length: int, weight: float
) -> None:
    """The pivots decide as the singular values do."""
    rng = np.random.default_rng(seed)
    chain = Chain(rng.dirichlet([weight, weight], size=2), rng.dirichlet([weight, weight]))
    gammas = InfluenceMatrix.of(chain)
    gamma = np.zeros((length, length))
    for i in range(length):
        if i > 0:
            gamma[i, i - 1] = gammas.last_from_left if i == length - 1 else gammas.from_left
        if i < length - 1:
            gamma[i, i + 1] = gammas.first_from_right if i == 0 else gammas.from_right
    norm = float(np.linalg.norm(gamma, 2))
    assume(abs(norm - 1) > 1e-6)
    if norm < 1:
        assert baselines.gk16([chain], length, 1.0).scale >= 2
    else:
        with pytest.raises(ValueError, match="gk16 does not apply: the spectral norm"):
            baselines.gk16([chain], length, 1.0)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(2, 12), st.sampled_from([0.5, 0.999999, 1.000001, 1.5]))
def test_the_pivots_tell_norms_apart_to_the_sixth_digit(seed: int, length: int, norm: float) -> None:
    """A matrix scaled to a norm just below 1 passes, just above it does not."""
    rng = np.random.default_rng(seed)
    left, right = rng.uniform(0.1, 1, size=(2, length))
    left[0] = right[-1] = 0
    gamma = np.diag(left[1:], -1) + np.diag(right[:-1], 1)
    factor = norm / np.linalg.norm(gamma, 2)
    assert _norm_below_one((factor * left).tolist(), (factor * right).tolist()) == (norm < 1)


def test_gk16_on_an_endless_stream_is_the_limit() -> None:
    """Away from the ends every row of the influence matrix is the same."""
    chain = Chain([[0.4, 0.35, 0.25], [0.25, 0.4, 0.35], [0.35, 0.3, 0.35]])
    endless = baselines.gk16([chain], None, 1.0).scale
    assert baselines.gk16([chain], 2000, 1.0).scale == pytest.approx(endless, rel=1e-9)
    gammas = InfluenceMatrix.of(chain)
    assert gammas.from_left != pytest.approx(gammas.from_right)
    assert endless == pytest.approx(2 / (1 - gammas.from_left - gammas.from_right))


def test_entry_is_tight_without_correlation_and_too_little_with_it() -> None:
    """SWC section 1: 1/ε protects an instant only if it is independent of the others."""
    assert baselines.entry(0.5) == LaplaceScale("entry", 2.0)
    independent = laplace_oracle.of_chain(Chain([[0.3, 0.7], [0.3, 0.7]]), 5)
    correlated = laplace_oracle.of_chain(Chain([[0.9, 0.1], [0.2, 0.8]]), 5)
    assert laplace_oracle.loss(independent, lambda row: [sum(row)], 1.0) == pytest.approx(1.0)
    assert laplace_oracle.loss(correlated, lambda row: [sum(row)], 1.0) > 2.0


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_group_keeps_epsilon_whatever_the_correlation(seed: int) -> None:
    """T/ε is enough for any chain, and copies need all of it."""
    rng = np.random.default_rng(seed)
    records = laplace_oracle.of_chain(Chain(rng.dirichlet([0.3, 0.3], size=2), [0.5, 0.5]), 6)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], baselines.group(6, 1.0).scale) <= 1 + 1e-9
    copies = laplace_oracle.of_chain(Chain(np.eye(2), [0.5, 0.5]), 6)
    assert laplace_oracle.loss(
        copies, lambda row: [sum(row)], baselines.group(6, 1.0).scale
    ) == pytest.approx(1)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: baselines.entry(0.0), "epsilon is 0"),
        (lambda: baselines.group(None, 1.0), "give a finite length"),
        (lambda: baselines.group(0, 1.0), "length is 0"),
        (lambda: baselines.gk16([], 5, 1.0), "chains is empty"),
        (lambda: baselines.gk16([Chain([[0.9, 0.1], [0.1, 0.9]])], 50, 1.0), "must be below 1"),
        (lambda: baselines.gk16([Chain([[0.9, 0.1], [0.1, 0.9]])], None, 1.0), "spectral norm .* is 3.714"),
        (lambda: baselines.gk16([Chain([[0, 1], [0.5, 0.5]])], 4, 1.0), "must be below 1"),
        (
            lambda: baselines.gk16([Chain([[0.5, 0.5], [0.5, 0.5]], [1, 0])], None, 1.0),
            "needs a stationary start",
        ),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal says which mechanism cannot be used and why."""
    with pytest.raises(ValueError, match=message):
        build()


def test_one_instant_needs_no_neighbours() -> None:
    """A chain of one instant has an empty influence matrix."""
    assert baselines.gk16([Chain([[0.9, 0.1], [0.1, 0.9]])], 1, 1.0).scale == 2
    assert math.isclose(baselines.group(1, 1.0).scale, 1)
