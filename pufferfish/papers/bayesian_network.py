"""The Markov quilt mechanism on any small Bayesian network (SWC section 4.2, Algorithm 2).

A quilt of a node is a set Q of other nodes; what it leaves near the node is everything that Q does not d-separate
from it. If the node's value can shift the joint distribution of Q by at most e, Laplace noise of scale
|near|/(ε−e) protects the node.
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
class Node:
    """A variable: its name, its parents, and the distribution of its value for each combination of theirs.

    `table[u, v, …, x]` is P(X = x | first parent = u, second parent = v, …).
    """

    name: str
    parents: tuple[str, ...]
    table: Table

    def __init__(self, name: str, table: ArrayLike, parents: Sequence[str] = ()) -> None:
        """Check that every distribution in the table is one, and copy it."""
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

    nodes: tuple[Node, ...]

    def __init__(self, nodes: Iterable[Node]) -> None:
        """Check names, order and the sizes of the tables."""
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
        """The joint distribution of some nodes, one axis for each, in the order given.

        Only their ancestors matter; einsum contracts the rest away two factors at a time.
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
        """The named nodes and everything above them."""
        found = set(names)
        for node in reversed(self.nodes):
            if node.name in found:
                found.update(node.parents)
        return found

    def separated(self, name: str, given: Collection[str]) -> frozenset[str]:
        """The nodes d-separated from one by others: independent of it given them, whatever the tables hold.

        A trail reaches a node going up, from a child, or down, from a parent. At an unobserved node it goes on
        anyhow but from parent to parent; at an observed one only so. A node with an observed descendant is passed
        by way of that.
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
    """What protects one node: the active quilt, the nodes it leaves near, its max-influence and its score."""

    node: str
    quilt: frozenset[str]
    near: frozenset[str]
    influence: float
    scale: float


def quilts(
    network: Network, name: str, largest: int | None = None
) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    """Every quilt of a node with at most `largest` nodes, and what it leaves near; the empty one first."""
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
        # e ≥ 0, so a quilt that leaves too much near cannot win whatever its influence.
        if len(near) / epsilon < best.scale:
            e = influence(network, name, quilt)
            if e < epsilon and len(near) / (epsilon - e) < best.scale:
                best = Protection(name, quilt, near, e, len(near) / (epsilon - e))
    return best


def worst(networks: Iterable[Network], epsilon: float, largest: int | None = None) -> Protection:
    """The node that needs the most noise under any of finitely many beliefs (SWC Algorithm 2, Theorem 4.3).

    Laplace noise of its `scale` on a 1-Lipschitz query is ε-Pufferfish private. Each belief may use its own
    quilts, for Definition 2.1 compares secrets under one belief at a time; SWC take the largest influence over
    all beliefs first, which can only need more noise.
    """
    found = [protection(network, name, epsilon, largest) for network in networks for name in network.names]
    if not found:
        raise ValueError("networks is empty; give at least one belief")
    return max(found, key=lambda one: one.scale)
