"""The checker's bounds hold the loss by definition between them, and the loss that the rest of hushmq computes."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import certificate_for
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from hushmq.verify.largest_loss import largest_loss, loss_for_ever
from hushmq.verify.more_state_pricing import MoreStates, through_emission, tilt_of_emission
from hushmq.verify.outward import Interval, exact, exp, ln
from hushmq.verify.spread_of_odds import spread_of_more, spread_of_two
from hushmq.verify.tilt_sequence import Run, Tilts, both_ways
from hushmq.verify.two_state_pricing import TwoStates, through_flips, tilts_of_flips
from tests.pufferfish.binary.test_changing_kernels import SEVERAL, truth
from tests.pufferfish.oracles import attack, local
from tests.pufferfish.oracles_categorical import worst_mechanism

probability = st.floats(0.02, 0.98)
tilt = st.floats(0.01, 1.5)
ADVERSARIES: list[Adversary] = ["prior", "informed"]


def tree(theta: BinaryTheta) -> dict[str, dict[str, float]]:
    return {
        "q": {"low": theta.q_low, "high": theta.q_high},
        "r": {"low": theta.r_low, "high": theta.r_high},
    }


def tilted(tau0: float, tau1: float) -> Tilts:
    return Tilts(exact(tau0), exact(tau1))


def holds(interval: Interval, value: float, room: float = 1e-9) -> bool:
    return float(interval.low) - room <= value <= float(interval.high) + room


def test_intervals_hold_what_they_stand_for() -> None:
    """Exponentials and logarithms of floats, against twice as many digits."""
    for value in (1e-9, 0.1, 1.0, 3.7, 299.0):
        there = exp(exact(value))
        assert there.low < there.high
        assert there.high / there.low - 1 < Decimal("1e-30")
        back = ln(there)
        assert back.low <= Decimal(value) <= back.high
        assert float(there.low) == pytest.approx(math.exp(value), rel=1e-14)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@settings(max_examples=25, deadline=None)
@given(
    q=probability,
    r=probability,
    rho=st.lists(
        st.one_of(st.none(), st.tuples(st.floats(0.1, 0.45), st.floats(0.1, 0.45))), min_size=2, max_size=5
    ),
)
def test_every_output_of_a_short_stream(
    adversary: Adversary, q: float, r: float, rho: list[tuple[float, float] | None]
) -> None:
    """All paths, all outputs, every known set: the enumerated loss lies between the bounds."""
    assume(any(one is not None for one in rho))
    truth = attack(q, r, local(rho), informed=adversary == "informed").loss
    runs = [
        Run(tick, tick, tilts_of_flips({"rho0": one[0], "rho1": one[1]}))
        for tick, one in enumerate(rho)
        if one is not None
    ]
    pricing = TwoStates(tree(BinaryTheta.point(q, r)), adversary)
    found = largest_loss(pricing, runs).loss
    # The stream goes on before and after: there the informed adversary may know a state as well.
    assert truth <= float(found.high) + 1e-9
    if adversary == "prior":
        assert holds(found, truth)
    # A claim one in a thousand too low is refuted, and what is true is proved.
    if adversary == "prior" and truth > 1e-3:
        assert float(largest_loss(pricing, runs, truth * 0.999).loss.low) > truth * 0.999
        assert float(largest_loss(pricing, runs, truth * (1 + 1e-9)).loss.high) <= truth * (1 + 1e-8)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@settings(max_examples=25, deadline=None)
@given(
    q=st.tuples(probability, probability),
    r=st.tuples(probability, probability),
    tau0=tilt,
    tau1=tilt,
    box=st.booleans(),
)
def test_endless_streams(
    adversary: Adversary, q: tuple[float, float], r: tuple[float, float], tau0: float, tau1: float, box: bool
) -> None:
    """Constant tilts for ever: by products of matrices what the rest computes by fixed points of maps."""
    theta = BinaryTheta(min(q), max(q), min(r), max(r)) if box else BinaryTheta.point(q[0], r[0])
    stated = theta.constant_loss(tau0, tau1, adversary)
    found = loss_for_ever(TwoStates(tree(theta), adversary), tilted(tau0, tau1))
    assert float(found.low) <= stated * (1 + 1e-9)
    assert float(found.high) <= stated * (1 + 1e-7) + 1e-8
    # Closer where phases after a known state are; a single chain is exact.
    assert float(found.high) >= stated * (0.97 if box and adversary == "informed" else 1 - 1e-7)
    assert box or holds(found, stated, 1e-7)


def test_large_tilts_for_ever() -> None:
    """A large ε leaves little noise: the numbers of an endless stream still fit."""
    theta = BinaryTheta(0.12, 0.45, 0.12, 0.45)
    found = loss_for_ever(TwoStates(tree(theta), "prior"), tilted(40.0, 30.0))
    assert float(found.high) == pytest.approx(theta.constant_loss(40.0, 30.0, "prior"), rel=1e-7)


@pytest.mark.parametrize("adversary", ADVERSARIES)
@settings(max_examples=10, deadline=None)
@given(
    q=st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.9)),
    r=st.tuples(st.floats(0.05, 0.5), st.floats(0.05, 0.9)),
    pieces=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 5), tilt, tilt), min_size=1, max_size=3),
)
def test_timelines(
    adversary: Adversary,
    q: tuple[float, float],
    r: tuple[float, float],
    pieces: list[tuple[int, int, float, float]],
) -> None:
    """Runs with gaps: the price is proved, and three per cent less is refuted or at least not proved."""
    theta = BinaryTheta(min(q), max(q), min(r), max(r))
    runs, tick = [], 100
    for length, gap, tau0, tau1 in pieces:
        runs.append(Run(tick, tick + length - 1, tilted(tau0, tau1)))
        tick += length + gap
    entries = [Entry(run.first, run.last, *(float(one.low) for one in run.tilts)) for run in runs]
    stated = theta.timeline(adversary, entries).price().epsilon
    pricing = TwoStates(tree(theta), adversary)
    found = largest_loss(pricing, runs, stated)
    assert not found.cut_short
    assert float(found.loss.high) <= stated * (1 + 1e-8)
    less = largest_loss(pricing, runs, stated * 0.97)
    assert float(less.loss.high) > stated * 0.97 * (1 + 1e-8)


@pytest.mark.parametrize("chain", [(0.2, 0.2), (0.05, 0.4), (0.7, 0.8)])
@pytest.mark.parametrize("ticks", [(0, 2), (3, 5), (4, 4), (6, 9), (2, 1)])
def test_some_ticks_of_a_stream(chain: tuple[float, float], ticks: tuple[int, int]) -> None:
    """All paths and outputs of six published ticks, which all tell of those of an epoch: its largest loss.

    States are exchanged in the second half, as by another meaning: its larger tilts count in both directions.
    """
    rho = [(0.3, 0.2)] * 3 + [(0.05, 0.4)] * 3
    mine, other = (tilts_of_flips({"rho0": one[0], "rho1": one[1]}) for one in (rho[0], rho[-1]))
    runs = [Run(0, 2, mine), Run(3, 5, both_ways(other))]
    pricing = TwoStates(tree(BinaryTheta.point(*chain)), "prior")
    found = largest_loss(pricing, runs, ticks=ticks).loss
    attacked = range(ticks[0], ticks[1] + 1)
    silent: list[tuple[float, float] | None] = [None] * 4
    losses = [
        attack(*chain, local([*rho[:3], *half, *silent]), informed=False, ticks=attacked).loss
        if attacked
        else 0.0
        for half in (rho[3:], [one[::-1] for one in rho[3:]])
    ]
    assert holds(found, max(losses), 1e-8) or (sum(chain) > 1 and max(losses) < float(found.high))
    assert float(found.low) <= float(largest_loss(pricing, runs).loss.high)


@pytest.mark.parametrize("theta", SEVERAL, ids=lambda theta: theta.in_brief())
@pytest.mark.parametrize("taus", [(0.3,) * 4, (0.2, 0.9, 0.0, 0.9)])
@pytest.mark.parametrize("adversary", ADVERSARIES)
def test_no_sequence_of_kernels_loses_more(
    theta: BinaryTheta, taus: tuple[float, ...], adversary: Adversary
) -> None:
    """Every sequence of corners of Θ, enumerated: within the bounds, of which the upper one is at most 8% above."""
    enumerated = truth(theta, [(tau, tau) for tau in taus], adversary)
    runs = [Run(t, t, tilted(tau, tau)) for t, tau in enumerate(taus) if tau]
    found = largest_loss(TwoStates(tree(theta), adversary), runs).loss
    assert (
        float(found.low) <= 1.02 * enumerated
    )  # first laws are of a grid, and states known within the four ticks
    assert enumerated <= float(found.high) <= 1.08 * enumerated


@settings(max_examples=25, deadline=None)
@given(q=st.tuples(probability, probability), r=st.tuples(probability, probability))
def test_the_spread_of_odds(q: tuple[float, float], r: tuple[float, float]) -> None:
    """Exact fractions against the floats that the rest uses; corners of Θ have odds as far apart where q + r ≤ 1."""
    theta = BinaryTheta(min(q), max(q), min(r), max(r))
    found = float(spread_of_two(tree(theta)))
    assert found == pytest.approx(theta.odds_spread, rel=1e-9, abs=1e-9)
    widest = math.log(max(q) * max(r) / (min(q) * min(r)))
    assert found >= widest - 1e-9
    if max(q) + min(r) <= 1 and min(q) + max(r) <= 1:
        assert found == pytest.approx(widest, abs=1e-9)


def test_slow_chains_are_not_visited_tick_by_tick() -> None:
    """A forgetting time of a million ticks: distances are split, not walked."""
    theta = BinaryTheta.point(1e-6, 2e-6)
    found = loss_for_ever(TwoStates(tree(theta), "informed"), tilted(0.01, 0.02))
    assert holds(found, theta.constant_loss(0.01, 0.02, "informed"), 1e-8)


@given(rho0=st.floats(0.05, 0.45), rho1=st.floats(0.05, 0.45), w=st.floats(1e-6, 5.0))
def test_amplification(rho0: float, rho1: float, w: float) -> None:
    """Theorem 8 of the theory, one number for each direction."""
    found = through_flips({"rho0": rho0, "rho1": rho1}, exact(w))
    noise = BinaryNoise(rho0, rho1)
    assert max(float(one.high) for one in found) <= noise.amplified(w)
    assert max(float(one.low) for one in found) == pytest.approx(noise.amplified(w), rel=1e-9, abs=1e-12)


@given(k=st.integers(3, 6), tau=st.floats(0.05, 3.0), w=st.floats(1e-6, 5.0))
def test_amplification_of_more_states(k: int, tau: float, w: float) -> None:
    noise = CategoricalNoise.response(k, tau)
    found = through_emission(noise.rows, exact(w)).towards0
    assert float(found.high) <= noise.amplified(w)
    assert float(found.low) == pytest.approx(noise.amplified(w), rel=1e-9, abs=1e-10)
    assert float(tilt_of_emission([list(row) for row in noise.rows]).towards0.high) <= noise.tilts[0]


THREE = [[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.05, 0.2, 0.75]]
CYCLE = [[0.1, 0.8, 0.1], [0.1, 0.1, 0.8], [0.7, 0.2, 0.1]]


def around(rows: list[list[float]], room: float) -> CategoricalTheta:
    return CategoricalTheta.between(
        [[max(0.0, p - room) for p in row] for row in rows],
        [[min(1.0, p + room) for p in row] for row in rows],
    )


@pytest.mark.parametrize("rows", [THREE, CYCLE])
@pytest.mark.parametrize("taus", [(0.3, 0.3, 0.3, 0.3), (0.4, 0.0, 0.7, 0.2)])
def test_no_mechanism_beats_the_bound_for_more_states(
    rows: list[list[float]], taus: tuple[float, ...]
) -> None:
    """Linear programs over the likelihoods of all paths: the worst of all mechanisms is within the bound."""
    truth = max(worst_mechanism(Chain(rows), taus, i) for i in range(len(taus)))
    runs = [Run(t, t, tilted(tau, tau)) for t, tau in enumerate(taus) if tau]
    found = largest_loss(MoreStates(CategoricalTheta.point(rows).as_tree()), runs).loss
    assert float(found.low) <= truth <= float(found.high)


@pytest.mark.parametrize("theta", [around(THREE, 0.0), around(THREE, 0.02), around(CYCLE, 0.03)])
@pytest.mark.parametrize("tau", [0.05, 0.4])
def test_certificates(theta: CategoricalTheta, tau: float) -> None:
    """What is certified is proved by enumerated sets as well, which prove at least as much; less is not."""
    pricing = MoreStates(theta.as_tree())
    made = certificate_for(theta, tau)
    sides = {
        name: {"hops": one[0], "bound": one[1]} for name, one in (("left", made.left), ("right", made.right))
    }
    assert float(pricing.proved_by({"tau": tau, **sides}) or math.inf) <= made.loss * (1 + 1e-12)
    sides["right"]["bound"] = sides["right"]["bound"] * 0.8
    assert pricing.proved_by({"tau": tau, **sides}) is None
    assert float(loss_for_ever(pricing, tilted(tau, tau)).high) <= made.loss


@pytest.mark.parametrize("room", [0.0, 0.01, 0.03])
def test_the_spread_of_odds_of_more_states(room: float) -> None:
    """At least what members of Θ differ by, at most what the rest states."""
    theta = around(THREE, room)
    found = float(spread_of_more(theta.as_tree()))
    assert found <= theta.odds_spread + 1e-9
    odds = []
    for sign in (1, -1):
        rows = [[p + sign * room * ((u == 0) - (u == 2)) for u, p in enumerate(row)] for row in THREE]
        law = np.linalg.matrix_power(np.array(rows), 4096)[0]
        odds.append(math.log(law[0] / law[2]))
    assert abs(odds[0] - odds[1]) <= found + 1e-9
    if room:
        assert abs(odds[0] - odds[1]) > 0.9 * found


@pytest.mark.parametrize("theta", [around(THREE, 0.01), around(CYCLE, 0.01)])
def test_timelines_of_more_states(theta: CategoricalTheta) -> None:
    """Never above what the timeline of the rest proves."""
    runs = [Run(10, 29, tilted(0.3, 0.3)), Run(30, 44, tilted(0.1, 0.1)), Run(50, 400, tilted(0.2, 0.2))]
    entries = [Entry(run.first, run.last, *(float(one.low) for one in run.tilts)) for run in runs]
    stated = theta.timeline("prior", entries).price().epsilon
    found = largest_loss(MoreStates(theta.as_tree()), runs, stated)
    assert not found.cut_short
    assert 0.9 * stated < float(found.loss.high) <= stated * (1 + 1e-9)
