"""The papers' composition theorems: what they say, where that is true, and that the timeline is never above."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline, price
from hushmq.pufferfish.papers.composition_theorems import (
    influence,
    lcm_parallel,
    lcm_sequential,
    quilt_price,
    sc_iii_1,
    sc_iii_3,
    sc_iii_6,
    sc_iii_7,
    swc_4_4,
)
from hushmq.pufferfish.quilt import markov_quilt as mqm
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import attack, both, count, local, path_probabilities, states

chains = st.tuples(st.floats(0.03, 0.6), st.floats(0.03, 0.6)).filter(lambda chain: sum(chain) < 0.95)


def worst_within(timeline: BinaryTimeline, first: int, last: int) -> float:
    """The largest loss at the ticks first…last: what a large extra tilt on one of them adds itself to."""
    probe = 50.0
    return max(
        timeline.price_with(Entry(tick, tick, probe, probe)).epsilon - probe
        for tick in range(first, last + 1)
    )


def test_the_formulas() -> None:
    """Each theorem's formula on example numbers."""
    assert swc_4_4([1.0, 0.5, 0.2]) == 3.0
    assert sc_iii_7([1.0, 0.5, 0.2]) == pytest.approx(1.7)
    assert lcm_sequential([1.0, 0.5]) == 1.5
    assert lcm_parallel([1.0, 0.5]) == 1.0
    assert sc_iii_6(1.0, 0.5, 0.1) == pytest.approx(1.7)
    assert sc_iii_1(1.0, 0.5, influence_on_b=0.2, influence_on_a=0.9) == pytest.approx(1.4)
    assert sc_iii_1(1.0, 0.5, influence_on_b=9.0, influence_on_a=9.0) == pytest.approx(1.5)
    assert sc_iii_3(1.0, 0.5, a=(1, 5), b=(9, 13), two_sided_a=True, two_sided_b=True) == 1.0


@pytest.mark.parametrize("ticks", [1, 2, 5])
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.1), (0.7, 0.6), (0.5, 0.5)])
def test_influence_is_the_definition(q: float, r: float, ticks: int) -> None:
    """The largest log-ratio of a row of P^d to another."""
    power = np.linalg.matrix_power(np.array([[1 - q, q], [r, 1 - r]]), ticks)
    assert influence(BinaryTheta.point(q, r), ticks) == pytest.approx(
        np.abs(np.log(power[0] / power[1])).max(), abs=1e-12
    )


@settings(max_examples=30, deadline=None)
@given(
    chain=chains,
    windows=st.lists(
        st.tuples(st.integers(1, 20), st.integers(0, 12), st.floats(0.01, 1.0), st.floats(0.01, 1.0)),
        min_size=1,
        max_size=5,
    ),
    ends=st.booleans(),
)
def test_the_timeline_is_never_above_the_quilt_bound(
    chain: tuple[float, float], windows: list[tuple[int, int, float, float]], ends: bool
) -> None:
    """Whatever was published and on whatever chain, endless or not."""
    entries = [Entry(first, first + more, tau0, tau1) for first, more, tau0, tau1 in windows]
    span = (1, 40) if ends else None
    priced = price(entries, BinaryTheta.point(*chain), "prior", span=span).epsilon
    assert priced <= quilt_price(entries, BinaryTheta.point(*chain), span=span).epsilon + 1e-11


def test_the_quilt_bound_is_the_least_over_all_quilts() -> None:
    """Against all quilts {i−a, i+b}, one-sided and empty, one by one."""
    q, r, tau = 0.2, 0.1, [0.3, 0.0, 0.5, 0.2, 0.4]
    entries = [Entry(t, t, x, x) for t, x in enumerate(tau, start=1)]
    step = np.array([[1 - q, q], [r, 1 - r]])

    def ratio(ticks: int | None, state: int) -> float:
        power = np.linalg.matrix_power(step, ticks) if ticks else np.ones((2, 2))
        return float(np.log(power[state] / power[1 - state]).max())

    expected = 0.0
    for i in range(5):
        for state in (0, 1):
            least = math.inf
            for a in (*range(1, i + 1), None):
                for b in (*range(1, 5 - i), None):
                    inside = tau[i - a + 1 if a else 0 : i + b if b else 5]
                    least = min(least, sum(inside) + ratio(a, state) + ratio(b, state))
            expected = max(expected, least)
    assert quilt_price(entries, BinaryTheta.point(q, r), span=(1, 5)).epsilon == pytest.approx(
        expected, abs=1e-9
    )


@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.1, 0.15), (0.4, 0.2)])
@pytest.mark.parametrize("epsilons", [[1.0, 1.0], [2.0, 0.5, 0.25], [0.7]])
def test_runs_of_mqm_cost_less_than_sc_iii_7_and_swc_4_4(q: float, r: float, epsilons: list[float]) -> None:
    """Releases of 1-Lipschitz queries with MQMExact's scales: the timeline is below Σ ε_k ≤ K·max ε_k."""
    n, chain = 60, Chain([[1 - q, q], [r, 1 - r]])
    entries = []
    for epsilon in epsilons:
        scale = mqm.exact([chain], n, epsilon).scale
        entries.append(Entry(1, n, 1 / scale, 1 / scale))
    priced = price(entries, BinaryTheta.point(q, r), "prior", span=(1, n)).epsilon
    quilts = quilt_price(entries, BinaryTheta.point(q, r), span=(1, n)).epsilon
    assert priced <= quilts + 1e-11
    assert quilts <= sc_iii_7(epsilons) + 1e-9
    assert sc_iii_7(epsilons) <= swc_4_4(epsilons) + 1e-12


@settings(max_examples=25, deadline=None)
@given(
    chain=chains,
    a=st.tuples(st.integers(1, 6), st.floats(0.05, 1.0)),
    gap=st.integers(0, 10),
    b=st.tuples(st.integers(1, 6), st.floats(0.05, 1.0)),
)
def test_two_stretches_cost_less_than_sc_iii_1(
    chain: tuple[float, float], a: tuple[int, float], gap: int, b: tuple[int, float]
) -> None:
    """For the secrets of both stretches the timeline is below the theorem, whose ε are those of each alone."""
    theta = BinaryTheta.point(*chain)
    one = Entry(1, a[0], a[1], a[1])
    two = Entry(a[0] + gap + 1, a[0] + gap + b[0], b[1], b[1])
    span = (1, two.last)
    alone = [
        worst_within(BinaryTimeline(theta, "prior", [entry], span=span), entry.first, entry.last)
        for entry in (one, two)
    ]
    together = BinaryTimeline(theta, "prior", [one, two], span=span)
    found = max(worst_within(together, entry.first, entry.last) for entry in (one, two))
    between = influence(theta, two.first - one.last)
    assert found <= sc_iii_1(*alone, influence_on_b=between, influence_on_a=between) + 1e-9


def test_stretches_far_apart_cost_less_than_sc_iii_3() -> None:
    """MQMApprox on two stretches with the theorem's conditions: the timeline is below max(ε_A, ε_B)."""
    q, r, length, epsilon = 0.45, 0.4, 30, 2.0
    found = mqm.approx(mqm.Mixing.of([Chain([[1 - q, q], [r, 1 - r]])]), length, epsilon)
    assert None not in found.quilt  # an active quilt with two ends
    a, b = (1, length), (2 * length, 3 * length - 1)
    entries = [Entry(*stretch, 1 / found.scale, 1 / found.scale) for stretch in (a, b)]
    bound = sc_iii_3(epsilon, epsilon, a=a, b=b, two_sided_a=True, two_sided_b=True)
    assert price(entries, BinaryTheta.point(q, r), "prior", span=(1, b[1])).epsilon <= bound


def test_sc_iii_6_bounds_two_releases_by_enumeration() -> None:
    """Two counts of one chain: the loss of both is below ε_A + ε_B + 2E, and the timeline between the two."""
    q, r, n = 0.2, 0.3, 4
    one, two = count(n, 0, 3, 1.5), count(n, 1, 2, 2.0)
    probability, x = path_probabilities(q, r, n), states(n)
    divergence = 0.0
    # Laws over the outputs 0 … length: those beyond are left out of all alike.
    one, two = one / one.sum(axis=0), two / two.sum(axis=0)
    joint = both(one, two)
    for tick in range(n):
        for state in (0, 1):
            weights = np.where(x[tick] == state, probability, 0.0)
            weights /= weights.sum()
            product = np.outer(one @ weights, two @ weights).reshape(-1)
            divergence = max(divergence, np.abs(np.log(joint @ weights / product)).max())
    losses = [attack(q, r, mechanism, informed=False).loss for mechanism in (one, two)]
    assert attack(q, r, joint, informed=False).loss <= sc_iii_6(*losses, divergence)


def test_parallel_composition_of_lcm_fails_for_dependent_parts() -> None:
    """Two ticks that are all but copies, one noisy bit of each: nearly the sum of the two losses, not the maximum."""
    q = r = 1e-6
    noise = (0.2, 0.2)
    alone = [attack(q, r, local(stream), informed=False).loss for stream in ([noise, None], [None, noise])]
    together = attack(q, r, local([noise, noise]), informed=False).loss
    assert together == pytest.approx(sum(alone), rel=1e-4)
    assert together > 1.9 * lcm_parallel(alone)
    assert together <= lcm_sequential(alone)


def test_pufferfish_does_not_compose_linearly_in_general() -> None:
    """SC Theorem III.4's point, in our terms: two outputs that say nothing alone can say everything together."""
    # One output is a fair coin's flip of X_1 xor the coin, the other the coin: not functions of tilts at all.
    coin = np.array([[0.5, 0.5], [0.5, 0.5]])
    joint = np.array([[0.5, 0.0], [0.0, 0.5], [0.0, 0.5], [0.5, 0.0]]) + 1e-9
    assert attack(0.3, 0.3, coin, informed=False).loss == 0.0
    assert attack(0.3, 0.3, joint, informed=False).loss > 10.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sc_iii_7([]), r"^the losses are \[\]"),
        (lambda: swc_4_4([1.0, -0.1]), r"^the losses are"),
        (lambda: lcm_parallel([math.nan]), r"^the losses are"),
        (lambda: influence(BinaryTheta.point(0.1, 0.1), 0), r"^ticks is 0"),
        (lambda: sc_iii_3(1, 1, a=(1, 5), b=(4, 9), two_sided_a=True, two_sided_b=True), r"a before b"),
        (lambda: sc_iii_3(1, 1, a=(1, 5), b=(7, 9), two_sided_a=True, two_sided_b=True), r"gap between them"),
        (lambda: sc_iii_3(1, 1, a=(1, 5), b=(20, 22), two_sided_a=True, two_sided_b=False), r"^two_sided_a"),
    ],
)
def test_bad_values_are_named(make: Callable[[], float], message: str) -> None:
    """Each condition that does not hold is named."""
    with pytest.raises(ValueError, match=message):
        make()
