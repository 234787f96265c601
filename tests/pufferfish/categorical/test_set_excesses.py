"""Many pairs of rows at once give what each pair by itself gives."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.categorical_timeline import categorical_timeline
from hushmq.pufferfish.categorical.contraction_side import ContractionTable, pairs
from hushmq.pufferfish.categorical.set_excesses import SetExcesses
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.timeline.entry import Entry


def intervals(k: int, leave: float, width: float, seed: int) -> TransitionIntervals:
    """A chain that leaves its states with about this probability, known up to a share of it."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(k - 1), k) * leave
    rows = [np.insert(row, x, 1 - leave) for x, row in enumerate(P)]
    spread = [[width * (leave if u == x else p) for u, p in enumerate(row)] for x, row in enumerate(rows)]
    low = tuple(
        tuple(float(p - d) for p, d in zip(*pair, strict=True)) for pair in zip(rows, spread, strict=True)
    )
    high = tuple(
        tuple(float(min(p + d, 1.0)) for p, d in zip(*pair, strict=True))
        for pair in zip(rows, spread, strict=True)
    )
    return TransitionIntervals(low, high)


CLASSES = [(3, 0.3, 0.2), (3, 1e-3, 0.0), (4, 0.03, 0.3), (4, 1e-4, 0.1), (6, 0.1, 0.1)]


@pytest.mark.parametrize(("k", "leave", "width"), CLASSES)
@pytest.mark.parametrize("hops", [1, 4])
def test_a_table_is_that_of_each_pair_by_itself(k: int, leave: float, width: float, hops: int) -> None:
    """With numpy and without, steps of all sizes, asked for in any order."""
    power = intervals(k, leave, width, seed=k).power(hops)
    quick, plain = ContractionTable(power), ContractionTable(power)
    plain._likely = None
    sizes = [1e-6, 1e-3, 0.1, 0.7, 2.0, 9.0, 28.0]
    random.Random(3).shuffle(sizes)
    assert [quick.step(D) for D in sizes] == pytest.approx([plain.step(D) for D in sizes], rel=1e-11)


@pytest.mark.parametrize(("k", "leave", "width"), CLASSES[:4])
def test_no_rows_and_no_set_exceed_a_bound(k: int, leave: float, width: float) -> None:
    """Whatever the weights are: with the best, and with any."""
    rows = intervals(k, leave, width, seed=7)
    found = SetExcesses(np, pairs(rows))
    rng = np.random.default_rng(0)
    for lam in (1.0, 1.01, 1.5, 20.0):
        for theta, phi in (found.best_weights(lam), rng.uniform(size=(2, k * (k - 1)))):
            bounds = found.at(lam, theta, phi)
            for bound, (above, below) in zip(bounds, pairs(rows), strict=True):
                for _ in range(5):
                    a, b = (_row(rng, *one) for one in (above, below))
                    sets = itertools.product([False, True], repeat=k)
                    worst = max(a[list(S)].sum() - lam * b[list(S)].sum() for S in sets)
                    assert worst <= bound


def _row(rng: np.random.Generator, low: tuple[float, ...], high: tuple[float, ...]) -> np.ndarray:
    """A law between the bounds: some entries as large as possible, in random order."""
    row, left = np.array(low), 1.0 - sum(low)
    for u in rng.permutation(len(row)):
        more = min(high[u] - low[u], left)
        row[u] += more
        left -= more
    return row


@pytest.mark.parametrize("informed", [False, True])
def test_entries_added_anywhere_cost_what_they_cost_together(informed: bool) -> None:
    """Each addition begins where the history before it is the same, and ends where what follows is."""
    theta = CategoricalTheta.of(intervals(3, 0.2, 0.1, seed=1))
    tau = theta.largest_tilts(2.0, "prior")[0]
    rng = random.Random(11)
    starts = [rng.randrange(400) for _ in range(25)]
    entries = [
        Entry(first, first + rng.choice([0, 9, 40]), tau * share, tau * share)
        for first, share in zip(starts, [0.2, 0.5, 0.1, 0.5, 0.3] * 5, strict=True)
    ]
    timeline = categorical_timeline(theta, entries[:2], informed=informed)
    for number, entry in enumerate(entries[2:], start=3):
        asked = timeline.price_with(entry)
        timeline.add(entry)
        whole = categorical_timeline(theta, entries[:number], informed=informed).price()
        assert timeline.price() == asked
        assert asked.epsilon == pytest.approx(whole.epsilon, rel=1e-9)
        assert asked.epsilon >= whole.epsilon * (1 - 1e-12)
