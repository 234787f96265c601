"""Losses by definition where the kernel changes in time: every sequence of kernels, path, output and known set.

Nothing here knows a theorem. A sequence has one kernel (q, r) for every step and a law of the first state; the
adversary knows both. Outputs are all products of tilts, each tick favouring one state or the other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np

from tests.pufferfish.oracles import Array, states


def path_probabilities(kernels: Sequence[tuple[float, float]], firsts: Sequence[float], n: int) -> Array:
    """The probability of every path, one row per sequence of n−1 kernels and first law (its P(X=0))."""
    x = states(n)
    rows = []
    for sequence in itertools.product(kernels, repeat=n - 1):
        steps = np.ones(2**n)
        for t, (q, r) in enumerate(sequence):
            steps = steps * np.array([[1 - q, q], [r, 1 - r]])[x[t], x[t + 1]]
        rows += [np.where(x[0] == 0, first, 1 - first) * steps for first in firsts]
    return np.array(rows)


def outputs(tau0: Sequence[float], tau1: Sequence[float], *, both_ways: bool) -> list[Array]:
    """The likelihood of every output, given every path: all ticks in favour of one state, or each of either."""
    n = len(tau0)
    x = states(n)
    ways = itertools.product((0, 1), repeat=n) if both_ways else ((0,) * n, (1,) * n)
    return [
        np.exp(sum(np.where(x[t] == way, (tau0, tau1)[way][t], 0.0) for t, way in enumerate(favoured)))
        for favoured in ways
    ]


def known_nearest(n: int, tick: int, informed: bool) -> Iterable[dict[int, int]]:
    """Nothing known, or one instant on either side with either value: those behind it add nothing."""
    before: list[tuple[int, int] | None] = [None]
    after: list[tuple[int, int] | None] = [None]
    if informed:
        before += list(itertools.product(range(tick), (0, 1)))
        after += list(itertools.product(range(tick + 1, n), (0, 1)))
    for pair in itertools.product(before, after):
        yield dict(one for one in pair if one is not None)


def largest_loss(probabilities: Array, likelihoods: Iterable[Array], *, informed: bool) -> float:
    """The largest |log P(output | X_i=0, known)/P(output | X_i=1, known)| over everything."""
    n = int(math.log2(probabilities.shape[1]))
    x = states(n)
    weighted = [probabilities * likelihood for likelihood in likelihoods]
    best = 0.0
    for tick in range(n):
        for known in known_nearest(n, tick, informed):
            allowed = np.all([x[t] == state for t, state in known.items()], axis=0) if known else True
            masks = np.array([(x[tick] == state) & allowed for state in (0, 1)], dtype=float).T
            prior = probabilities @ masks
            for rows in weighted:
                posterior = rows @ masks
                possible = np.all(prior > 0, axis=1)
                ratio = (posterior[possible, 0] * prior[possible, 1]) / (
                    posterior[possible, 1] * prior[possible, 0]
                )
                best = max(best, float(np.abs(np.log(ratio)).max(initial=0.0)))
    return best
