"""Theorem 19 against enumeration: the price at the ticks of one epoch, with everything published in all of them."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import attack, both, count, local

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
CHAINS = [(0.2, 0.2), (0.05, 0.4), (0.3, 0.1), (0.7, 0.8)]
N, CUT = 6, 3
"""Ticks of the stream, and the first of the second epoch."""
EPOCHS = ((0, CUT - 1), (CUT, N - 1))


def single(q: float, r: float) -> BinaryTheta:
    return BinaryTheta(q, q, r, r)


def entries_of(noises: list[tuple[float, float] | None]) -> list[Entry]:
    return [Entry(t, t, *BinaryNoise(*rho).tilts) for t, rho in enumerate(noises) if rho is not None]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("epoch", EPOCHS)
def test_the_ticks_of_an_epoch_are_priced_exactly(
    chain: tuple[float, float], epoch: tuple[int, int], adversary: Adversary
) -> None:
    """Noise of one epoch, then of another, and a window over the cut: the largest loss within the epoch, to 1e-8."""
    noises: list[tuple[float, float] | None] = [(0.3, 0.2)] * CUT + [(0.15, 0.1)] * (N - CUT)
    likelihoods, entries = local(noises), entries_of(noises)
    if sum(chain) < 1:  # a count does not attain the price of a chain that alternates
        likelihoods = both(likelihoods, count(N, 1, 4, 1.5))
        entries.append(Entry(1, 4, 1 / 1.5, 1 / 1.5))
    true = attack(
        *chain, likelihoods, informed=adversary == "informed", ticks=range(epoch[0], epoch[1] + 1)
    ).loss
    found = BinaryTimeline(single(*chain), adversary, entries, span=(0, N - 1), ticks=epoch).price()
    assert found.epsilon == pytest.approx(true, abs=1e-8)
    assert found.tick is not None
    assert epoch[0] <= found.tick <= epoch[1]


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_an_epoch_without_entries_still_loses(adversary: Adversary) -> None:
    """What is published after an epoch has ended tells of its last ticks: priced exactly, less the further away."""
    noises: list[tuple[float, float] | None] = [None] * CUT + [(0.15, 0.1)] * (N - CUT)
    q, r = 0.05, 0.1
    before = None
    for last in range(CUT - 1, -1, -1):
        price = BinaryTimeline(
            single(q, r), adversary, entries_of(noises), span=(0, N - 1), ticks=(0, last)
        ).price()
        true = attack(q, r, local(noises), informed=adversary == "informed", ticks=range(last + 1)).loss
        assert price.epsilon == pytest.approx(true, abs=1e-8)
        assert before is None or 0.1 < price.epsilon < before
        before = price.epsilon


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("epoch", EPOCHS)
def test_states_of_another_meaning_cost_no_more_than_their_tilt(
    epoch: tuple[int, int], adversary: Adversary
) -> None:
    """Whatever channel turns the states of the epoch into those of the other, tick by tick: within the price.

    A channel that exchanges the states attains it: the tilt of another meaning counts in both directions.
    """
    rng = random.Random(19)
    q, r, noise, other = 0.3, 0.1, (0.2, 0.2), (0.05, 0.4)
    inside = range(epoch[0], epoch[1] + 1)
    own, tilts = BinaryNoise(*noise).tilts, BinaryNoise(*other).tilts
    entries = [Entry(t, t, *(own if t in inside else [max(tilts)] * 2)) for t in range(N)]
    theta = single(q, r)
    stated = BinaryTimeline(theta, adversary, entries, span=(0, N - 1), ticks=epoch).price().epsilon
    emission = np.array([[1 - other[0], other[0]], [other[1], 1 - other[1]]])
    worst = 0.0
    channels = [np.eye(2), np.eye(2)[::-1], np.array([[0.9, 0.1], [0.2, 0.8]])]
    for _ in range(3):
        a, b = rng.random(), rng.random()
        channels.append(np.array([[a, 1 - a], [b, 1 - b]]))
    for channel in channels:
        seen = channel @ emission
        through = (float(seen[0, 1]), float(seen[1, 0]))
        noises = [noise if t in inside else through for t in range(N)]
        found = attack(q, r, local(noises), informed=adversary == "informed", ticks=inside).loss
        assert found <= stated + 1e-8
        worst = max(worst, found)
    assert worst == pytest.approx(stated, abs=1e-8)
    as_given = [Entry(t, t, *(own if t in inside else tilts)) for t in range(N)]
    too_little = BinaryTimeline(theta, adversary, as_given, span=(0, N - 1), ticks=epoch).price().epsilon
    assert worst > too_little + 0.05


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_adding_entries_gives_the_price_of_all_of_them(adversary: Adversary) -> None:
    """Incrementally or at once, the price is the largest of the prices of the single ticks, in any chain."""
    rng = random.Random(7)
    for _ in range(25):
        theta = single(rng.uniform(0.02, 0.95), rng.uniform(0.02, 0.95))
        starts = [rng.randint(0, 12) for _ in range(3)]
        entries = [Entry(a, a + rng.randint(0, 5), rng.random(), rng.random()) for a in starts]
        first = rng.randint(-3, 16)
        last = first + rng.randint(0, 6)
        added = theta.timeline(adversary, ticks=(first, last))
        for entry in entries:
            added.add(entry)
        at_once = theta.timeline(adversary, entries, ticks=(first, last)).price().epsilon
        singly = [
            theta.timeline(adversary, entries, ticks=(t, t)).price().epsilon for t in range(first, last + 1)
        ]
        assert added.price().epsilon == pytest.approx(at_once, abs=1e-8)
        assert at_once == pytest.approx(max(singly), abs=1e-8)
        whole = theta.timeline(adversary, entries).price().epsilon
        assert theta.timeline(adversary, entries, ticks=(-40, 60)).price().epsilon == pytest.approx(
            whole, abs=1e-8
        )


def test_charging_after_an_epoch_does_not_search_it_again() -> None:
    """An entry beyond the forgetting time of an ended epoch leaves its price, bit for bit, whatever it is."""
    theta = single(0.05, 0.1)
    ended = theta.timeline("informed", [Entry(0, 999, 0.2, 0.2)], ticks=(0, 999))
    before = ended.price()
    near = ended.price_with(Entry(1_000, 1_010, 0.4, 0.4))
    ended.add(Entry(1_000_000, 1_000_100, 8.0, 8.0))
    assert ended.price() == before
    assert near.epsilon > before.epsilon + 0.01


@pytest.mark.parametrize(("q", "r"), [(0.05, 0.1), (0.3, 0.2), (0.01, 0.4)])
def test_what_follows_raises_an_ended_epoch_by_little(q: float, r: float) -> None:
    """By ((1−α)/(1+α))^(k−1)·log((1−q)(1−r)/(qr)) at most, k ticks before the cut: attained to a fifth at k = 1."""
    theta, old = single(q, r), [Entry(0, 50, 0.4, 0.4)]
    alpha = math.sqrt(q * r / ((1 - q) * (1 - r)))
    for k in (1, 2, 5, 20):
        at = (51 - k, 51 - k)
        before = theta.timeline("prior", old, at).price().epsilon
        after = theta.timeline("prior", [*old, Entry(51, 10_000, 30.0, 30.0)], at).price().epsilon
        bound = -2 * math.log(alpha) * ((1 - alpha) / (1 + alpha)) ** (k - 1)
        assert after - before <= bound
        assert k > 1 or after - before > bound / 5
