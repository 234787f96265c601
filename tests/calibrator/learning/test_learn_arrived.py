"""Learning uses what arrived: a tick that was filled is no evidence, and costs nothing that is not charged."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.models import binary_model
from hushmq.calibrator.models.binary.binary_statistics import REACH
from hushmq.calibrator.models.binary_model import BINARY
from hushmq.calibrator.models.sufficient_statistics import ExactStatistics
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows.count_window import count_window
from tests.calibrator.moving_cohort import FAST, SLOW, TICKS, MovingCohort, moving_policy
from tests.calibrator.site import START, STREAM, Desk, desk, from_device, policy, sqlite, stream_policy

LEARNED = 8
"""Windows after which Θ was updated twice."""


def contradictions(here: Desk) -> int:
    with here.engine.begin() as db:
        return read_progress(db, STREAM).contradictions


@pytest.mark.parametrize(
    "arriving",
    [
        lambda n: slice(0, TICKS // 10),
        lambda n: slice(0, 0) if n % 2 else slice(None),
        lambda n: slice(0, 0),
        lambda n: slice(n, n + n % 4),
    ],
    ids=["a tenth in time", "half of the devices stopped", "nothing", "a tick or two"],
)
@pytest.mark.slow
def test_what_is_late_contradicts_nothing(tmp_path: Path, arriving: Callable[[int], slice]) -> None:
    """Devices that follow Θ and are late for long, or have stopped: no epoch ends, nobody is left out."""
    with desk(sqlite(tmp_path)) as here:
        cohort = MovingCohort(here)
        cohort.follow(moving_policy())
        for _ in range(LEARNED):
            cohort.window(FAST)
        for _ in range(LEARNED + 1):
            outcome = cohort.window(FAST, arriving=arriving)
            assert outcome.filled
            assert outcome.left_out == ()
        assert contradictions(here) == 0


@pytest.mark.slow
def test_a_change_is_found_in_what_arrives(tmp_path: Path) -> None:
    """Half of the ticks arrive in time, and the devices do not follow Θ any more: it is contradicted."""
    with desk(sqlite(tmp_path)) as here:
        cohort = MovingCohort(here)
        cohort.follow(moving_policy())
        for _ in range(LEARNED):
            cohort.window(FAST)
        for _ in range(LEARNED):
            cohort.window(SLOW, arriving=lambda n: slice(n, n + TICKS // 2))
            if contradictions(here):
                return
        pytest.fail("the change was not found")


def evidence(here: Desk, span: Span) -> list[ExactStatistics]:
    """What a window contributes to learning; nothing is kept of it."""
    with here.engine.begin() as db:
        found = count_window(db, span, stream_policy(), ["d0"]).evidence()
        db.rollback()
    return found


def test_no_stand_in_is_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is drawn for the ticks that did not arrive: learning has the sums over those that did, run by run."""
    sent = {3: [1, 0, 1, 1, 1, 0], 12: [0, 1]}
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([from_device("d0", START + at, part) for at, part in sent.items()])
        for drawn in (0, 1):
            monkeypatch.setattr(binary_model, "perturbed_bits", lambda _rho, _s, n, z=drawn: bytes([z] * n))
            (one,) = evidence(here, Span(STREAM, "short", START, START + 19))
            assert (one.device, one.ticks) == ("d0", 8)
            assert list(one.starts) == [6, 2, 0, 0]
            assert [list(group) for group in one.groups] == [[5], [4], [2], [0], [0]]


def test_a_tick_that_a_window_has_filled_is_no_evidence_for_a_longer_one(tmp_path: Path) -> None:
    """It came after the short window had closed: the long one counts the stand-in, and learns from neither."""
    windows = {"short": Window(ticks=20), "long": Window(ticks=40)}
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows=windows))
        here.cohort.receive([from_device("d0", START, [1] * 5)])
        here.clock.tick = START + 21
        here.cohort.close_due()
        here.cohort.receive([from_device("d0", START + 5, [1] * 35)])
        with here.engine.begin() as db:
            found = count_window(
                db, Span(STREAM, "long", START, START + 39), stream_policy(windows=windows), ["d0"]
            )
        assert [one.ticks for one in found.count.statistics()] == [40]
        assert [(one.ticks, one.groups[0]) for one in found.evidence()] == [(25, [25])]


def test_one_state_moves_the_evidence_by_what_is_charged_at_most() -> None:
    """Over all sets of ticks that arrive and all states: one of them moves each sum by its reach, and no further.

    What did not arrive moves nothing: the sums are of the runs that did.
    """
    length = 7
    largest = [0] * len(REACH)
    for arrived in itertools.product((False, True), repeat=length):
        places = [t for t in range(length) if arrived[t]]
        for bits in itertools.product((0, 1), repeat=len(places)):
            here = _sums(dict(zip(places, bits, strict=True)))
            for t in places:
                other = dict(zip(places, bits, strict=True))
                other[t] = 1 - other[t]
                moved = [abs(a - b) for a, b in zip(here, _sums(other), strict=True)]
                assert all(one <= most for one, most in zip(moved, REACH, strict=True))
                largest = [max(both) for both in zip(largest, moved, strict=True)]
    assert largest[:2] == list(REACH[:2]), "the reach of what can be counted in so few ticks is reached"


def _sums(states: dict[int, int]) -> list[int]:
    """The sums of a device whose ticks of these states arrived."""
    pieces = {("d0", 1): [(t, bytes([state])) for t, state in states.items()]}
    found = BINARY.count(stream_policy(), pieces).statistics()
    return [0] * len(REACH) if not found or not states else [one for (one,) in found[0].groups]


def test_a_window_of_which_nothing_arrived_is_charged_and_teaches_nothing(tmp_path: Path) -> None:
    """Which windows are charged for learning follows from the schedule: what arrived has no part in it."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0, devices=2)
        (full,) = here.cohort.close_due().windows
        here.clock.tick = START + 41
        (empty,) = here.cohort.close_due().windows
        assert full.charge is not None
        assert empty.charge is not None
        assert empty.charge.spent.learning == full.charge.spent.learning > 0
        with here.engine.begin() as db:
            assert set(db.execute(select(store.pending.c.ticks)).scalars()) == {20}
            assert read_progress(db, STREAM).windows == 2
