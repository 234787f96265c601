"""The ledger's mathematics against enumeration: windows, overlaps, gaps and the local stream together."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import alternating
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline, price
from hushmq.pufferfish.binary.directed_chain import forgetting_time
from hushmq.pufferfish.binary.informed_search import sliding_maximum
from hushmq.pufferfish.binary.slow_chains import LONGEST_MEMORY
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from hushmq.pufferfish.timeline.entry import Entry, Price
from hushmq.pufferfish.timeline.tilt_runs import TiltRuns, to_nats, to_units
from tests.pufferfish.oracles import attack, both, count, local

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
CHAINS = [(0.2, 0.2), (0.05, 0.4), (0.5, 0.03), (0.01, 0.02), (0.4, 0.6), (0.7, 0.8), (0.9, 0.3)]

probabilities = st.floats(0.02, 0.95)
chains = st.tuples(probabilities, probabilities)
noises = st.tuples(st.floats(0.02, 0.6), st.floats(0.02, 0.6)).filter(lambda rho: sum(rho) < 0.98)


def entries_of(stream: list[tuple[float, float] | None]) -> list[Entry]:
    """One entry per published tick, ticks from 1."""
    published = [(t, BinaryNoise(*rho)) for t, rho in enumerate(stream, start=1) if rho is not None]
    return [Entry(t, t, noise.tau0, noise.tau1) for t, noise in published]


def by_walking(entries: list[Entry], q: float, r: float, adversary: Adversary) -> float:
    """The price on an endless stream the plain way: every tick, every instant around it, one by one."""
    first, last = min(e.first for e in entries), max(e.last for e in entries)
    tau = [
        [sum(getattr(e, name) for e in entries if e.first <= t <= e.last) for t in range(first, last + 1)]
        for name in ("tau0", "tau1")
    ]
    best = 0.0
    for state, (a, b) in ((0, (q, r)), (1, (r, q))):
        own, other = tau[state], tau[1 - state]
        signed = [own] * 2 if a + b <= 1.0 else [[-x for x in other], own]
        for i in range(len(own)):
            total = own[i]
            for step in (-1, 1):
                inside = range(i + step, -1 if step < 0 else len(own), step)
                gains = [signed[n % 2][j] for n, j in enumerate(inside)]
                ratio = 1.0
                for gain in reversed(gains):
                    x = ratio * math.exp(gain)
                    ratio = ((1 - a) * x + a) / (b * x + 1 - b)
                side = math.log(ratio)
                if adversary == "informed":
                    endless = itertools.chain(gains, itertools.repeat(0.0))
                    side = alternating.largest_known_log_ratio(a, b, endless, floor=side)
                total += side
            best = max(best, total)
    return best


@settings(max_examples=40, deadline=None)
@given(
    chain=chains,
    stream=st.lists(st.none() | noises, min_size=1, max_size=6),
    adversary=st.sampled_from(ADVERSARIES),
)
def test_the_local_stream_is_priced_exactly(
    chain: tuple[float, float], stream: list[tuple[float, float] | None], adversary: Adversary
) -> None:
    """Different noise at every tick, gaps, any chain: the price is the largest loss there is, to 1e-8."""
    entries = entries_of(stream)
    if not entries:
        return
    priced = price(entries, BinaryTheta.point(*chain), adversary, span=(1, len(stream)))
    found = attack(*chain, local(stream), informed=adversary == "informed")
    assert found.loss <= priced.epsilon <= found.loss + 1e-8


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    chain=chains.filter(lambda chain: sum(chain) <= 1.0),
    windows=st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 4), st.floats(0.4, 5.0)), min_size=1, max_size=2
    ),
    stream=st.lists(st.none() | noises, min_size=6, max_size=6).filter(
        lambda stream: sum(rho is not None for rho in stream) <= 3
    ),
    adversary=st.sampled_from(ADVERSARIES),
)
def test_windows_and_the_stream_together_are_priced_exactly(
    chain: tuple[float, float],
    windows: list[tuple[int, int, float]],
    stream: list[tuple[float, float] | None],
    adversary: Adversary,
) -> None:
    """Laplace counts over overlapping windows, gaps and a local stream at once: exact for q+r ≤ 1."""
    mechanism, entries = local(stream), entries_of(stream)
    for first, length, scale in windows:
        last = min(first + length, 6)
        mechanism = both(mechanism, count(6, first - 1, last - 1, scale))
        entries.append(Entry(first, last, 1 / scale, 1 / scale))
    priced = price(entries, BinaryTheta.point(*chain), adversary, span=(1, 6))
    found = attack(*chain, mechanism, informed=adversary == "informed")
    assert found.loss <= priced.epsilon <= found.loss + 1e-8


def test_tumbling_windows_cost_once() -> None:
    """Counts over disjoint windows for ever cost what one endless stream of their tilt costs, not a sum."""
    theta = BinaryTheta.point(0.0893, 0.1092)
    once = loss(theta, tau0=0.1, tau1=0.1, adversary="prior")
    windows = [Entry(60 * i, 60 * i + 59, 0.1, 0.1) for i in range(50)]
    assert price(windows, theta, "prior").epsilon == pytest.approx(once, abs=1e-9)


def test_the_tick_is_where_the_loss_is() -> None:
    """The price names the tick; a release in one place makes that the place."""
    theta = BinaryTheta.point(0.1, 0.1)
    stream = Entry(1, 1000, 0.05, 0.05)
    for adversary in ADVERSARIES:
        found = price([stream, Entry(700, 700, 0.5, 0.5)], theta, adversary)
        assert found.tick == 700


def test_gaps_let_the_past_fade() -> None:
    """Two identical bursts cost more close together than far apart, and far apart what one costs."""
    theta = BinaryTheta.point(0.1, 0.2)
    for adversary in ADVERSARIES:
        alone = price([Entry(1, 5, 0.7, 0.7)], theta, adversary).epsilon
        close = price([Entry(1, 5, 0.7, 0.7), Entry(7, 11, 0.7, 0.7)], theta, adversary).epsilon
        far = price([Entry(1, 5, 0.7, 0.7), Entry(500, 504, 0.7, 0.7)], theta, adversary).epsilon
        assert close > alone + 0.1
        assert far == pytest.approx(alone, abs=1e-8)


@pytest.mark.parametrize(("q", "r"), CHAINS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_long_constant_stream_costs_the_closed_form(q: float, r: float, adversary: Adversary) -> None:
    """A run of many forgetting times has the loss of the endless stream, from below."""
    theta, ticks = BinaryTheta.point(q, r), 4 * forgetting_time(q, r)
    endless = loss(theta, tau0=0.3, tau1=0.2, adversary=adversary)
    finite = price([Entry(1, ticks, 0.3, 0.2)], theta, adversary).epsilon
    assert endless - 1e-9 <= finite <= endless + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(("q", "r"), CHAINS)
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("seed", range(4))
def test_runs_give_what_ticks_give(q: float, r: float, adversary: Adversary, seed: int) -> None:
    """Closed forms over runs, envelopes and branch and bound against walking tick by tick, endless stream."""
    rng = random.Random(seed)
    entries = []
    for _ in range(rng.randint(1, 6)):
        first = rng.randint(1, 60)
        tilts = rng.choice([0.0, 0.02, 0.3, 2.0]), rng.choice([0.01, 0.1, 1.0])
        entries.append(Entry(first, first + rng.choice([0, 1, 3, 20, 50]), *tilts))
    priced = price(entries, BinaryTheta.point(q, r), adversary).epsilon
    walked = by_walking(entries, q, r, adversary)
    assert walked - 1e-12 <= priced <= walked + 3e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    "theta", [BinaryTheta.point(0.1, 0.2), BinaryTheta(0.1, 0.2, 0.15, 0.3), BinaryTheta(0.3, 0.7, 0.4, 0.6)]
)
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_adding_gives_what_pricing_anew_gives(theta: BinaryTheta, adversary: Adversary) -> None:
    """One entry at a time, dry run first: the same price as all at once, and a dry run changes nothing."""
    rng = random.Random(3)
    timeline, entries = BinaryTimeline(theta, adversary), []
    assert timeline.price() == Price(0.0, None)
    for _ in range(12):
        first = rng.randint(-200, 400)
        entry = Entry(first, first + rng.choice([0, 2, 30, 300]), rng.uniform(0, 0.3), rng.uniform(0, 0.3))
        before, dry = timeline.price(), timeline.price_with(entry)
        assert timeline.price() == before
        timeline.add(entry)
        entries.append(entry)
        assert timeline.price() == dry
        assert dry.epsilon == pytest.approx(price(entries, theta, adversary).epsilon, abs=2e-9)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(
    "theta",
    [BinaryTheta(0.05, 0.4, 0.1, 0.5), BinaryTheta(0.3, 0.9, 0.2, 0.9), BinaryTheta(0.6, 0.95, 0.5, 0.9)],
)
@pytest.mark.parametrize("seed", range(3))
def test_no_chain_of_a_box_costs_more_than_the_box(
    adversary: Adversary, theta: BinaryTheta, seed: int
) -> None:
    """The price of Θ is at least that of every chain on a grid in it, and not far above the worst of them."""
    rng = np.random.default_rng(seed)
    entries = [
        Entry(t, t + int(rng.integers(0, 3)), float(rng.uniform(0, 2)), float(rng.uniform(0, 2)))
        for t in rng.integers(0, 12, size=4).tolist()
    ]
    priced = price(entries, theta, adversary).epsilon
    inside = [
        price(entries, BinaryTheta.point(float(q), float(r)), adversary).epsilon
        for q in np.linspace(theta.q_low, theta.q_high, 7)
        for r in np.linspace(theta.r_low, theta.r_high, 7)
    ]
    assert max(inside) <= priced + 2e-9
    assert max(inside) >= priced * 0.7


def test_known_states_alone_do_not_fall_in_r() -> None:
    """Why the slowest chain of Θ does not decide: against known states one side's loss can rise in r (Theorem 6)."""
    tau = 0.0421
    sides = [
        alternating.largest_known_log_ratio(
            0.002, r, itertools.chain([tau], itertools.repeat(0.0)), floor=0.0
        )
        for r in (0.8, 0.85)
    ]
    assert sides[1] > sides[0] + 1e-4


def test_a_rise_anywhere_never_lowers_the_price() -> None:
    """More tilt never costs less: adding an entry searches only the ticks near it."""
    rng = random.Random(11)
    for adversary in ADVERSARIES:
        timeline = BinaryTimeline(BinaryTheta.point(0.15, 0.4), adversary)
        prices = [0.0]
        for _ in range(30):
            first = rng.randint(0, 100)
            timeline.add(Entry(first, first + rng.randint(0, 40), rng.uniform(0, 0.2), rng.uniform(0, 0.2)))
            prices.append(timeline.price().epsilon)
        assert prices == sorted(prices)


def test_runs_are_sums_of_entries() -> None:
    """At every tick the runs have the exact sum of what covers it, however they were built."""
    rng = random.Random(5)
    pieces = []
    runs = TiltRuns()
    for _ in range(40):
        first = rng.randint(-30, 60)
        piece = (first, first + rng.randint(0, 25), rng.randint(0, 9), rng.randint(0, 9))
        pieces.append(piece)
        runs.add(*piece)
    for built in (runs, TiltRuns(pieces)):
        assert built.edges == sorted(set(built.edges))
        assert (built.edges[0], built.edges[-1]) == (min(p[0] for p in pieces), max(p[1] for p in pieces) + 1)
        for k, tilts in enumerate(built.tilts):
            for tick in range(built.edges[k], built.edges[k + 1]):
                runs_touching = [p for p in pieces if p[0] <= tick <= p[1]]
                assert tilts == (sum(p[2] for p in runs_touching), sum(p[3] for p in runs_touching))


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 1), st.integers(0, 1)), max_size=8
    )
)
def test_entries_in_order_make_the_runs_that_any_order_makes(
    windows: list[tuple[int, int, int, int]],
) -> None:
    """Gaps, neighbours with equal tilts and windows without a tilt included."""
    pieces, first = [], 0
    for gap, length, tilt0, tilt1 in windows:
        first += gap
        pieces.append((first, first + length - 1, tilt0, tilt1))
        first += length
    in_order, summed = TiltRuns(pieces), TiltRuns()
    summed._sum(pieces)
    assert (in_order.edges, in_order.tilts) == (summed.edges, summed.tilts)


@given(st.floats(0.0, 100.0))
def test_units_round_up(tau: float) -> None:
    """A tilt in units and back is never smaller."""
    assert tau <= to_nats(to_units(tau)) <= tau + 1e-15 * (1 + tau)


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=20),
    within=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_largest_in_reach_is_the_largest_in_reach(lengths: list[int], within: int, seed: int) -> None:
    """The sliding maximum is the maximum over runs with a tick within the forgetting time."""
    rng = random.Random(seed)
    edges = [0, *itertools.accumulate(lengths)]
    values = [float(rng.randint(0, 5)) for _ in lengths]
    plain = [
        max(
            values[j]
            for j in range(len(lengths))
            if edges[j] < edges[k + 1] + within and edges[j + 1] > edges[k] - within
        )
        for k in range(len(lengths))
    ]
    assert sliding_maximum(edges, within, values) == plain


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Entry(5, 4, 0.1, 0.1), r"^last is 4; it must not be before first, 5"),
        (lambda: Entry(1, 2, -0.1, 0.1), r"^tau0 is -0.1"),
        (lambda: Entry(1, 2, 0.1, math.nan), r"^tau1 is nan"),
        (lambda: price([], BinaryTheta.point(0.1, 0.1), "someone"), r"^adversary is 'someone'"),
        (
            lambda: price([Entry(0, 3, 0.1, 0.1)], BinaryTheta.point(0.1, 0.1), span=(1, 5)),
            r"ticks 0 to 3; the stream has",
        ),
        (lambda: price([], BinaryTheta.point(0.1, 0.1), span=(5, 1)), r"^span is \(5, 1\)"),
    ],
)
def test_bad_values_are_named(make, message: str) -> None:
    """Each bad value is refused with one message naming it."""
    with pytest.raises(ValueError, match=message):
        make()


def test_nothing_published_costs_nothing() -> None:
    """No entries, or entries without tilt, are free."""
    theta = BinaryTheta.point(0.1, 0.2)
    assert price([], theta) == Price(0.0, None)
    assert price([], theta, span=(1, 9)).epsilon == 0.0
    assert price([Entry(1, 9, 0.0, 0.0)], theta).epsilon == 0.0


SLOW = [(0.003, 0.004), (0.002, 0.02), (0.012, 0.0015)]


@pytest.mark.slow
@pytest.mark.parametrize(("q", "r"), SLOW)
@pytest.mark.parametrize("taus", [(0.3,), (1.0, 0.0, 0.0, 0.5), (0.2, 0.9, 0.4, 0.0, 0.7)])
def test_a_slow_chain_costs_a_little_more_than_the_exact_price(
    q: float, r: float, taus: tuple[float, ...]
) -> None:
    """Where the exact search would visit thousands of instants the price is an upper bound, at most 3% above."""
    assert forgetting_time(q, r) > LONGEST_MEMORY
    entries = [Entry(7 * t, 7 * t + 3, tau, 0.7 * tau) for t, tau in enumerate(taus) if tau]
    exact = by_walking(entries, q, r, "informed")
    assert exact <= price(entries, BinaryTheta.point(q, r)).epsilon <= 1.03 * exact


@pytest.mark.parametrize(("q", "r"), [*SLOW, (1e-4, 1e-3), (1e-6, 1e-6)])
def test_a_long_constant_stream_of_a_slow_chain_costs_the_closed_form(q: float, r: float) -> None:
    """The price of a run of many forgetting times is that of the endless stream: windows fit their budget."""
    theta, tau = BinaryTheta.point(q, r), 0.2 * (q + r)
    endless = loss(theta, tau0=tau, tau1=0.7 * tau)
    finite = price([Entry(1, 4 * forgetting_time(q, r), tau, 0.7 * tau)], theta).epsilon
    assert endless - 1e-9 <= finite <= endless + 1e-8


@pytest.mark.parametrize(("q", "r", "stated"), [(0.05, 0.3, 4.61), (0.0893, 0.1092, 4.12)])
def test_known_states_in_gaps_count(q: float, r: float, stated: float) -> None:
    """Every fifth tick published: who knows a state in a gap learns more than the chain of five steps allows."""
    stride, lam = 5, 1.0 - q - r
    leap = (1 - lam**stride) * q / (q + r), (1 - lam**stride) * r / (q + r)
    tau0, tau1 = largest_tilts(BinaryTheta.point(*leap), 4.0, "informed")
    entries = [Entry(stride * n, stride * n, tau0, tau1) for n in range(31)]
    assert price(entries, BinaryTheta.point(q, r)).epsilon == pytest.approx(stated, abs=0.006)


@settings(max_examples=25, deadline=None)
@given(
    chain=chains,
    stride=st.integers(2, 3),
    rho=noises,
)
def test_a_strided_stream_is_priced_exactly(
    chain: tuple[float, float], stride: int, rho: tuple[float, float]
) -> None:
    """Published every second or third tick, with every known set, those in the gaps and at the ends among them."""
    stream = [rho if t % stride == 1 else None for t in range(7)]
    entries = [Entry(t, t, BinaryNoise(*rho).tau0, BinaryNoise(*rho).tau1) for t in range(1, 7, stride)]
    found = attack(*chain, local(stream), informed=True)
    assert found.loss <= price(entries, BinaryTheta.point(*chain), span=(0, 6)).epsilon <= found.loss + 1e-8
