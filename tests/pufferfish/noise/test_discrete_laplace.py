"""Exact discrete Laplace noise: the law by enumeration, the draws by the law, and OpenDP's draws by ours."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction

import pytest

from hushmq.calibrator.models.draw_noise import noisy
from hushmq.pufferfish.noise import discrete_laplace as laplace
from hushmq.pufferfish.noise.discrete_laplace import discrete_laplace, standard_deviation
from tests.pufferfish.sampling import RARE, distance, plausible, stray

DRAWS = 4_600
SCALES = [Fraction(1, 2), Fraction(5, 3), Fraction(8.9)]
LEAST = 1e-14


class CutError(Exception):
    """Raised where a branch of the tree is not followed."""


class Tree:
    """All ways through a sampler whose choices are made here: each once, with its weight."""

    def __init__(self) -> None:
        self._scripts: list[list[int]] = [[]]
        self._script: list[int] = []
        self._made = 0
        self._weight = 1.0

    def choose(self, odds: list[float]) -> int:
        """One of the alternatives; the others are put down for later. Branches lighter than LEAST are cut."""
        if self._made == len(self._script):
            self._scripts.extend([*self._script, other] for other in range(1, len(odds)))
            self._script.append(0)
        choice = self._script[self._made]
        self._made += 1
        self._weight *= odds[choice]
        if self._weight < LEAST:
            raise CutError
        return choice

    def weights(self, sample: Callable[[], int]) -> dict[int, float]:
        """The weight of each result."""
        found: dict[int, float] = {}
        while self._scripts:
            self._script, self._made, self._weight = self._scripts.pop(), 0, 1.0
            with suppress(CutError):
                result = sample()
                found[result] = found.get(result, 0.0) + self._weight
        return found


class Lazy:
    """A uniform draw below a bound of which only a comparison is ever asked."""

    def __init__(self, bound: int, tree: Tree) -> None:
        self._bound, self._tree = bound, tree

    def __lt__(self, other: int) -> bool:
        return bool(self._tree.choose([1 - other / self._bound, other / self._bound]))


@pytest.mark.parametrize(("numerator", "denominator"), [(0, 1), (1, 1), (1, 3), (5, 7), (999, 1000)])
def test_an_event_of_probability_e_to_the_minus_x_is_exact(
    numerator: int, denominator: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weight of all ways to a yes is e^(−x) to 1e-12."""
    tree = Tree()
    monkeypatch.setattr(laplace, "randbelow", lambda bound: Lazy(bound, tree))
    found = tree.weights(lambda: int(laplace._happens(numerator, denominator)))
    assert found[1] == pytest.approx(math.exp(-numerator / denominator), abs=1e-12)


@pytest.mark.parametrize("scale", [Fraction(n, d) for n, d in ((1, 1), (1, 2), (5, 3), (7, 2), (3, 7))])
def test_the_law_is_exact(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given exact events, the weight of each value is P(k) ∝ e^(−|k|/scale), to 1e-9.

    A refused attempt starts afresh, so the law is that of the first attempt, given that it is not refused.
    """
    tree, attempts = Tree(), 0

    def randbelow(bound: int) -> int:
        nonlocal attempts
        attempts += bound == scale.numerator  # the sign is below 2, which is none of these numerators
        if attempts > 1:
            raise CutError
        return tree.choose([1 / bound] * bound)

    def happens(numerator: int, denominator: int) -> bool:
        yes = math.exp(-numerator / denominator)
        return bool(tree.choose([1 - yes, yes]))

    def sample() -> int:
        nonlocal attempts
        attempts = 0
        return discrete_laplace(scale)

    monkeypatch.setattr(laplace, "randbelow", randbelow)
    monkeypatch.setattr(laplace, "_happens", happens)
    found = tree.weights(sample)
    total = sum(found.values())
    p = math.exp(-1 / scale)
    for value in range(-12, 13):
        assert found.get(value, 0.0) / total == pytest.approx((1 - p) / (1 + p) * p ** abs(value), abs=1e-9)


def size_law(scale: float) -> Callable[[int], float]:
    """P(|k| ≤ size) = 1 − 2p^(size+1)/(1+p) with p = e^(−1/scale)."""
    p = math.exp(-1 / scale)
    return lambda size: 1 - 2 * p ** (size + 1) / (1 + p) if size >= 0 else 0.0


@pytest.mark.parametrize("scale", SCALES)
def test_the_draws_follow_the_law_and_30_percent_off_is_rejected(scale: Fraction) -> None:
    """Sizes against their law and signs against a fair coin: right but for 2e-8, and 30% off is too far to pass."""
    drawn = [discrete_laplace(scale) for _ in range(DRAWS)]
    sizes = [abs(value) for value in drawn]
    assert distance(sizes, size_law(float(scale))) <= stray(DRAWS)
    for wrong in (0.7, 1.3):
        assert distance(sizes, size_law(float(scale) * wrong)) > stray(DRAWS)
    assert plausible(sum(value < 0 for value in drawn), sum(value != 0 for value in drawn), 0.5)


@pytest.mark.parametrize("scale", SCALES)
def test_opendp_draws_from_the_same_law(scale: Fraction) -> None:
    """The calibrator's noise is the device's: OpenDP's sizes against the same law, and 20% off is rejected."""
    sizes = [abs(value) for value in noisy([0] * 12_000, scale=float(scale))]
    assert distance(sizes, size_law(float(scale))) <= stray(len(sizes))
    for wrong in (0.8, 1.2):
        assert distance(sizes, size_law(float(scale) * wrong)) > stray(len(sizes))


@pytest.mark.parametrize("scale", SCALES)
def test_a_scale_30_percent_off_cannot_pass(scale: Fraction) -> None:
    """The laws are more than twice the allowed distance apart, so what fits one is rejected for the other."""
    for wrong in (0.7, 1.3):
        ours, other = size_law(float(scale)), size_law(float(scale) * wrong)
        assert max(abs(ours(size) - other(size)) for size in range(60)) > 2 * stray(DRAWS)
    assert RARE < 1e-6


@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
def test_the_standard_deviation_is_that_of_the_law(scale: float) -> None:
    """√(Σ k²·P(k))."""
    p = math.exp(-1 / scale)
    variance = sum(2 * k * k * (1 - p) / (1 + p) * p**k for k in range(1, 2000))
    assert math.isclose(standard_deviation(scale) ** 2, variance)


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1, 3)])
def test_a_scale_must_be_positive(scale: Fraction) -> None:
    """Anything else is refused by name."""
    with pytest.raises(ValueError, match=r"^scale is .*; it must be positive"):
        discrete_laplace(scale)
