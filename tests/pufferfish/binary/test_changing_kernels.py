"""Θ of several chains: every step may have another kernel of Θ. Against every sequence of its corners."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.binary.changing_chain import changing_chains, favouring
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss
from hushmq.pufferfish.mobius.changing_side import ChangingSide, alpha_of
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import attack, local
from tests.pufferfish.oracles_changing import largest_loss, outputs, path_probabilities

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
README = BinaryTheta(0.05, 0.45, 0.05, 0.45)
SEVERAL = [
    README,
    BinaryTheta(0.08, 0.1, 0.1, 0.12),
    BinaryTheta(0.02, 0.28, 0.05, 0.38),
    BinaryTheta(0.01, 0.02, 0.1, 0.2),
    BinaryTheta(0.3, 0.9, 0.4, 0.7),
    BinaryTheta(0.6, 0.95, 0.5, 0.9),
]


def truth(theta: BinaryTheta, taus: list[tuple[float, float]], adversary: Adversary) -> float:
    """The largest loss over all sequences of corners of Θ, first laws of a grid, products of tilts and known states."""
    kernels = sorted(itertools.product({theta.q_low, theta.q_high}, {theta.r_low, theta.r_high}))
    low = theta.r_low / (theta.r_low + theta.q_high)
    high = theta.r_high / (theta.r_high + theta.q_low)
    firsts = [low, 0.5 * (low + high), high]
    if adversary == "informed":
        firsts += [1e-6, 0.02, 0.2, 0.5, 0.8, 0.98, 1 - 1e-6]
    tau0, tau1 = zip(*taus, strict=True)
    likelihoods = outputs(tau0, tau1, both_ways=theta.q_high + theta.r_high > 1)
    return largest_loss(
        path_probabilities(kernels, firsts, len(taus)), likelihoods, informed=adversary == "informed"
    )


def priced(theta: BinaryTheta, taus: list[tuple[float, float]], adversary: Adversary) -> float:
    entries = [Entry(t, t, *pair) for t, pair in enumerate(taus)]
    return price(entries, theta, adversary, span=(0, len(taus) - 1)).epsilon


@pytest.mark.parametrize("theta", SEVERAL, ids=lambda theta: theta.in_brief())
@pytest.mark.parametrize("taus", [(0.3,) * 5, (1.0,) * 5, (0.2, 0.9, 0.0, 0.9, 0.3)])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_no_sequence_of_kernels_costs_more_and_some_nearly_as_much(
    theta: BinaryTheta, taus: tuple[float, ...], adversary: Adversary
) -> None:
    """The price is at least the truth, and 5% above it at most; 8% with chains on both sides of q + r = 1."""
    pairs = [(tau, tau) for tau in (taus if adversary == "prior" else taus[:4])]
    found, stated = truth(theta, pairs, adversary), priced(theta, pairs, adversary)
    assert found <= stated <= (1.05 if len(theta.worst_corners()) == 1 else 1.08) * found


def test_kernels_that_change_cost_more_than_any_chain() -> None:
    """Why the prior adversary's price is not that of the worst chain: here all chains of Θ cost 9% less."""
    pairs = [(1.5, 1.5)] * 6
    stationary = max(
        priced(BinaryTheta.point(q, r), pairs, "prior")
        for q, r in itertools.product((0.05, 0.15, 0.45), repeat=2)
    )
    assert truth(README, pairs, "prior") > 1.1 * stationary


@settings(max_examples=40, deadline=None)
@given(
    q=st.tuples(st.floats(0.001, 0.97), st.floats(0.001, 0.97)),
    r=st.tuples(st.floats(0.001, 0.97), st.floats(0.001, 0.97)),
    taus=st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 2.0)), min_size=2, max_size=4),
    adversary=st.sampled_from(ADVERSARIES),
)
def test_no_sequence_of_kernels_costs_more(
    q: tuple[float, float], r: tuple[float, float], taus: list[tuple[float, float]], adversary: Adversary
) -> None:
    """Any Θ on either side of q + r = 1 or on both, different tilts towards the two states, gaps."""
    theta = BinaryTheta(min(q), max(q), min(r), max(r))
    assert truth(theta, taus, adversary) <= priced(theta, taus, adversary) + 1e-12


@pytest.mark.parametrize("span", [(0, 4), (0, 9), None])
def test_known_states_at_the_edge_of_the_span_are_covered(span: tuple[int, int] | None) -> None:
    """X_0 = 1 known, ticks 2 to 4 published: a chain of Θ loses 1.6695, of which .004 was once not priced."""
    theta, noise = BinaryTheta(6.21e-5, 0.0882, 0.361, 0.552), BinaryNoise.of_tilts(0.588, 0.588)
    published = (noise.rho0, noise.rho1)
    found = attack(theta.q_low, theta.r_high, local([None, None, *[published] * 3]), informed=True)
    assert (found.known, round(found.loss, 4)) == ({0: 1}, 1.6695)
    stated = price([Entry(2, 4, 0.588, 0.588)], theta, "informed", span=span).epsilon
    assert found.loss < stated < 1.06 * found.loss


@settings(max_examples=60, deadline=None)
@given(
    q=st.floats(1e-4, 0.6),
    r=st.floats(1e-4, 0.6),
    odds=st.tuples(st.floats(-8.0, 8.0), st.floats(-8.0, 8.0)),
    x=st.floats(0.0, 6.0),
)
def test_a_step_is_the_largest_over_the_odds(q: float, r: float, odds: tuple[float, float], x: float) -> None:
    """In pieces the map is the maximum over all odds between the ends, and over all if there are none."""
    assume(q + r < 0.99)

    def step(log_p: np.ndarray) -> float:
        def f(p: np.ndarray) -> np.ndarray:
            return ((1 - q) * p + r) / (q * p + 1 - r)

        return float(np.max(np.log(f(np.exp(log_p + x))) - np.log(f(np.exp(log_p)))))

    low, high = min(odds), max(odds)
    side = ChangingSide.of_odds_between(q, r, math.exp(low), math.exp(high))
    star = 0.5 * math.log(r * (1 - r) / (q * (1 - q))) - 0.5 * x
    grid = np.append(np.linspace(low, high, 400), min(max(star, low), high))
    assert side.advance(0.0, 1, x) == pytest.approx(step(grid), abs=1e-12)
    free = ChangingSide.of_any_odds(alpha_of(q, r))
    assert free.advance(0.0, 1, x) == pytest.approx(
        step(np.append(np.linspace(-25, 25, 400), star)), abs=1e-12
    )


@settings(max_examples=60, deadline=None)
@given(
    q=st.floats(1e-3, 0.45),
    r=st.floats(1e-3, 0.45),
    factors=st.tuples(st.floats(1.0, 4.0), st.floats(1.0, 4.0)),
    tau=st.floats(1e-4, 3.0),
    ticks=st.integers(0, 200),
    begin=st.floats(0.0, 8.0),
    adversary=st.sampled_from(ADVERSARIES),
)
def test_a_run_is_its_ticks_one_by_one(
    q: float,
    r: float,
    factors: tuple[float, float],
    tau: float,
    ticks: int,
    begin: float,
    adversary: Adversary,
) -> None:
    """Closed forms over a run, across all pieces of the map, give what single steps give; the endless one is fixed."""
    theta = BinaryTheta(q, min(q * factors[0], 0.5), r, min(r * factors[1], 0.49))
    assume(not theta.single)
    chain = favouring(theta, 0, adversary, tau)
    for side in (chain.left, chain.right):
        x = begin
        for _ in range(ticks):
            x = side.advance(tau, 1, x)
        assert side.advance(tau, ticks, begin) == pytest.approx(x, abs=1e-11)
        settled = side.endless(tau)
        assert side.advance(tau, 1, settled) == pytest.approx(settled, abs=1e-11)


@pytest.mark.parametrize("theta", SEVERAL, ids=lambda theta: theta.in_brief())
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_timeline_is_the_largest_over_its_ticks(theta: BinaryTheta, adversary: Adversary) -> None:
    """Runs searched by bisection give what every single tick gives."""
    rng = np.random.default_rng(4)
    edges = np.cumsum(rng.integers(1, 40, size=9))
    entries = [
        Entry(int(a), int(b) - 1, *rng.choice([0.0, 0.05, 0.4, 1.5], size=2).tolist())
        for a, b in itertools.pairwise(edges)
    ]
    n = int(edges[-1])
    taus = np.zeros((2, n))
    for entry in entries:
        taus[:, entry.first : entry.last + 1] = [[entry.tau0], [entry.tau1]]
    best = 0.0
    for chain in changing_chains(theta, adversary, (1.5, 1.5)):
        tau = taus.max(axis=0) if chain.state is None else taus[chain.state]
        sides = []
        for side, order in ((chain.left, range(n)), (chain.right, range(n - 1, -1, -1))):
            x, found = 0.0, np.zeros(n)
            for t in order:
                found[t] = x
                x = side.advance(float(tau[t]), 1, x)
            sides.append(found)
        best = max(best, float((tau + sides[0] + sides[1]).max()))
    assert price(entries, theta, adversary).epsilon == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_a_wider_theta_costs_more(adversary: Adversary) -> None:
    """Nested Θ have rising prices; and one of a single chain costs less than any that contains it."""
    nested = [
        BinaryTheta.point(0.1, 0.05),
        BinaryTheta(0.1, 0.101, 0.05, 0.051),
        BinaryTheta(0.08, 0.15, 0.04, 0.08),
        README.hull(BinaryTheta.point(0.04, 0.04)),
        BinaryTheta(0.03, 0.6, 0.03, 0.5),
    ]
    losses = [loss(theta, tau0=0.2, tau1=0.3, adversary=adversary) for theta in nested]
    assert losses == sorted(losses)


@pytest.mark.parametrize(
    ("adversary", "epsilon", "most"),
    [("prior", 1.0, 1.02), ("prior", 4.0, 1.25), ("informed", 1.0, 1.03), ("informed", 4.0, 1.15)],
)
def test_what_changing_kernels_cost(adversary: Adversary, epsilon: float, most: float) -> None:
    """README's Θ at the tilts that cost its slowest chain ε: not ε, and not far above it."""
    slowest = BinaryTheta.point(0.05, 0.05)
    tau0, tau1 = largest_tilts(slowest, epsilon, adversary)
    assert 1.001 * epsilon < loss(README, tau0=tau0, tau1=tau1, adversary=adversary) < most * epsilon


@pytest.mark.parametrize("slow", [1e-2, 1e-4, 1e-6])
def test_slow_chains_cost_no_more_time(slow: float) -> None:
    """The number of steps does not depend on how slow the chains are; the price of a window tends to its tilts' sum."""
    theta = BinaryTheta(slow, 0.45, slow, 0.45)
    found = price([Entry(0, 99, 0.003, 0.003), Entry(10**6, 10**6 + 99, 0.003, 0.003)], theta).epsilon
    assert 0.3 * (1 - 60 * slow) < found < 0.61
