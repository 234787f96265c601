"""Theorem R5: strided streams of every Θ of two states, against all sequences of kernels, outputs and known states."""

from __future__ import annotations

import itertools
import math

import pytest

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary import strided_theta
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.thinning.strided_chain import strided_loss
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles_changing import largest_loss, outputs, path_probabilities

ADVERSARIES: tuple[Adversary, Adversary] = ("prior", "informed")
README = BinaryTheta(0.05, 0.45, 0.05, 0.45)
SEVERAL = [
    README,
    BinaryTheta(0.02, 0.28, 0.05, 0.38),
    BinaryTheta(0.01, 0.02, 0.1, 0.2),
    BinaryTheta(0.3, 0.9, 0.4, 0.7),
    BinaryTheta(0.6, 0.95, 0.5, 0.9),
]
TICKS = 5


def truth(theta: BinaryTheta, taus: list[float], adversary: Adversary) -> float:
    """The largest loss at any tick, over all sequences of corners, first laws of a grid, outputs and known states."""
    kernels = sorted(itertools.product({theta.q_low, theta.q_high}, {theta.r_low, theta.r_high}))
    low = theta.r_low / (theta.r_low + theta.q_high)
    high = theta.r_high / (theta.r_high + theta.q_low)
    firsts = [low, high] + ([0.2, 0.8] if adversary == "informed" else [])
    both_ways = theta.q_high + theta.r_high > 1
    likelihoods = list({one.tobytes(): one for one in outputs(taus, taus, both_ways=both_ways)}.values())
    probabilities = path_probabilities(kernels, firsts, len(taus))
    return largest_loss(probabilities, likelihoods, informed=adversary == "informed")


@pytest.mark.parametrize("theta", SEVERAL, ids=lambda theta: theta.in_brief())
@pytest.mark.parametrize(("stride", "phase", "tau"), [(2, 0, 0.4), (3, 1, 1.6)])
def test_no_sequence_of_kernels_costs_more(theta: BinaryTheta, stride: int, phase: int, tau: float) -> None:
    """Secrets and known states at every tick, published or not; a finite history and the endless one."""
    taus = [tau if tick % stride == phase else 0.0 for tick in range(TICKS)]
    entries = [Entry(0, (TICKS - 1 - phase) // stride, tau, tau)]
    for adversary in ADVERSARIES:
        found = truth(theta, taus, adversary)
        stated = theta.timeline(adversary, entries, stride=stride).price().epsilon
        assert found <= stated <= theta.constant_loss(tau, tau, adversary, stride=stride)


@pytest.mark.parametrize("stride", [1, 2, 4])
def test_it_is_attained(stride: int) -> None:
    """Two published ticks, and the odds of the first at the centre of its tilt: one part in 10⁶ less would be wrong."""
    tau, theta = 1.3, BinaryTheta.point(0.1, 0.1)
    taus = [tau, *[0.0] * (stride - 1), tau]
    first = 1.0 / (1.0 + math.exp(tau / 2.0))
    found = largest_loss(
        path_probabilities([(0.1, 0.1)], [first, 1.0 - first], len(taus)),
        outputs(taus, taus, both_ways=False),
        informed=False,
    )
    entries = [Entry(0, 1, tau, tau)]
    stated = strided_theta.timeline(theta, "informed", entries, stride=stride).price().epsilon
    assert stated * (1 - 1e-6) < found <= stated


@pytest.mark.parametrize("theta", SEVERAL, ids=lambda theta: theta.in_brief())
@pytest.mark.parametrize("stride", [2, 7, 60])
def test_the_largest_tilts_have_the_loss_that_was_asked_for(theta: BinaryTheta, stride: int) -> None:
    """Closed forms in both directions, and the price of a long history beneath them."""
    for epsilon in (0.3, 1.0, 4.0):
        tau0, tau1 = theta.largest_tilts(epsilon, "informed", stride=stride)
        found = theta.constant_loss(tau0, tau1, "informed", stride=stride)
        assert epsilon * (1 - 1e-9) <= found <= epsilon
        history = theta.timeline("informed", [Entry(0, 10_000, tau0, tau1)], stride=stride)
        assert epsilon * (1 - 1e-9) <= history.price().epsilon <= epsilon * (1 + 1e-9)
        noise = theta.optimal_noise(epsilon, "informed", stride=stride)
        assert theta.constant_loss(*noise.tilts, "informed", stride=stride) <= epsilon


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.05, 0.3), (0.6, 0.8)])
@pytest.mark.parametrize("stride", [2, 5, 20])
def test_it_is_no_less_than_the_loss_of_one_chain(q: float, r: float, stride: int) -> None:
    """The exact loss of Theorem R3; of chains that are nearly symmetric it is 15% more at most."""
    for adversary in ADVERSARIES:
        exact = strided_loss(q, r, 0.7, 0.7, stride=stride, adversary=adversary)
        stated = BinaryTheta.point(q, r).constant_loss(0.7, 0.7, adversary, stride=stride)
        assert exact <= stated
        assert max(q, r) / min(q, r) > 1.5 or stated <= 1.15 * exact


def test_the_undecided_adversary_also_learns_which_chain_it_is() -> None:
    """The odds spread is added, and leaves so much less."""
    theta = BinaryTheta(0.08, 0.12, 0.1, 0.14)
    inside = theta.constant_loss(0.2, 0.2, "prior", stride=9)
    assert theta.constant_loss(0.2, 0.2, "undecided", stride=9) == pytest.approx(inside + theta.odds_spread)
    tau, _ = theta.largest_tilts(2.0, "undecided", stride=9)
    assert theta.constant_loss(tau, tau, "undecided", stride=9) <= 2.0
    assert theta.largest_tilts(theta.odds_spread, "undecided", stride=9) == (0.0, 0.0)


def test_a_price_at_some_ticks_covers_their_unpublished_neighbours() -> None:
    """A tick between two published ones may lose as much as the one in the next stride."""
    theta = README
    entries = [Entry(0, 9, 0.3, 0.3), Entry(10, 19, 2.0, 2.0)]
    whole = theta.timeline("informed", entries, stride=4)
    before = theta.timeline("informed", entries, (0, 9), stride=4)
    beside = theta.timeline("informed", entries, (10, 10), stride=4)
    assert whole.price().epsilon > before.price().epsilon >= 2.0
    assert before.price().epsilon <= beside.price().epsilon
    assert whole.price_with(Entry(5, 5, 0.1, 0.1)).epsilon >= whole.price().epsilon


def test_strides_are_refused_where_nothing_is_proved() -> None:
    """Also a device's own windows beside a stride, and methods that are for every tick."""
    with pytest.raises(ValueError, match="device windows"):
        README.optimal_noise(1.0, "prior", 0.01, stride=2)
    with pytest.raises(ValueError, match="mqm-exact"):
        README.window_tilt("mqm-exact", 1.0, "prior", stride=2)
    with pytest.raises(ValueError, match="stride is 0"):
        README.constant_loss(1.0, 1.0, "prior", stride=0)
