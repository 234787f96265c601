"""The plain recursions that pricing is timed against are the definition, tick by tick."""

from __future__ import annotations

import random

import pytest

from hushmq.evaluation.benchmarks.timeline_speed import THETA, Q, R, few, many, per_tick, plain
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import attack, count


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_both_sides_find_the_same_price(seed: int, adversary: Adversary) -> None:
    """Random overlapping entries with gaps over 60 ticks: the same price to 1e-6."""
    rng = random.Random(seed)
    entries = []
    for _ in range(8):
        first = rng.randint(1, 50)
        entries.append(Entry(first, first + rng.randint(0, 10), rng.uniform(0, 1), rng.uniform(0, 1)))
    worst = plain(*per_tick(entries, 60), adversary)
    assert price(entries, THETA, adversary).epsilon == pytest.approx(worst, rel=1e-6)


def test_the_plain_recursion_is_the_loss_of_a_count() -> None:
    """A noisy count over five ticks, by enumeration of all paths and outputs, for the prior adversary."""
    scale = 2.0
    tau = [1 / scale] * 5
    found = attack(Q, R, count(5, 0, 4, scale), informed=False)
    assert plain(tau, tau, "prior") == pytest.approx(found.loss, abs=1e-12)


def test_the_histories_are_as_long_as_they_say() -> None:
    """10⁶ ticks, every one covered; and no two neighbouring runs alike in the hard one."""
    assert max(entry.last for entry in few()) == max(entry.last for entry in many(10**4)) == 10**6
    hard = many(10**4)
    assert sum(entry.last - entry.first + 1 for entry in hard) == 10**6
    assert len({entry.tau0 for entry in hard}) == 10**4
