"""The Wasserstein mechanism: noise for any query, any secrets and any Θ (SWC Algorithm 1).

It requires the distribution of the query's answer given each secret, so it is for small problems and for tests.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hushmq.pufferfish.papers.bayesian_network import Network
from hushmq.pufferfish.quilt.laplace_scale import LaplaceScale, require_epsilon, require_length
from hushmq.pufferfish.quilt.markov_chain import Chain

Distribution = Mapping[float, float]
"""The probability of each value of a query's answer."""

ROUNDING = 1e-9
"""The relative distance at which two cumulative probabilities count as equal."""


def distance(mu: Distribution, nu: Distribution) -> float:
    """W∞(μ, ν), the largest distance that mass moves in the best coupling (SWC Definition 3.1).

    On the line the quantile coupling is optimal for every cost, so W∞ = sup over u of |F⁻¹(u) − G⁻¹(u)|. Each tail is
    summed from its end, which keeps the relative precision of rare answers.
    """
    first, second = _sorted(mu, "mu"), _sorted(nu, "nu")
    return max(
        _rise(first, second), _rise(second, first), _rise(_mirror(first), _mirror(second)),
        _rise(_mirror(second), _mirror(first)),
    )  # fmt: skip


def scale(pairs: Iterable[tuple[Distribution, Distribution]], epsilon: float) -> LaplaceScale:
    """W/ε, where W is the largest distance over all pairs of secrets and all of Θ (SWC Algorithm 1, Theorem 3.2).

    A pair holds the distributions of the answer given the one and the other secret, under the same distribution in Θ.
    """
    require_epsilon(epsilon)
    distances = [distance(mu, nu) for mu, nu in pairs]
    if not distances:
        raise ValueError("pairs is empty; give the answer's distributions for at least one secret pair")
    return LaplaceScale("wasserstein", max(distances) / epsilon)


def of_exchangeable(counts: Sequence[float]) -> tuple[Distribution, Distribution]:
    """The number of ones among n exchangeable records, given that one of them is 0, and given that it is 1.

    `counts[j]` is the probability of j ones. By symmetry P(x=1 | N=j) = j/n (the flu example of SWC section 3.1).
    """
    n = len(counts) - 1
    given0 = [p * (n - j) / n for j, p in enumerate(counts)]
    given1 = [p * j / n for j, p in enumerate(counts)]
    return _conditional(given0), _conditional(given1)


def of_chain(chain: Chain, length: int, values: Sequence[int]) -> Iterator[tuple[Distribution, Distribution]]:
    """Pairs for the sum of a value per state over a stream, with the state at each instant a secret."""
    require_length(length)
    if len(values) != chain.k:
        raise ValueError(f"values has {len(values)} entries; it needs one for each of {chain.k} states")
    shifts = [v - min(values) for v in values]
    largest_sum = length * max(shifts) + 1
    before = _sums(chain.start(), chain.transition, length, shifts, largest_sum)
    after = _tails(chain.transition, length, shifts, largest_sum)
    offset = length * min(values)
    for i in range(length):
        answers = [
            {
                float(offset + s): float(p)
                for s, p in enumerate(np.convolve(left, right)[:largest_sum].tolist())
                if p > 0
            }
            for left, right in zip(before[i], after[length - 1 - i], strict=True)
            if left.any()
        ]
        yield from itertools.combinations([_rescaled(answer) for answer in answers], 2)


def of_network(
    network: Network, query: Callable[[tuple[int, ...]], float]
) -> Iterator[tuple[Distribution, Distribution]]:
    """Pairs for any query of a small Bayesian network, with the value of each node a secret."""
    joint = network.marginal(network.names)
    for axis in range(joint.ndim):
        answers: list[dict[float, float]] = [{} for _ in range(joint.shape[axis])]
        for record in np.ndindex(joint.shape):
            if joint[record] > 0:
                answer = answers[record[axis]]
                value = query(record)
                answer[value] = answer.get(value, 0.0) + float(joint[record])
        yield from itertools.combinations([_rescaled(answer) for answer in answers if answer], 2)


def _sorted(distribution: Distribution, name: str) -> tuple[list[float], list[float]]:
    """The values of positive probability in order, and their probabilities."""
    if any(not math.isfinite(v) for v in distribution) or any(not p >= 0 for p in distribution.values()):
        raise ValueError(f"{name} needs finite values with probabilities of at least 0")
    if abs(math.fsum(distribution.values()) - 1) > 1e-6:
        raise ValueError(f"{name} sums to {math.fsum(distribution.values()):.9g}; it must sum to 1")
    pairs = sorted((v, p) for v, p in distribution.items() if p > 0)
    return [v for v, _ in pairs], [p for _, p in pairs]


def _mirror(distribution: tuple[list[float], list[float]]) -> tuple[list[float], list[float]]:
    values, probabilities = distribution
    return [-v for v in reversed(values)], probabilities[::-1]


def _rise(mu: tuple[list[float], list[float]], nu: tuple[list[float], list[float]]) -> float:
    """The least d ≥ 0 with G(t+d) ≥ F(t) for all t: the largest distance that mass of μ moves upwards."""
    targets, cumulative = nu[0], list(itertools.accumulate(nu[1]))
    worst, position = 0.0, 0
    for value, below in zip(mu[0], itertools.accumulate(mu[1]), strict=True):
        while position < len(targets) - 1 and cumulative[position] < below * (1 - ROUNDING):
            position += 1
        worst = max(worst, targets[position] - value)
    return worst


def _conditional(weights: Sequence[float]) -> Distribution:
    return _rescaled({float(j): p for j, p in enumerate(weights) if p > 0})


def _rescaled(weights: Distribution) -> Distribution:
    total = math.fsum(weights.values())
    return {v: p / total for v, p in weights.items()}


def _sums(
    start: NDArray[np.float64], P: NDArray[np.float64], length: int, shifts: Sequence[int], largest_sum: int
) -> list[NDArray[np.float64]]:
    """[i][x, s] = P(X_i = x and the sum up to and including i is s)."""
    table = np.zeros((len(P), largest_sum))
    for x, shift in enumerate(shifts):
        table[x, shift] = start[x]
    tables = [table]
    for _ in range(length - 1):
        moved = P.T @ tables[-1]
        tables.append(np.array([_shifted(row, shift) for row, shift in zip(moved, shifts, strict=True)]))
    return tables


def _tails(
    P: NDArray[np.float64], length: int, shifts: Sequence[int], largest_sum: int
) -> list[NDArray[np.float64]]:
    """[n][x, s] = P(the sum of the n instants after one in state x is s)."""
    table = np.zeros((len(P), largest_sum))
    table[:, 0] = 1.0
    tables = [table]
    for _ in range(length - 1):
        counted = np.array([_shifted(row, shift) for row, shift in zip(tables[-1], shifts, strict=True)])
        tables.append(P @ counted)
    return tables


def _shifted(row: NDArray[np.float64], shift: int) -> NDArray[np.float64]:
    return row if shift == 0 else np.concatenate([np.zeros(shift), row[:-shift]])
