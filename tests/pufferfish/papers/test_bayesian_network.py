"""Quilts on networks: d-separation against independence in the tables, the mechanism against its loss."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import bayesian_network as network
from hushmq.pufferfish.papers.bayesian_network import Network, NetworkNode
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish import laplace_oracle


def random_network(rng: np.random.Generator, size: int, density: float, k: int = 2) -> Network:
    nodes: list[NetworkNode] = []
    for i in range(size):
        parents = [node.name for node in nodes if rng.random() < density]
        table = rng.dirichlet(np.full(k, 0.8), size=(k,) * len(parents))
        nodes.append(NetworkNode(f"n{i}", table, parents))
    return Network(nodes)


def chain_network(chain: Chain, length: int) -> Network:
    first = NetworkNode("1", chain.start())
    return Network(
        [first, *(NetworkNode(str(t), chain.transition, [str(t - 1)]) for t in range(2, length + 1))]
    )


def independent(joint: np.ndarray, i: int, j: int, given_axes: tuple[int, ...]) -> bool:
    """Whether p(i,j,g)·p(g) = p(i,g)·p(j,g) for all values, from the full table."""
    rest = tuple(axis for axis in range(joint.ndim) if axis not in (i, j, *given_axes))
    p = joint.sum(axis=rest, keepdims=True)
    left = p * p.sum(axis=(i, j), keepdims=True)
    right = p.sum(axis=j, keepdims=True) * p.sum(axis=i, keepdims=True)
    return bool(np.allclose(left, right, rtol=1e-9, atol=1e-15))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.floats(0.2, 0.8))
def test_separated_nodes_are_exactly_those_independent_for_generic_tables(seed: int, density: float) -> None:
    """d-separation is sound, and misses nothing that random tables do not have by accident."""
    net = random_network(np.random.default_rng(seed), 5, density)
    joint = net.marginal(net.names)
    for i, name in enumerate(net.names):
        others = [j for j in range(5) if j != i]
        for size in range(4):
            for observed in itertools.combinations(others, size):
                separated = net.separated(name, {net.names[j] for j in observed})
                for j in set(others) - set(observed):
                    assert (net.names[j] in separated) == independent(joint, i, j, observed)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6))
def test_influence_and_marginals_are_those_of_all_records(seed: int) -> None:
    """Exact inference agrees with adding up the full table."""
    net = random_network(np.random.default_rng(seed), 5, 0.5, k=3)
    records = laplace_oracle.of_network(net)
    for i, quilt in [(0, [3]), (2, [0, 4]), (4, [1, 2, 3])]:
        expected = laplace_oracle.influence(records, i, quilt)
        names = [net.names[j] for j in quilt]
        assert network.influence(net, net.names[i], names) == pytest.approx(expected, rel=1e-9)
    assert net.marginal(["n3", "n1"]).sum() == pytest.approx(1)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 3.0]), st.floats(0.1, 0.9))
def test_the_mechanism_keeps_epsilon_on_any_network(seed: int, epsilon: float, density: float) -> None:
    """SWC Theorem 4.3 by definition, for a random 1-Lipschitz sum."""
    rng = np.random.default_rng(seed)
    net = random_network(rng, 5, density)
    scale = network.worst([net], epsilon).scale
    bits = rng.integers(0, 2, size=(5, 2))
    reached = laplace_oracle.loss(
        laplace_oracle.of_network(net), lambda row: [sum(int(bits[i, x]) for i, x in enumerate(row))], scale
    )
    assert reached <= epsilon + 1e-9


@pytest.mark.parametrize("groups", [[1, 1, 1, 1], [2, 2], [3, 1], [4]])
def test_copies_in_groups_need_the_largest_group_and_no_less(groups: list[int]) -> None:
    """Where records are copies within groups and independent between them, the scale is tight to the last percent."""
    nodes: list[NetworkNode] = []
    for g, size in enumerate(groups):
        nodes.append(NetworkNode(f"{g}-0", [0.3, 0.7]))
        nodes += [NetworkNode(f"{g}-{i}", np.eye(2), [f"{g}-0"]) for i in range(1, size)]
    found = network.worst([Network(nodes)], 1.0)
    assert found.scale == pytest.approx(max(groups))
    assert found.quilt == frozenset()
    records = laplace_oracle.of_network(Network(nodes))
    assert laplace_oracle.loss(records, lambda row: [sum(row)], found.scale) == pytest.approx(1.0)
    assert laplace_oracle.loss(records, lambda row: [sum(row)], 0.99 * found.scale) > 1.01


def test_the_composition_example() -> None:
    """SWC section 4.3: the middle of three instants at ε=10, its four quilts, and the active one."""
    net = chain_network(Chain([[0.9, 0.1], [0.4, 0.6]], [0.8, 0.2]), 3)
    found = {
        quilt: (len(near), network.influence(net, "2", quilt)) for quilt, near in network.quilts(net, "2")
    }
    assert found == {
        frozenset(): (3, 0.0),
        frozenset("1"): (2, pytest.approx(math.log(6))),
        frozenset("3"): (2, pytest.approx(math.log(6))),
        frozenset("13"): (1, pytest.approx(math.log(36))),
    }
    scores = sorted(near / (10 - e) for near, e in found.values())
    assert [round(score, 4) for score in scores] == [0.1558, 0.2437, 0.2437, 0.3]
    assert network.protection(net, "2", 10.0).quilt == frozenset("13")


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([0.4, 1.0, 4.0]), st.booleans())
def test_a_chain_as_a_network_is_a_chain(seed: int, epsilon: float, known: bool) -> None:
    """SWC Lemma 4.6: on a chain no quilt of more than two nodes, one a side, is better."""
    rng = np.random.default_rng(seed)
    start = np.eye(2)[0] if known else rng.dirichlet([1, 1])
    chain = Chain(rng.dirichlet([1, 1], size=2), start)
    found = network.worst([chain_network(chain, 6)], epsilon)
    assert found.scale == pytest.approx(mqm.exact([chain], 6, epsilon).scale, rel=1e-9)


def test_a_tree_uses_quilts_no_chain_has() -> None:
    """A star's leaf is protected by its centre alone: one near node however many leaves there are."""
    leak = [[0.55, 0.45], [0.45, 0.55]]
    star = Network([NetworkNode("c", [0.5, 0.5]), *(NetworkNode(f"l{i}", leak, ["c"]) for i in range(5))])
    leaf = network.protection(star, "l0", 1.0)
    assert leaf.quilt == {"c"}
    assert leaf.near == {"l0"}
    assert leaf.scale == pytest.approx(1 / (1 - math.log(0.55 / 0.45)))
    assert network.protection(star, "l0", 1.0, largest=0).scale == 6


def test_several_beliefs_take_the_worst() -> None:
    """A Θ of several networks requires the noise of the worst."""
    weak, strong = (chain_network(Chain([[1 - q, q], [q, 1 - q]]), 5) for q in (0.4, 0.1))
    assert network.worst([weak, strong], 1.0) == network.worst([strong], 1.0)
    assert network.worst([weak], 1.0).scale < network.worst([strong], 1.0).scale


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Network([]), "nodes is empty"),
        (lambda: Network([NetworkNode("a", [1.0]), NetworkNode("a", [1.0])]), "node a is listed twice"),
        (lambda: Network([NetworkNode("a", [[1.0]], ["b"])]), "node a comes before its parent b"),
        (
            lambda: Network([NetworkNode("a", [0.5, 0.5]), NetworkNode("b", [[1, 0]], ["a"])]),
            r"its parents take \(2,\) values",
        ),
        (lambda: NetworkNode("a", [[0.5, 0.5]]), "table of node a has 2 axes"),
        (lambda: NetworkNode("a", [0.5, 0.4]), "table of node a must hold distributions"),
        (lambda: NetworkNode("a", [1.5, -0.5]), "table of node a must hold distributions"),
        (lambda: NetworkNode("a", [float("nan"), 1]), "table of node a must hold distributions"),
        (lambda: network.worst([], 1.0), "networks is empty"),
        (lambda: network.worst([Network([NetworkNode("a", [0.5, 0.5])])], 0.0), "epsilon is 0"),
        (
            lambda: network.protection(Network([NetworkNode("a", [1.0])]), "a", 1.0, largest=-1),
            "largest is -1",
        ),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the node and what it needs."""
    with pytest.raises(ValueError, match=message):
        build()
