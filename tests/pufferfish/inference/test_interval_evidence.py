"""Evidence against an interval of a probability."""

from __future__ import annotations

import math
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushmq.pufferfish.inference.interval_evidence import ODDS, IntervalEvidence

TRIALS = 40


def best_mean(evidence: IntervalEvidence, low: float, high: float) -> float:
    """The largest mean of the evidence when it is stopped at will and every trial's probability is chosen by its past.

    The mean is linear in each probability, so the ends suffice.
    """

    @cache
    def value(happened: int, not_happened: int) -> float:
        now = evidence.after(happened, not_happened)
        if happened + not_happened == TRIALS:
            return now
        event, none = value(happened + 1, not_happened), value(happened, not_happened + 1)
        return max(now, *(p * event + (1 - p) * none for p in (low, high)))

    return value(0, 0)


@given(st.floats(0.001, 0.9), st.floats(0.0, 1.0))
def test_no_probabilities_inside_and_no_stopping_time_raise_the_mean(low: float, share: float) -> None:
    high = low + share * (0.999 - low)
    assert best_mean(IntervalEvidence(low, high), low, high) <= 1 + 1e-9


@pytest.mark.parametrize("p", [0.01, 0.3, 0.5, 0.95])
def test_a_probability_a_little_outside_raises_it(p: float) -> None:
    """So the test above would find an interval that is used a hundredth too narrow."""
    evidence = IntervalEvidence(p, p)
    chances = [math.comb(TRIALS, n) * p**n * (1 - p) ** (TRIALS - n) for n in range(TRIALS + 1)]
    mean = math.fsum(chance * evidence.after(n, TRIALS - n) for n, chance in enumerate(chances))
    assert mean == pytest.approx(1, abs=1e-9)
    assert best_mean(evidence, p * 0.99, 1 - (1 - p) * 0.99) > 1 + 1e-6


def test_ends_of_zero_and_one() -> None:
    """Nothing lies below 0 or above 1; an impossible event decides when it happens, and not before."""
    assert IntervalEvidence(0.0, 1.0).after(1000, 1000) == 1
    never, always = IntervalEvidence(0.0, 0.0), IntervalEvidence(1.0, 1.0)
    assert never.after(0, 10**6) == always.after(10**6, 0) == 1
    assert never.after(1, 5) > 1e9 < always.after(5, 1)


@pytest.mark.parametrize("factor", ODDS)
def test_it_grows_at_the_rate_of_its_alternatives(factor: float) -> None:
    """For a probability that is one of them: by the relative entropy per trial, less the share of that alternative."""
    low, trials = 0.2, 10_000
    p = low / (low + (1 - low) * factor)
    n = round(trials * p)
    entropy = n * math.log(p / low) + (trials - n) * math.log((1 - p) / (1 - low))
    found = math.log(IntervalEvidence(low, 0.5).after(n, trials - n))
    assert min(entropy, 300) - math.log(2 * len(ODDS)) <= found + 1e-9


def test_it_is_no_interval() -> None:
    for low, high in ((0.3, 0.2), (-0.1, 0.2), (0.1, 1.1), (math.nan, 0.5)):
        with pytest.raises(ValueError, match="no interval"):
            IntervalEvidence(low, high)
