"""The undecided adversary (docs/theory-world.md, Theorems 26 and 27): every mixture over Θ, by definition."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_spread import odds_spread, reachable_shares
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import BinaryTimeline, price
from hushmq.pufferfish.binary.stream_loss import largest_tilts, loss, optimal_noise
from hushmq.pufferfish.timeline.entry import Entry
from hushmq.pufferfish.undecided import spread_error, with_spread
from tests.pufferfish import oracles_changing
from tests.pufferfish.oracles import Array, lipschitz, local, path_probabilities, states

Chain = tuple[float, float]
README = BinaryTheta(0.05, 0.45, 0.05, 0.45)


def corners(theta: BinaryTheta) -> list[Chain]:
    return [(q, r) for q in (theta.q_low, theta.q_high) for r in (theta.r_low, theta.r_high)]


def mixture_loss(chains: Sequence[Chain], weights: NDArray[np.float64], likelihoods: Array) -> float:
    """The largest log P(w | X_i=a)/P(w | X_i=b) when the chain is drawn with these weights: all paths and outputs."""
    n = likelihoods.shape[1].bit_length() - 1
    x = states(n)
    probability = sum(
        weight * path_probabilities(*chain, n) for weight, chain in zip(weights, chains, strict=True)
    )
    worst = 0.0
    for tick in range(n):
        given = [
            likelihoods[:, x[tick] == a] @ probability[x[tick] == a] / probability[x[tick] == a].sum()
            for a in (0, 1)
        ]
        worst = max(worst, float(np.abs(np.log(given[0]) - np.log(given[1])).max()))
    return worst


def random_box(rng: np.random.Generator) -> BinaryTheta:
    """A box with q+r ≤ 1."""
    q, r = np.sort(rng.uniform(0.01, 0.5, 2)), np.sort(rng.uniform(0.01, 0.5, 2))
    return BinaryTheta(*map(float, (*q, *r)))


def test_no_mixture_loses_more() -> None:
    """Independent noise and arbitrary mechanisms with the same tilts, on up to six ticks, for weights of any size."""
    rng, closest = np.random.default_rng(11), math.inf
    for _ in range(120):
        theta, n = random_box(rng), int(rng.integers(1, 7))
        tau = [float(one) for one in rng.choice([0.0, 0.05, 0.4, 1.5], n)]
        bound = price([Entry(t, t, one, one) for t, one in enumerate(tau)], theta, "undecided").epsilon
        noises = [(1 / (1 + math.exp(one)),) * 2 if one else None for one in tau]
        for likelihoods in (local(noises), lipschitz(rng, tau, tau, 40)):
            for power in (1, 8):
                found = mixture_loss(corners(theta), rng.random(4) ** power, likelihoods)
                assert found <= bound + 1e-12
                closest = min(closest, bound - found)
    assert closest < 1e-6


@pytest.mark.parametrize(
    "theta",
    [
        README,
        BinaryTheta(0.1, 0.3, 0.2, 0.4),
        BinaryTheta(0.3, 0.9, 0.2, 0.8),
        BinaryTheta(0.6, 0.8, 0.6, 0.9),
    ],
)
def test_no_mixture_of_changing_kernels_loses_more(theta: BinaryTheta) -> None:
    """Every sequence of corners and both ends of the first law (Theorem 16), mixed with weights of any size."""
    rng, n, tau = np.random.default_rng(4), 5, 0.4
    low, high = reachable_shares(theta)
    probabilities = oracles_changing.path_probabilities(corners(theta), [low[1], high[1]], n)
    likelihoods = oracles_changing.outputs([tau] * n, [tau] * n, both_ways=True)
    bound = price([Entry(0, n - 1, tau, tau)], theta, "undecided").epsilon
    weights = rng.random((60, len(probabilities))) ** rng.choice([1, 20, 200], size=(60, 1))
    mixtures = weights / weights.sum(axis=1, keepdims=True) @ probabilities
    found = oracles_changing.largest_loss(mixtures, likelihoods, informed=False)
    alone = oracles_changing.largest_loss(probabilities, likelihoods, informed=False)
    assert found <= bound
    assert alone <= price([Entry(0, n - 1, tau, tau)], theta, "prior").epsilon <= bound


def test_a_long_stream_attains_the_bound() -> None:
    """Where one chain has both the largest odds and the largest loss, little mass on it suffices."""
    theta, tau = BinaryTheta(0.02, 0.3, 0.1, 0.1), 0.5
    sharp = odds_spread(theta) + directed_loss(theta.q_low, 0.1, tau)
    found = long_mixture_loss((theta.q_low, 0.1), (theta.q_high, 0.1), mass=1e-9, tau=tau, ticks=801)
    assert sharp - 1e-6 < found <= sharp + 1e-9
    # The price is also for kernels that change in time (Theorem 16), which costs more.
    assert sharp < loss(theta, tau0=tau, tau1=0.05, adversary="undecided")


def test_the_whole_box_is_attained_in_one_direction_of_two_chains() -> None:
    """Theorem 27 for two corners: their odds' width, and the loss inside the chain that the transcript speaks for."""
    star, rest, tau = (0.05, 0.45), (0.45, 0.05), 0.3
    sharp = odds_spread(README) + directed_loss(*star, tau)
    found = long_mixture_loss(star, rest, mass=1e-9, tau=tau, ticks=2001)
    assert sharp - 1e-6 < found <= sharp + 1e-9
    assert sharp <= loss(README, tau0=tau, tau1=tau, adversary="undecided")


def directed_loss(q: float, r: float, tau: float) -> float:
    """The loss towards 0 of one chain, by iterating the recursion of docs/theory.md, Theorem 1."""
    m, ratio = math.exp(tau), 1.0
    for _ in range(100_000):
        ratio = (m * ratio * (1 - q) + q) / (m * ratio * r + 1 - r)
    return tau + 2 * math.log(ratio)


def long_mixture_loss(star: Chain, rest: Chain, *, mass: float, tau: float, ticks: int) -> float:
    """The loss of the transcript of zeros at the middle tick, towards 0, for a mixture of two chains."""
    joint = []
    for q, r in (star, rest):
        step = np.array([[1 - q, q], [r, 1 - r]])
        tilt = np.array([math.exp(tau), 1.0])
        side, scale = np.ones(2), 0.0
        for _ in range(ticks // 2):
            side = step @ (tilt * side)
            scale += math.log(side.max())
            side = side / side.max()
        # A two-state chain is reversible: both sides are alike.
        joint.append((np.array([r, q]) / (q + r), tilt * side * side, 2 * scale))
    top = max(scale for *_, scale in joint)
    weights = (mass, 1 - mass)
    prior = sum(weight * law for weight, (law, *_) in zip(weights, joint, strict=True))
    after = sum(
        weight * law * given * math.exp(scale - top)
        for weight, (law, given, scale) in zip(weights, joint, strict=True)
    )
    return float(math.log(after[0] / after[1]) - math.log(prior[0] / prior[1]))


def test_few_ticks_cost_their_tilts() -> None:
    """No transcript speaks for a state by more than all tilts together, whatever is believed."""
    once = [Entry(4, 4, 0.3, 0.2), Entry(9, 9, 0.1, 0.4)]
    assert price(once, README, "undecided").epsilon == pytest.approx(0.7, abs=1e-12)
    assert price([Entry(0, 10_000, 0.3, 0.2)], README, "undecided").epsilon == pytest.approx(
        odds_spread(README) + loss(README, tau0=0.3, tau1=0.2, adversary="prior"), abs=1e-9
    )


def test_far_ticks_are_told_of_by_the_chain() -> None:
    """A known chain forgets; which chain it is does not: a tick far from all entries may lose the whole spread."""
    entries = [Entry(0, 5_000, 0.3, 0.3)]
    far = (20_000, 20_000)
    assert README.timeline("prior", entries, ticks=far).price().epsilon < 1e-9
    found = README.timeline("undecided", entries, ticks=far).price().epsilon
    assert found == pytest.approx(odds_spread(README), abs=1e-9)


def test_a_price_is_rounded_up() -> None:
    """It is never below the exact sum of its parts, neither of a history nor of an endless stream."""
    rng = np.random.default_rng(3)
    for _ in range(50):
        theta, tau = random_box(rng), float(rng.uniform(0.01, 1))
        entries = [Entry(0, 10_000, tau, tau)]
        inside = Fraction(theta.timeline("prior", entries).price().epsilon)
        whole = theta.timeline("undecided", entries).price().epsilon
        assert Fraction(whole) >= inside + Fraction(theta.odds_spread)
        endless = float(rng.uniform(0.01, 5))
        assert Fraction(with_spread(endless, theta.odds_spread)) >= Fraction(endless) + Fraction(
            theta.odds_spread
        )


def test_a_single_chain_leaves_nothing_undecided() -> None:
    theta = BinaryTheta.point(0.0893, 0.1092)
    assert odds_spread(theta) == 0.0
    assert loss(theta, tau0=0.2, tau1=0.3, adversary="undecided") == loss(
        theta, tau0=0.2, tau1=0.3, adversary="prior"
    )
    entries = [Entry(1, 50, 0.1, 0.1)]
    assert price(entries, theta, "undecided") == price(entries, theta, "prior")


def test_a_narrower_theta_costs_less() -> None:
    losses = [
        loss(
            BinaryTheta(0.2 - width, 0.2 + width, 0.3 - width, 0.3 + width),
            tau0=0.1,
            tau1=0.1,
            adversary="undecided",
        )
        for width in (0.15, 0.1, 0.05, 0.01, 0.0)
    ]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == len(losses)


def test_noise_within_epsilon() -> None:
    """What is allowed keeps ε and uses it; where the spread alone exceeds ε nothing is, and it is said why."""
    theta = BinaryTheta(0.1, 0.15, 0.2, 0.25)
    noise = optimal_noise(theta, 4.0, "undecided")
    reached = loss(theta, tau0=noise.tau0, tau1=noise.tau1, adversary="undecided")
    assert 4.0 - 1e-9 < reached <= 4.0
    tau0, tau1 = largest_tilts(theta, 4.0, "undecided")
    assert 4.0 - 1e-9 < loss(theta, tau0=tau0, tau1=tau1, adversary="undecided") <= 4.0
    assert largest_tilts(README, 4.0, "undecided") == (0.0, 0.0)
    assert README.window_tilt("mqm-exact", 4.0, "undecided") == 0.0
    with pytest.raises(
        ValueError, match=r"4\.394 nats over a chain .* and ε is 4, .* narrow Θ .* above 4\.394"
    ):
        optimal_noise(README, 4.0, "undecided")
    with pytest.raises(ValueError, match=r"4\.394 nats"):
        README.optimal_noise(4.0, "undecided", device_tilt=0.01, share=0.5)
    assert spread_error(README, 4.5) is None
    assert isinstance(README.optimal_noise(4.5, "undecided"), BinaryNoise)


def test_the_timeline_grows_and_copies() -> None:
    """As the ledger uses it: a shallow copy is added to, and the original stays."""
    entries = [Entry(10 * n, 10 * n + 9, 0.05, 0.05) for n in range(60)]
    timeline = README.timeline("undecided", entries[:2])
    for entry in entries[2:]:
        before, foreseen = timeline.price(), timeline.price_with(entry)
        grown = copy.copy(timeline)
        grown.add(entry)
        assert timeline.price() == before
        assert grown.price() == foreseen
        timeline = grown
    assert timeline.price().epsilon == pytest.approx(price(entries, README, "undecided").epsilon, abs=1e-9)
    with pytest.raises(ValueError, match="priced by"):
        BinaryTimeline(README, "undecided")


@pytest.mark.parametrize(
    "theta",
    [
        README,
        BinaryTheta(0.3, 0.9, 0.05, 0.4),
        BinaryTheta(0.05, 0.4, 0.3, 0.9),
        BinaryTheta(0.6, 0.8, 0.7, 0.9),
        BinaryTheta(0.1, 0.95, 0.1, 0.95),
        # Just beyond q + r = 1, where an end begins to be the image of the other.
        BinaryTheta(0.3, 0.7, 0.305, 0.5),
        BinaryTheta(0.305, 0.5, 0.3, 0.7),
        BinaryTheta(0.5, 0.7, 0.305, 0.505),
    ],
)
def test_the_spread_covers_kernels_that_change_in_time(theta: BinaryTheta) -> None:
    """Shares inside stay inside whatever the steps, and both ends are reached: the spread is no wider than needed."""
    (low, below), (high, above) = reachable_shares(theta)
    assert low + below == pytest.approx(1.0)
    assert high + above == pytest.approx(1.0)
    kernels = corners(theta)
    images = [q * (1 - p) + (1 - r) * p for q, r in kernels for p in (low, high)]
    assert min(images) == pytest.approx(low, abs=1e-12)
    assert max(images) == pytest.approx(high, abs=1e-12)
    stationary = [math.log(q / r) for q, r in kernels]
    width = math.log(high / above) - math.log(low / below)
    assert odds_spread(theta) == pytest.approx(width, abs=1e-9)
    assert width >= max(stationary) - min(stationary) - 1e-12
    if theta.q_high + theta.r_low <= 1 and theta.q_low + theta.r_high <= 1:
        assert width == pytest.approx(max(stationary) - min(stationary), abs=1e-12)
