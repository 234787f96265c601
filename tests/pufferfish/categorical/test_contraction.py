"""Certificates for interval classes: never below the truth for any chain in them, exact for binary chains."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary import stream_loss as binary
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.contraction import (
    Certificate,
    certificate_for,
    certified_loss,
    largest_tilt,
)
from hushmq.pufferfish.categorical.contraction_side import HOPS, ContractionTable
from hushmq.pufferfish.categorical.set_excess import largest_set_excess
from hushmq.pufferfish.categorical.transition_intervals import Row, TransitionIntervals
from hushmq.pufferfish.quilt.endless_quilt import certify_tilt, side_solvers, uniform_tilt
from hushmq.pufferfish.quilt.markov_chain import Chain
from tests.pufferfish.categorical.test_transition_intervals import THREE, around, member, random_class, rows
from tests.pufferfish.oracles_categorical import worst_mechanism


def binary_class(
    q: float, r: float, q_high: float | None = None, r_high: float | None = None
) -> CategoricalTheta:
    """A two-state chain is reversible."""
    Q, R = q_high or q, r_high or r
    forward = TransitionIntervals(((1 - Q, q), (r, 1 - R)), ((1 - q, Q), (R, 1 - r)))
    return CategoricalTheta(forward, forward)


def by_sets(a: tuple[Row, Row], b: tuple[Row, Row], lam: float) -> float:
    """max_S [a(S) − λ·b(S)], set by set."""
    found = 0.0
    for chosen in product((False, True), repeat=len(a[0])):
        inside, outside = np.array(chosen), ~np.array(chosen)
        most = min(np.array(a[1])[inside].sum(), 1 - np.array(a[0])[outside].sum())
        least = max(np.array(b[0])[inside].sum(), 1 - np.array(b[1])[outside].sum())
        found = max(found, most - lam * least)
    return found


@settings(deadline=None)
@given(st.integers(0, 10**6), st.floats(1, 50))
def test_no_set_of_states_overlaps_less_than_stated(seed: int, lam: float) -> None:
    """The bound on a(S) − λ·b(S) holds for every set, and is exact where the rows are known."""
    intervals, rng = random_class(seed)
    every = list(zip(intervals.low, intervals.high, strict=True))
    assert largest_set_excess(every[0], every[1], lam) >= by_sets(every[0], every[1], lam)
    P = rows(member(intervals, rng))
    exact = by_sets((P[0], P[0]), (P[1], P[1]), lam)
    assert largest_set_excess((P[0], P[0]), (P[1], P[1]), lam) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.05, 0.4), (0.0893, 0.1092), (0.5, 0.5)])
@pytest.mark.parametrize("tau", [0.01, 0.1, 0.5, 2.0])
def test_binary_chains_are_exact(q: float, r: float, tau: float) -> None:
    """For two states the certified loss is the exact one of an endless stream, within a thousandth."""
    found = certified_loss(theta := binary_class(q, r), certificate_for(theta, tau))
    truth = binary.loss(binary.BinaryTheta.point(q, r), tau0=tau, tau1=tau, adversary="prior")
    assert truth * (1 - 1e-9) <= found <= truth * 1.001


def test_a_binary_box_is_decided_by_its_corner() -> None:
    """Two states, with steps and reversed steps in the same intervals: Θ costs what its slowest chain costs."""
    theta = binary_class(0.05, 0.08, 0.2, 0.3)
    found = certified_loss(theta, certificate_for(theta, 0.1))
    slowest = binary.BinaryTheta.point(0.05, 0.08)
    truth = binary.loss(slowest, tau0=0.1, tau1=0.1, adversary="prior")
    assert truth <= found <= truth * 1.01


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.05, 1.5))
def test_no_mechanism_beats_a_certificate(seed: int, tau: float) -> None:
    """The worst of all mechanisms on a chain of Θ loses no more than was certified for Θ."""
    rng = np.random.default_rng(seed)
    P = 0.4 * np.eye(3) + 0.6 * rng.dirichlet(np.ones(3) * 2, size=3)
    intervals = around(P, 0.05, rng)
    theta = CategoricalTheta.of(intervals)
    try:
        certificate = certificate_for(theta, tau)
    except ValueError:
        return
    bound = certified_loss(theta, certificate)
    chain = Chain(member(intervals, rng))
    assert max(worst_mechanism(chain, [tau] * 4, i) for i in (1, 2)) <= bound + 1e-7


def test_the_certificate_of_one_chain_is_above_the_pairs_own() -> None:
    """One number for all pairs of states costs more than one for each, by no more than is known of it."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    one = certified_loss(theta, certificate_for(theta, 0.05))
    each = certify_tilt(side_solvers(Chain(THREE)), 0.05 * uniform_tilt(3)).loss
    assert each <= one <= 1.3 * each


@pytest.mark.parametrize("width", [0.0, 0.002, 0.01])
def test_the_largest_tilt_spends_what_is_allowed(width: float) -> None:
    """The certificate found is accepted, with a loss just below ε; a wider Θ gets a smaller tilt."""
    P = np.array(THREE)
    theta = CategoricalTheta.of(TransitionIntervals(rows(P - width), rows(P + width)))
    certificate = largest_tilt(theta, 1.0)
    assert 0.999 < certified_loss(theta, certificate) <= 1.0
    wider = CategoricalTheta.of(TransitionIntervals(rows(P - width - 0.005), rows(P + width + 0.005)))
    assert largest_tilt(wider, 1.0).tau < certificate.tau
    with pytest.raises(ValueError, match="not proved"):
        certified_loss(wider, certificate)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_certificate_that_claims_a_little_less_is_refused(side: str) -> None:
    """One percent off R, or on τ, and the inequalities fail."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    good = largest_tilt(theta, 1.0)
    hops, R = getattr(good, side)
    with pytest.raises(ValueError, match=f"{side}: R = .* not proved"):
        certified_loss(theta, replace(good, **{side: (hops, 0.99 * R)}))
    with pytest.raises(ValueError, match="not proved"):
        certified_loss(theta, replace(good, tau=1.01 * good.tau))


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        (Certificate(0.0, (1, 0.5), (1, 0.5)), "tau is 0"),
        (Certificate(float("nan"), (1, 0.5), (1, 0.5)), "tau is nan"),
        (Certificate(0.1, (3, 0.5), (1, 0.5)), "left: 3 hops"),
        (Certificate(0.1, (16, 0.5), (1, 0.5)), "left: R is 0.5"),
        (Certificate(0.1, (1, float("inf")), (1, 0.5)), "left: R is inf"),
        (Certificate(0.1, (1, float("nan")), (1, 0.5)), "left: R is nan"),
        (Certificate(0.1, (1, -1.0), (1, 0.5)), "left: R is -1"),
    ],
)
def test_a_malformed_certificate_is_refused(certificate: Certificate, message: str) -> None:
    """Every number is validated before anything is computed from it."""
    with pytest.raises(ValueError, match=message):
        certified_loss(CategoricalTheta.of(TransitionIntervals.point(THREE)), certificate)


def test_chains_that_never_forget_have_no_certificate() -> None:
    """Θ that may hold a chain in its state for ever proves nothing, and says so."""
    frozen = TransitionIntervals(
        tuple(tuple(0.9 * (x == u) for u in range(3)) for x in range(3)),
        tuple(tuple(1.0 if x == u else 0.1 for u in range(3)) for x in range(3)),
    )
    with pytest.raises(ValueError, match="forget too slowly"):
        largest_tilt(CategoricalTheta.of(frozen), 1.0)


def test_where_transitions_are_impossible_looks_reach_further() -> None:
    """A chain that moves to neighbours only reveals its state to the next tick; two hops on it does not."""
    line = [[0.7, 0.3, 0.0], [0.2, 0.6, 0.2], [0.0, 0.3, 0.7]]
    theta = CategoricalTheta.of(TransitionIntervals.point(line))
    certificate = certificate_for(theta, 2.0)
    assert certificate.right[0] in HOPS[1:]
    assert certified_loss(theta, certificate) == certificate.loss


def test_a_step_is_never_below_the_truth_and_hardly_above() -> None:
    """The table of chords against the maximum over sets, over all sizes of D."""
    P = rows(np.array(THREE))
    table = ContractionTable(TransitionIntervals.point(THREE))
    for D in (1e-6, 1e-3, 0.1, 1.0, 5.0, 20.0):
        gain = np.expm1(D)
        truth = max(
            np.log((1 + gain * a[list(S)].sum()) / (1 + gain * b[list(S)].sum()))
            for x, a in enumerate(np.array(P))
            for y, b in enumerate(np.array(P))
            for S in ([0], [1], [2], [0, 1], [0, 2], [1, 2])
            if x != y
        )
        assert truth * (1 - 1e-12) <= table.step(D) <= truth * (1.001 if D < 10 else 1.01)
