"""Queries of a policy are answered in its releases, from what their entries paid for, and an export proves it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hushmq.broker.commands.answer_words import answers_in_words
from hushmq.broker.contract.answer_message import MeanAnswer, SlidingAnswer, TransitionsAnswer
from hushmq.broker.contract.messages import Release, decode, encode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.release_answers import SharesBefore, sliding, top, weighted
from hushmq.broker.forecast.policy_forecast import forecast
from hushmq.broker.forecast.query_forecast import query_forecasts, query_words
from hushmq.calibrator.store import tables as store
from hushmq.releases_command import query_rows
from tests.calibrator import test_more_states as more
from tests.calibrator.site import STREAM, TOPICS, Desk, desk, policy, sqlite, stream_policy
from tests.hushmq.verify.exported import Tree, changed, checked, exported, faults, sealed_again, stream_of

QUERIES: dict[str, Any] = {
    "level": {"kind": "mean", "window": "short", "values": (50.0, 90.0)},
    "median": {"kind": "quantile", "window": "short"},
    "usual": {"kind": "top", "window": "short", "states": 1},
    "lasts": {"kind": "dwell", "window": "short"},
    "slide": {"kind": "sliding", "window": "short", "windows": 3},
    "moves": {"kind": "transitions", "window": "short", "share": 0.25},
}
BOTH = {"short": Window(ticks=20, scopes=("cohort", "device"))}


def stored(here: Desk, scope: str = "cohort") -> list[Release]:
    topic = TOPICS.release(STREAM, "short", scope)
    with here.engine.begin() as db:
        rows = db.execute(
            select(store.release.c.payload)
            .where(store.release.c.topic == topic)
            .order_by(store.release.c.entry)
        )
        return [decode(Release, row.payload) for row in rows]


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[Release]], Tree]:
    """Four windows of three devices, for the cohort and each device: all releases, and the export."""
    with desk(sqlite(tmp_path_factory.mktemp("answers"))) as here:
        here.adopt(policy(windows=BOTH, queries=QUERIES))
        for number in range(4):
            here.window(number)
            here.cohort.close_due()
        return {scope: stored(here, scope) for scope in ("cohort", "d0", "d1", "d2")}, exported(here)


def test_every_release_has_every_answer(answered: tuple[dict[str, list[Release]], Tree]) -> None:
    """Also those of devices; what is read is what was sent."""
    for releases in answered[0].values():
        assert len(releases) == 4
        for one in releases:
            assert list(one.answers) == ["lasts", "level", "median", "moves", "usual", "slide"]
            assert decode(Release, encode(one)) == one


def test_whoever_has_the_releases_gets_the_same_answers(
    answered: tuple[dict[str, list[Release]], Tree],
) -> None:
    """All but the table follow from the published messages alone: so they cost nothing."""
    for releases in answered[0].values():
        before: list[SharesBefore] = []
        for one in releases:
            level, slide = one.answers["level"], one.answers["slide"]
            assert isinstance(level, MeanAnswer)
            assert level.value == pytest.approx(weighted((50.0, 90.0), one.frequencies), abs=1e-9)
            # Of two states, the mean's error is that of a share times the distance of the values.
            assert level.standard_error == pytest.approx(40 * one.standard_errors[1], rel=1e-9)
            low, high = one.intervals[1]
            assert level.interval[1] - level.interval[0] == pytest.approx(40 * (high - low), rel=1e-9)
            own = SharesBefore(one.first, one.last, one.frequencies, one.standard_errors, one.bias)
            assert slide == sliding(own, before, 3)
            before.append(own)
            query = stream_policy(queries=QUERIES).queries["usual"]
            assert one.answers["usual"] == top(query, one.states, one.frequencies, one.intervals)  # type: ignore[arg-type]
        assert isinstance(slide, SlidingAnswer)
        assert slide.windows == 3


def test_table_and_histogram_share_what_the_window_pays(
    answered: tuple[dict[str, list[Release]], Tree],
) -> None:
    """The window's entry is the same with the table or without it; both noises together cost no more than it."""
    releases = answered[0]["cohort"]
    with_table, moves = releases[0], releases[0].answers["moves"]
    assert isinstance(moves, TransitionsAnswer)
    spent = stream_policy(windows=BOTH)
    paid = with_table.tilt * (1 - spent.learned_share) / (1 - spent.learned_share + 2 * spent.learned_share)
    cost = 1 / with_table.scale + 4 / moves.scale
    assert cost * 1e9 <= paid + 4
    assert 4 / moves.scale == pytest.approx(0.25 * cost, rel=1e-6)
    assert moves.pairs == 3 * 19
    assert math.fsum(map(sum, moves.shares)) == pytest.approx(sum(map(sum, moves.counts)) / moves.pairs)


def test_a_true_export_holds_and_a_changed_answer_does_not(
    answered: tuple[dict[str, list[Release]], Tree], tmp_path: Path
) -> None:
    """Every answer that follows from releases is made again; a table that nobody paid for is found."""
    tree = answered[1]
    assert faults(checked(tree, tmp_path)) == {}
    changes: list[tuple[str, str, Any]] = [
        ("level", "value", 71.0),
        ("usual", "certain", True),
        ("lasts", "seconds", [[1.0, 2.0], [1.0, 2.0]]),
        ("slide", "frequencies", [0.5, 0.6]),
        ("slide", "first", 0),
        ("moves", "scale", 0.5),
        ("moves", "counts", [[1]]),
    ]
    for name, field, value in changes:
        wrong = changed(tree)
        stream_of(wrong)["releases"][-1]["answers"][name][field] = value
        assert faults(checked(sealed_again(wrong), tmp_path)), (name, field)
    wrong = changed(tree)
    answer = stream_of(wrong)["releases"][0]["answers"]["median"]
    answer["state"] = next(one for one in ("still", "moving") if one != answer["state"])
    assert faults(checked(sealed_again(wrong), tmp_path))
    wrong = changed(tree)
    stream_of(wrong)["releases"][0]["answers"]["more"] = stream_of(wrong)["releases"][0]["answers"]["level"]
    assert "no query" in str(faults(checked(sealed_again(wrong), tmp_path)))


def test_answers_are_shown_and_exported(answered: tuple[dict[str, list[Release]], Tree]) -> None:
    """A line says each by its name; the table has a row for each number."""
    (*_, last) = answered[0]["cohort"]
    words = answers_in_words(last)
    assert all(f"; {name} " in words for name in QUERIES)
    rows = list(query_rows([last]))
    assert {row["query"] for row in rows} == set(QUERIES)
    assert [row["item"] for row in rows if row["query"] == "moves"] == [
        "still → still", "still → moving", "moving → still", "moving → moving"
    ]  # fmt: skip
    assert answers_in_words(last.model_copy(update={"answers": {}})) == ""


def test_more_states_have_answers_too(tmp_path: Path) -> None:
    """Their sums of shares have errors of their own, below what adding up the errors of shares would say."""
    queries = {
        "level": {"kind": "mean", "window": "short", "values": tuple(range(len(more.STATES)))},
        "median": {"kind": "quantile", "window": "short"},
        "moves": {"kind": "transitions", "window": "short"},
    }
    with desk(sqlite(tmp_path)) as here:
        more.follow(here, queries=queries)
        more.window(here, 0)
        here.cohort.close_due()
        (one,) = more.releases(here)
        level = one.answers["level"]
        assert isinstance(level, MeanAnswer)
        k = len(one.states)
        assert level.value == pytest.approx(
            weighted([float(state) for state in range(k)], one.frequencies), abs=1e-9
        )
        middle = (k - 1) / 2
        summed = sum(abs(state - middle) * error for state, error in enumerate(one.standard_errors))
        assert 0 < level.standard_error < summed
        assert list(one.answers) == ["level", "median", "moves"]
        assert faults(checked(exported(here), tmp_path)) == {}


def test_push_prices_queries() -> None:
    """What follows from releases costs nothing; a table costs its share, and the histogram's error rises by it."""
    plain, asked = stream_policy(windows=BOTH), stream_policy(windows=BOTH, queries=QUERIES)
    theta = plain.theta.start.chains
    without, found = forecast(plain, theta, devices=50), forecast(asked, theta, devices=50)
    assert found.tilt == pytest.approx(without.tilt)
    assert found.public == pytest.approx(without.public)
    assert found.shares[0].scale == pytest.approx(without.shares[0].scale / 0.75)
    by_name = {(one.query, one.scope): one for one in query_forecasts(asked, found, devices=50)}
    assert {name for (name, _), one in by_name.items() if one.tilt} == {"moves"}
    assert by_name["moves", "cohort"].tilt == pytest.approx(0.25 * found.shares[0].tilt)
    assert 0 < (by_name["level", "cohort"].half_width or 0) < (by_name["level", "device"].half_width or 0)
    assert len(query_words(asked, found, devices=50)) == 2 * len(QUERIES)


def test_forecast_errors_are_those_of_releases(answered: tuple[dict[str, list[Release]], Tree]) -> None:
    """At the worst truth: no less than what a release states, and not much more."""
    asked = stream_policy(windows=BOTH, queries=QUERIES)
    first = answered[0]["cohort"][0]
    found = forecast(asked, asked.theta.start.chains, devices=3)
    by_name = {one.query: one for one in query_forecasts(asked, found, devices=3) if one.scope == "cohort"}
    level, moves = first.answers["level"], first.answers["moves"]
    assert isinstance(level, MeanAnswer)
    assert isinstance(moves, TransitionsAnswer)
    stated = (level.interval[1] - level.interval[0]) / 2
    assert stated <= (by_name["level"].half_width or 0) * 1.01
    assert stated >= (by_name["level"].half_width or 0) * 0.7
    assert max(map(max, moves.half_widths)) == pytest.approx(by_name["moves"].half_width, rel=0.05)
