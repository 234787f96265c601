"""Losses of short chains of k states by definition: every path, every output, nothing clever.

`likelihoods[w, p]` is the probability (or density) of output w given path p. A loss is the largest log ratio of what
an output is worth under two states of one instant (SWC Definition 2.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from hushmq.pufferfish.quilt.markov_chain import Chain

Array = NDArray[np.float64]


def paths(k: int, length: int) -> NDArray[np.int64]:
    """All k^length paths, one per row."""
    return np.array(list(product(range(k), repeat=length)))


def path_probabilities(chain: Chain, length: int) -> Array:
    """The probability of every path."""
    every = paths(chain.k, length)
    probability = chain.start()[every[:, 0]].copy()
    for t in range(1, length):
        probability *= chain.transition[every[:, t - 1], every[:, t]]
    return probability


def losses(chain: Chain, length: int, likelihoods: Array) -> Array:
    """For every instant the largest log P(w | X_i=x) / P(w | X_i=y) over outputs w and possible states x, y."""
    every = paths(chain.k, length)
    probability = path_probabilities(chain, length)
    worst = []
    for i in range(length):
        given = []
        for x in range(chain.k):
            here = every[:, i] == x
            mass = probability[here].sum()
            if mass > 0:
                given.append(likelihoods[:, here] @ probability[here] / mass)
        worst.append(max(float(np.max(np.log(a / b))) for a in given for b in given))
    return np.array(worst)


def histogram(k: int, length: int, scale: float, ticks: Iterable[int] | None = None) -> Array:
    """A histogram of the states at `ticks` (default: all), each count with Laplace noise of the given scale.

    Between two neighbouring whole numbers a mixture of Laplace densities around whole numbers has a ratio that
    moves one way, and beyond the possible counts it stays put, so outputs at possible counts are enough.
    """
    chosen = list(range(length) if ticks is None else ticks)
    every = paths(k, length)[:, chosen]
    counts = np.stack([(every == state).sum(axis=1) for state in range(k)], axis=1)
    outputs = np.array(list(product(range(len(chosen) + 1), repeat=k)))
    return np.exp(-np.abs(outputs[:, None, :] - counts[None, :, :]).sum(axis=2) / scale)


def response(emission: Array, length: int, ticks: Sequence[int] | None = None) -> Array:
    """Every sampled tick perturbed by itself: P(Z=z | X=u) = emission[u, z]; other ticks publish nothing."""
    chosen = list(range(length) if ticks is None else ticks)
    k, outputs = emission.shape
    every = paths(k, length)[:, chosen]
    words = np.array(list(product(range(outputs), repeat=len(chosen))))
    return np.prod(emission[every[None, :, :], words[:, None, :]], axis=2)


def worst_mechanism(
    chain: Chain, tilts: Sequence[float], i: int, known: Mapping[int, int] | None = None
) -> float:
    """The largest loss at instant i of any mechanism whose likelihood changes by at most e^tilt per instant.

    A linear program over the likelihood of every path, for every pair of states possible there, given the known
    states of others.
    """
    k, length = chain.k, len(tilts)
    every = paths(k, length)
    probability = path_probabilities(chain, length)
    index = {tuple(path): n for n, path in enumerate(every.tolist())}
    rows = []
    for n, path in enumerate(every.tolist()):
        for t, tilt in enumerate(tilts):
            for state in range(k):
                if state != path[t]:
                    row = np.zeros(len(every))
                    row[n] = 1.0
                    row[index[(*path[:t], state, *path[t + 1 :])]] = -np.exp(tilt)
                    rows.append(row)
    for t, state in (known or {}).items():
        probability = np.where(every[:, t] == state, probability, 0.0)
    given = []
    for x in range(k):
        weights = np.where(every[:, i] == x, probability, 0.0)
        if weights.sum() > 0:
            given.append(weights / weights.sum())
    best = 0.0
    for a, b in product(given, repeat=2):
        if a is not b:
            solved = linprog(-a, np.array(rows), np.zeros(len(rows)), b[None, :], [1.0], method="highs")
            best = max(best, float(np.log(-solved.fun)))
    return best


def one_step(a: Array, b: Array, D: Array) -> float:
    """The largest log a·g / b·g over g with g(u) ≤ e^{D(u,v)}·g(v), as a general linear program."""
    k = len(a)
    rows = []
    for u, v in product(range(k), repeat=2):
        if u != v:
            row = np.zeros(k)
            row[u], row[v] = 1.0, -np.exp(D[u, v])
            rows.append(row)
    solved = linprog(-a, np.array(rows), np.zeros(len(rows)), b[None, :], [1.0], method="highs")
    return float(np.log(-solved.fun))
