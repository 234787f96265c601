"""The odds spread of k states: against every vertex of the class, and samples from inside."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_spread import odds_spread
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles_categorical import path_probabilities, paths, response

Matrix = NDArray[np.float64]


def box(rng: np.random.Generator, k: int, width: float) -> tuple[Matrix, Matrix]:
    """Intervals around a random chain."""
    centre = rng.dirichlet(np.full(k, 2.0), size=k) * 0.6 + 0.4 * np.eye(k)
    return np.clip(centre - width * rng.random((k, k)), 0.001, 1), np.clip(
        centre + width * rng.random((k, k)), 0, 0.999
    )


def vertex_rows(low: Matrix, high: Matrix) -> Iterator[Matrix]:
    """The vertices of the rows between two bounds: all entries but one at an end."""
    k = len(low)
    for free in range(k):
        rest = [u for u in range(k) if u != free]
        for ends in itertools.product((0, 1), repeat=k - 1):
            row = np.zeros(k)
            row[rest] = [high[u] if end else low[u] for u, end in zip(rest, ends, strict=True)]
            row[free] = 1 - row.sum()
            if low[free] - 1e-12 <= row[free] <= high[free] + 1e-12:
                yield row


def stationary(chain: Matrix) -> Matrix:
    k = len(chain)
    return np.linalg.lstsq(
        np.vstack([chain.T - np.eye(k), np.ones(k)]), np.append(np.zeros(k), 1.0), rcond=None
    )[0]


def chains(low: Matrix, high: Matrix) -> Iterator[Matrix]:
    """Every combination of vertices of the rows."""
    for rows in itertools.product(*(list(vertex_rows(low[x], high[x])) for x in range(len(low)))):
        yield np.array(rows)


@pytest.mark.parametrize("seed", range(6))
def test_the_spread_is_that_of_some_sequence_of_matrices(seed: int) -> None:
    """Every sequence of vertices stays within it, and the best one for each pair reaches it, nearly."""
    rng = np.random.default_rng(seed)
    low, high = box(rng, 3, 0.15)
    theta = CategoricalTheta.between(low.tolist(), high.tolist())
    rows = [np.array(list(vertex_rows(low[x], high[x]))) for x in range(3)]
    reached = []
    for a, b in itertools.combinations(range(3), 2):
        most, least = (largest_log_odds(rows, *pair) for pair in ((a, b), (b, a)))
        reached.append(most + least)
        law = np.full(3, 1 / 3)
        for step in range(300):
            law = law @ np.array([one[rng.integers(len(one))] for one in rows])
            if step > 40:
                assert -least - 1e-6 <= np.log(law[a] / law[b]) <= most + 1e-6
    assert max(reached) - 1e-6 <= odds_spread(theta) <= max(reached) + 0.012


def largest_log_odds(rows: list[Matrix], a: int, b: int) -> float:
    """The largest log μ(a)/μ(b) after sixty steps, by improving t until no sequence beats it."""
    odds = 1.0
    for _ in range(50):
        gains = np.array([float(u == a) - odds * float(u == b) for u in range(3)])
        chosen = []
        for _ in range(60):
            best = [one[np.argmax(one @ gains)] for one in rows]
            chosen.append(np.array(best))
            gains = chosen[-1] @ gains
        law = np.eye(3)[np.argmax(gains)]
        for matrix in reversed(chosen):
            law = law @ matrix
        odds = float(law[a] / law[b])
    return float(np.log(odds))


def test_a_sequence_of_matrices_goes_beyond_every_stationary_chain() -> None:
    """Chains that alternate: the spread of stationary laws would not do."""
    low = np.array([[0.05, 0.6, 0.05], [0.6, 0.05, 0.05], [0.3, 0.3, 0.1]])
    high = np.array([[0.2, 0.9, 0.2], [0.9, 0.2, 0.2], [0.6, 0.6, 0.2]])
    laws = [np.log(stationary(chain)) for chain in chains(low, high)]
    widths = [np.ptp([law[a] - law[b] for law in laws]) for a, b in itertools.combinations(range(3), 2)]
    assert odds_spread(CategoricalTheta.between(low.tolist(), high.tolist())) > max(widths) + 0.05


def test_many_states_use_the_bounds_on_the_stationary_law() -> None:
    """With more states than the decision processes are solved for the spread is wider, and still covers."""
    rng, k = np.random.default_rng(3), 10
    low, high = box(rng, k, 0.01)
    spread = odds_spread(CategoricalTheta.between(low.tolist(), high.tolist()))
    logs = [
        np.log(stationary(np.array([rng.permutation([low[x], high[x]])[0] for x in range(k)])))
        for _ in range(5)
    ]
    assert math.isfinite(spread)
    assert max(np.ptp([law[0] - law[1] for law in logs]), 0.0) <= spread


def test_a_state_that_may_be_left_for_ever_has_no_bound() -> None:
    low = [[0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.1, 0.1, 0.5]]
    high = [[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.4, 0.4, 0.8]]
    assert odds_spread(CategoricalTheta.between(low, high)) == math.inf


def test_every_mixture_of_vertices_is_within_the_bound() -> None:
    """All paths and outputs of four ticks: two chains at the ends of the odds, with little mass on one of them."""
    rng = np.random.default_rng(5)
    low, high = box(rng, 3, 0.12)
    theta = CategoricalTheta.between(low.tolist(), high.tolist())
    every = list(chains(low, high))
    laws = [stationary(chain) for chain in every]
    noise = CategoricalNoise.response(3, 0.8)
    n = 4
    bound = theta.timeline("undecided", [Entry(0, n - 1, 0.8, 0.8)]).price().epsilon
    x = paths(3, n)
    likelihoods = response(np.array(noise.rows), n)
    for a, b in itertools.permutations(range(3), 2):
        ends = [
            int(np.argmax([law[a] / law[b] for law in laws])),
            int(np.argmin([law[a] / law[b] for law in laws])),
        ]
        for mass in (0.5, 0.01):
            probability = mass * path_probabilities(Chain(every[ends[0]]), n) + (
                1 - mass
            ) * path_probabilities(Chain(every[ends[1]]), n)
            for tick in range(n):
                here = x[:, tick] if x.shape[1] == n else x[tick]
                given = [
                    likelihoods[:, here == one] @ probability[here == one] / probability[here == one].sum()
                    for one in (a, b)
                ]
                assert float(np.log(given[0] / given[1]).max()) <= bound
    assert bound > theta.timeline("prior", [Entry(0, n - 1, 0.8, 0.8)]).price().epsilon


def test_noise_and_windows_keep_epsilon() -> None:
    low, high = box(np.random.default_rng(2), 3, 0.03)
    theta = CategoricalTheta.between(low.tolist(), high.tolist())
    epsilon = theta.odds_spread + 2.0
    noise = theta.optimal_noise(epsilon, "undecided")
    assert theta.constant_loss(*noise.tilts, "undecided") <= epsilon
    assert theta.constant_loss(*theta.optimal_noise(2.0, "prior").tilts, "undecided") <= epsilon * (1 + 1e-9)
    for method in ("least-noise", "tilted-quilt", "mqm-exact"):
        tau = theta.window_tilt(method, epsilon, "undecided")
        assert tau > 0
        assert theta.timeline("undecided", [Entry(0, 10**6, tau, tau)]).price().epsilon <= epsilon
    assert theta.window_tilt("least-noise", 0.9 * theta.odds_spread, "undecided") == 0.0
    with pytest.raises(ValueError, match="undecided adversary learns which chain"):
        theta.optimal_noise(0.9 * theta.odds_spread, "undecided")


def test_one_chain() -> None:
    theta = CategoricalTheta.point([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.3, 0.1, 0.6]])
    assert theta.odds_spread == 0.0
    assert theta.constant_loss(0.2, 0.2, "undecided") == theta.constant_loss(0.2, 0.2, "prior")
