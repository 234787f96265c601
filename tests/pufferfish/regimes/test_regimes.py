"""Chains with hidden regimes against enumeration and against linear programs over all likelihoods."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array

from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import constant_loss
from hushmq.pufferfish.regimes import regime_noise
from hushmq.pufferfish.regimes.product_tilt import directed_loss, product_loss
from hushmq.pufferfish.regimes.regime_bound import StridedRegimes
from hushmq.pufferfish.regimes.regime_chain import RegimeChain, applied, power, stationary_law
from hushmq.pufferfish.regimes.regime_theta import RegimeTheta
from hushmq.pufferfish.regimes.regime_tilts import largest_tilts, loss
from hushmq.pufferfish.regimes.regime_timeline import price
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import states

Array = NDArray[np.float64]

LENGTH = 290.0
N10 = RegimeChain.of(
    [[1 - 1 / LENGTH, 1 / LENGTH], [1 / LENGTH, 1 - 1 / LENGTH]], [(0.0473, 0.3827), (0.4536, 0.0264)]
)
"""Heart rate N10 as two regimes: shares .11 and .945, each lasting about 290 beats."""


def forgetful(stay: float, low: float, high: float) -> RegimeChain:
    """Regimes in which bits are independent of each other: MTP2 as long as regimes stay rather than change."""
    return RegimeChain.of([[stay, 1 - stay], [1 - stay, stay]], [(low, 1 - low), (high, 1 - high)])


probabilities = st.floats(0.02, 0.98)


@st.composite
def regime_chains(draw: st.DrawFn, regimes: int = 2) -> RegimeChain:
    rows = [[draw(st.floats(0.05, 1.0)) for _ in range(regimes)] for _ in range(regimes)]
    transition = [[part / sum(row) for part in row] for row in rows]
    return RegimeChain.of(transition, [(draw(probabilities), draw(probabilities)) for _ in range(regimes)])


def path_law(chain: RegimeChain, n: int) -> Array:
    """The probability of every path of bits, by summing over all paths of regimes."""
    kernel, law = np.array(chain.kernel), np.array(chain.stationary)
    x = states(n)
    found = np.zeros(2**n)
    for path in range(2**n):
        weight = np.where(np.arange(len(law)) % 2 == x[0, path], law, 0.0)
        for t in range(1, n):
            weight = np.where(np.arange(len(law)) % 2 == x[t, path], weight @ kernel, 0.0)
        found[path] = weight.sum()
    return found


def worst_likelihood(chain: RegimeChain, tilts: list[tuple[float, float]]) -> float:
    """The largest loss at any tick of ANY likelihood with these tilts: a linear program for each tick and direction."""
    n = len(tilts)
    law, x = path_law(chain, n), states(n)
    rows, columns, values = [], [], []
    count = 0
    for path, t in itertools.product(range(2**n), range(n)):
        other = path ^ (1 << t)
        tau = tilts[t][x[t, path]]
        rows += [count, count]
        columns += [path, other]
        values += [1.0, -math.exp(tau)]
        count += 1
    constraints = csr_array((values, (rows, columns)), shape=(count, 2**n))
    worst = 0.0
    for tick, bit in itertools.product(range(n), range(2)):
        mine = x[tick] == bit
        gain = np.where(mine, law, 0.0) / law[mine].sum()
        cost = np.where(mine, 0.0, law) / law[~mine].sum()
        found = linprog(-gain, A_ub=constraints, b_ub=np.zeros(count), A_eq=cost[None], b_eq=[1.0])
        worst = max(worst, math.log(-found.fun))
    return worst


def test_the_law_of_states_is_stationary_and_its_reversal_a_chain() -> None:
    """π P = π, the rows of P and of its reversal sum to 1, and the reversal reversed is P."""
    law = np.array(N10.stationary)
    assert np.allclose(law @ np.array(N10.kernel), law, rtol=0, atol=1e-15)
    assert np.allclose(np.array(N10.reversal).sum(axis=1), 1.0, rtol=0, atol=1e-14)
    assert np.allclose(law @ np.array(N10.reversal), law, rtol=0, atol=1e-15)
    assert stationary_law([[0.9, 0.1], [0.3, 0.7]]) == pytest.approx([0.75, 0.25])


def test_the_order_in_which_regimes_are_given_does_not_matter() -> None:
    """Regimes are kept in the order of their shares."""
    turned = RegimeChain.of([row[::-1] for row in N10.transition][::-1], N10.chains[::-1])
    assert turned == N10


@pytest.mark.parametrize(("q", "r", "tau"), [(0.1, 0.2, 0.5), (0.01, 0.3, 1.0), (0.4, 0.45, 2.0)])
def test_one_regime_is_a_first_order_chain(q: float, r: float, tau: float) -> None:
    """With one regime the product tilt is the closed form, and so is the certified bound."""
    chain = RegimeChain.of([[1.0]], [(q, r)])
    expected = constant_loss(BinaryTheta.point(q, r), tau, tau, "prior")
    assert chain.is_mtp2
    assert product_loss(chain, tau, tau) == pytest.approx(expected, abs=1e-9)
    assert max(StridedRegimes(chain).directed_losses(tau, tau)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("q", "tau"), [(1e-4, 1e-5), (1e-6, 1e-7), (1e-8, 1e-9)])
def test_a_slow_chain_is_rounded_up(q: float, tau: float) -> None:
    """Rounding adds up over all that a chain remembers: the loss stated is never below the closed form."""
    chain = RegimeChain.of([[1.0]], [(q, 1.37 * q)])
    exact = constant_loss(BinaryTheta.point(q, 1.37 * q), tau, tau, "prior")
    assert exact * (1 - 2.0**-40) <= product_loss(chain, tau, tau) <= exact + 1e-4


@pytest.mark.parametrize("chain", [forgetful(0.8, 0.2, 0.7), forgetful(0.95, 0.1, 0.9)])
@pytest.mark.parametrize("tau", [0.3, 1.0])
def test_the_product_tilt_is_the_worst_likelihood_of_an_mtp2_chain(chain: RegimeChain, tau: float) -> None:
    """No likelihood of six ticks with these tilts loses more than the product of the tilts, and it loses that."""
    assert chain.is_mtp2
    worst = worst_likelihood(chain, [(tau, tau)] * 6)
    assert worst == pytest.approx(finite_product_loss(chain, [(tau, tau)] * 6), abs=1e-6)
    assert worst <= product_loss(chain, tau, tau)


def test_regimes_that_alternate_are_not_mtp2() -> None:
    """Nor are those that hold their bits for long: seeing a 1 before a 0 speaks for the regime with fewer ones."""
    assert not forgetful(0.2, 0.2, 0.7).is_mtp2
    assert not N10.is_mtp2


def finite_product_loss(chain: RegimeChain, tilts: list[tuple[float, float]]) -> float:
    """The loss of the product tilts of a few ticks, by enumeration."""
    n = len(tilts)
    law, x = path_law(chain, n), states(n)
    worst = 0.0
    for bit in range(2):
        weight = np.exp(sum(np.where(x[t] == bit, tilts[t][bit], 0.0) for t in range(n)))
        for tick in range(n):
            mine = x[tick] == bit
            this = (law * weight)[mine].sum() / law[mine].sum()
            other = (law * weight)[~mine].sum() / law[~mine].sum()
            worst = max(worst, math.log(this / other))
    return worst


@settings(max_examples=12, deadline=None)
@given(regime_chains(), st.floats(0.1, 2.0), st.floats(0.1, 2.0), st.integers(1, 3))
def test_no_likelihood_loses_more_than_is_certified(
    chain: RegimeChain, tau0: float, tau1: float, stride: int
) -> None:
    """Of any chain, MTP2 or not, whatever is published at every stride-th of six ticks."""
    tilts = [(tau0, tau1) if t % stride == 0 else (0.0, 0.0) for t in range(6)]
    assert worst_likelihood(chain, tilts) <= loss(chain, tau0, tau1, stride) + 1e-7


@settings(max_examples=10, deadline=None)
@given(regime_chains(3), st.floats(0.1, 1.5))
def test_three_regimes_are_certified_as_well(chain: RegimeChain, tau: float) -> None:
    """The same with three regimes and five ticks."""
    assert worst_likelihood(chain, [(tau, tau)] * 5) <= loss(chain, tau, tau) + 1e-7


@pytest.mark.parametrize(("tau", "stride"), [(0.1, 1), (1.0, 1), (1.0, 5), (0.5, 50)])
def test_the_certified_loss_is_close_to_what_independent_noise_attains(tau: float, stride: int) -> None:
    """On N10 it exceeds the product tilt, which noise attains, by less than 3%; nothing at a useful stride."""
    attained = product_loss(N10, tau, tau, stride)
    certified = loss(N10, tau, tau, stride)
    assert attained - 1e-9 <= certified <= attained * (1.03 if stride == 1 else 1.004)


@pytest.mark.parametrize("stride", [2, 7, 40])
def test_a_stride_is_the_power_of_the_chain_where_ticks_are_published(stride: int) -> None:
    """The loss at published ticks is that of P^m, found here by iterating far; unpublished ticks lose less."""
    tau = 0.7
    kernel, back = power(N10.kernel, stride), power(N10.reversal, stride)
    weights = [math.exp(tau), 1.0] * 2
    ahead, behind = [1.0] * 4, [1.0] * 4
    for _ in range(4000):
        ahead = applied(kernel, [one * two for one, two in zip(ahead, weights, strict=True)])
        behind = applied(back, [one * two for one, two in zip(behind, weights, strict=True)])
        ahead, behind = [one / max(ahead) for one in ahead], [one / max(behind) for one in behind]
    law = N10.stationary
    tilted = [pi * f * b for pi, f, b in zip(law, ahead, behind, strict=True)]
    zero = sum(tilted[0::2]) / sum(law[0::2])
    one = sum(tilted[1::2]) / sum(law[1::2])
    assert directed_loss(N10, 0, tau, stride) == pytest.approx(tau + math.log(zero / one), abs=1e-8)


histories = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 3), st.floats(0.1, 1.5), st.floats(0.1, 1.5)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=12, deadline=None)
@given(st.one_of(regime_chains(), st.just(forgetful(0.9, 0.2, 0.7))), histories)
def test_no_likelihood_loses_more_than_a_history_is_priced_at(
    chain: RegimeChain, given_entries: list[tuple[int, int, float, float]]
) -> None:
    """Entries that overlap and leave gaps, on six ticks; where the chain is MTP2 the price is the loss itself."""
    entries = [Entry(first, min(6, first + more), zero, one) for first, more, zero, one in given_entries]
    tilts = [
        (
            sum(entry.tau0 for entry in entries if entry.first <= tick <= entry.last),
            sum(entry.tau1 for entry in entries if entry.first <= tick <= entry.last),
        )
        for tick in range(1, 7)
    ]
    worst = worst_likelihood(chain, tilts)
    stated = price(entries, chain, (1, 6))
    assert worst <= stated.epsilon + 1e-7
    if chain.is_mtp2:
        assert stated.epsilon == pytest.approx(worst, abs=1e-6)


def test_a_long_even_history_is_priced_like_an_endless_stream() -> None:
    """From below; the bounds settle, and the rest of the run is not computed tick by tick."""
    found = price([Entry(1, 20_000, 0.05, 0.05)], N10, (1, 20_000))
    endless = loss(N10, 0.05, 0.05)
    assert 0.999 * endless <= found.epsilon <= endless + 1e-6


@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
def test_the_noise_keeps_epsilon_and_hardly_less(epsilon: float) -> None:
    """The certified loss of the noise found is within ε, and within one percent of it."""
    for stride in (1, 5, 200):
        noise = regime_noise.optimal_noise(N10, epsilon, stride)
        found = loss(N10, *noise.tilts, stride)
        assert 0.99 * epsilon <= found <= epsilon


def test_slow_regimes_have_a_bound_where_newtons_method_oversteps() -> None:
    """A regime that lasts 2,000 ticks, every third published, ε = 4: the search for a bound passes a very large one."""
    chain = RegimeChain.of(
        [[0.99975361543, 0.00024638457], [0.00028923407, 0.99971076593]],
        [(0.04528358, 0.35471642), (0.338145363, 0.061854637)],
    )
    tau0, tau1 = largest_tilts(chain, 4.0, 3)
    assert 3.9 < loss(chain, tau0, tau1, 3) <= 4.0


def test_a_stride_makes_recordings_useful() -> None:
    """N10: the variance of a share falls 80-fold at ε = 1 with a stride of about the regimes' length."""
    every = regime_noise.strided_noise(N10, 1.0, 1)
    best = regime_noise.best_stride(N10, 1.0)
    assert 100 <= best.stride <= 400
    assert every.variance / best.variance > 70


@pytest.mark.parametrize(
    ("transition", "chains", "named"),
    [
        ([[1.0]], [(0.0, 0.5)], "chains[0]"),
        ([[0.9, 0.2], [0.1, 0.9]], [(0.1, 0.2), (0.3, 0.1)], "transition[0]"),
        ([[1.0, 0.0], [0.1, 0.9]], [(0.1, 0.2), (0.3, 0.1)], "reached"),
        ([[0.5, 0.5]], [(0.1, 0.2), (0.3, 0.1)], "2 rows of 2"),
        ([[0.25] * 4] * 4, [(0.1, 0.2)] * 4, "1 to 3"),
    ],
)
def test_what_is_no_chain_is_refused(
    transition: list[list[float]], chains: list[tuple[float, float]], named: str
) -> None:
    """The message names the part that is wrong."""
    with pytest.raises(ValueError, match=named.replace("[", r"\[").replace("]", r"\]")):
        RegimeChain.of(transition, chains)


@pytest.mark.parametrize("ticks", [1, 2, 13])
def test_moments_of_windows_are_sums_over_pairs_of_ticks(ticks: int) -> None:
    """Variance of a window's share and correlation with the next, from the covariance of every pair of bits."""
    law, kernel = np.array(N10.stationary), np.array(N10.kernel)
    bits = np.arange(4) % 2 - N10.ones
    lags = [float((law * bits) @ np.linalg.matrix_power(kernel, lag) @ bits) for lag in range(2 * ticks)]
    pairs = np.array([[lags[abs(s - t)] for s in range(2 * ticks)] for t in range(2 * ticks)])
    variance, across = pairs[:ticks, :ticks].mean(), pairs[:ticks, ticks:].mean()
    assert regime_noise.window_moments(N10, ticks) == pytest.approx((variance, across / variance), rel=1e-9)


@pytest.mark.parametrize("stride", [2, 7, 40])
def test_every_stride_th_tick_stands_for_all_with_the_stated_variance(stride: int) -> None:
    """The variance of the difference of both means of a long window, summed over all pairs of its ticks."""
    chain = RegimeChain.of([[0.95, 0.05], [0.02, 0.98]], [(0.05, 0.4), (0.5, 0.03)])
    kernel, law = np.array(chain.kernel), np.array(chain.stationary)
    bits = np.arange(len(law)) % 2 - chain.ones
    ticks = 280 * stride if stride < 40 else 80 * stride
    covariance, moved = np.empty(ticks), bits
    for lag in range(ticks):
        covariance[lag] = (law * bits) @ moved
        moved = kernel @ moved
    weights = np.full(ticks, -1 / ticks)
    weights[::stride] += stride / ticks
    both = np.correlate(weights, weights, "full")[ticks - 1 :]
    summed = 2 * both @ covariance - both[0] * covariance[0]
    assert RegimeTheta.of([chain]).sampling_variance(stride) == pytest.approx(ticks * summed, rel=0.02)
    assert RegimeTheta.of([chain]).sampling_variance(1) == 0.0
