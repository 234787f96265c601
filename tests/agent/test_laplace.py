"""Exact discrete Laplace noise."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

from agent.laplace import discrete_laplace, standard_deviation

DRAWS = 8_000


def chi_square(seen: Counter[int], claimed: float) -> tuple[float, int]:
    """Pearson's statistic of draws against the law of a scale, over values with enough weight."""
    p = math.exp(-1 / claimed)
    law = {k: (1 - p) / (1 + p) * p ** abs(k) for k in range(-200, 201)}
    cells = [k for k, weight in law.items() if weight * DRAWS >= 20]
    rest = DRAWS - sum(seen[k] for k in cells)
    expected_rest = DRAWS * (1 - sum(law[k] for k in cells))
    found = sum((seen[k] - DRAWS * law[k]) ** 2 / (DRAWS * law[k]) for k in cells)
    return found + (rest - expected_rest) ** 2 / max(expected_rest, 1.0), len(cells)


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(1), Fraction(5, 3), Fraction(8.9)])
def test_the_law_is_that_of_the_scale_and_30_percent_off_is_noticed(scale: Fraction) -> None:
    """Chi-square below n + 8√(2n) + 16, which the true law exceeds with probability below 1e-7."""
    seen = Counter(discrete_laplace(scale) for _ in range(DRAWS))
    found, cells = chi_square(seen, float(scale))
    limit = cells + 8 * math.sqrt(2 * cells) + 16
    assert found < limit
    for wrong in (0.7, 1.3):
        assert chi_square(seen, float(scale) * wrong)[0] > limit


@pytest.mark.parametrize("scale", [0.5, 3.0, 20.0])
def test_the_standard_deviation_is_that_of_the_law(scale: float) -> None:
    p = math.exp(-1 / scale)
    variance = sum(2 * k * k * (1 - p) / (1 + p) * p**k for k in range(1, 2000))
    assert math.isclose(standard_deviation(scale) ** 2, variance)


def test_a_scale_must_be_positive() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        discrete_laplace(Fraction(0))
