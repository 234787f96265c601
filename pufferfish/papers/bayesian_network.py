"""The Markov quilt mechanism on a small Bayesian network (SWC section 4.2, Algorithm 2).

A quilt of a node is a set Q of other nodes. The nodes near it are those that Q does not d-separate from it. If the
node's max-influence on Q is e, Laplace noise of scale |near|/(ε−e) protects the node.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from string import ascii_letters

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hushmq.pufferfish.quilt.laplace_scale import require_epsilon
from hushmq.pufferfish.quilt.max_influence import max_influence

Table = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkNode:
    """A variable: its name, its parents, and its conditional distribution given their values.

    `table[u, v, …, x]` is P(X = x | first parent = u, second parent = v, …).
    """

    name: str
    parents: tuple[str, ...]
    table: Table

    def __init__(self, name: str, table: ArrayLike, parents: Sequence[str] = ()) -> None:
        """Copies the table; ValueError if it does not hold distributions along its last axis."""
        values = np.array(table, dtype=np.float64)
        if values.ndim != len(parents) + 1:
            raise ValueError(
                f"the table of node {name} has {values.ndim} axes; it needs one per parent and one for its value"
            )
        sums = values.sum(axis=-1, keepdims=True)
        if not (np.all(values >= 0) and np.all(np.abs(sums - 1) <= 1e-6)):
            raise ValueError(f"the table of node {name} must hold distributions along its last axis")
        values /= sums
        values.setflags(write=False)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "parents", tuple(parents))
        object.__setattr__(self, "table", values)


@dataclass(frozen=True, eq=False)
class Network:
    """A Bayesian network: nodes, each listed after its parents."""

    nodes: tuple[NetworkNode, ...]

    def __init__(self, nodes: Iterable[NetworkNode]) -> None:
        """ValueError for duplicate names, a node before its parent, or a table of the wrong shape."""
        listed = tuple(nodes)
        sizes: dict[str, int] = {}
        for node in listed:
            if node.name in sizes:
                raise ValueError(f"node {node.name} is listed twice; names must differ")
            missing = [parent for parent in node.parents if parent not in sizes]
            if missing:
                raise ValueError(f"node {node.name} comes before its parent {missing[0]}; list parents first")
            expected = tuple(sizes[parent] for parent in node.parents)
            if node.table.shape[:-1] != expected:
                raise ValueError(
                    f"the table of node {node.name} has shape {node.table.shape}; its parents take {expected} values"
                )
            sizes[node.name] = node.table.shape[-1]
        if not listed:
            raise ValueError("nodes is empty; a network has at least one node")
        object.__setattr__(self, "nodes", listed)

    @property
    def names(self) -> tuple[str, ...]:
        """The nodes' names, in order."""
        return tuple(node.name for node in self.nodes)

    def marginal(self, names: Sequence[str]) -> Table:
        """The joint distribution of the named nodes, one axis each, in the given order.

        Only their ancestors matter; einsum sums out the others.
        """
        above = self.ancestors(names)
        factors = [node for node in self.nodes if node.name in above]
        if len(factors) > len(ascii_letters):
            raise ValueError(
                f"a marginal needs {len(factors)} nodes; exact inference takes at most {len(ascii_letters)}"
            )
        letter = {node.name: ascii_letters[i] for i, node in enumerate(factors)}
        scopes = ["".join(letter[name] for name in (*node.parents, node.name)) for node in factors]
        contraction = f"{','.join(scopes)}->{''.join(letter[name] for name in names)}"
        return np.asarray(np.einsum(contraction, *(node.table for node in factors), optimize="greedy"))

    def ancestors(self, names: Iterable[str]) -> set[str]:
        """The named nodes and all their ancestors."""
        found = set(names)
        for node in reversed(self.nodes):
            if node.name in found:
                found.update(node.parents)
        return found

    def separated(self, name: str, given: Collection[str]) -> frozenset[str]:
        """The nodes that `given` d-separates from `name`: independent of it given those, for all tables.

        A trail enters a node upwards, from a child, or downwards, from a parent. At an unobserved node it continues in
        every way except from parent to parent; at an observed node only from parent to parent. A node with an observed
        descendant is passed through that descendant.
        """
        parents = {node.name: node.parents for node in self.nodes}
        children: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for parent in node.parents:
                children[parent].append(node.name)
        trails, seen = [(name, "up")], set[tuple[str, str]]()
        while trails:
            trail = trails.pop()
            if trail in seen:
                continue
            seen.add(trail)
            at, direction = trail
            if (direction == "down") == (at in given):
                trails += [(parent, "up") for parent in parents[at]]
            if at not in given:
                trails += [(child, "down") for child in children[at]]
        reached = {at for at, _ in seen if at not in given}
        return frozenset(self.names) - reached - frozenset(given)


@dataclass(frozen=True, slots=True)
class Protection:
    """The active quilt of a node, the nodes near it, its max-influence, and its score: the Laplace scale."""

    node: str
    quilt: frozenset[str]
    near: frozenset[str]
    influence: float
    scale: float


def quilts(
    network: Network, name: str, largest: int | None = None
) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Every quilt of a node with at most `largest` nodes, with the nodes near it; the empty quilt first."""
    if largest is not None and largest < 0:
        raise ValueError(f"largest is {largest}; a quilt has at least 0 nodes")
    others = [other for other in network.names if other != name]
    for size in range(min(len(others), len(others) if largest is None else largest) + 1):
        for chosen in itertools.combinations(others, size):
            quilt = frozenset(chosen)
            yield quilt, frozenset(network.names) - quilt - network.separated(name, quilt)


def influence(network: Network, name: str, quilt: Collection[str]) -> float:
    """The max-influence of a node on a set of others, by exact inference (SWC Definition 4.1)."""
    if not quilt:
        return 0.0
    joint = network.marginal([name, *sorted(quilt)])
    rows = joint.reshape(len(joint), -1)
    weights = rows.sum(axis=1)
    return max_influence(rows[weights > 0] / weights[weights > 0, None])


def protection(network: Network, name: str, epsilon: float, largest: int | None = None) -> Protection:
    """The quilt of the lowest score |near|/(ε−e) for one node (SWC Algorithm 2, inner loop)."""
    require_epsilon(epsilon)
    candidates = quilts(network, name, largest)
    trivial, near = next(candidates)
    best = Protection(name, trivial, near, 0.0, len(near) / epsilon)
    for quilt, near in candidates:
        # e ≥ 0, so |near|/ε is a lower bound on the score.
        if len(near) / epsilon < best.scale:
            e = influence(network, name, quilt)
            if e < epsilon and len(near) / (epsilon - e) < best.scale:
                best = Protection(name, quilt, near, e, len(near) / (epsilon - e))
    return best


def worst(networks: Iterable[Network], epsilon: float, largest: int | None = None) -> Protection:
    """The node that requires the most noise for a finite Θ of networks (SWC Algorithm 2, Theorem 4.3).

    Laplace noise of its `scale` on a 1-Lipschitz query is ε-Pufferfish private. Quilts are chosen for each network
    separately, because Definition 2.1 compares secrets under one distribution at a time; SWC maximise the influence
    over Θ first, which never requires less noise.
    """
    found = [protection(network, name, epsilon, largest) for network in networks for name in network.names]
    if not found:
        raise ValueError("networks is empty; give at least one network")
    return max(found, key=lambda one: one.scale)
