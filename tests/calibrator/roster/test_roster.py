"""Who is in which window: admission at a stated rate, silence, and windows that exist by the schedule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.calibrator.calibrator_config import RosterSection
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.roster.left_out import leave_out, left_out_of_all, readmit
from hushmq.calibrator.roster.roster_members import Membership, beginnings, member_ticks, members
from hushmq.calibrator.roster.silence import silence_limit
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.site import (
    START,
    STREAM,
    Desk,
    desk,
    from_device,
    policy,
    sqlite,
    states,
    stream_policy,
)


def released(here: Desk) -> list[tuple[int, int]]:
    found = [decode(Release, one.payload) for one in here.cohort.unsent()]
    return [(one.first - START, one.devices) for one in found]


def logged(here: Desk, event: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in here.log.getvalue().splitlines()]
    return [line for line in lines if line["event"] == event]


def test_a_window_counts_who_is_a_member_at_its_first_tick() -> None:
    """From `since` to before `until`; nobody who is left out."""
    found = [
        Membership("a", 0),
        Membership("b", 20, 40),
        Membership("c", 21),
        Membership("d", 0, left_out="outside"),
    ]
    at = {first: members(found, Span(STREAM, "w", first, first + 19)) for first in (0, 20, 40)}
    assert at == {0: ["a"], 20: ["a", "b"], 40: ["a", "c"]}


def test_an_account_leaves_out_who_is_left_out_of_all_its_streams(tmp_path: Path) -> None:
    """Whoever one of them counts again, after `readmit`, is priced for all of them."""
    with desk(sqlite(tmp_path)) as here, here.engine.begin() as db:
        for stream in ("motion", "sound"):
            leave_out(db, stream, dict.fromkeys(("a", "b"), BinaryTheta.point(0.1, 0.2)), since=5)
        assert left_out_of_all(db, ["motion", "sound"]) == {"a", "b"}
        readmit(db, "motion", "a")
        assert left_out_of_all(db, ["motion", "sound"]) == {"b"}
        assert left_out_of_all(db, ["sound"]) == {"a", "b"}


def test_windows_begin_where_there_is_a_member() -> None:
    """Stretches with a member are joined; windows begin in them, whole, within what is asked for."""
    stretches = member_ticks([Membership("a", 5, 50), Membership("b", 40, 90), Membership("c", 130)])
    assert stretches == [(5, 90), (130, None)]
    assert beginnings(stretches, 20, start=0, end=200, most=99) == [20, 40, 60, 80, 140, 160, 180]
    assert beginnings(stretches, 20, start=60, end=199, most=99) == [60, 80, 140, 160]
    assert beginnings(stretches, 20, start=0, end=200, most=2) == [20, 40]
    assert member_ticks([Membership("d", 0, left_out="outside")]) == []


def test_a_device_counts_from_the_first_window_that_begins_with_it(tmp_path: Path) -> None:
    """States before that are counted as seen and in no window."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0, devices=1)
        here.cohort.receive([from_device("late", START + 3, states(17))])
        here.cohort.close_due()
        here.window(1, devices=1)
        here.cohort.receive([from_device("late", START + 20, states(20))])
        here.cohort.close_due()
        assert released(here) == [(0, 1), (20, 2)]
        assert here.seen("late").streams[STREAM].highest == START + 39


def test_new_devices_come_at_a_stated_rate(tmp_path: Path) -> None:
    """So many in a window, or the stated share of those there are; who waits is admitted later, and counted always."""
    with desk(sqlite(tmp_path), roster=RosterSection(admit_least=4, admit_share=0.5)) as here:
        here.adopt()
        for number in range(6):
            here.window(number, devices=30)
            here.cohort.close_due()
        # 4 and 4 more, then half of those there were
        assert released(here) == [(0, 4), (20, 8), (40, 12), (60, 18), (80, 27), (100, 30)]
        assert len(here.cohort.devices()) == 30
        waits = [line["waiting"] for line in logged(here, "admission_full")]
        assert waits == [26, 22, 18, 12, 3]


def test_a_silent_device_leaves_and_comes_back(tmp_path: Path) -> None:
    """After the stated number of the longest windows; then windows are about the others, and nobody is none."""
    with desk(sqlite(tmp_path), roster=RosterSection(silent_windows=2)) as here:
        here.adopt(policy(fill_s=0))
        here.window(0, devices=2)
        here.cohort.close_due()
        for number in range(1, 5):
            here.window(number, devices=1)
            here.cohort.close_due()
        # d1's last tick is START+19: with the window that ends at START+59 it was silent for two windows
        assert released(here) == [(0, 2), (20, 2), (40, 2), (60, 1), (80, 1)]
        assert [line["device"] for line in logged(here, "silent")] == ["d1"]
        here.window(5, devices=2)
        here.cohort.close_due()
        assert released(here)[5:] == [(100, 2)]
        for number in range(6, 12):
            here.clock.tick = START + 20 * number + 21
            here.cohort.close_due()
        assert released(here)[6:] == [(120, 2), (140, 2)], "with nobody left there are no windows"


def test_the_limit_is_no_less_than_what_devices_fill() -> None:
    """Of the longest window, or the absence after which devices publish the ticks they missed."""
    windows = {"short": Window(ticks=20), "long": Window(ticks=500)}
    assert silence_limit(stream_policy(windows=windows, fill_s=0), RosterSection()) == 1500
    assert silence_limit(stream_policy(windows=windows, fill_s=3600), RosterSection()) == 3600


def test_after_a_long_stop_few_windows_are_closed(tmp_path: Path) -> None:
    """Those up to the limit of silence, and then none, however many would have been."""
    with desk(sqlite(tmp_path), roster=RosterSection(silent_windows=3)) as here:
        here.adopt(policy(fill_s=0))
        here.window(0, devices=2)
        here.cohort.close_due()
        here.clock.tick = START + 20 * 100_000
        here.cohort.close_due()
        here.cohort.close_due()
        assert released(here) == [(0, 2), (20, 2), (40, 2), (60, 2)]


def test_a_window_that_a_later_policy_adds_begins_there(tmp_path: Path) -> None:
    """Not with ticks that are pruned; and one that comes back is not closed for the time it was away."""
    short, other = Window(ticks=20), Window(ticks=20)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(policy(windows={"short": short, "other": other}))
        here.window(0)
        here.cohort.close_due()
        here.adopt(policy(2, windows={"short": short}))
        for number in range(1, 4):
            here.window(number)
            here.cohort.close_due()
        here.adopt(policy(3, windows={"short": short, "other": other, "more": other}))
        here.window(4)
        closed = [(one.span.window, one.span.first - START) for one in here.cohort.close_due().windows]
        assert sorted(closed) == [("more", 80), ("other", 80), ("short", 80)]


def test_a_device_left_out_is_not_admitted_again(tmp_path: Path) -> None:
    """Whatever it sends; it is counted as seen."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        with here.engine.begin() as db:
            row = {"stream": STREAM, "device": "d0", "since": 0, "admitted": 0, "left_out": "outside"}
            db.execute(insert(store.roster).values(**row))
        here.window(0, devices=2)
        here.cohort.close_due()
        assert released(here) == [(0, 1)]
        with here.engine.begin() as db:
            found = {row.device: row.left_out for row in db.execute(select(store.roster))}
        assert found == {"d0": "outside", "d1": None}


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_first_window_admits_the_least_number(tmp_path: Path, share: float) -> None:
    """With nobody there, a share of them is nobody."""
    with desk(sqlite(tmp_path), roster=RosterSection(admit_least=2, admit_share=share)) as here:
        here.adopt()
        here.window(0, devices=9)
        here.cohort.close_due()
        assert released(here) == [(0, 2)]
