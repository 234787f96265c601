"""Clopper and Pearson's bounds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, binom

from hushmq.pufferfish.inference.clopper_pearson import lower_confidence_bound, upper_confidence_bound


@pytest.mark.parametrize(
    ("events", "draws"),
    [(0, 1), (1, 1), (3, 10), (500, 1000), (7, 1_000_000), (480_123, 1_000_000), (9_999_990, 10_000_000)],
)
@pytest.mark.parametrize("error", [0.05, 1e-3, 1e-9])
def test_they_are_quantiles_of_the_beta_distribution(events: int, draws: int, error: float) -> None:
    """Both bounds as SciPy has them, to 1e-5 of the standard error, and on the cautious side."""
    low, high = lower_confidence_bound(events, draws, error), upper_confidence_bound(events, draws, error)
    exact_low = beta.ppf(error, events, draws - events + 1) if events else 0.0
    exact_high = beta.isf(error, events + 1, draws - events) if events < draws else 1.0
    spread = 1e-5 * max(1 / draws, math.sqrt(events * (draws - events)) / draws**1.5)
    assert exact_low - spread <= low <= exact_low + 1e-3 * spread + 1e-15
    assert exact_high - 1e-3 * spread - 1e-15 <= high <= exact_high + spread


@given(st.integers(1, 30), st.floats(0.01, 0.99), st.sampled_from([0.2, 0.05, 0.001]))
def test_they_are_wrong_as_rarely_as_stated(draws: int, p: float, error: float) -> None:
    """Summed over all counts, each bound excludes the truth with probability at most `error`."""
    chances = [(k, float(binom.pmf(k, draws, p))) for k in range(draws + 1)]
    assert sum(chance for k, chance in chances if lower_confidence_bound(k, draws, error) > p) <= error
    assert sum(chance for k, chance in chances if upper_confidence_bound(k, draws, error) < p) <= error


@pytest.mark.parametrize(
    ("events", "draws", "error"), [(-1, 5, 0.1), (6, 5, 0.1), (0, 0, 0.1), (1, 2, 0.5), (1, 2, 0.0)]
)
def test_bad_values_are_refused(events: int, draws: int, error: float) -> None:
    """Counts that cannot be, and errors that are none."""
    for bound in (lower_confidence_bound, upper_confidence_bound):
        with pytest.raises(ValueError, match=r"^(-?\d+ events of|error is)"):
            bound(events, draws, error)
