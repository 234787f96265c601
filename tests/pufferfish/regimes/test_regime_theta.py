"""Finite sets of chains with regimes: their value, their loss and their timelines against linear programs."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.regimes.regime_chain import RegimeChain
from hushmq.pufferfish.regimes.regime_theta import MOST_MEMBERS, RegimeTheta
from hushmq.pufferfish.regimes.regime_timeline import price
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.regimes.test_regimes import N10, forgetful, regime_chains, worst_likelihood

SLOW = RegimeChain.of([[0.99, 0.01], [0.02, 0.98]], [(0.1, 0.4), (0.5, 0.1)])
THREE = RegimeChain.of(
    [[0.98, 0.015, 0.005], [0.01, 0.98, 0.01], [0.005, 0.015, 0.98]], [(0.03, 0.3), (0.2, 0.2), (0.4, 0.03)]
)
SET = RegimeTheta.of([N10, SLOW])


def test_a_set_has_no_order_and_no_doubles() -> None:
    """Equal sets are equal values, and hashable."""
    assert RegimeTheta.of([SLOW, N10, SLOW]) == SET
    assert hash(RegimeTheta.of([SLOW, N10])) == hash(SET)


def test_sets_contain_join_and_meet() -> None:
    """A Θ of regimes is a set of chains."""
    one = RegimeTheta.of([N10])
    assert SET.contains(one)
    assert not one.contains(SET)
    assert one.hull(RegimeTheta.of([SLOW])) == SET
    assert SET.intersect(one) == one
    with pytest.raises(ValueError, match="no chain is in both"):
        one.intersect(RegimeTheta.of([SLOW]))


def test_a_set_is_read_back_exactly() -> None:
    """As JSON too; a single chain may be written without the list."""
    assert RegimeTheta.from_tree(json.loads(json.dumps(SET.as_tree()))) == SET
    (alone,) = RegimeTheta.of([THREE]).as_tree()["regimes"]
    assert RegimeTheta.from_tree({"regimes": alone}) == RegimeTheta.of([THREE])


@pytest.mark.parametrize("count", [0, MOST_MEMBERS + 1])
def test_a_set_has_a_few_chains(count: int) -> None:
    """Neither none, nor so many that a device could not check them."""
    with pytest.raises(ValueError, match=f"{count} chains; there must be 1 to"):
        RegimeTheta.of(forgetful(0.9, 0.1, 0.5 + place / 100) for place in range(count))


def test_the_worst_chain_decides() -> None:
    """The loss of a set is its largest, and its largest tilts keep ε for every chain."""
    alone = [RegimeTheta.of([chain]) for chain in SET.members]
    losses = [theta.constant_loss(0.3, 0.2, "prior") for theta in alone]
    assert SET.constant_loss(0.3, 0.2, "prior") == max(losses)
    tilts = SET.largest_tilts(2.0, "prior", stride=3)
    assert [theta.constant_loss(*tilts, "prior", stride=3) <= 2.0 for theta in alone] == [True, True]
    assert max(SET.constant_loss(tau * 1.01, tau * 1.01, "prior", stride=3) for tau in tilts) > 2.0


def test_the_adversary_who_knows_states_is_not_covered() -> None:
    """Nothing is proved against the informed adversary, and every answer says so."""
    assert SET.constant_loss(0.1, 0.1, "informed") == math.inf
    assert SET.largest_tilts(1.0, "informed") == (0.0, 0.0)
    assert "goes on behind it" in str(SET.method_error("tilted-quilt", "informed"))
    for attempt in (SET.timeline, lambda adversary: SET.optimal_noise(1.0, adversary)):
        with pytest.raises(ValueError, match='adversary = "prior"'):
            attempt("informed")


def test_the_undecided_adversary_pays_the_spread_of_the_odds() -> None:
    """Who does not know which chain it is learns it at most: the odds differ by so much, beside the loss inside."""
    odds = [math.log(chain.ones / (1 - chain.ones)) for chain in SET.members]
    assert SET.odds_spread == pytest.approx(max(odds) - min(odds))
    inside = SET.constant_loss(0.3, 0.2, "prior")
    assert SET.constant_loss(0.3, 0.2, "undecided") == pytest.approx(inside + SET.odds_spread)
    assert RegimeTheta.of([N10]).odds_spread == 0.0


@pytest.mark.parametrize("stride", [1, 4])
def test_a_long_history_costs_what_an_endless_stream_costs(stride: int) -> None:
    """A timeline of the largest tilts stays within ε, however it grows, and comes near it."""
    tau0, tau1 = SET.largest_tilts(2.0, "prior", stride=stride)
    timeline = SET.timeline("prior", stride=stride)
    for day in range(4):
        timeline.add(Entry(day * 1000, day * 1000 + 999, tau0, tau1))
    assert 2.0 * (1 - 1e-5) < timeline.price().epsilon <= 2.0


def test_a_history_across_a_change_of_noise_stays_within_both() -> None:
    """Settings that keep ε each keep it together, in either order, and beside a gap."""
    less, more = SET.largest_tilts(1.0, "prior"), SET.largest_tilts(2.0, "prior")
    for first, second in ((less, more), (more, less)):
        timeline = SET.timeline("prior", [Entry(0, 400, *first)])
        timeline.add(Entry(401, 900, *second))
        timeline.add(Entry(950, 2000, *first))
        assert 2.0 * (1 - 1e-3) < timeline.price().epsilon <= 2.0


def test_a_price_with_an_entry_is_the_price_after_it() -> None:
    """And leaves the timeline as it is."""
    timeline = SET.timeline("prior", [Entry(0, 3, 0.2, 0.3)])
    before, entry = timeline.price(), Entry(2, 9, 0.1, 0.4)
    expected = timeline.price_with(entry)
    assert timeline.price() == before
    timeline.add(entry)
    assert timeline.price() == expected
    assert SET.timeline("prior", [entry, Entry(0, 3, 0.2, 0.3)]).price() == expected


def test_other_ticks_are_priced_by_what_reaches_them() -> None:
    """A timeline for some ticks prices these: ticks far from all entries lose next to nothing."""
    entries = [Entry(0, 99, 0.2, 0.2)]
    near = SET.timeline("prior", entries, ticks=(0, 99)).price().epsilon
    far = SET.timeline("prior", entries, ticks=(60_000, 60_100)).price().epsilon
    assert far <= near == SET.timeline("prior", entries).price().epsilon


def sparse(tilts: list[tuple[float, float]], stride: int) -> list[tuple[float, float]]:
    """The tilts at every `stride`-th tick, with nothing at the ticks around them."""
    found = [(0.0, 0.0)] * (len(tilts) * stride + stride - 1)
    for place, tilt in enumerate(tilts):
        found[place * stride + stride - 1] = tilt
    return found


tilt_pairs = st.tuples(st.floats(0.0, 1.5), st.floats(0.0, 1.5))


@settings(max_examples=12, deadline=None)
@given(chain=regime_chains(), tilts=st.lists(tilt_pairs, min_size=2, max_size=6))
def test_no_likelihood_loses_more_than_the_timeline_says(
    chain: RegimeChain, tilts: list[tuple[float, float]]
) -> None:
    """Whatever is published with these tilts, on any chain: a linear program over all likelihoods, for every tick."""
    timeline = RegimeTheta.of([chain]).timeline("prior")
    for tick, tilt in enumerate(tilts):
        timeline.add(Entry(tick, tick, *tilt))
    assert worst_likelihood(chain, tilts) <= timeline.price().epsilon + 1e-7


@settings(max_examples=6, deadline=None)
@given(
    chain=regime_chains(), tilts=st.lists(tilt_pairs, min_size=2, max_size=2), stride=st.sampled_from([2, 3])
)
def test_no_likelihood_loses_more_with_a_stride(
    chain: RegimeChain, tilts: list[tuple[float, float]], stride: int
) -> None:
    """The unpublished ticks between, before and after the published ones are secrets too."""
    entries = [Entry(tick, tick, *tilt) for tick, tilt in enumerate(tilts)]
    found = RegimeTheta.of([chain]).timeline("prior", entries, stride=stride).price().epsilon
    assert worst_likelihood(chain, sparse(tilts, stride)) <= found + 1e-7


@settings(max_examples=4, deadline=None)
@given(chain=regime_chains(3), tilt=tilt_pairs)
def test_no_likelihood_of_three_regimes_loses_more(chain: RegimeChain, tilt: tuple[float, float]) -> None:
    """An endless stream of the same tilts loses no less than a short one."""
    worst = worst_likelihood(chain, [tilt] * 5)
    theta = RegimeTheta.of([chain])
    assert worst <= theta.timeline("prior", [Entry(0, 4, *tilt)]).price().epsilon + 1e-7
    assert worst <= theta.constant_loss(*tilt, "prior") + 1e-7


@pytest.mark.parametrize("chain", [forgetful(0.8, 0.2, 0.7), RegimeChain.of([[1.0]], [(0.1, 0.3)])])
@pytest.mark.parametrize("stride", [1, 3])
def test_a_price_that_is_a_little_low_is_caught(chain: RegimeChain, stride: int) -> None:
    """On chains whose price is attained the oracle reaches it: a claim of 1% less would fail."""
    tilts = [(1.0, 0.6)] * (6 if stride == 1 else 2)
    worst = worst_likelihood(chain, sparse(tilts, stride) if stride > 1 else tilts)
    entries = [Entry(0, len(tilts) - 1, 1.0, 0.6)]
    found = RegimeTheta.of([chain]).timeline("prior", entries, stride=stride).price().epsilon
    assert 0.99 * found < worst <= found + 1e-7


def test_a_gap_is_priced_as_the_finite_history_is() -> None:
    """The certified price of a list of ticks, tick by tick, is the same."""
    entries = [Entry(0, 3, 0.4, 0.2), Entry(9, 12, 0.1, 0.5)]
    ticks = price(entries, SLOW, (-40, 52)).epsilon
    assert RegimeTheta.of([SLOW]).timeline("prior", entries).price().epsilon == pytest.approx(ticks, abs=1e-6)


def test_a_device_needs_no_numpy() -> None:
    """What a device computes for a setting, and a calibrator without evaluation, is plain Python."""
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "from hushmq.pufferfish.regimes.regime_theta import RegimeTheta\n"
        f"theta = RegimeTheta.from_tree({SET.as_tree()!r})\n"
        "print(theta.constant_loss(0.1, 0.1, 'prior', stride=5), theta.largest_tilts(1.0, 'prior'))\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(found.stdout.split()[0]) == SET.constant_loss(0.1, 0.1, "prior", stride=5)


SLOWEST = RegimeTheta.of(
    [
        RegimeChain.of(
            [[0.9997536154258169, 0.00024638457418318157], [0.000289234065345474, 0.9997107659346546]],
            [(0.04528358007214146, 0.3547164199278585), (0.3381453625240079, 0.06185463747599212)],
        )
    ]
)


def test_where_nothing_is_proved_the_loss_is_infinite() -> None:
    """Tilts beyond what can be computed are never taken for small ones, and a search ends below them."""
    assert SLOWEST.constant_loss(400.0, 400.0, "prior") == math.inf
    assert SLOWEST.timeline("prior", [Entry(0, 99, 400.0, 400.0)]).price().epsilon == math.inf
    tilts = SLOWEST.largest_tilts(4.0, "prior", stride=3)
    assert 3.9 < SLOWEST.constant_loss(*tilts, "prior", stride=3) <= 4.0
