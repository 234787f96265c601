"""Smoothed frequencies are a function of the stored releases alone, and begin anew with an epoch."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.release_smoothing import LONGEST, ReleasedShares, smooth
from hushmq.calibrator.policy.window_span import Span
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.windows.smooth_releases import smooth_releases
from tests.calibrator.site import START, STREAM, TOPICS, Desk, desk, policy, sqlite


def stored(here: Desk, scope: str = "cohort") -> list[Release]:
    """All stored releases of a scope, oldest first."""
    topic = TOPICS.release(STREAM, "short", scope)
    with here.engine.begin() as db:
        rows = db.execute(
            select(store.release.c.payload)
            .where(store.release.c.topic == topic)
            .order_by(store.release.c.entry)
        )
        return [decode(Release, row.payload) for row in rows]


def raw(message: Release) -> Release:
    return message.model_copy(update={"smoothed": None, "smoothed_intervals": None})


def close(here: Desk, windows: range) -> None:
    for number in windows:
        here.window(number)
        here.cohort.close_due()


@pytest.mark.parametrize("proper", [False, True])
def test_whoever_has_the_releases_gets_the_same(tmp_path: Path, proper: bool) -> None:
    """From the published messages alone, also after a restart, with proper frequencies or without."""
    asked = policy(windows={"short": Window(ticks=20, scopes=("cohort", "device"), proper=proper)})
    with desk(sqlite(tmp_path)) as here:
        here.adopt(asked)
        close(here, range(3))
    with desk(sqlite(tmp_path), clock=here.clock) as again:
        close(again, range(3, 5))
        for scope in ("cohort", "d0", "d1", "d2"):
            releases = stored(again, scope)
            assert len(releases) == 5
            for at, one in enumerate(releases):
                earlier = [ReleasedShares.of(before) for before in releases[:at]]
                (made,) = smooth([raw(one)], [earlier])
                assert made.smoothed == pytest.approx(one.smoothed, abs=1e-12)
                assert made.smoothed_intervals is not None
                assert one.smoothed_intervals is not None
                for mine, theirs in zip(made.smoothed_intervals, one.smoothed_intervals, strict=True):
                    assert mine == pytest.approx(theirs, abs=1e-12)
                assert (one.unbiased is not None) == proper


def test_a_release_keeps_its_raw_frequencies(tmp_path: Path) -> None:
    """Smoothing changes nothing else of a message, and its own values are a distribution within their intervals."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        close(here, range(3))
        for one in stored(here):
            assert one.smoothed is not None
            assert one.smoothed_intervals is not None
            assert sum(one.smoothed) == pytest.approx(1)
            ends = zip(one.smoothed, one.smoothed_intervals, strict=True)
            assert all(0 <= low <= share <= high <= 1 for share, (low, high) in ends)
            (again,) = smooth([raw(one)], [[]])
            assert raw(again) == raw(one)


def test_history_matters(tmp_path: Path) -> None:
    """The later releases are not what they would be without the earlier ones."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        close(here, range(4))
        last = stored(here)[-1]
        (alone,) = smooth([raw(last)], [[]])
        assert alone.smoothed != pytest.approx(last.smoothed, abs=1e-6)


def test_an_epoch_starts_anew(tmp_path: Path) -> None:
    """Releases of windows before the epoch are not used."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        close(here, range(4))
        *_, last = stored(here)
        span = Span(last.stream, last.window, last.first, last.last, last.scope)
        with here.engine.begin() as db:
            db.execute(store.release.delete().where(store.release.c.entry == last.entry))
            (fresh,) = smooth_releases(db, span, [raw(last)], TOPICS, since=last.first)
            (whole,) = smooth_releases(db, span, [raw(last)], TOPICS, since=0)
        (alone,) = smooth([raw(last)], [[]])
        assert fresh == alone
        assert whole == last
        assert whole != alone


def test_what_is_not_comparable_is_left_out() -> None:
    """Another length, another number of states, too long ago, or not before."""
    message = Release.model_validate(
        {
            "stream": STREAM,
            "window": "short",
            "scope": "cohort",
            "first": START,
            "last": START + 19,
            "devices": 3,
            "ticks": 60,
            "states": ("still", "moving"),
            "counts": (36, 24),
            "frequencies": (0.6, 0.4),
            "standard_errors": (0.2, 0.2),
            "intervals": ((0.2, 1.0), (0.0, 0.8)),
            "scale": 2.0,
            "tilt": 500_000_000,
            "loss": 0.5,
            "budget": 1.0,
            "adversary": "informed",
            "theta": {"q": {"low": 0.15, "high": 0.45}, "r": {"low": 0.15, "high": 0.45}},
            "entry": 1,
        }
    )
    (alone,) = smooth([message], [[]])
    left_out = [
        ReleasedShares(START - 40, 40, (0.1, 0.9), (0.01, 0.01), 1),
        ReleasedShares(START - 20, 20, (0.1, 0.1, 0.8), (0.01, 0.01, 0.01), 1),
        ReleasedShares(START - 20 * LONGEST, 20, (0.1, 0.9), (0.01, 0.01), 1),
        ReleasedShares(START, 20, (0.1, 0.9), (0.01, 0.01), 1),
    ]
    assert smooth([message], [left_out]) == [alone]
    used = ReleasedShares(START - 20 * (LONGEST - 1), 20, (0.1, 0.9), (0.01, 0.01), 1)
    assert smooth([message], [[used]]) != [alone]
    assert smooth([], []) == []


def test_a_release_of_an_older_version_is_no_history() -> None:
    """It does not say whether its frequencies are unbiased."""
    assert ReleasedShares.stored(b'{"first":0,"last":9,"frequencies":[1,0],"standard_errors":[1,1]}') is None
