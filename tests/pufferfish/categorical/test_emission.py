"""Emission matrices: their tilt, and what passes through them."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain, combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.categorical.categorical_noise import CategoricalNoise
from hushmq.pufferfish.categorical.emission import amplified, randomized_response, release_tilt, tilt_of


@pytest.mark.slow
@settings(deadline=None)
@given(st.integers(2, 20), st.floats(1e-6, 20))
def test_randomized_response_keeps_its_tilt(k: int, tau: float) -> None:
    """Realised ratios, in exact numbers, are at most e^τ and hardly less; rows sum to one."""
    emission = randomized_response(k, tau)
    ratio = max(
        Fraction(a) / Fraction(b) for column in zip(*emission, strict=True) for a in column for b in column
    )
    assert float(ratio) <= np.exp(tau) <= float(ratio) * (1 + 1e-12)
    assert tilt_of(emission) <= tau
    assert tilt_of(emission) == pytest.approx(tau, rel=1e-6)
    assert all(sum(row) == pytest.approx(1, abs=1e-12) for row in emission)


def by_sets(emission: np.ndarray, w: float) -> float:
    """The worst likelihood takes two values, on a set of outputs and off it: every set, every pair."""
    outputs = range(emission.shape[1])
    sets = list(chain.from_iterable(combinations(outputs, n) for n in range(1, len(outputs))))
    gain = np.expm1(w)
    return max(
        float(np.log((1 + gain * a[list(S)].sum()) / (1 + gain * b[list(S)].sum())))
        for a, b in permutations(emission, 2)
        for S in sets
    )


@settings(deadline=None)
@given(st.integers(0, 10**6), st.floats(1e-3, 10))
def test_amplification_is_the_worst_of_all_sets(seed: int, w: float) -> None:
    """At least every set's ratio, just above the worst, and at most w and the tilt of the matrix."""
    rng = np.random.default_rng(seed)
    emission = rng.dirichlet(np.full(int(rng.integers(2, 5)), 2.0), size=int(rng.integers(2, 5)))
    found = amplified(emission.tolist(), w)
    truth = by_sets(emission, w)
    assert truth * (1 - 1e-12) - 1e-13 <= found <= truth * (1 + 1e-6) + 1e-12
    assert found <= min(w, tilt_of(emission.tolist()))


@settings(deadline=None)
@given(st.floats(0.01, 0.6), st.floats(0.01, 0.39), st.floats(1e-3, 20))
def test_two_states_are_the_binary_formula(rho0: float, rho1: float, w: float) -> None:
    """k = 2 gives what the binary stream's amplification gives."""
    emission = [[1 - rho0, rho0], [rho1, 1 - rho1]]
    assert amplified(emission, w) == pytest.approx(BinaryNoise(rho0, rho1).amplified(w), rel=1e-9)


@settings(deadline=None)
@given(st.integers(2, 8), st.floats(0.1, 5), st.floats(0.01, 0.99))
def test_the_tilt_of_a_release_is_the_largest_that_fits(k: int, tau: float, share: float) -> None:
    """amplified(release_tilt(τ)) is τ, not above; what the stream itself allows is unbounded."""
    emission = randomized_response(k, tau)
    aim = share * tau
    w = release_tilt(emission, aim)
    assert aim * (1 - 1e-6) <= amplified(emission, w) <= aim
    assert release_tilt(emission, tau) == float("inf")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: randomized_response(1, 1.0), "k is 1"),
        (lambda: randomized_response(3, 0.0), "tau is 0"),
        (lambda: randomized_response(3, float("nan")), "tau is nan"),
        (lambda: amplified(randomized_response(3, 1.0), -1.0), "w is -1"),
        (lambda: release_tilt(randomized_response(3, 1.0), float("nan")), "tau is nan"),
    ],
)
def test_bad_numbers_are_named(call: object, message: str) -> None:
    """One sentence, with the value."""
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]  # a table of calls


def test_an_output_that_some_states_never_give_has_no_tilt() -> None:
    """Zero probability for one state and not for another reveals everything."""
    assert tilt_of([[1.0, 0.0], [0.5, 0.5]]) == float("inf")
    assert tilt_of([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0]]) == 0.0


def test_the_weights_undo_the_noise() -> None:
    """They exist for any regular matrix, not only randomized response; ValueError for a singular one."""
    skewed = ((0.6, 0.2, 0.2), (0.1, 0.5, 0.4), (0.3, 0.1, 0.6))
    for x, weights in enumerate(CategoricalNoise(skewed).frequency_weights()):
        for u, row in enumerate(skewed):
            found = sum(p * a for p, a in zip(row, weights, strict=True))
            assert found == pytest.approx(float(u == x), abs=1e-12)
    with pytest.raises(ValueError, match="cannot be distinguished"):
        CategoricalNoise(((0.5, 0.25, 0.25), (0.5, 0.25, 0.25), (0.25, 0.25, 0.5))).frequency_weights()
