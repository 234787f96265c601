"""Amplification: the formula, its inverse, and its range from 0 to the tilt of the noise."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_noise import BinaryNoise

noises = st.tuples(st.floats(0.001, 0.99), st.floats(0.001, 0.99)).filter(lambda p: sum(p) < 0.999)


@given(rho=noises, w=st.floats(0.001, 20.0))
def test_amplified_is_the_stated_maximum(rho: tuple[float, float], w: float) -> None:
    """τ_eff is the larger of the two directions, never below it and within rounding above."""
    noise = BinaryNoise(*rho)
    gain = math.exp(w)
    true = max(math.log(((1 - a) * gain + a) / (b * gain + 1 - b)) for a, b in (rho, rho[::-1]))
    assert true - 1e-13 <= noise.amplified(w) <= true + 1e-12
    assert noise.amplified(w) <= max(noise.tau0, noise.tau1) + 1e-13


@given(rho=noises, tau=st.floats(0.0, 10.0))
def test_release_tilt_is_the_largest_within(rho: tuple[float, float], tau: float) -> None:
    """The inverse keeps the tilt, and 0.01% more would not."""
    noise = BinaryNoise(*rho)
    w = noise.release_tilt(tau)
    assert noise.amplified(w) <= tau
    if w < math.inf:
        assert noise.amplified(w * 1.0001 + 1e-9) > tau or w > 30.0


@given(rho=noises, ulps=st.integers(-3, 3))
def test_a_budget_that_the_noise_alone_uses_up_leaves_room(rho: tuple[float, float], ulps: int) -> None:
    """As where both audiences have one ε: what rounding takes away is no reason to release nothing."""
    noise = BinaryNoise(*rho)
    tau = max(noise.tau0, noise.tau1) * (1 + ulps * 2.0**-52)
    assert noise.release_tilt(tau) > 20.0
    assert noise.amplified(noise.release_tilt(tau)) <= tau


def test_bounds() -> None:
    """A tilt of 0 is amplified to 0, an infinite one to the tilt of the noise."""
    noise = BinaryNoise(0.1, 0.3)
    assert noise.amplified(0.0) == 0.0
    assert noise.amplified(math.inf) == pytest.approx(max(noise.tau0, noise.tau1), abs=1e-12)
    assert noise.release_tilt(5.0) == math.inf
    assert noise.release_tilt(0.0) == 0.0


@pytest.mark.parametrize("bad", [-1.0, math.nan])
def test_a_bad_tilt_is_named(bad: float) -> None:
    """A negative tilt or none at all is refused with its name."""
    with pytest.raises(ValueError, match=r"^w is"):
        BinaryNoise(0.1, 0.3).amplified(bad)
    with pytest.raises(ValueError, match=r"^tau is"):
        BinaryNoise(0.1, 0.3).release_tilt(bad)
