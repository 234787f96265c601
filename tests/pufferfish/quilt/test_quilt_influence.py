"""The influence of a chain's nodes on their quilts, against all paths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.quilt_influence import ChainInfluence, PowerRatios
from tests.pufferfish import laplace_oracle


def random_chain(rng: np.random.Generator, k: int, *, holes: float = 0.0, start: str = "given") -> Chain:
    """A chain with some transitions missing; it starts given, known, or stationary."""
    P = rng.dirichlet(np.ones(k), size=k) * (rng.random((k, k)) >= holes) + 1e-3 * np.roll(
        np.eye(k), 1, axis=1
    )
    P /= P.sum(axis=1, keepdims=True)
    if start == "stationary":
        return Chain(P)
    return Chain(P, np.eye(k)[rng.integers(k)] if start == "known" else rng.dirichlet(np.ones(k)))


starts = st.sampled_from(["given", "known", "stationary"])


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 3), starts, st.sampled_from([0.0, 0.4]))
def test_influence_is_that_of_all_paths(seed: int, k: int, start: str, holes: float) -> None:
    """SWC equation 5 equals the definition for every node and quilt, zeros and a known first state included."""
    chain = random_chain(np.random.default_rng(seed), k, holes=holes, start=start)
    records = laplace_oracle.of_chain(chain, 5)
    belief = ChainInfluence(chain)
    for i in range(1, 6):
        influence = belief.at(i)
        for a in [None, *range(1, i)]:
            for b in [None, *range(1, 6 - i)]:
                quilt = [i - 1 + d for d in ((-a if a else 0), b or 0) if d]
                expected = laplace_oracle.influence(records, i - 1, quilt)
                assert influence(a, b) == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_a_known_first_state_is_a_quilt_without_influence() -> None:
    """A known state reveals nothing: {X_1} has influence 0, although the node depends on it."""
    chain = Chain([[0.99, 0.01], [0.02, 0.98]], [1, 0])
    assert ChainInfluence(chain).at(4)(3, None) == pytest.approx(0, abs=1e-12)
    assert ChainInfluence(chain).at(4)(2, None) > 1
    almost = Chain(chain.transition, [1 - 1e-9, 1e-9])
    assert ChainInfluence(almost).at(4)(3, None) > 1


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 3))
def test_any_initial_is_the_supremum_over_initial_distributions(seed: int, k: int) -> None:
    """SWC Appendix C.4: no start has more influence, and starts that all but know the first state come close."""
    rng = np.random.default_rng(seed)
    chain = random_chain(rng, k)
    anything = ChainInfluence(chain, any_initial=True)
    corners = [(1 - 1e-9) * np.eye(k)[x] + 1e-9 / k for x in range(k)]
    starts = [*corners, *rng.dirichlet(np.ones(k), size=20)]
    beliefs = [ChainInfluence(Chain(chain.transition, start)) for start in starts]
    for i, a, b in [(1, None, 2), (2, 1, None), (3, 2, 1), (4, 2, 2), (6, 3, None)]:
        claimed = anything.at(i)(a, b)
        reached = [belief.at(i)(a, b) for belief in beliefs]
        assert max(reached) <= claimed + 1e-9
        assert max(reached) >= claimed - 1e-4


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from(["given", "known", "stationary", "any"]))
def test_influence_never_rises_with_distance_nor_above_its_bound_for_later_nodes(
    seed: int, k: int, start: str
) -> None:
    """The two facts the search stands on: data processing in both distances, and the bound from a node on."""
    chain = random_chain(np.random.default_rng(seed), k, start="given" if start == "any" else start)
    belief = ChainInfluence(chain, any_initial=start == "any")
    for i in (3, 6, 9):
        influence, bound = belief.at(i), belief.from_on(i)
        for a in range(1, i - 1):
            for b in range(1, 5):
                assert influence(a, b) >= influence(a + 1, b) - 1e-9
                assert influence(a, b) >= influence(a, b + 1) - 1e-9
                assert influence(a, b) >= influence(None, b) - 1e-9
                assert influence(a, b) >= influence(a, None) - 1e-9
                if bound is not None:
                    for later in (i, i + 1, i + 4):
                        assert belief.at(later)(a, b) <= bound(a, b) + 1e-9
    assert belief.from_on(9) is not None


@pytest.mark.parametrize("start", ["given", "known", "any"])
def test_late_nodes_tend_to_the_stationary_ones(start: str) -> None:
    """Far from the start, found by a power rather than step by step, only the stationary law is left."""
    chain = random_chain(np.random.default_rng(4), 3, start="known" if start == "known" else "given")
    belief = ChainInfluence(chain, any_initial=start == "any")
    limit = belief.at_infinity()
    stationary = ChainInfluence(Chain(chain.transition))
    assert limit is not None
    for a, b in [(1, 1), (2, 3), (None, 2), (4, None)]:
        assert belief.at(10**6)(a, b) == pytest.approx(limit(a, b), rel=1e-9)
        assert stationary.at(7)(a, b) == limit(a, b)


def test_a_chain_that_does_not_settle_has_no_limit() -> None:
    """Periodic and reducible chains are distinguished from mixing ones."""
    assert ChainInfluence(Chain([[0, 1], [1, 0]], [0.3, 0.7])).at_infinity() is None
    assert ChainInfluence(Chain(np.eye(2), [0.3, 0.7])).at_infinity() is None
    assert ChainInfluence(Chain(np.eye(2), [0.3, 0.7])).from_on(3) is None
    with pytest.raises(ValueError, match="reducible"):
        ChainInfluence(Chain(np.eye(2)))


def test_powers_that_underflow_hide_nothing() -> None:
    """A transition too rare for floating point is possible all the same, and then the influence is infinite."""
    k, rare = 40, 1e-81
    steps = PowerRatios(Chain((1 - rare) * np.eye(k) + rare * np.roll(np.eye(k), 1, axis=1)))
    assert steps.power(39)[0, 39] == 0
    assert steps.possible(39)[0, 39]
    assert steps.right(39).max() == math.inf
    assert steps.left(39, np.arange(k) == 0)[38, 39] == math.inf


def test_a_law_that_underflows_hides_nothing() -> None:
    """A state too improbable for floating point leaves no left end that could be trusted."""
    belief = ChainInfluence(Chain([[1, 1e-200, 0], [0, 1, 1e-200], [0.3, 0.3, 0.4]], [1, 0, 0]))
    assert belief.at(3)(1, None) == math.inf
    assert belief.at(3)(2, None) == math.inf


def test_powers_are_powers() -> None:
    """Squares multiply to every power, values and pattern alike."""
    chain = random_chain(np.random.default_rng(1), 4, holes=0.6)
    ends = PowerRatios(chain)
    for h in (0, 1, 2, 3, 7, 64, 1001):
        assert ends.power(h) == pytest.approx(chain.power(h), rel=1e-9)
        assert np.array_equal(ends.possible(h), chain.power(h) > 0)
