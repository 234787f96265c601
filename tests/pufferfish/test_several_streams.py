"""Several streams on one state: their tilts add, and shares of a tilt keep the sum within it (theory-world.md, W4).

Every claim is compared with the definition: all paths of a short chain, all outputs of all streams.
"""

from __future__ import annotations

import itertools
import math
from functools import reduce

import numpy as np
import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.categorical.categorical_theta import CategoricalTheta
from hushmq.pufferfish.coupling import coupled_loss, coupled_parts
from hushmq.pufferfish.papers import dependent_privacy
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish import oracles

Pair = tuple[float, float]


def together(streams: list[list[Pair]]) -> oracles.Array:
    """What several streams publish about one path."""
    return reduce(oracles.both, [oracles.local(noises) for noises in streams])


def loss(theta: BinaryTheta, streams: list[list[Pair]], adversary: Adversary, tick: int) -> float:
    q, r = theta.q_low, theta.r_low
    return oracles.attack(q, r, together(streams), informed=adversary == "informed", ticks=[tick]).loss


@pytest.mark.parametrize(
    ("streams", "adversary", "lost"),
    [(2, "informed", 6.05), (3, "informed", 7.50), (5, "informed", 9.65), (2, "prior", 5.51)],
)
def test_streams_that_each_keep_epsilon_lose_more_together(
    streams: int, adversary: Adversary, lost: float
) -> None:
    """Why shares are needed: heart rate N10 at ε = 4. With shares the same number of streams loses 4."""
    theta = BinaryTheta.point(0.0893, 0.1092)
    tau0, tau1 = theta.optimal_noise(4.0, adversary).tilts
    assert theta.constant_loss(streams * tau0, streams * tau1, adversary) == pytest.approx(lost, abs=0.005)
    tau0, tau1 = theta.optimal_noise(4.0, adversary, 0.0, 1 / streams).tilts
    assert theta.constant_loss(streams * tau0, streams * tau1, adversary) == pytest.approx(4.0, rel=1e-6)


@pytest.mark.parametrize(("adversary", "epsilon"), [("prior", 1.0), ("prior", 3.0), ("informed", 2.0)])
@pytest.mark.parametrize(("shares", "ticks"), [((0.5, 0.5), 7), ((0.7, 0.3), 7), ((1 / 3, 1 / 3, 1 / 3), 5)])
def test_shares_keep_epsilon_and_larger_ones_do_not(
    shares: tuple[float, ...], ticks: int, adversary: Adversary, epsilon: float
) -> None:
    """Theorem 21, all streams at their shares: the enumerated loss all but reaches ε; 3% more on each exceeds it."""
    if adversary == "informed":
        ticks = min(ticks, 5)
    theta = BinaryTheta.point(0.42, 0.46)  # so fast that few ticks are as good as endlessly many

    def enumerated(factor: float) -> float:
        noises = [theta.optimal_noise(epsilon, adversary, 0.0, factor * share) for share in shares]
        streams = [[(one.rho0, one.rho1)] * ticks for one in noises]
        return loss(theta, streams, adversary, ticks // 2)

    assert 0.985 * epsilon < enumerated(1.0) <= epsilon * (1 + 1e-9)
    assert enumerated(1.03) > epsilon


@pytest.mark.parametrize("adversary", ["prior", "informed"])
@pytest.mark.parametrize("chain", [(0.1, 0.25), (0.3, 0.2), (0.6, 0.7)])
def test_whatever_mixture_of_settings_is_in_force(chain: Pair, adversary: Adversary) -> None:
    """Theorem 21: streams change between settings within their shares, tick by tick, without any coordination."""
    theta = BinaryTheta.point(*chain)
    epsilon, rng = 2.0, np.random.default_rng(11)
    shares, ticks = ((0.4, 0.6), 5) if adversary == "prior" else ((0.4, 0.6), 4)
    top0, top1 = theta.largest_tilts(epsilon, adversary)
    for _ in range(6):
        streams = []
        for share in shares:
            used = rng.uniform(0.3, 1.0, size=(ticks, 2))
            noises = [BinaryNoise.of_tilts(share * a * top0, share * b * top1) for a, b in used]
            streams.append([(one.rho0, one.rho1) for one in noises])
        q, r = chain
        found = oracles.attack(q, r, together(streams), informed=adversary == "informed")
        assert found.loss <= epsilon * (1 + 1e-9)


def test_an_account_is_priced_as_the_sum_of_its_timelines() -> None:
    """Theorem 22: the price of the added tilts is the enumerated loss; every stream and tick has other noise."""
    theta = BinaryTheta.point(0.15, 0.3)
    one = [BinaryNoise(0.2, 0.3), BinaryNoise(0.3, 0.3), BinaryNoise(0.25, 0.1), BinaryNoise(0.4, 0.35)]
    other = [BinaryNoise(0.35, 0.2), BinaryNoise(0.1, 0.45), BinaryNoise(0.3, 0.2), BinaryNoise(0.2, 0.2)]
    entries = [Entry(t, t, *noise.tilts) for noises in (one, other) for t, noise in enumerate(noises)]
    streams = [[(noise.rho0, noise.rho1) for noise in noises] for noises in (one, other)]
    found = oracles.attack(0.15, 0.3, together(streams), informed=False).loss
    assert theta.timeline("prior", entries).price().epsilon == pytest.approx(found, rel=1e-9)
    assert theta.timeline("prior", entries[:4]).price().epsilon < 0.8 * found


def test_releases_of_two_streams_add_behind_their_own_noise() -> None:
    """Theorem 22 for the public: each stream's count is amplified through its own noise, then the tilts are added."""
    theta, ticks = BinaryTheta.point(0.2, 0.25), 4
    noises = [BinaryNoise(0.2, 0.25), BinaryNoise(0.3, 0.1)]
    scales = [1.5, 2.5]
    released = [
        oracles.from_sanitized([(noise.rho0, noise.rho1)] * ticks, oracles.count(ticks, 0, ticks - 1, scale))
        for noise, scale in zip(noises, scales, strict=True)
    ]
    found = oracles.attack(0.2, 0.25, oracles.both(*released), informed=False).loss
    taus = [noise.amplified(1 / scale) for noise, scale in zip(noises, scales, strict=True)]
    price = theta.timeline("prior", [Entry(0, ticks - 1, tau, tau) for tau in taus]).price().epsilon
    assert found <= price * (1 + 1e-9)
    assert price < 1.1 * found  # amplified tilts are those of the worse direction
    larger = theta.timeline("prior", [Entry(0, ticks - 1, max(taus), max(taus))]).price().epsilon
    assert larger < found  # the largest of them would not do


def test_more_states_share_as_well() -> None:
    """Three streams of k states with a third of the tilt each: together they are certified within ε."""
    theta = CategoricalTheta.point([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.3, 0.3, 0.4]])
    tau, _ = theta.optimal_noise(1.0, "prior", 0.0, 1 / 3).tilts
    assert theta.constant_loss(3 * tau, 3 * tau, "prior") <= 1.0 + 1e-9
    assert theta.constant_loss(3.01 * tau, 3.01 * tau, "prior") > 1.0
    with pytest.raises(ValueError, match=r"^device windows cost 0\.5000"):
        theta.optimal_noise(1.0, "prior", 0.5, 1 / 3)


@pytest.mark.parametrize("flip", [0.1, 0.25, 0.4])
def test_a_coupled_stream_adds_its_coefficient_times_its_loss(flip: float) -> None:
    """Theorem 23, attained: the other state is a copy with errors and says a part of its own loss about this one."""
    own, other = BinaryNoise(0.2, 0.2), BinaryNoise(0.3, 0.3)
    joint = np.zeros((2, 4))
    for x, y, zx, zy in itertools.product((0, 1), repeat=4):
        emit = (0.8 if zx == x else 0.2) * (0.7 if zy == y else 0.3)
        joint[x, 2 * zx + zy] += (1 - flip if x == y else flip) * emit
    found = float(np.abs(np.log(joint[0]) - np.log(joint[1])).max())
    kept = (1 - flip) * 0.7 + flip * 0.3
    coupling = math.log(kept / (1 - kept)) / other.tilts[0]
    losses = [own.tilts[0], other.tilts[0]]
    assert coupled_loss(losses, [0.0, coupling], 0) == pytest.approx(found, rel=1e-9)
    assert coupled_loss(losses, [0.0, 0.97 * coupling], 0) < found


def test_coefficients_without_the_others_are_not_enough() -> None:
    """Three bits of even parity: each alone says nothing, any two determine the third: ρ is meant given the others."""
    tau = math.log(0.8 / 0.2)
    likelihood = np.zeros((2, 4))
    for x, y, zy, zw in itertools.product((0, 1), repeat=4):
        emit = (0.8 if zy == y else 0.2) * (0.8 if zw == x ^ y else 0.2)
        likelihood[x, 2 * zy + zw] += emit / 2
    found = float(np.abs(np.log(likelihood[0]) - np.log(likelihood[1])).max())
    alone = likelihood.reshape(2, 2, 2).sum(axis=2)
    assert np.abs(np.log(alone[0]) - np.log(alone[1])).max() < 1e-12
    assert 0 < found <= coupled_loss([0.0, tau, tau], [0.0, 1.0, 1.0], 0)


def test_the_parts_of_an_epsilon() -> None:
    """Accounts that lose one part each lose at most the whole, whichever is asked about; LCM's rule for copies."""
    for couplings in ([0.0], [0.0, 0.5], [0.2, 0.7, 0.0], [1.0, 1.0, 1.0, 1.0]):
        parts = coupled_parts(couplings)
        losses = [1 / parts] * len(couplings)
        worst = max(coupled_loss(losses, couplings, number) for number in range(len(couplings)))
        assert worst == pytest.approx(1.0, rel=1e-12)
    assert coupled_parts([0.0]) == 1.0
    copies = [dependent_privacy.Dependence([0.0, 1.0], [[1.0, 0.0], [0.0, 1.0]])] * 3
    assert dependent_privacy.scale(1.0, copies, 2.0).scale == pytest.approx(coupled_parts([1.0] * 4) / 2.0)


def test_every_account_needs_its_coupling() -> None:
    """A loss without one is not left out of the sum in silence."""
    with pytest.raises(ValueError, match="zip"):
        coupled_loss([1.0, 1.0, 1.0], [0.2, 0.5], 0)
