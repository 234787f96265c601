"""Bits and categories: never more tilt than stated, and the stated frequencies."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hushmq.pufferfish.binary.binary_noise import BinaryNoise
from hushmq.pufferfish.noise import perturber as perturber_module
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


PERTURBERS = (Perturber(BinaryNoise(0.3, 0.2)), CategoryPerturber(THREE))


@pytest.mark.parametrize("perturber", PERTURBERS, ids=["bits", "categories"])
def test_noise_is_drawn_before_the_state_is_known(
    perturber: Perturber | CategoryPerturber, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All randomness and all comparisons are in `prepare`, which is given no state; `select` only picks."""
    draws = perturber.prepare(300)

    def forbidden(*_: object) -> None:
        raise AssertionError("drawn or compared after the state was known")

    monkeypatch.setattr("hushmq.pufferfish.noise.perturber.random_words", forbidden)
    monkeypatch.setattr("hushmq.pufferfish.noise.perturber.bisect_right", forbidden)
    assert len(draws.select([n % 2 for n in range(300)])) == 300


@pytest.mark.parametrize("perturber", PERTURBERS, ids=["bits", "categories"])
def test_a_selection_takes_the_same_steps_whatever_states_and_outcomes_are(
    perturber: Perturber | CategoryPerturber,
) -> None:
    """The instructions that are executed, one by one, are those of any other selection."""

    def steps(states: bytes) -> list[tuple[str, int, str]]:
        draws, found = perturber.prepare(len(states)), []

        def trace(frame: FrameType, event: str, _: object) -> Any:
            if frame.f_code.co_filename != perturber_module.__file__:
                return None  # a hook of the test's environment
            frame.f_trace_opcodes = True
            found.append((frame.f_code.co_name, frame.f_lasti, event))
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            draws.select(states)
        finally:
            sys.settrace(before)
        return found

    shapes = [steps(states) for states in (bytes(200), b"\1" * 200, b"\0\1" * 100) for _ in range(5)]
    assert len(shapes[0]) > 20
    assert all(shape == shapes[0] for shape in shapes)


@pytest.mark.parametrize("perturber", PERTURBERS, ids=["bits", "categories"])
def test_drawn_noise_is_used_once(perturber: Perturber | CategoryPerturber) -> None:
    """A second use, or a number of states other than that drawn for, is an error."""
    draws = perturber.prepare(3)
    with pytest.raises(ValueError, match="for 3 ticks"):
        draws.select([0, 1])
    draws.select([0, 1, 0])
    with pytest.raises(RuntimeError, match="second time"):
        draws.select([0, 1, 0])


@pytest.mark.parametrize("k", [2, 3, 7, 51])
def test_every_word_gives_each_state_the_output_that_its_own_row_states(k: int) -> None:
    """At every bound of every row, and beside it, the shared word selects what the state's row alone would."""
    emission = [[(1 + (3 * u + 5 * z) % 7) / 1.0 for z in range(k)] for u in range(k)]
    emission = [[share / sum(row) for share in row] for row in emission]
    rows = [list(accumulate(row))[:-1] for row in word_counts(emission)]
    words = sorted({bound + off for row in rows for bound in row for off in (-1, 0, 1)} | {0, WORDS - 1})
    with patch("hushmq.pufferfish.noise.perturber.random_words", lambda _: words):
        perturber = CategoryPerturber(emission)
        for state, row in enumerate(rows):
            found = perturber.perturb([state] * len(words))
            assert list(found) == [bisect_right(row, word) for word in words]


def test_every_word_gives_each_bit_the_output_that_its_own_threshold_states() -> None:
    """At both thresholds and beside them."""
    noise = BinaryNoise(0.3, 0.2)
    flips = (threshold(noise.rho0), threshold(noise.rho1))
    words = [bound + off for bound in flips for off in (-1, 0, 1)] + [0, WORDS - 1]
    with patch("hushmq.pufferfish.noise.perturber.random_words", lambda _: words):
        for state in (0, 1):
            found = Perturber(noise).perturb([state] * len(words))
            assert list(found) == [state ^ (word < flips[state]) for word in words]
