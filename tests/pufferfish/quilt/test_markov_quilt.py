"""The Markov quilt mechanism on chains: the papers' numbers, their plain algorithms, and the loss by definition."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.evaluation.benchmarks.markov_quilt_speed import household, plain_approx, plain_exact
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.markov_quilt import Mixing
from hushmq.pufferfish.quilt.quilt_influence import ChainInfluence
from hushmq.pufferfish.quilt.quilt_search import EndDistances, score
from tests.pufferfish import laplace_oracle
from tests.pufferfish.quilt.test_quilt_influence import random_chain

FIRST = Chain([[0.9, 0.1], [0.4, 0.6]], [1, 0])
SECOND = Chain([[0.8, 0.2], [0.3, 0.7]], [0.9, 0.1])

epsilons = st.sampled_from([0.3, 1.0, 3.0, 8.0])
starts = st.sampled_from(["given", "known", "stationary"])


class TestRunningExample:
    """SWC section 4.4: two chains of 100 instants, ε=1."""

    def test_second_chain(self) -> None:
        """The paper's 10.6402 at X_6, by the quilt {X_10}."""
        found = mqm.exact([SECOND], 100, 1.0)
        assert round(found.scale, 4) == 10.6402
        assert found.quilt == (None, 4)

    @pytest.mark.slow
    def test_first_chain_needs_less_than_the_paper_says(self) -> None:
        """The paper's 13.0219 at X_8 is the score of {X_3, X_13}; the known first state is a better left end."""
        influence = ChainInfluence(FIRST).at(8)
        assert round(score(EndDistances(8, 93), influence, 1.0, (5, 5)), 4) == 13.0219
        found = mqm.exact([FIRST], 100, 1.0)
        assert found.quilt == (7, 5)
        assert found.scale == pytest.approx(plain_exact(FIRST, 100, 1.0, 30)[0], rel=1e-9)
        assert round(found.scale, 4) == 12.9341

    def test_both_chains_take_the_worse(self) -> None:
        """A finite Θ is as bad as its worst member."""
        assert mqm.exact([SECOND, FIRST], 100, 1.0) == mqm.exact([FIRST], 100, 1.0)

    def test_mixing(self) -> None:
        """π_Θ = 0.2 and eigengap 0.75 by equation 7, 1 by equation 14: both chains are reversible."""
        assert [chain.eigengap() for chain in (FIRST, SECOND)] == pytest.approx([0.75, 0.75])
        mixing = Mixing.of([FIRST, SECOND])
        assert mixing.pi_min == pytest.approx(0.2)
        assert mixing.gap == pytest.approx(1.0)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.integers(1, 12),
    epsilons,
    starts,
    st.sampled_from([0.0, 0.5]),
)
def test_exact_is_the_plain_algorithm(
    seed: int, k: int, length: int, epsilon: float, start: str, holes: float
) -> None:
    """What the search leaves out does not matter: SWC Algorithm 3 over all nodes and quilts gives the same."""
    chain = random_chain(np.random.default_rng(seed), k, start=start, holes=holes)
    expected, _ = plain_exact(chain, length, epsilon)
    assert mqm.exact([chain], length, epsilon).scale == pytest.approx(expected, rel=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 3), epsilons, starts)
def test_exact_keeps_epsilon(seed: int, k: int, epsilon: float, start: str) -> None:
    """SWC Theorem 4.3 by definition, for a sum with different values at each instant and for the histogram."""
    rng = np.random.default_rng(seed)
    length = 6 if k == 2 else 4
    chain = random_chain(rng, k, start=start)
    records = laplace_oracle.of_chain(chain, length)
    scale = mqm.exact([chain], length, epsilon).scale
    bits = rng.integers(0, 2, size=(length, k))
    total = laplace_oracle.loss(records, lambda row: [sum(int(bits[t, x]) for t, x in enumerate(row))], scale)
    histogram = laplace_oracle.loss(records, lambda row: [row.count(x) for x in range(k)], 2 * scale)
    assert max(total, histogram) <= epsilon + 1e-9


@pytest.mark.parametrize(("P", "expected"), [(np.eye(2), 5), ([[0.3, 0.7], [0.3, 0.7]], 1)])
def test_exact_is_tight_for_copies_and_for_independent_instants(P, expected: int) -> None:
    """All instants alike need T/ε, unrelated ones 1/ε; 1% less noise exceeds ε by 1%."""
    chain = Chain(P, [0.3, 0.7])
    scale = mqm.exact([chain], 5, 1.0).scale
    assert scale == pytest.approx(expected)
    records = laplace_oracle.of_chain(chain, 5)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], scale) == pytest.approx(1.0)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], 0.99 * scale) > 1.01


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 3), epsilons)
def test_any_initial_covers_every_start(seed: int, k: int, epsilon: float) -> None:
    """One scale for all initial distributions is at least that of each, and not above the whole group's."""
    rng = np.random.default_rng(seed)
    P = random_chain(rng, k).transition
    found = mqm.exact([Chain(P)], 12, epsilon, any_initial=True).scale
    each = [mqm.exact([Chain(P, rng.dirichlet(np.ones(k)))], 12, epsilon).scale for _ in range(5)]
    assert max(*each, mqm.exact([Chain(P)], 12, epsilon).scale) <= found * (1 + 1e-9)
    assert found <= 12 / epsilon * (1 + 1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), epsilons, st.sampled_from(["given", "known", "stationary", "any"]))
def test_endless_is_what_longer_and_longer_chains_come_to(seed: int, epsilon: float, start: str) -> None:
    """A stream without end needs what a very long one needs, whatever its start."""
    chain = random_chain(np.random.default_rng(seed), 3, start="given" if start == "any" else start)
    endless = mqm.exact([chain], None, epsilon, any_initial=start == "any")
    long = mqm.exact([chain], 10**6, epsilon, any_initial=start == "any")
    assert endless.scale == pytest.approx(long.scale, rel=1e-9)
    assert endless.quilt[1] is not None


def test_a_long_stationary_chain_of_51_states() -> None:
    """At a million instants the quilt found is locally best, and its score is as stated."""
    chain = household()
    found = mqm.exact([chain], 10**6, 1.0)
    a, b = found.quilt
    assert a is not None
    assert b is not None
    influence = ChainInfluence(chain).at(500_000)
    sides = EndDistances(500_000, 500_001)
    assert found.scale == score(sides, influence, 1.0, (a, b))
    for da in (-3, -1, 0, 1, 3):
        for db in (-3, -1, 0, 1, 3):
            assert score(sides, influence, 1.0, (a + da, b + db)) >= found.scale


@settings(deadline=None, max_examples=60)
@given(st.floats(0.01, 0.5), st.floats(0.02, 2), st.integers(1, 40), epsilons)
def test_fast_and_approx_are_the_plain_algorithm(
    pi_min: float, gap: float, length: int, epsilon: float
) -> None:
    """WSC Claim B.2: the search from the middle finds what an exhaustive search finds."""
    mixing = Mixing(pi_min, gap)
    expected = max(
        min(
            score(
                EndDistances(i, length + 1 - i),
                mixing.influence,
                epsilon,
                EndDistances(i, length + 1 - i).clip(a, b),
            )
            for a in range(1, i + 1)
            for b in range(1, length + 2 - i)
        )
        for i in range(1, length + 1)
    )
    assert mqm.approx(mixing, length, epsilon).scale == pytest.approx(expected, rel=1e-12)
    assert mqm.fast(mixing, length, epsilon).score == pytest.approx(expected, rel=1e-12)


@settings(deadline=None, max_examples=20)
@given(st.floats(0.05, 0.5), st.floats(0.3, 2), epsilons)
def test_long_chains_are_settled_by_their_middle(pi_min: float, gap: float, epsilon: float) -> None:
    """SWC Lemma 4.9: from 8a* instants on the middle node's quilts of up to 4a* decide, as on an endless stream."""
    mixing = Mixing(pi_min, gap)
    reach = mqm.half_budget_distance(mixing, epsilon)
    assert mixing.influence(reach, reach) <= epsilon / 2 + 1e-12
    long = mqm.approx(mixing, 8 * reach, epsilon)
    assert long.scale == pytest.approx(plain_approx(mixing, 8 * reach, epsilon)[0], rel=1e-12)
    assert long == mqm.approx(mixing, None, epsilon)
    assert sum(long.quilt) <= 4 * reach


def reversible_chain(rng: np.random.Generator, k: int) -> Chain:
    flow = rng.gamma(0.5, size=(k, k)) + 1e-3
    flow += flow.T
    return Chain(flow / flow.sum(axis=1, keepdims=True))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 5), st.booleans())
def test_mixing_bounds_powers_and_influence(seed: int, k: int, reversible: bool) -> None:
    """SWC Lemmas C.5, 4.8 and C.4: powers are within 1±Δ of π, and the influence below its bound for any start."""
    rng = np.random.default_rng(seed)
    chain = reversible_chain(rng, k) if reversible else random_chain(rng, k)
    mixing = Mixing.of([chain])
    pi = chain.stationary()
    for t in (1, 2, 5, 11):
        delta = math.exp(-mixing.gap * t / 2) / mixing.pi_min
        assert np.abs(chain.power(t) / pi - 1).max() <= delta * (1 + 1e-9) + 1e-12
    anything = ChainInfluence(chain, any_initial=True)
    for i, a, b in [(30, 20, 10), (60, 35, 40), (60, None, 25), (60, 40, None)]:
        assert anything.at(i)(a, b) <= mixing.influence(a, b) + 1e-9


def test_mixing_says_nothing_until_it_has_begun() -> None:
    """WSC Lemma 4.7 needs more than log(1/π)/g instants: at equality, as before, there is no bound."""
    mixing = Mixing(0.25, 1.0)
    least = 2 * math.log(4)
    assert mixing.ratio(math.floor(least)) == math.inf
    assert mixing.ratio(math.ceil(least)) < math.inf
    assert Mixing(0.5, 2 * math.log(2)).ratio(1) == math.inf


def test_the_reversible_gap_is_the_better_one() -> None:
    """SWC equation 14 against 7: 2(1−|λ|) is at least 1−λ², so a reversible chain needs less noise."""
    chain = reversible_chain(np.random.default_rng(0), 4)
    assert Mixing.of([chain]).gap == pytest.approx(2 * chain.reversible_eigengap())
    assert Mixing.of([chain]).gap > chain.eigengap()
    general = Mixing(float(chain.stationary().min()), chain.eigengap())
    assert mqm.approx(Mixing.of([chain]), None, 1.0).scale < mqm.approx(general, None, 1.0).scale


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.integers(2, 4), epsilons, st.sampled_from([5, 40, None]))
def test_approx_never_needs_less_than_exact(seed: int, k: int, epsilon: float, length: int | None) -> None:
    """The approximation is on the safe side, even for all initial distributions together."""
    chain = random_chain(np.random.default_rng(seed), k)
    mixing = Mixing.of([chain])
    approx = mqm.approx(mixing, length, epsilon).scale
    assert approx >= mqm.exact([chain], length, epsilon, any_initial=True).scale * (1 - 1e-9)


def test_a_periodic_chain_of_finite_length_is_a_group() -> None:
    """A chain that never forgets needs T/ε, and on an endless stream nothing helps."""
    chain = Chain([[0, 1], [1, 0]], [0.5, 0.5])
    assert mqm.exact([chain], 6, 2.0) == LaplaceScale("mqm-exact", 3.0, (None, None))
    with pytest.raises(ValueError, match="reducible or periodic"):
        mqm.exact([chain], None, 2.0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: mqm.exact([], 5, 1.0), "chains is empty"),
        (lambda: mqm.exact([SECOND], 0, 1.0), "length is 0"),
        (lambda: mqm.exact([SECOND], 5, 0.0), "epsilon is 0"),
        (lambda: mqm.exact([SECOND], 5, math.nan), "epsilon is nan"),
        (lambda: mqm.exact([SECOND], 5, math.inf), "epsilon is inf"),
        (lambda: mqm.exact([Chain(np.eye(2))], 5, 1.0), "reducible"),
        (lambda: mqm.approx(Mixing(0.2, 1.0), -1, 1.0), "length is -1"),
        (lambda: mqm.approx(Mixing(0.2, 1.0), None, -1.0), "epsilon is -1"),
        (lambda: Mixing(0.0, 1.0), "pi_min is 0"),
        (lambda: Mixing(0.7, 1.0), "pi_min is 0.7"),
        (lambda: Mixing(0.2, 0.0), "gap is 0"),
        (lambda: Mixing(0.2, 2.5), "gap is 2.5"),
        (lambda: Mixing.of([]), "chains is empty"),
        (lambda: Mixing.of([Chain([[0.5, 0.5, 0], [0, 0, 1], [1, 0, 0]])]), "eigengap 0"),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the setting, the value and what would be right."""
    with pytest.raises(ValueError, match=message):
        build()
