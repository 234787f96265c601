"""Θ of k states: laws, reversals and prices hold if every step has another matrix within the intervals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.categorical_timeline import categorical_timeline
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.timeline.entry import Entry

Array = NDArray[np.float64]


def random_intervals(rng: np.random.Generator, k: int, stay: float, width: float) -> TransitionIntervals:
    """Intervals around a random matrix; `stay` is its least probability of no change."""
    matrix = stay * np.eye(k) + (1 - stay) * rng.dirichlet(np.ones(k), size=k)
    low = np.clip(matrix * (1 - width), 0.005, 1)
    high = np.clip(np.maximum(matrix * (1 + width), 0.01), 0, 1)
    return TransitionIntervals(tuple(map(tuple, low.tolist())), tuple(map(tuple, high.tolist())))


def extreme_matrix(rng: np.random.Generator, intervals: TransitionIntervals) -> Array:
    """A matrix whose rows are vertices of the intervals: mass goes to the states in a random order."""
    rows = []
    for low, high in zip(intervals.low, intervals.high, strict=True):
        row, left = np.array(low), 1 - sum(low)
        for u in rng.permutation(len(low)):
            more = min(high[u] - low[u], left)
            row[u], left = row[u] + more, left - more
        rows.append(row)
    return np.array(rows)


def walks(rng: np.random.Generator, intervals: TransitionIntervals, steps: int) -> tuple[Array, list[Array]]:
    """The law after a long past of changing matrices, and those of the next steps; some pasts repeat few matrices."""
    few = [extreme_matrix(rng, intervals) for _ in range(int(rng.integers(1, 4)))]
    law = rng.dirichlet(np.ones(intervals.k))
    for _ in range(300):
        law = law @ few[int(rng.integers(len(few)))]
    return law, [extreme_matrix(rng, intervals) for _ in range(steps)]


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("stay", [0.0, 0.6])
def test_laws_and_reversed_steps_lie_within_their_bounds(k: int, stay: float) -> None:
    """Whatever matrices led there, and whichever comes next; a stationary chain's diagonal would not do."""
    rng = np.random.default_rng(k)
    outside_diagonal = 0
    for _ in range(60):
        intervals = random_intervals(rng, k, stay, float(rng.uniform(0.02, 0.6)))
        (low, high), back = intervals.marginals(), intervals.reversal()
        for _ in range(6):
            law, steps = walks(rng, intervals, 4)
            for step in steps:
                assert np.all(np.array(low) <= law + 1e-12)
                assert np.all(law <= np.array(high) + 1e-12)
                after = law @ step
                reverse = (law[:, None] * step / after).T
                assert np.all(np.array(back.low) <= reverse + 1e-12)
                assert np.all(reverse <= np.array(back.high) + 1e-12)
                outside_diagonal += int(np.any(np.diag(reverse) > np.diag(np.array(intervals.high)) + 1e-9))
                law = after
    assert outside_diagonal > 0


@pytest.mark.parametrize("k", [2, 3])
def test_no_sequence_of_matrices_costs_more_than_the_price(k: int) -> None:
    """Every path of five ticks, transcripts that favour a set of states at each tick, every tick and pair of states."""
    rng = np.random.default_rng(7)
    closest = 9.0
    paths = np.array(list(itertools.product(range(k), repeat=5)))
    for _ in range(25):
        intervals = random_intervals(rng, k, 0.5, float(rng.uniform(0.02, 0.4)))
        tau = float(rng.choice([0.2, 0.8]))
        theta = CategoricalTheta.of(intervals)
        price = categorical_timeline(theta, [Entry(0, 4, tau, tau)]).price().epsilon
        for _ in range(8):
            law, steps = walks(rng, intervals, 4)
            probability = law[paths[:, 0]]
            for t, step in enumerate(steps):
                probability = probability * step[paths[:, t], paths[:, t + 1]]
            for favoured in rng.integers(0, 2, size=(12, 5, k)):
                sets = favoured if rng.random() < 0.5 else np.broadcast_to(favoured[0], (5, k))
                weighted = probability * np.exp(tau * sum(sets[t][paths[:, t]] for t in range(5)))
                for t in range(5):
                    prior = np.bincount(paths[:, t], weights=probability, minlength=k)
                    ratios = np.bincount(paths[:, t], weights=weighted, minlength=k) / prior
                    found = float(np.log(ratios.max() / ratios.min()))
                    assert found <= price + 1e-12
                    closest = min(closest, price / found if found > 0.1 else 9.0)
    assert closest < 1.25
