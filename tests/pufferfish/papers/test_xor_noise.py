"""Correlated XOR noise: the closed form against all transcripts, and where it ends."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.papers import xor_noise as xor


def enumerated(theta: float, rho0: float, rho1: float, n: int) -> float:
    """The loss over all instants and transcripts of n instants, from the probabilities of all paths."""
    paths = np.array(list(itertools.product((0, 1), repeat=n)))
    data = _weights(paths, np.array([[1 - theta, theta], [theta, 1 - theta]]), np.array([0.5, 0.5]))
    B = np.array([[1 - rho0, rho0], [rho1, 1 - rho1]])
    flips = _weights(paths, B, np.array([rho1, rho0]) / (rho0 + rho1))
    codes = paths @ (1 << np.arange(n)[::-1])
    likelihood = flips[np.bitwise_xor.outer(codes, codes)]  # [transcript, path]
    worst = 0.0
    for i in range(n):
        zero = paths[:, i] == 0
        ratio = np.log(likelihood[:, zero] @ data[zero]) - np.log(likelihood[:, ~zero] @ data[~zero])
        worst = max(worst, float(np.abs(ratio).max()))
    return worst


def _weights(paths: np.ndarray, P: np.ndarray, start: np.ndarray) -> np.ndarray:
    weights = start[paths[:, 0]].copy()
    for t in range(paths.shape[1] - 1):
        weights *= P[paths[:, t], paths[:, t + 1]]
    return weights


def all_zeros(theta: float, rho0: float, rho1: float, doublings: int) -> float:
    """The loss at the middle of 2n+1 instants of the transcript that is 0 throughout, n = 2^doublings."""
    W = np.array([[(1 - theta) * (1 - rho0), theta * rho0], [theta * rho1, (1 - theta) * (1 - rho1)]])
    for _ in range(doublings):
        W = W @ W
        W /= W.sum()
    left, right = np.array([rho1, rho0]) @ W, W @ np.ones(2)
    return math.log(left[0] * right[0] / (left[1] * right[1]))


inside = st.tuples(st.floats(0.02, 0.5), st.floats(0.02, 0.5), st.floats(0, 1)).map(
    lambda drawn: (drawn[0], drawn[1], drawn[1] + drawn[2] * (1 - 2 * drawn[1]))
)


@settings(deadline=None, max_examples=40)
@given(inside)
def test_no_transcript_loses_more_than_the_closed_form(parameters: tuple[float, float, float]) -> None:
    """For all ρ0 ≤ ρ1 with ρ0+ρ1 ≤ 1 every instant of every transcript of 7 stays within it."""
    assert enumerated(*parameters, 7) <= xor.loss(*parameters) + 1e-9


@settings(deadline=None, max_examples=40)
@given(inside)
def test_the_closed_form_is_attained(parameters: tuple[float, float, float]) -> None:
    """Long runs of zeros come as close to it as one likes, so no smaller claim is true."""
    assert all_zeros(*parameters, 17) == pytest.approx(xor.loss(*parameters), rel=1e-6, abs=1e-9)


@settings(deadline=None)
@given(st.floats(0.02, 0.49), st.floats(0.02, 0.48), st.floats(0.05, 1))
def test_only_the_share_of_flips_counts(theta: float, share: float, total: float) -> None:
    """Correlated noise needs as many flips as independent noise (CGSSY section 3.3), and that is CGSSY Corollary 2."""
    independent = xor.loss(theta, share, 1 - share)
    assert xor.loss(theta, share * total, (1 - share) * total) == pytest.approx(independent)
    a = math.sqrt(theta**2 + (1 - 2 * theta) * (1 - 2 * share) ** 2) + (1 - theta) * (1 - 2 * share)
    c = 2 * theta * (1 - share)
    assert independent == pytest.approx(math.log((1 - share) / share * (a / c) ** 2))


@given(st.floats(0.001, 0.5), st.floats(0.01, 300))
def test_noise_is_the_inverse_of_loss(theta: float, epsilon: float) -> None:
    """The share of flips for ε loses exactly ε."""
    share = xor.noise(theta, epsilon)
    assert 0 < share < 0.5
    assert xor.loss(theta, share, 1 - share) == pytest.approx(epsilon, rel=1e-6)


def test_beyond_the_region_other_transcripts_lose_more() -> None:
    """The condition ρ0+ρ1 ≤ 1 is needed: with alternating noise an alternating transcript has a larger loss."""
    theta, rho0, rho1 = 0.22, 0.566, 0.998
    assert enumerated(theta, rho0, rho1, 9) > all_zeros(theta, rho0, rho1, 17) + 0.9


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: xor.loss(0.0, 0.1, 0.2), "theta is 0"),
        (lambda: xor.loss(0.6, 0.1, 0.2), "theta is 0.6"),
        (lambda: xor.loss(0.2, 0.3, 0.2), "rho0 is 0.3 and rho1 0.2"),
        (lambda: xor.loss(0.2, 0.5, 0.6), "rho0 is 0.5 and rho1 0.6"),
        (lambda: xor.loss(0.2, 0.0, 0.6), "rho0 is 0 "),
        (lambda: xor.noise(0.2, 0.0), "epsilon is 0"),
        (lambda: xor.noise(0.2, 1000.0), "at most 700"),
    ],
)
def test_what_is_wrong_is_named(build, message: str) -> None:
    """A refusal names the setting and its range."""
    with pytest.raises(ValueError, match=message):
        build()
