"""The largest ratio of two means over functions that vary by at most e^D, against linear programs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from hushmq.pufferfish.regimes.cone_ratio import largest_ratio
from hushmq.pufferfish.regimes.cone_side import ConeStep


def random_case(size: int, seed: int) -> tuple[list[float], list[float], np.ndarray]:
    """Two laws, from even to nearly concentrated ones, and a D that satisfies the triangle inequality."""
    rng = np.random.default_rng([size, seed])
    D = rng.uniform(0, 3, (size, size)) * rng.choice([0.01, 1, 3])
    np.fill_diagonal(D, 0)
    for middle in range(size):
        D = np.minimum(D, D[:, middle : middle + 1] + D[middle : middle + 1])
    a, b = (rng.dirichlet(np.full(size, rng.choice([0.3, 1, 5]))) + 1e-9 for _ in range(2))
    return (a / a.sum()).tolist(), (b / b.sum()).tolist(), D


def by_linear_program(a: list[float], b: list[float], D: np.ndarray) -> float:
    size = len(a)
    rows = []
    for u in range(size):
        for v in range(size):
            if u != v:
                row = np.zeros(size)
                row[u], row[v] = 1.0, -math.exp(D[u, v])
                rows.append(row)
    found = linprog(-np.array(a), A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=[b], b_eq=[1.0])
    return float(-found.fun)


@pytest.mark.parametrize("size", [2, 4, 6])
@pytest.mark.parametrize("guess", [1.0, 1e3])
def test_it_is_the_linear_program(size: int, guess: float) -> None:
    """For laws of any kind, wherever the search begins; rounded up, and not by 1e-7."""
    for seed in range(25):
        a, b, D = random_case(size, seed)
        found = largest_ratio(a, b, np.exp(D).tolist(), guess)
        assert found.value == pytest.approx(by_linear_program(a, b, D), rel=1e-7)
        attained = np.dot(a, found.g) / np.dot(b, found.g)
        assert attained <= found.value <= attained * (1 + 1e-12)


def test_equal_laws_tell_nothing() -> None:
    """Their ratio is 1 whatever D is."""
    law = [0.1, 0.2, 0.3, 0.4]
    assert largest_ratio(law, law, [[10.0] * 4] * 4).value == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("size", [4, 6])
def test_raising_every_pair_raises_a_bound_by_less(size: int) -> None:
    """By at most κ times as much: what lies beyond a run is forgotten."""
    for seed in range(5):
        kernel = [random_case(size, 100 * seed + row)[0] for row in range(size)]
        step, D = ConeStep(kernel), random_case(size, seed)[2]
        more = D + 0.5 * (1 - np.eye(size))
        now, then = (np.array(step.bound(one.tolist())) for one in (D, more))
        assert (then - now <= 0.5 * step.forgetting + 1e-9).all()
        assert (then >= now - 1e-9).all()
