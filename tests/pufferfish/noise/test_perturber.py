"""Bits and categories: never more tilt than stated, and the stated frequencies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise.perturber import CategoryPerturber, Perturber, threshold, word_counts
from tests.pufferfish.sampling import far, plausible

WORDS = 2**64
DRAWS = 100_000
THREE = [[0.5, 0.3, 0.2], [0.25, 0.45, 0.3], [0.2, 0.3, 0.5]]


def tilt(rows: Sequence[Sequence[Fraction]]) -> Fraction:
    """max over u, v, z of B[u,z]/B[v,z], exactly."""
    return max(max(column) / min(column) for column in zip(*rows, strict=True))


def fractions(rows: Sequence[Sequence[float]]) -> list[list[Fraction]]:
    return [[Fraction(value) for value in row] for row in rows]


def response(k: int, stay: float) -> list[list[float]]:
    """k-ary randomized response."""
    return [[stay if u == z else (1 - stay) / (k - 1) for z in range(k)] for u in range(k)]


@given(st.floats(0.0, 1.0))
def test_a_threshold_is_the_probability_rounded_up(probability: float) -> None:
    """Noise strikes with at least the stated probability, and less than 2^-64 more."""
    assert 0 <= Fraction(threshold(probability), WORDS) - Fraction(probability) < Fraction(1, WORDS)


@given(st.floats(1e-12, 0.999), st.floats(1e-12, 0.999))
def test_the_realised_tilts_of_bits_are_at_most_the_stated(rho0: float, rho1: float) -> None:
    """(1−ρ0)/ρ1 and (1−ρ1)/ρ0 with the realised ρ are never above those with the stated, exactly."""
    if rho0 + rho1 < 1:
        k0, k1 = threshold(rho0), threshold(rho1)
        assert Fraction(WORDS - k0, k1) <= (1 - Fraction(rho0)) / Fraction(rho1)
        assert Fraction(WORDS - k1, k0) <= (1 - Fraction(rho1)) / Fraction(rho0)


@st.composite
def emissions(draw: st.DrawFn) -> list[list[float]]:
    """Matrices with entries of very different sizes, some below 2^-64."""
    k, outputs = draw(st.integers(2, 6)), draw(st.integers(2, 6))
    weight = st.one_of(st.floats(1e-30, 1e-15), st.floats(0.01, 1.0))
    rows = [[draw(weight) for _ in range(outputs - 1)] + [draw(st.floats(0.01, 1.0))] for _ in range(k)]
    return [[value / sum(row) for value in row] for row in rows]


@settings(deadline=None)
@given(emissions())
@example(response(51, 0.04))
@example(response(2, 0.5 + 2**-53))
@example([[1.0, 1e-30], [1e-300, 1.0]])
def test_the_realised_tilt_of_categories_is_at_most_the_stated(emission: list[list[float]]) -> None:
    """For every matrix: each realised row sums to 2^64, no ratio is above the stated one, no share is far off."""
    assume(emission[0] != pytest.approx(emission[1], abs=1e-12))
    found = word_counts(emission)
    assert all(sum(row) == WORDS and min(row) > 0 for row in found)
    assert tilt(fractions(found)) <= tilt(fractions(emission))
    for stated, realised in zip(emission, found, strict=True):
        assert [share / WORDS for share in realised] == pytest.approx(stated, abs=1e-14)


def test_an_emission_next_to_equality_keeps_its_tilt() -> None:
    """The least tilt that doubles can state, and one entry far below 2^-64."""
    for emission in (
        response(2, 0.5 + 2**-53),
        response(3, 0.3333333333333335),
        [[0.5, 0.5], [1 - 1e-40, 1e-40]],
    ):
        assert 1 < tilt(fractions(word_counts(emission))) <= tilt(fractions(emission))


@pytest.mark.parametrize(("state", "rho"), [(0, 0.3), (1, 0.05)])
def test_bits_flip_as_often_as_stated(state: int, rho: float) -> None:
    """The true ρ passes; one off by twice the sampling error is rejected by the same check, either way."""

    def passes(drawn: float) -> bool:
        noise = BinaryNoise(drawn, 0.2) if state == 0 else BinaryNoise(0.2, drawn)
        flips = sum(z != state for z in Perturber(noise).perturb(bytes([state]) * DRAWS))
        return plausible(flips, DRAWS, rho)

    assert passes(rho)
    assert not passes(rho + far(DRAWS, rho))
    assert not passes(rho - far(DRAWS, rho))


@pytest.mark.parametrize("state", [0, 1, 2])
def test_categories_come_as_often_as_stated(state: int) -> None:
    """As for bits, for every output of every state."""

    def passes(emission: list[list[float]]) -> bool:
        seen = Counter(CategoryPerturber(emission).perturb(bytes([state]) * DRAWS))
        return all(plausible(seen[z], DRAWS, THREE[state][z]) for z in range(3))

    assert passes(THREE)
    for more, less in ((0, 1), (1, 2), (2, 0)):
        off = [list(row) for row in THREE]
        off[state][more] += far(DRAWS, 0.5)
        off[state][less] -= far(DRAWS, 0.5)
        assert not passes(off)


def test_each_state_of_a_batch_gets_noise_of_its_own_row() -> None:
    """In a mixed batch every state keeps its place, and outputs may outnumber states."""
    rare = 2**-60
    bits = Perturber(BinaryNoise(rare, rare))
    assert bits.perturb([0, 1, 1, 0]) == bytes([0, 1, 1, 0])
    wide = CategoryPerturber([[1.0, rare, rare], [rare, rare, 1.0]])
    assert wide.perturb([0, 1, 1, 0]) == bytes([0, 2, 2, 0])
    assert bits.perturb([]) == wide.perturb([]) == b""


def test_there_is_no_seed() -> None:
    """Two perturbations of the same states differ."""
    states = bytes(300)
    assert Perturber(BinaryNoise(0.4, 0.4)).perturb(states) != Perturber(BinaryNoise(0.4, 0.4)).perturb(
        states
    )
    assert CategoryPerturber(THREE).perturb(states) != CategoryPerturber(THREE).perturb(states)


@pytest.mark.parametrize(
    ("emission", "message"),
    [
        ([[1.0]], r"^emission has 1 rows"),
        ([[0.5, 0.5]] * 257, r"^emission has 257 rows"),
        ([[0.5, 0.5], [1.0]], r"^emission row 1 has 1 entries"),
        ([[1.0], [1.0]], r"^emission row 0 has 1 entries"),
        ([[0.5, 0.5], [1.0, 0.0]], r"^emission row 1 is \[1.0, 0.0\]"),
        ([[0.5, 0.5], [float("nan"), 0.5]], r"^emission row 1 is \[nan, 0.5\]"),
        ([[0.5, 0.6], [0.5, 0.5]], r"^emission row 0 sums to 1.1"),
        ([[0.5, 0.5], [0.5, 0.5]], r"^emission: its rows are equal"),
        ([[0.1, 0.2, 0.7], [0.1, 0.2, 0.7]], r"^emission: its rows are equal"),
    ],
)
def test_bad_emissions_are_named(emission: list[list[float]], message: str) -> None:
    """Each bad matrix is refused with one message naming what is wrong."""
    with pytest.raises(ValueError, match=message):
        CategoryPerturber(emission)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_threshold_takes_probabilities_only(probability: float) -> None:
    """Anything outside [0, 1] is refused by name."""
    with pytest.raises(ValueError, match=r"^probability is"):
        threshold(probability)


@pytest.mark.parametrize("bad", [7, 251])
def test_a_refused_state_is_not_named(bad: int) -> None:
    """The error says what would be right and never what the state was."""
    for perturber in (Perturber(BinaryNoise(0.1, 0.1)), CategoryPerturber(THREE)):
        with pytest.raises(ValueError, match="a state is not") as refused:
            perturber.perturb([0, 1, bad])
        assert str(bad) not in str(refused.value)
