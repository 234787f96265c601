"""W∞ against couplings that exist or not, and the mechanism against the loss by definition."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import wasserstein
from hushmq.pufferfish.papers.bayesian_network import Network, NetworkNode
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish import laplace_oracle

FLU = [0.1, 0.15, 0.5, 0.15, 0.1]


def coupling_exists(mu: dict[int, Fraction], nu: dict[int, Fraction], d: int) -> bool:
    """Hall's condition: every set of values has at most the mass of what lies within d of it."""
    return all(
        sum(mu[s] for s in chosen) <= sum(p for t, p in nu.items() if any(abs(s - t) <= d for s in chosen))
        for size in range(1, len(mu) + 1)
        for chosen in itertools.combinations(mu, size)
    )


def masses(values: list[int], parts: list[int]) -> dict[int, Fraction]:
    return {v: Fraction(p, sum(parts)) for v, p in zip(values, parts, strict=True)}


atoms = st.lists(st.integers(0, 12), min_size=1, max_size=5, unique=True)


@settings(deadline=None)
@given(atoms, atoms, st.data())
def test_distance_is_the_least_d_for_which_a_coupling_exists(
    first: list[int], second: list[int], data
) -> None:
    """The quantile coupling attains what Hall's theorem allows, and nothing below it exists."""
    weights = st.lists(st.integers(1, 6), min_size=5, max_size=5)
    mu = masses(first, data.draw(weights)[: len(first)])
    nu = masses(second, data.draw(weights)[: len(second)])
    d = wasserstein.distance({v: float(p) for v, p in mu.items()}, {v: float(p) for v, p in nu.items()})
    assert d == int(d)
    assert coupling_exists(mu, nu, int(d))
    assert d == 0 or not coupling_exists(mu, nu, int(d) - 1)


def test_flu_example() -> None:
    """SWC section 3.1: a clique of four needs W = 2, half of what group privacy adds."""
    given0, given1 = wasserstein.of_exchangeable(FLU)
    assert given0 == pytest.approx({0: 0.2, 1: 0.225, 2: 0.5, 3: 0.075})
    assert given1 == pytest.approx({1: 0.075, 2: 0.5, 3: 0.225, 4: 0.2})
    assert wasserstein.distance(given0, given1) == 2
    assert wasserstein.scale([(given0, given1)], 0.5).scale == 4


def test_rare_answers_count() -> None:
    """A tail far below the rounding of the total still has to be moved, from either end."""
    assert wasserstein.distance({0: 1e-30, 9: 1.0}, {8: 1e-30, 9: 1.0}) == 8
    assert wasserstein.distance({0: 1.0, 9: 1e-30}, {0: 1.0, 5: 1e-30}) == 4
    assert wasserstein.distance({0: 0.1 + 0.2, 1: 0.7}, {0: 0.3, 1: 0.7}) == 0


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    "chain",
    [
        Chain([[0.9, 0.1], [0.3, 0.7]]),
        Chain([[0.2, 0.8], [0.6, 0.4]], [1, 0]),
        Chain(np.eye(3), [0.2, 0.3, 0.5]),
    ],
)
def test_mechanism_on_chains_keeps_epsilon(chain: Chain, epsilon: float) -> None:
    """SWC Theorem 3.2: the loss by definition never exceeds ε; and W never exceeds the group's T (Theorem 3.3)."""
    values = list(range(chain.k))
    scale = wasserstein.scale(wasserstein.of_chain(chain, 5, values), epsilon).scale
    records = laplace_oracle.of_chain(chain, 5)
    assert laplace_oracle.loss(records, lambda row: [sum(values[x] for x in row)], scale) <= epsilon + 1e-9
    assert scale <= 5 * max(values) / epsilon


def test_no_smaller_scale_would_do_for_copies() -> None:
    """Where all instants are copies the claim is tight: 1% less noise costs 1% more."""
    chain = Chain(np.eye(2), [0.4, 0.6])
    scale = wasserstein.scale(wasserstein.of_chain(chain, 4, [0, 1]), 1.0).scale
    records = laplace_oracle.of_chain(chain, 4)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], scale) == pytest.approx(1.0)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], 0.99 * scale) > 1.01


def test_answers_of_a_chain_are_those_of_its_paths() -> None:
    """The conditional distributions found step by step are those of all paths, added up."""
    chain, values = Chain([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]], [0.5, 0.5, 0]), [-1, 0, 3]
    pairs = list(wasserstein.of_chain(chain, 3, values))
    expected = []
    records = laplace_oracle.of_chain(chain, 3)
    sums = [sum(values[x] for x in row) for row in records.values.tolist()]
    for _, conditionals in laplace_oracle.secrets(records):
        answers = []
        for conditional in conditionals:
            answer: dict[float, float] = {}
            for s, p in zip(sums, conditional.tolist(), strict=True):
                if p > 0:
                    answer[s] = answer.get(s, 0.0) + p
            answers.append(answer)
        expected += list(itertools.combinations(answers, 2))
    assert len(pairs) == len(expected) == 1 + 3 + 3
    for found, true in zip(pairs, expected, strict=True):
        assert found[0] == pytest.approx(true[0])
        assert found[1] == pytest.approx(true[1])


def test_any_query_of_a_network_keeps_epsilon() -> None:
    """The pairs of a network hold every secret: the loss of a query that is no sum stays within ε."""
    network = Network(
        [
            NetworkNode("a", [0.3, 0.7]),
            NetworkNode("b", [[0.9, 0.1], [0.2, 0.8]], ["a"]),
            NetworkNode("c", [[[0.5, 0.5], [0.1, 0.9]], [[0.6, 0.4], [1, 0]]], ["a", "b"]),
        ]
    )
    scale = wasserstein.scale(
        wasserstein.of_network(network, lambda row: 2 * row[0] * row[1] + row[2]), 1.0
    ).scale
    records = laplace_oracle.of_network(network)
    assert 0.5 < laplace_oracle.loss(records, lambda row: [2 * row[0] * row[1] + row[2]], scale) <= 1 + 1e-9


@pytest.mark.parametrize(
    ("mu", "message"),
    [
        ({0: 0.5}, "mu sums to 0.5"),
        ({0: 1.5, 1: -0.5}, "mu needs finite values"),
        ({float("inf"): 1.0}, "mu needs finite values"),
        ({0: float("nan")}, "mu needs finite values"),
    ],
)
def test_what_is_no_distribution_is_refused(mu: dict[float, float], message: str) -> None:
    """A refusal names what is wrong."""
    with pytest.raises(ValueError, match=message):
        wasserstein.distance(mu, {0: 1.0})


def test_an_empty_list_of_pairs_is_refused() -> None:
    """No pairs, no claim."""
    with pytest.raises(ValueError, match="pairs is empty"):
        wasserstein.scale([], 1.0)
    with pytest.raises(ValueError, match="values has 3 entries"):
        list(wasserstein.of_chain(Chain([[0.5, 0.5], [0.5, 0.5]]), 3, [0, 1, 2]))
