"""Timelines of a categorical Θ: never below the worst mechanism on any of its chains; exact for two states."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.categorical.categorical_timeline import categorical_timeline
from hushmq.pufferfish.categorical.contraction import certified_loss, contraction_sides, largest_tilt
from hushmq.pufferfish.categorical.contraction_side import HOPS
from hushmq.pufferfish.categorical.hull_side import hull_sides
from hushmq.pufferfish.categorical.one_tick_search import one_tick_search
from hushmq.pufferfish.categorical.stepped_timeline import SteppedTimeline
from hushmq.pufferfish.categorical.transition_intervals import TransitionIntervals
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.categorical.test_contraction import binary_class
from tests.pufferfish.categorical.test_transition_intervals import THREE, around, member
from tests.pufferfish.oracles_categorical import worst_mechanism

ENTRIES = [
    [Entry(0, 9, 0.1, 0.1)],
    [Entry(0, 99_999, 0.05, 0.05), Entry(100, 400, 0.2, 0.1), Entry(300, 900, 0.1, 0.1)],
    [Entry(5, 5, 1.0, 1.0), Entry(7, 7, 0.5, 0.5), Entry(40, 60, 0.3, 0.3)],
    [Entry(7200 * n, 7200 * n + 7199, 0.02 * (1 + n % 3), 0.0) for n in range(12)],
    [],
]


def both(entries: list[Entry]) -> list[Entry]:
    """An interval timeline takes the larger tilt of both directions."""
    return [Entry(one.first, one.last, *[max(one.tau0, one.tau1)] * 2) for one in entries]


@pytest.mark.parametrize("entries", ENTRIES)
@pytest.mark.parametrize(("q", "r"), [(0.2, 0.3), (0.05, 0.4), (0.0893, 0.1092)])
def test_binary_timelines_are_exact(q: float, r: float, entries: list[Entry]) -> None:
    """For two states the price is the exact one, within a thousandth, windows, overlaps and gaps included."""
    truth = BinaryTimeline(BinaryTheta.point(q, r), "prior", both(entries)).price().epsilon
    found = categorical_timeline(binary_class(q, r), entries).price().epsilon
    assert truth * (1 - 1e-9) <= found <= truth * 1.001


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 10**6))
def test_no_mechanism_beats_the_price(seed: int) -> None:
    """Windows, overlaps and gaps on a short stream: the worst of all mechanisms on a chain of Θ has a smaller loss."""
    rng = np.random.default_rng(seed)
    P = 0.4 * np.eye(3) + 0.6 * rng.dirichlet(np.ones(3), size=3)
    intervals = around(P, 0.03, rng)
    taus = rng.choice([0.0, 0.3, 1.0], size=4)
    entries = [Entry(t, t, tau, tau) for t, tau in enumerate(taus) if tau]
    found = categorical_timeline(CategoricalTheta.of(intervals), entries).price().epsilon
    chain = Chain(member(intervals, rng))
    assert max(worst_mechanism(chain, list(taus), i) for i in range(4)) <= found + 1e-7


def test_an_endless_stream_costs_its_certificate() -> None:
    """A constant tilt for a long time is priced at what the certificate claims, not more."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    certificate = largest_tilt(theta, 1.0)
    price = categorical_timeline(theta, [Entry(0, 10**6, certificate.tau, certificate.tau)]).price()
    assert price.epsilon == pytest.approx(certified_loss(theta, certificate), rel=1e-6)
    assert price.epsilon <= 1.0


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 8.0, 12.0])
def test_a_large_loss_has_a_price_however_long_the_stream(epsilon: float) -> None:
    """For R above 1 a long run converges too: its price is finite and at most that of the certificate."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    tau = largest_tilt(theta, epsilon).tau * (1 - 1e-4)
    price = categorical_timeline(theta, [Entry(0, 10**6, tau, tau)]).price().epsilon
    assert 0.95 * epsilon < price <= epsilon


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 4.0, 12.0])
def test_whatever_certifies_a_tilt_prices_it(epsilon: float) -> None:
    """Θ that needs unusual step lengths: a long run converges to the certified bound."""
    rng = np.random.default_rng(5)
    certified = 0
    while certified < 8:
        k = int(rng.integers(3, 6))
        P = rng.dirichlet(np.ones(k), k) * rng.uniform(0.05, 1)
        P += np.diag(1 - P.sum(axis=1))
        theta = CategoricalTheta.of(around(P, rng.choice([0.0, 0.03]), rng))
        try:
            certificate = largest_tilt(theta, epsilon)
        except ValueError:
            continue
        certified += 1
        tau = certificate.tau * (1 - 1e-6)
        price = categorical_timeline(theta, [Entry(0, 10**6, tau, tau)]).price().epsilon
        assert 0.9 * epsilon < price <= epsilon


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(0, 80), st.floats(0.001, 0.5)), min_size=1, max_size=8
    )
)
def test_adding_one_by_one_is_pricing_all_at_once(spans: list[tuple[int, int, float]]) -> None:
    """What is remembered of a history gives the price that starting anew gives, and asking changes nothing."""
    theta = CategoricalTheta.of(TransitionIntervals.point(THREE))
    entries = [Entry(first, first + more, tau, tau) for first, more, tau in spans]
    timeline = categorical_timeline(theta)
    for number, entry in enumerate(entries):
        before = timeline.price()
        with_it = timeline.price_with(entry)
        assert timeline.price() == before
        timeline.add(entry)
        whole = categorical_timeline(theta, entries[: number + 1]).price()
        assert timeline.price() == with_it
        assert with_it.epsilon == pytest.approx(whole.epsilon, rel=1e-9)


def tick_by_tick(theta: CategoricalTheta, entries: list[Entry]) -> float:
    """The largest loss by the recursion at every tick, with the steps that are used."""
    last = max(entry.last for entry in entries)
    taus = [sum(one.tau0 for one in entries if one.first <= t <= one.last) for t in range(last + 1)]
    sides = []
    for side in hull_sides(theta) or contraction_sides(theta):
        said = [0.0] * (max(HOPS) + 1)
        ahead = [0.0] * (max(HOPS) + 1)
        for tau in taus if not sides else taus[::-1]:
            best = min(
                sum(ahead[: hops - 1]) + table.step(ahead[hops - 1] + said[hops - 1])
                for hops, table in side.useful_tables.items()
            )
            said, ahead = [best, *said], [tau, *ahead]
        sides.append(said[-max(HOPS) - 2 :: -1])
    return max(tau + left + right for tau, left, right in zip(taus, sides[0], sides[1][::-1], strict=True))


@pytest.mark.parametrize("leave", [0.3, 0.03])
def test_many_windows_cost_what_their_ticks_cost(leave: float) -> None:
    """Equal and different windows, and one more in the middle of them: never less, and 1e-6 more at most."""
    P = np.full((3, 3), leave / 2)
    np.fill_diagonal(P, 1 - leave)
    theta = CategoricalTheta.of(around(P, 0.1 * leave, np.random.default_rng(1)))
    tau = min(theta.largest_tilts(3.0, "prior"))
    equal = [Entry(9 * n, 9 * n + 7, tau, tau) for n in range(40)]
    different = [Entry(8 * n, 8 * n + 7, *[tau * (0.3 + 0.7 * (n * n % 17) / 17)] * 2) for n in range(40)]
    more = Entry(150, 170, tau / 9, tau / 9)
    for entries in (equal, different):
        timeline = categorical_timeline(theta, entries)
        for price, history in ((timeline.price(), entries), (timeline.price_with(more), [*entries, more])):
            truth = tick_by_tick(theta, history)
            assert truth * (1 - 1e-10) <= price.epsilon <= truth * (1 + 1e-6)


@pytest.mark.parametrize("entries", ENTRIES)
@pytest.mark.parametrize("informed", [False, True])
def test_whole_runs_cost_what_their_ticks_cost(entries: list[Entry], informed: bool) -> None:
    """Jumping over whole runs proves what going from tick to tick proves.

    Against the informed adversary a little less: what bridges prove is for the largest tilt of the whole timeline.
    """
    P = np.full((3, 3), 0.05) + 0.85 * np.eye(3)
    theta = CategoricalTheta.of(around(P, 0.001, np.random.default_rng(4)))
    assert one_tick_search(theta, informed=informed) is not None
    quick = categorical_timeline(theta, entries, informed=informed).price().epsilon
    stepped = SteppedTimeline(theta, entries, informed=informed).price().epsilon
    assert stepped * (1 - 1e-6) <= quick <= stepped * (1.01 if informed else 1 + 1e-6)


def test_a_class_that_never_forgets_has_no_price() -> None:
    """A long stream under a Θ that proves nothing costs everything: no budget allows it."""
    frozen = TransitionIntervals(
        tuple(tuple(0.9 * (x == u) for u in range(3)) for x in range(3)),
        tuple(tuple(1.0 if x == u else 0.1 for u in range(3)) for x in range(3)),
    )
    assert categorical_timeline(
        CategoricalTheta.of(frozen), [Entry(0, 10**6, 0.1, 0.1)]
    ).price().epsilon == float("inf")


@pytest.mark.parametrize("ticks", [(0, 1), (2, 3), (1, 2), (3, 9), (-4, 0)])
def test_the_price_at_some_ticks_is_the_largest_of_theirs(ticks: tuple[int, int]) -> None:
    """The worst of all mechanisms has a smaller loss at each of them, whatever is published elsewhere."""
    rng = np.random.default_rng(3)
    intervals = around(0.4 * np.eye(3) + 0.6 * rng.dirichlet(np.ones(3), size=3), 0.03, rng)
    theta, chain = CategoricalTheta.of(intervals), Chain(member(intervals, rng))
    taus = [0.3, 0.0, 0.6, 1.0]
    entries = [Entry(t, t, tau, tau) for t, tau in enumerate(taus) if tau]
    found = categorical_timeline(theta, entries, ticks=ticks).price().epsilon
    added = categorical_timeline(theta, ticks=ticks)
    for entry in entries:
        added.add(entry)
    singly = [
        categorical_timeline(theta, entries, ticks=(t, t)).price().epsilon
        for t in range(ticks[0], ticks[1] + 1)
    ]
    assert found == pytest.approx(added.price().epsilon, rel=1e-9)
    assert found == pytest.approx(max(singly), rel=1e-9)
    inside = [t for t in range(4) if ticks[0] <= t <= ticks[1]]
    assert max(worst_mechanism(chain, taus, t) for t in inside) <= found + 1e-7
    assert found <= categorical_timeline(theta, entries).price().epsilon


def test_a_long_run_is_priced_at_some_of_its_ticks() -> None:
    """Ticks in the middle of a run, of which no bound moves any more, have the endless price; those outside less."""
    theta = binary_class(0.2, 0.3)
    entries = [Entry(0, 99_999, 0.1, 0.1)]
    middle = categorical_timeline(theta, entries, ticks=(50_000, 50_010)).price().epsilon
    whole = categorical_timeline(theta, entries).price().epsilon
    before = categorical_timeline(theta, entries, ticks=(-9, -1)).price().epsilon
    assert before < categorical_timeline(theta, entries, ticks=(0, 0)).price().epsilon < middle
    assert middle == pytest.approx(whole, rel=1e-9)
