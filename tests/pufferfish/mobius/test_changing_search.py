"""Whole timelines in a few multiplications per run give what every tick by itself gives, whatever was there before."""

from __future__ import annotations

import random
import sys
from functools import partial

import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.binary.changing_chain import changing_chains, stationary_chains
from hushmq.pufferfish.binary.slow_chains import slow_chains
from hushmq.pufferfish.mobius import changing_search
from hushmq.pufferfish.mobius.changing_search import ChangingSearch
from hushmq.pufferfish.mobius.changing_side import ChangingSide
from hushmq.pufferfish.mobius.two_sides import ChangingChain
from hushmq.pufferfish.timeline.entry import Entry
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
THETAS = [
    *(BinaryTheta(q, 0.45, q, 0.45) for q in (0.1, 1e-2, 1e-3, 1e-5)),
    BinaryTheta(1e-6, 2e-6, 0.2, 0.3),
    BinaryTheta(0.2, 0.8, 0.1, 0.7),
    *(BinaryTheta.point(q, 1.3 * q) for q in (0.2, 1e-3, 1e-6)),
]


def tilt_of(tilts: tuple[int, int], chain: ChangingChain) -> float:
    return to_nats(max(tilts) if chain.state is None else tilts[chain.state])


def tick_by_tick(side: ChangingSide, taus: list[float]) -> list[float]:
    """What the ticks before each tick say, one step after the other."""
    said, x = [], 0.0
    for tau in taus:
        said.append(x)
        x = side.advance(tau, 1, x)
    return said


def largest_of_all_ticks(runs: TiltRuns, chains: list[ChangingChain]) -> float:
    """The largest loss of all ticks, each by itself."""
    worst = 0.0
    for chain in chains:
        taus = [
            tilt_of(tilts, chain)
            for tilts, first, stop in zip(runs.tilts, runs.edges, runs.edges[1:], strict=False)
            for _ in range(first, stop)
        ]
        before, after = tick_by_tick(chain.left, taus), tick_by_tick(chain.right, taus[::-1])[::-1]
        for tau, left, right in zip(taus, before, after, strict=True):
            worst = max(worst, tau + min(left + right, chain.ceiling))
    return worst


def search_of(theta: BinaryTheta, adversary: Adversary) -> ChangingSearch:
    if not theta.single:
        return ChangingSearch(partial(changing_chains, theta, adversary))
    chains = stationary_chains if adversary == "prior" else slow_chains
    return ChangingSearch(partial(chains, theta.q_low, theta.r_low))


def pieces(theta: BinaryTheta, seed: int, count: int) -> list[tuple[int, int, int, int]]:
    """Windows of different lengths and tilts, some with gaps before them, some over several others."""
    rng = random.Random(seed)
    scale = min(theta.largest_tilts(3.0, "prior")) * 2.0**60
    found, first = [], 0
    for _ in range(count):
        first += rng.choice([0, 0, 1, 7])
        length = rng.choice([1, 1, 5, 30])
        found.append((first, first + length - 1, int(scale * rng.random()), int(scale * rng.random())))
        first += length
    return [*found, (3, first // 2, int(scale), 0), (first // 3, first, 0, int(scale / 2))]


@pytest.mark.parametrize("numpy_is_there", [True, False])
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("theta", THETAS, ids=lambda theta: theta.in_brief())
def test_runs_cost_what_their_ticks_cost(
    theta: BinaryTheta, adversary: Adversary, numpy_is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From scratch, and where one piece after the other is added anywhere: no less, and 1e-9 more at most."""
    if not numpy_is_there:
        monkeypatch.setitem(sys.modules, "numpy", None)
    history = pieces(theta, seed=7, count=40)
    runs = TiltRuns(history)
    search = search_of(theta, adversary).up_to(runs.tilts)
    truth = largest_of_all_ticks(runs, search._chains)
    whole = search.searched(runs)
    assert truth <= whole.largest[0] + whole.tolerance <= truth * (1 + 1e-9)

    random.Random(1).shuffle(history)
    grown = search.searched(TiltRuns(history[:5]))
    for piece in history[5:]:
        runs = grown.runs.copy()
        runs.add(*piece)
        grown = search.searched_after(grown, runs, piece[:2])
    assert truth <= grown.largest[0] + grown.tolerance <= truth * (1 + 1e-9)


def many_windows(theta: BinaryTheta, *, equal: bool) -> list[tuple[int, int, int, int]]:
    """Short windows, thousands of them: equal ones with a tick left out after each, or different ones."""
    rng = random.Random(3)
    scale = min(theta.largest_tilts(3.0, "prior")) * 2.0**60
    if equal:
        return [(5 * n, 5 * n + 3, int(scale), int(scale / 2)) for n in range(1_500)]
    return [
        (4 * n, 4 * n + 3, int(scale * rng.uniform(0.3, 1)), int(scale * rng.random())) for n in range(3_000)
    ]


@pytest.mark.parametrize("equal", [True, False], ids=["equal", "different"])
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(
    "theta",
    [BinaryTheta(1e-2, 0.45, 1e-2, 0.45), BinaryTheta(1e-5, 0.45, 1e-5, 0.45), BinaryTheta.point(1e-6, 2e-6)],
    ids=lambda theta: theta.in_brief(),
)
def test_many_runs_cost_what_their_ticks_cost(theta: BinaryTheta, adversary: Adversary, equal: bool) -> None:
    """Thousands at once, and with one more in the middle: no less, and 1e-9 more at most."""
    history = many_windows(theta, equal=equal)
    more = (6_000, 6_007, history[0][2] // 2, history[0][2] // 2)
    search = search_of(theta, adversary).up_to(TiltRuns([*history, more]).tilts)
    runs = TiltRuns(history)
    truth = largest_of_all_ticks(runs, search._chains)
    whole = search.searched(runs)
    assert truth <= whole.largest[0] + whole.tolerance <= truth * (1 + 1e-9)

    grown = runs.copy()
    grown.add(*more)
    truth = largest_of_all_ticks(grown, search._chains)
    after = search.searched_after(whole, grown, more[:2])
    assert truth <= after.largest[0] + after.tolerance <= truth * (1 + 1e-9)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("q", [0.2, 1e-6])
def test_nothing_is_left_over_of_what_was_only_asked_about(
    q: float, adversary: Adversary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`price_with` changes nothing, and shapes of runs that only it has seen are forgotten in the end."""
    monkeypatch.setattr(changing_search, "MOST_UNUSED", 50)
    theta = BinaryTheta(q, 0.45, q, 0.45)
    tau = min(theta.largest_tilts(2.0, "prior"))
    timeline = BinaryTimeline(theta, adversary, [Entry(0, 99, tau, tau), Entry(200, 299, tau, tau)])
    also = Entry(100, 150, tau / 2, tau / 2)
    before, asked = timeline.price(), timeline.price_with(also)
    for n in range(100):
        timeline.price_with(Entry(300 + n, 300 + 2 * n, tau / (2 + n), tau / 3))
        assert timeline.price() == before
        assert timeline.price_with(also).epsilon == pytest.approx(asked.epsilon, rel=1e-12)
    search = timeline._search
    assert isinstance(search, ChangingSearch)
    assert len(search._maps.taus) < 100
