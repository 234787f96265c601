"""The max-influence, and what happens to it at the edge of floating point."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hushmq.pufferfish.quilt.max_influence import log_ratios, max_influence


def test_log_ratios_are_the_largest_over_outcomes() -> None:
    """Entry [x,y] is the max over z of log rows[x,z]/rows[y,z]."""
    rows = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]])
    assert log_ratios(rows) == pytest.approx(np.array([[0, math.log(4)], [math.log(3), 0]]))
    assert max_influence(rows) == pytest.approx(math.log(4))


def test_an_outcome_only_one_value_can_have_gives_it_away() -> None:
    """Where one row is possible and the other is not the ratio is infinite; where neither is, it says nothing."""
    rows = np.array([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert log_ratios(rows).tolist() == [[0, math.inf], [pytest.approx(math.log(2)), 0]]


def test_underflow_counts_as_giving_away() -> None:
    """A probability that may have underflowed never makes a ratio finite."""
    rows = np.array([[1.0, 1e-300], [1.0, 1e-310]])
    assert max_influence(rows) == math.inf
    vanished = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert max_influence(vanished) == 0
    assert log_ratios(vanished, np.array([[True, True], [True, True]])).max() == math.inf
