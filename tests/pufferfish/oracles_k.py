"""Losses by definition on short chains of k states: every path, every output, and every mechanism.

`worst_mechanism` is the strongest oracle: of ALL transcripts whose likelihood changes by at most e^τ_t when the state
at t changes, it finds the one that says most about X_i, by a linear program over the likelihoods of all paths.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_matrix

Matrix = NDArray[np.float64]


def paths(P: Matrix, initial: Matrix, n: int) -> tuple[Matrix, Matrix]:
    """All paths of n states, one a row, and their probabilities."""
    states = np.array(list(itertools.product(range(len(P)), repeat=n)))
    chances = initial[states[:, 0]]
    for t in range(1, n):
        chances = chances * P[states[:, t - 1], states[:, t]]
    return states, chances


def given(states: Matrix, chances: Matrix, i: int, known: Mapping[int, int]) -> dict[int, Matrix]:
    """The distribution of the path given each possible state at i and what is known of other instants."""
    fits = np.ones(len(states), dtype=bool)
    for t, state in known.items():
        fits &= states[:, t] == state
    found = {}
    for x in range(int(states.max()) + 1):
        chosen = np.where(fits & (states[:, i] == x), chances, 0.0)
        if chosen.sum() > 0:
            found[x] = chosen / chosen.sum()
    return found


def worst_mechanism(
    P: Matrix, initial: Matrix, taus: Sequence[float], i: int, known: Mapping[int, int] | None = None
) -> float:
    """The largest log-odds change about X_i over all mechanisms with these tilts, for who knows these other states.

    max a·ℓ subject to b·ℓ = 1 and ℓ(path) ≤ e^τ_t·ℓ(path with another state at t).
    """
    k, n = len(P), len(taus)
    states, chances = paths(P, initial, n)
    conditional = given(states, chances, i, known or {})
    number = len(states)
    weights = k ** np.arange(n - 1, -1, -1)
    index = states @ weights
    order = np.empty(number, dtype=int)
    order[index] = np.arange(number)
    rows, columns, values, row = [], [], [], 0
    for t, tau in enumerate(taus):
        for path in range(number):
            for other in range(k):
                if other != states[path, t]:
                    neighbour = order[index[path] + (other - states[path, t]) * weights[t]]
                    rows += [row, row]
                    columns += [path, neighbour]
                    values += [1.0, -math.exp(tau)]
                    row += 1
    constraints = coo_matrix((values, (rows, columns)), shape=(row, number)).tocsr()
    best = 0.0
    for a, b in itertools.permutations(conditional, 2):
        found = linprog(
            -conditional[a],
            A_ub=constraints,
            b_ub=np.zeros(row),
            A_eq=conditional[b][None, :],
            b_eq=[1.0],
            bounds=(0, None),
            method="highs",
        )
        assert found.status == 0, found.message
        best = max(best, math.log(-found.fun))
    return best


def local_noise(P: Matrix, initial: Matrix, emissions: Sequence[Matrix | None], i: int) -> float:
    """The loss at i when every tick's state is published through its emission matrix; None is a gap."""
    k = len(P)
    seen = [t for t, emission in enumerate(emissions) if emission is not None]
    best = 0.0
    for outputs in itertools.product(range(k), repeat=len(seen)):
        factors = [np.ones(k) for _ in emissions]
        for t, z in zip(seen, outputs, strict=True):
            emission = emissions[t]
            assert emission is not None
            factors[t] = emission[:, z]
        forward = initial * factors[0]
        for t in range(1, i + 1):
            forward = (forward @ P) * factors[t]
        backward = np.ones(k)
        for t in range(len(emissions) - 1, i, -1):
            backward = P @ (factors[t] * backward)
        prior = initial @ np.linalg.matrix_power(P, i)
        likelihood = forward * backward / prior
        best = max(best, math.log(likelihood.max() / likelihood.min()))
    return best


def product_tilt(P: Matrix, initial: Matrix, taus: Sequence[float], i: int, favoured: Sequence[int]) -> float:
    """The loss at i of the transcript that favours a set of states by e^τ_t at every tick: a lower limit for any."""
    k = len(P)
    factors = [np.where(np.isin(np.arange(k), favoured), math.exp(tau), 1.0) for tau in taus]
    forward = initial * factors[0]
    for t in range(1, i + 1):
        forward = (forward @ P) * factors[t]
    backward = np.ones(k)
    for t in range(len(taus) - 1, i, -1):
        backward = P @ (factors[t] * backward)
    likelihood = forward * backward / (initial @ np.linalg.matrix_power(P, i))
    return math.log(likelihood.max() / likelihood.min())
