"""Known states: no mechanism tells more than is certified, and for two states the projective bound is Theorem 17's."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.categorical.bridge import SINGLY, BridgeSide, bridge_row, step
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import (
    certificate_for,
    certified_loss,
    constant_loss,
    largest_tilt,
)
from hushmq.pufferfish.categorical.informed_side import ProjectiveStep
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish import real_chains
from tests.pufferfish.categorical.test_contraction import binary_class
from tests.pufferfish.categorical.test_transition_intervals import THREE, around, member
from tests.pufferfish.oracles_categorical import worst_mechanism
from tests.recordings import needs_data


def worst_informed(chain: Chain, tilts: list[float]) -> float:
    """The largest loss of any mechanism, over all secrets and all known states of other instants."""
    n, found = len(tilts), 0.0
    for i in range(n):
        others = [t for t in range(n) if t != i]
        for size in range(n):
            for known in combinations(others, size):
                for states in product(range(chain.k), repeat=size):
                    given_states = dict(zip(known, states, strict=True))
                    found = max(found, worst_mechanism(chain, tilts, i, given_states))
    return found


def worst_nearest(chain: Chain, tilts: list[float], i: int) -> float:
    """The same at one instant; of the known instants on a side only the nearest matters."""
    before = [{}, *({t: y} for t in range(i) for y in range(chain.k))]
    after = [{}, *({t: y} for t in range(i + 1, len(tilts)) for y in range(chain.k))]
    return max(worst_mechanism(chain, tilts, i, {**a, **b}) for a in before for b in after)


def random_chain(rng: np.random.Generator, stay: float = 0.4) -> np.ndarray:
    """Three states, each kept with some probability."""
    return stay * np.eye(3) + (1 - stay) * rng.dirichlet(np.ones(3), size=3)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 2.0))
def test_one_tick_before_a_known_state_is_exact(seed: int, tau: float) -> None:
    """A secret, a published tick, a known state: the step along the bridge is the worst of all mechanisms."""
    rng = np.random.default_rng(seed)
    P = random_chain(rng)
    truth, found = 0.0, 0.0
    for y in range(3):
        truth = worst_mechanism(Chain(P), [0.0, tau, 0.0], 0, {2: y})
        weights = tuple(P[:, y].tolist())
        rows = [bridge_row((row, row), (weights, weights)) for row in map(tuple, P.tolist())]
        found = step([(a, b) for a in rows for b in rows if a and b and a is not b], tau)
        assert truth * (1 - 1e-6) - 1e-9 <= found <= truth * (1 + 1e-4) + 1e-9


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.01, 6.0))
def test_no_weights_at_the_end_of_a_step_tell_more_than_the_projective_bound(seed: int, D: float) -> None:
    """Random weights of the states and the worst two-valued function; with two states some weights attain it."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.ones(3), size=3)
    bound = ProjectiveStep(TransitionIntervals.point(P.tolist())).step(D)
    for _ in range(50):
        K = P * np.exp(rng.normal(0, 3, size=3))
        K /= K.sum(axis=1, keepdims=True)
        for chosen in product((0.0, 1.0), repeat=3):
            told = np.log1p(np.expm1(D) * (K @ np.array(chosen)))
            assert np.ptp(told) <= bound * (1 + 1e-12)


@pytest.mark.parametrize(("q", "r", "D"), [(0.2, 0.3, 1.0), (0.05, 0.4, 0.1), (0.01, 0.02, 5.0)])
def test_for_two_states_the_projective_bound_is_that_of_all_odds(q: float, r: float, D: float) -> None:
    """B_α of docs/theory-world.md, Lemma 6, which is attained."""
    alpha = math.sqrt(q * r / ((1 - q) * (1 - r)))
    truth = 2 * math.log((math.exp(D / 2) + alpha) / (1 + alpha * math.exp(D / 2)))
    found = ProjectiveStep(binary_class(q, r).forward).step(D)
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 1e-9)


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.05, 0.4), (0.0893, 0.1092)])
@pytest.mark.parametrize("tau", [0.02, 0.1, 0.5])
def test_two_states_cost_little_more_than_the_exact_loss(q: float, r: float, tau: float) -> None:
    """Theorem 4 of docs/theory.md is exact: never below it, and within 3% of it."""
    truth = binary.loss(binary.BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary="informed")
    found = constant_loss(binary_class(q, r), tau, informed=True)
    assert truth * (1 - 1e-9) <= found <= truth * 1.03


@pytest.mark.slow
@settings(max_examples=2, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.5))
def test_no_mechanism_beats_a_certificate_whatever_is_known(seed: int, tau: float) -> None:
    """The worst of all mechanisms and all known states on a chain of Θ loses no more than was certified for Θ."""
    rng = np.random.default_rng(seed)
    intervals = around(random_chain(rng), 0.02, rng)
    theta = CategoricalTheta.of(intervals)
    bound = certified_loss(theta, certificate_for(theta, tau, informed=True), informed=True)
    assert worst_nearest(Chain(member(intervals, rng)), [tau] * 4, 1) <= bound + 1e-7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_mechanism_beats_the_price_of_a_timeline_whatever_is_known(seed: int) -> None:
    """Tilts that vary, and gaps: the price is at least the worst loss, and at most twice that of a single chain."""
    rng = np.random.default_rng(seed)
    P = random_chain(rng, stay=0.2)
    taus = rng.choice([0.0, 0.3, 1.0], size=4).tolist()
    taus[0] = taus[2] = 0.5
    entries = [Entry(t, t, tau, tau) for t, tau in enumerate(taus) if tau]
    found = CategoricalTheta.point(P.tolist()).timeline("informed", entries, ticks=(1, 1)).price().epsilon
    truth = worst_nearest(Chain(P), taus, 1)
    assert truth - 1e-7 <= found <= 2 * truth


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 1.0))
def test_a_known_state_at_any_distance_is_covered(seed: int, tau: float) -> None:
    """On one side, the worst transcripts of constant signs: the true log-ratio given a state known J ticks away.

    A transcript that favours a set of states at every tick between multiplies each path by e^τ for each visit.
    """
    rng = np.random.default_rng(seed)
    intervals = around(random_chain(rng, stay=rng.uniform(0.0, 0.9)), 0.02, rng)
    P = member(intervals, rng)
    sides = BridgeSide(intervals)
    bound = min(sides.bound(hops, tau) for hops in (1, 2))
    for chosen in product((0.0, 1.0), repeat=3):
        favour = np.exp(tau * np.array(chosen))
        told, alone = np.eye(3), np.eye(3)
        for _ in range(40):
            told, alone = P @ told, P @ alone
            for y in range(3):
                possible = alone[:, y] > 0
                assert np.ptp(np.log(told[possible, y] / alone[possible, y])) <= bound + 1e-9
            told = favour[:, None] * told


def test_knowing_states_can_tell_more() -> None:
    """Noise right for the prior adversary is not for the informed one: a certificate for the first is refused."""
    theta = CategoricalTheta.point([[0.9, 0.05, 0.05], [0.05, 0.9, 0.05], [0.05, 0.05, 0.9]])
    prior = certificate_for(theta, 0.5)
    with pytest.raises(ValueError, match="not proved for some known state"):
        certified_loss(theta, prior, informed=True)
    assert constant_loss(theta, 0.5, informed=True) > prior.loss


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("width", [0.0, 0.01])
def test_a_certificate_that_claims_a_little_less_is_refused(side: str, width: float) -> None:
    """One percent off R, or on τ, and nothing is proved."""
    P = np.array(THREE)
    theta = CategoricalTheta.between((P - width).tolist(), (P + width).tolist())
    good = largest_tilt(theta, 1.0, informed=True)
    assert 0.999 < certified_loss(theta, good, informed=True) <= 1.0
    hops, R = getattr(good, side)
    with pytest.raises(ValueError, match=f"{side}: R = .* not proved for some known state"):
        certified_loss(theta, replace(good, **{side: (hops, 0.99 * R)}), informed=True)
    with pytest.raises(ValueError, match="not proved"):
        certified_loss(theta, replace(good, tau=1.01 * good.tau), informed=True)


def test_a_transition_that_is_impossible_is_covered() -> None:
    """A chain that moves to neighbours only: some states exclude others nearby, and all is finite farther away."""
    line = [[0.7, 0.3, 0.0], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]]
    theta = CategoricalTheta.point(line)
    loss = constant_loss(theta, 0.2, informed=True)
    assert worst_informed(Chain(np.array(line)), [0.2] * 3) <= loss < 1.1 * constant_loss(theta, 0.2)


def test_chains_that_never_forget_have_no_certificate() -> None:
    """Θ that may hold a chain in its state for ever proves nothing."""
    frozen = CategoricalTheta.of(
        TransitionIntervals(
            tuple(tuple(0.9 * (x == u) for u in range(3)) for x in range(3)),
            tuple(tuple(1.0 if x == u else 0.1 for u in range(3)) for x in range(3)),
        )
    )
    assert math.isinf(constant_loss(frozen, 0.1, informed=True))


def test_a_long_stream_costs_its_certificate() -> None:
    """A constant tilt for a long time, with a little more now and then, is priced within ε."""
    theta = CategoricalTheta.point(THREE)
    tau = largest_tilt(theta, 1.0, informed=True).tau * (1 - theta.tilt_margin)
    price = theta.timeline("informed", [Entry(0, 10**6, tau, tau)]).price().epsilon
    assert 0.99 < price <= 1.0
    sparse = [Entry(t, t, tau, tau) for t in range(0, 2000, 100)]
    assert theta.timeline("informed", sparse).price().epsilon < 0.5


@needs_data
@pytest.mark.slow
def test_known_states_cost_real_chains_little() -> None:
    """The loss of the noise that is right for the prior adversary, as a part of ε, on chains of real recordings."""
    for chain in (
        real_chains.heart_rate("N10", 3),
        real_chains.heart_rate("N10"),
        real_chains.heart_rate("N3"),
    ):
        theta = CategoricalTheta.point(np.asarray(chain.transition).tolist())
        for epsilon in (1.0, 4.0):
            tau = largest_tilt(theta, epsilon).tau
            assert 1.0 - 1e-6 <= constant_loss(theta, tau, informed=True) / epsilon <= 1.02


@pytest.mark.parametrize("hops", [1, 2])
def test_what_is_told_beyond_the_last_range_is_covered(hops: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow chain whose weights are computed for a few distances only: the tail has to bound all farther ones.

    The recursion of Theorem 11 is followed one distance at a time, with the weights of the chain itself, far beyond
    the last range; what it reaches there is more than it reaches within.
    """
    monkeypatch.setattr("hushmq.pufferfish.categorical.bridge.FARTHEST", 2 * SINGLY)
    P, tau = np.array([[0.97, 0.02, 0.01], [0.01, 0.97, 0.02], [0.02, 0.01, 0.97]]), 0.02
    bound = BridgeSide(TransitionIntervals.point(P.tolist())).bound(hops, tau)
    powers = [np.linalg.matrix_power(P, n) for n in range(401)]
    rows = [tuple(row) for row in powers[hops].tolist()]
    reached = []
    for y in range(3):
        told = [0.0] * (hops + 1)
        for J in range(hops + 1, 401):
            weights = tuple(powers[J - hops][:, y].tolist())
            bridge = [bridge_row((row, row), (weights, weights)) for row in rows]
            pairs = [(a, b) for a in bridge for b in bridge if a and b and a is not b]
            told.append(min((J - 1) * tau, (hops - 1) * tau + step(pairs, tau + told[J - hops])))
        reached.append(told)
    within = max(max(told[: 2 * SINGLY + hops + 1]) for told in reached)
    beyond = max(map(max, reached))
    assert 1.05 * within < beyond <= bound < math.inf
