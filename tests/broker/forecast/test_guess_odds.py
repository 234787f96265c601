"""What a loss means, in words."""

from __future__ import annotations

import math

import pytest

from hushmq.broker.forecast.guess_odds import improved, odds_in_words


def test_odds_change_by_a_factor() -> None:
    """By Bayes: evidence e^ε times likelier under one state multiplies the odds of it by e^ε."""
    for guess in (0.5, 0.6, 0.99):
        for epsilon in (0.0, 0.5, 4.0):
            after = guess * math.exp(epsilon) / (guess * math.exp(epsilon) + 1 - guess)
            assert improved(guess, epsilon) == pytest.approx(after)
    assert improved(1.0, 3.0) == 1.0


def test_words_never_promise_too_much() -> None:
    """Percentages are rounded up, and one that is not certain is below 100."""
    assert odds_in_words(math.log(1.5)) == "a guess that is right 60% of the time becomes at most 70%"
    assert odds_in_words(0.58) == "a guess that is right 60% of the time becomes at most 73%"
    assert odds_in_words(4.0) == "a guess that is right 60% of the time becomes at most 99%"
    assert odds_in_words(9.0).endswith("at most 99.992%")
