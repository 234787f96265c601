"""The privacy loss of Laplace noise by its definition, over all records of a small problem.

Records are enumerated with their probabilities; nothing here knows quilts, influence or mixing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.papers.bayesian_network import Network
from hushmq.pufferfish.quilt.markov_chain import Chain

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Records:
    """Every record that can occur, one per row, and its probability."""

    values: NDArray[np.int64]
    probabilities: Floats


def of_chain(chain: Chain, length: int) -> Records:
    """All paths of a chain, by multiplying out."""
    k, start = chain.k, chain.start()
    rows, weights = [], []
    for path in itertools.product(range(k), repeat=length):
        weight = start[path[0]]
        for x, y in itertools.pairwise(path):
            weight *= chain.transition[x, y]
        if weight > 0:
            rows.append(path)
            weights.append(weight)
    return Records(np.array(rows), np.array(weights))


def of_network(network: Network) -> Records:
    """All joint values of a network, by multiplying out."""
    sizes = [node.table.shape[-1] for node in network.nodes]
    column = {name: i for i, name in enumerate(network.names)}
    rows, weights = [], []
    for row in itertools.product(*(range(size) for size in sizes)):
        weight = 1.0
        for node in network.nodes:
            weight *= node.table[tuple(row[column[name]] for name in (*node.parents, node.name))]
        if weight > 0:
            rows.append(row)
            weights.append(weight)
    return Records(np.array(rows), np.array(weights))


def secrets(records: Records) -> list[tuple[int, list[Floats]]]:
    """For each position, the conditional distribution over records given each value it can take."""
    found = []
    for i in range(records.values.shape[1]):
        conditionals = []
        for value in np.unique(records.values[:, i]):
            weight = np.where(records.values[:, i] == value, records.probabilities, 0.0)
            conditionals.append(weight / weight.sum())
        found.append((i, conditionals))
    return found


def loss(records: Records, query: Callable[[Sequence[int]], Sequence[float]], scale: float) -> float:
    """The largest log-likelihood ratio of the noisy answer between two values of one position.

    In each coordinate of the output, between neighbouring answers both likelihoods are mixtures of e^(w/s) and
    e^(−w/s), so the ratio is monotone there and beyond the answers constant: the grid of answers has the maximum.
    """
    answers = np.array([query(row) for row in records.values.tolist()], dtype=np.float64)
    axes = [np.unique(answers[:, c]) for c in range(answers.shape[1])]
    outputs = np.array(list(itertools.product(*axes)))
    kernel = np.exp(-np.abs(outputs[:, None, :] - answers[None, :, :]).sum(axis=2) / scale)
    worst = 0.0
    for _, conditionals in secrets(records):
        likelihoods = np.log(np.array([kernel @ given for given in conditionals]))
        worst = max(worst, float((likelihoods.max(axis=0) - likelihoods.min(axis=0)).max()))
    return worst


def influence(records: Records, i: int, quilt: Sequence[int]) -> float:
    """The max-influence of position i on others: their conditional probabilities, added up value by value."""
    tables: list[dict[tuple[int, ...], float]] = []
    for conditional in dict(secrets(records))[i]:
        table: dict[tuple[int, ...], float] = {}
        for row, weight in zip(records.values.tolist(), conditional.tolist(), strict=True):
            if weight > 0:
                key = tuple(row[j] for j in quilt)
                table[key] = table.get(key, 0.0) + weight
        tables.append(table)
    worst = 0.0
    for first, second in itertools.permutations(tables, 2):
        for key, weight in first.items():
            worst = max(worst, float(np.log(weight / second[key])) if key in second else float("inf"))
    return worst
