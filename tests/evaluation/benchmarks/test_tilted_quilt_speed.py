"""The linear programs that the tilted quilt is timed against are its definition, and end just below it."""

from __future__ import annotations

import numpy as np
import pytest

from hushmq.evaluation.benchmarks.tilted_quilt_speed import (
    TICKS,
    largest_ratio,
    plain_loss,
    plain_timeline,
    windows,
)
from hushmq.pufferfish.quilt.chain_timeline import price
from hushmq.pufferfish.quilt.markov_chain import Chain
from hushmq.pufferfish.quilt.tilted_quilt import loss
from hushmq.pufferfish.timeline.entry import Entry
from tests.pufferfish.oracles_categorical import one_step

QUICK = Chain([[0.5, 0.3, 0.2], [0.3, 0.4, 0.3], [0.25, 0.25, 0.5]])


def test_one_program_is_the_oracles() -> None:
    """The same linear program as the one that the plans of `pairs` are tested against."""
    D = np.array([[0.0, 0.4, 0.7], [0.3, 0.0, 0.5], [0.6, 0.2, 0.0]])
    P = QUICK.transition
    assert largest_ratio(P[0], P[2], D) == pytest.approx(one_step(P[0], P[2], D), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("tau", [0.2, 0.8])
def test_iteration_ends_just_below_what_is_certified(tau: float) -> None:
    """Linear programs until nothing moves give the certified loss, from below."""
    plain, programs = plain_loss(QUICK, tau)
    assert plain <= loss([QUICK], None, tau) <= plain + 1e-4
    assert programs % (2 * 3) == 0


def test_tick_by_tick_is_the_timeline() -> None:
    """Linear programs at every tick price a history with a gap as the timeline does."""
    taus = [0.3, 0.3, 0.0, 0.0, 0.7, 0.2]
    entries = [Entry(0, 1, 0.3, 0.3), Entry(4, 4, 0.7, 0.7), Entry(5, 5, 0.2, 0.2)]
    assert price(entries, [QUICK]).epsilon == pytest.approx(plain_timeline(QUICK, taus), abs=1e-7)


def test_the_histories_are_as_long_as_they_say() -> None:
    """10⁶ ticks, and so many windows within them, no two alike."""
    stream, *hours = windows(10)
    assert (stream.first, stream.last) == (1, TICKS)
    assert len({hour.tau0 for hour in hours}) == 10
    assert all(1 <= hour.first <= hour.last <= TICKS for hour in hours)
