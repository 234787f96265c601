"""Timelines of k states: never below any mechanism, exact if binary, the endless bound on long runs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary import binary_timeline as timeline
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.quilt.chain_timeline import SETTLED, ChainTimeline, price
from hushmq.pufferfish.quilt.endless_quilt import certify_tilt, side_solvers, uniform_tilt
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.timeline.entry import Entry, Price
from tests.pufferfish.oracles_categorical import worst_mechanism

STICKY = Chain([[0.8, 0.15, 0.05], [0.1, 0.8, 0.1], [0.02, 0.18, 0.8]])
RESTLESS = Chain([[0.1, 0.7, 0.2], [0.3, 0.1, 0.6], [0.6, 0.3, 0.1]])
ROUND = Chain([[0.9, 0.1, 0.0], [0.0, 0.9, 0.1], [0.1, 0.0, 0.9]])


def even_entry(first: int, last: int, tau: float) -> Entry:
    return Entry(first, last, tau, tau)


def tilts(entries: list[Entry], length: int) -> list[float]:
    """τ(t) by definition."""
    return [sum(max(e.tau0, e.tau1) for e in entries if e.first <= t <= e.last) for t in range(length)]


def true_loss(chain: Chain, entries: list[Entry], length: int) -> float:
    """The largest loss of any mechanism with these tilts, at the ticks 0…length−1."""
    taus = tilts(entries, length)
    return max(worst_mechanism(chain, taus, i) for i in range(length))


def product_tilt(chain: Chain, taus: list[float]) -> float:
    """The largest loss of weighing every tick t by e^{τ_t} when its state is in S, for the worst set S."""
    back, worst = chain.reversal().transition, 0.0
    for members in product([0.0, 1.0], repeat=chain.k):
        weights = np.exp(np.outer(taus, members))
        right, left = np.ones_like(weights), np.ones_like(weights)
        for t in range(1, len(taus)):
            left[t] = back @ (weights[t - 1] * left[t - 1])
            left[t] /= left[t].max()
        for t in range(len(taus) - 2, -1, -1):
            right[t] = chain.transition @ (weights[t + 1] * right[t + 1])
            right[t] /= right[t].max()
        worst = max(worst, float(np.max(np.ptp(np.log(weights * left * right), axis=1))))
    return worst


@st.composite
def histories(draw: st.DrawFn, length: int) -> list[Entry]:
    """Windows that overlap or leave gaps."""
    ticks = st.tuples(st.integers(0, length - 1), st.integers(0, length - 1)).map(sorted)
    tilt = st.floats(0.05, 1.5)
    windows = draw(st.lists(st.tuples(ticks, tilt, tilt), min_size=1, max_size=3))
    return [Entry(first, last, tau0, tau1) for (first, last), tau0, tau1 in windows]


@st.composite
def chains(draw: st.DrawFn, k: int) -> Chain:
    row = st.lists(st.floats(0.02, 1.0), min_size=k, max_size=k)
    P = np.array([draw(row) for _ in range(k)]) + draw(st.sampled_from([0.0, 3.0])) * np.eye(k)
    return Chain(P / P.sum(axis=1, keepdims=True))


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(chain=chains(3), entries=histories(3))
def test_never_below_the_worst_mechanism(chain: Chain, entries: list[Entry]) -> None:
    """No mechanism with the summed tilts of the entries loses more at any tick, covered or not."""
    assert true_loss(chain, entries, 3) <= price(entries, [chain]).epsilon + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("chain", [STICKY, RESTLESS, ROUND])
def test_never_below_the_worst_mechanism_across_a_gap(chain: Chain) -> None:
    """Nor with a gap between two windows, one of them overlapped; and the price is close."""
    entries = [even_entry(0, 0, 0.9), even_entry(2, 3, 0.4), even_entry(3, 3, 0.5)]
    true = max(worst_mechanism(chain, tilts(entries, 4), i) for i in (0, 3))
    assert true <= price(entries, [chain]).epsilon <= 1.1 * true


@settings(max_examples=4, deadline=None)
@given(chain=chains(2), entries=histories(5))
def test_two_states_reach_the_price(chain: Chain, entries: list[Entry]) -> None:
    """With two states some mechanism loses exactly the price: a number 1% smaller would be refuted."""
    priced = price(entries, [chain])
    assert priced.tick is not None
    true = worst_mechanism(chain, tilts(entries, 5), priced.tick)
    assert 0.99 * priced.epsilon < true <= priced.epsilon + 1e-9


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    q=st.floats(0.05, 0.95),
    r=st.floats(0.05, 0.95),
    windows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 40), st.floats(0.05, 2)), min_size=1, max_size=4
    ),
)
def test_two_states_are_priced_as_by_the_exact_timeline(
    q: float, r: float, windows: list[tuple[int, int, float]]
) -> None:
    """With two states the price is that of `timeline` for the prior adversary."""
    entries = [even_entry(first, first + more, tau) for first, more, tau in windows]
    exact = timeline.price(entries, BinaryTheta.point(q, r), "prior").epsilon
    assert price(entries, [Chain([[1 - q, q], [r, 1 - r]])]).epsilon == pytest.approx(exact, abs=1e-6)


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(chain=chains(5), entries=histories(12))
def test_never_above_the_group_nor_below_a_real_loss(chain: Chain, entries: list[Entry]) -> None:
    """The price is at most the sum of all tilts, as if all ticks were one, and at least a loss that some count has."""
    epsilon, taus = price(entries, [chain]).epsilon, tilts(entries, 12)
    assert product_tilt(chain, taus) - 1e-12 <= epsilon <= sum(taus) + 1e-10


@pytest.mark.slow
@pytest.mark.parametrize(("chain", "tau"), [(STICKY, 0.2), (RESTLESS, 1.0), (ROUND, 0.3), (ROUND, 5.0)])
def test_a_long_stretch_costs_what_an_endless_one_does(chain: Chain, tau: float) -> None:
    """Neither two hundred ticks nor a million cost more than the certified endless loss, or noticeably less."""
    endless = certify_tilt(side_solvers(chain), tau * uniform_tilt(3)).loss
    for last in (250, 1_000_000):
        epsilon = price([even_entry(0, last, tau)], [chain]).epsilon
        assert epsilon == pytest.approx(endless, abs=4 * SETTLED)
        assert product_tilt(chain, [tau] * 250) <= epsilon


@pytest.mark.slow
def test_a_long_stretch_after_a_worse_one_comes_down_to_its_limit() -> None:
    """A run whose neighbour leaves R above its endless bound falls to that bound, on both sides, and never below."""
    entries = [even_entry(0, 99, 0.1), even_entry(100, 101, 2.0), even_entry(102, 200, 0.1)]
    taus = tilts(entries, 201)
    together = price(entries, [STICKY])
    assert together.tick in (100, 101)
    assert product_tilt(STICKY, taus) <= together.epsilon
    apart = price([even_entry(0, 10**9, 0.1), even_entry(100, 101, 1.9)], [STICKY])
    assert apart.epsilon == pytest.approx(together.epsilon, abs=1e-6)


@pytest.mark.slow
def test_gaps_forget() -> None:
    """Two windows far apart cost no more than one; close together they cost more."""
    one, near, far = (
        [even_entry(0, 5, 0.5), *more]
        for more in ([], [even_entry(8, 13, 0.5)], [even_entry(100_000, 100_005, 0.5)])
    )
    alone = price(one, [STICKY]).epsilon
    assert price(far, [STICKY]).epsilon == pytest.approx(alone, abs=1e-7)
    assert price(near, [STICKY]).epsilon > 1.05 * alone


@pytest.mark.slow
def test_adding_entries_is_pricing_afresh() -> None:
    """Entries added one by one, in any order, give the price of all at once; a dry run changes nothing."""
    entries = [
        even_entry(20, 40, 0.3),
        even_entry(60, 62, 1.0),
        even_entry(30, 35, 0.2),
        even_entry(160, 165, 0.4),
        even_entry(61, 61, 0.7),
    ]
    grown = ChainTimeline([STICKY, RESTLESS])
    assert grown.price() == Price(0.0, None)
    for n, entry in enumerate(entries):
        before = grown.price()
        dry = grown.price_with(entry)
        assert grown.price() == before
        grown.add(entry)
        assert grown.price() == dry
        if n in (2, 4):
            afresh = price(entries[: n + 1], [STICKY, RESTLESS])
            assert dry.epsilon == pytest.approx(afresh.epsilon, abs=1e-9)
            assert dry.tick == afresh.tick


@pytest.mark.slow
def test_an_entry_is_followed_only_as_far_as_it_is_felt(monkeypatch: pytest.MonkeyPatch) -> None:
    """With many windows around it, a new one takes no more steps than with few."""
    from hushmq.pufferfish.quilt.transport_step import TransportStep

    taken = []
    least_bound = TransportStep.least_bound
    monkeypatch.setattr(TransportStep, "least_bound", lambda *args: taken.append(1) or least_bound(*args))
    steps = []
    fast = Chain([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.25, 0.25, 0.5]])
    for windows in (3, 12):
        history = ChainTimeline(
            [fast], [even_entry(60 * n, 60 * n + 1, 0.3 + n / 100) for n in range(windows)]
        )
        before = len(taken)
        history.price_with(even_entry(63, 64, 0.2))
        steps.append(len(taken) - before)
    assert steps[0] == steps[1] > 0
    # Adding what was priced last takes none.
    before = len(taken)
    history.add(even_entry(63, 64, 0.2))
    assert len(taken) == before


def test_the_worst_chain_decides() -> None:
    """Θ costs what its worst member does."""
    entries = [even_entry(0, 9, 0.4)]
    each = [price(entries, [chain]).epsilon for chain in (STICKY, RESTLESS)]
    assert price(entries, [STICKY, RESTLESS]).epsilon == max(each)


def test_tilts_beyond_numbers_are_bounded_by_the_ceiling() -> None:
    """A tilt that hides nothing costs itself and what the neighbours give away, log max a/b on either side."""
    P, back = STICKY.transition, STICKY.reversal().transition
    neighbours = max(
        np.log(np.max(P[x] / P[y])) + np.log(np.max(back[x] / back[y]))
        for x, y in product(range(3), repeat=2)
    )
    assert price([even_entry(0, 100, 400.0)], [STICKY]).epsilon == pytest.approx(400 + neighbours, abs=1e-6)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: price([], []), "chains is empty"),
        (lambda: price([], [Chain(STICKY.transition, [1, 0, 0])]), "initial distribution"),
        (lambda: price([], [Chain([[0, 1], [1, 0]])]), "period 2"),
        (lambda: ChainTimeline([STICKY], span=(3, 2)), "span is"),
        (lambda: ChainTimeline([STICKY], span=(0, 9)).add(even_entry(5, 10, 1.0)), "only ticks 0 to 9"),
    ],
)
def test_what_cannot_be_priced_is_refused(build: object, message: str) -> None:
    """Each refusal says what is wrong."""
    assert callable(build)
    with pytest.raises(ValueError, match=message):
        build()
