"""Strided streams of one chain against enumeration, and against the ledger's price of the same gaps."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.binary_timeline import price
from hushmq.pufferfish.binary.stream_loss import constant_loss
from hushmq.pufferfish.thinning.strided_chain import StridedChain, strided_loss, thinned
from hushmq.pufferfish.thinning.strided_noise import best_stride, strided_noise
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles import attack, local

probabilities = st.floats(0.03, 0.9)
rhos = st.floats(0.1, 0.45)


@settings(max_examples=15, deadline=None)
@given(probabilities, probabilities, rhos, rhos, st.integers(1, 3), st.sampled_from(["prior", "informed"]))
def test_no_attack_on_a_short_stream_passes_the_loss(
    q: float, r: float, rho0: float, rho1: float, stride: int, adversary: Adversary
) -> None:
    """All outputs, all ticks, all known states of seven ticks, for either sign of the correlation."""
    noise = BinaryNoise(rho0, rho1)
    published = local([(rho0, rho1) if t % stride == 0 else None for t in range(7)])
    found = attack(q, r, published, informed=adversary == "informed")
    assert found.loss <= strided_loss(q, r, *noise.tilts, stride=stride, adversary=adversary) + 1e-9


@settings(max_examples=30, deadline=None)
@given(probabilities, probabilities, st.floats(0.1, 1.5), st.floats(0.1, 1.5))
def test_a_stride_of_one_is_the_stream(q: float, r: float, tau0: float, tau1: float) -> None:
    """The closed forms of a stream without gaps, both adversaries."""
    adversaries: tuple[Adversary, ...] = ("prior", "informed")
    for adversary in adversaries:
        expected = constant_loss(BinaryTheta.point(q, r), tau0, tau1, adversary)
        assert strided_loss(q, r, tau0, tau1, stride=1, adversary=adversary) == pytest.approx(
            expected, abs=1e-8
        )


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.05, 0.3), (0.02, 0.04)])
@pytest.mark.parametrize("stride", [2, 5])
def test_the_ledger_prices_the_same_gaps(q: float, r: float, stride: int) -> None:
    """A timeline of one tick in m costs what the stride costs, once it is long."""
    entries = [Entry(stride * n, stride * n, 0.8, 0.6) for n in range(1, 61)]
    adversaries: tuple[Adversary, ...] = ("prior", "informed")
    for adversary in adversaries:
        found = price(entries, BinaryTheta.point(q, r), adversary, span=(1, 61 * stride)).epsilon
        stated = strided_loss(q, r, 0.8, 0.6, stride=stride, adversary=adversary)
        assert found == pytest.approx(stated, abs=1e-6)


@pytest.mark.parametrize(("q", "r"), [(0.0893, 0.1092), (0.004, 0.012)])
@pytest.mark.parametrize("stride", [3, 20])
def test_for_the_prior_adversary_a_stride_is_the_power_of_the_chain(q: float, r: float, stride: int) -> None:
    """No unpublished tick loses more than the published ones, whose loss is that of P^m."""
    expected = constant_loss(BinaryTheta.point(*thinned(q, r, stride)), 0.7, 0.9, "prior")
    assert strided_loss(q, r, 0.7, 0.9, stride=stride, adversary="prior") == pytest.approx(expected, abs=1e-8)


def test_a_known_state_between_published_ticks_costs_more() -> None:
    """Noise for P^5 at ε = 4 against the prior adversary loses 4.43 to one who knows states in the gaps."""
    noise = strided_noise(0.0893, 0.1092, 4.0, stride=5, adversary="prior").noise
    found = strided_loss(0.0893, 0.1092, *noise.tilts, stride=5, adversary="informed")
    assert found == pytest.approx(4.4298, abs=1e-3)


@pytest.mark.parametrize("adversary", ["prior", "informed"])
def test_the_best_stride_of_heart_rate(adversary: Adversary) -> None:
    """N10 at ε = 1: about every tenth beat, with less than half the error, and within ε."""
    q, r = 0.0893, 0.1092
    best = best_stride(q, r, 1.0, adversary)
    every = strided_noise(q, r, 1.0, stride=1, adversary=adversary)
    assert 7 <= best.stride <= 13
    assert math.sqrt(every.variance / best.variance) > 2.2
    assert 0.999 <= strided_loss(q, r, *best.noise.tilts, stride=best.stride, adversary=adversary) <= 1.0


def test_a_stride_below_one_is_refused() -> None:
    """The message names the stride."""
    with pytest.raises(ValueError, match="stride is 0"):
        StridedChain(0.1, 0.1, 0, 1.0, 1.0)
