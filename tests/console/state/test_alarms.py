"""Alarms say what is wrong and what to do about it."""

from __future__ import annotations

import pytest

from hushmq.broker.contract.messages import EndedEpoch, LedgerState, encode
from hushmq.console.daemon import _health
from hushmq.console.state.alarms import Alarm, alarms
from tests.console.conftest import Opened
from tests.console.site_messages import TOPICS, publish_stored

THETA = {"q": {"low": 0.1, "high": 0.2}, "r": {"low": 0.1, "high": 0.2}}


def found(opened: Opened, **state: object) -> list[Alarm]:
    context = opened().context
    publish_stored(context.site, context.database)
    context.site.set_connected(True)
    left = state.pop("left", 0.5)
    message = LedgerState(
        stream="motion", adversary="prior", entries=3, late=0,
        operator={"budget": 4.0, "loss": 1.0, "left": 3.0, "theta": THETA},
        public={"budget": 1.0, "loss": 0.5, "left": left, "theta": THETA}, **state,
    )  # fmt: skip
    context.site.receive(TOPICS.ledger("motion"), encode(message), False)
    return alarms(context.site, [], [], health=None, database_error=None, grace_s=1, now=0.0)


@pytest.mark.parametrize(
    ("left", "todo"), [(-0.1, "Push a policy with that epoch"), (0.5, "`hushmq ledger reconcile")]
)
def test_a_stream_that_stands_still_says_how_it_goes_on(opened: Opened, left: float, todo: str) -> None:
    """Above its budget: another epoch. Behind what was sealed: the newer database, or a reconciliation."""
    (one,) = found(opened, stopped="a reason", left=left)
    assert one.severity == "bad"
    assert "releases nothing: a reason" in one.words
    assert todo in one.todo
    assert one.link == "/promise?stream=motion"


def test_a_broken_promise_is_one_alarm_in_times_and_words(opened: Opened) -> None:
    """Of both audiences together, with the losses and the hours; an epoch within its budgets is none."""
    ended = [
        {
            "number": 1,
            "first": 0,
            "last": 1_000_019,
            "reason": "contradiction",
            "operator": 4.5,
            "public": 1.25,
        },
        {"number": 2, "first": 1_000_020, "last": 1_000_039, "reason": "ops", "operator": 4.5, "public": 0.5},
        {"number": 3, "first": 1_000_040, "last": 1_000_059, "reason": "ops", "operator": 3.5, "public": 0.5},
    ]
    both, operators = found(opened, ended=tuple(EndedEpoch.model_validate(one) for one in ended))
    assert both.words == (
        "motion: Until 1970-01-12 13:47:00 UTC the promise did not hold: the loss may be up to 4.50 instead of 4 for "
        "operators and 1.25 instead of 1 for the public."
    )
    assert "From 1970-01-12 13:47:00 to 1970-01-12 13:47:20 UTC" in operators.words
    assert "public" not in operators.words


def test_a_calibrator_that_does_not_answer_is_an_alarm(opened: Opened) -> None:
    """In words: where it was asked, and what to look at."""
    site = opened().context.site
    site.set_connected(True)
    health = _health("http://127.0.0.1:1/health")
    said = alarms(site, [], [], health=health, database_error=None, grace_s=1, now=0.0)
    assert any(one.words == "The calibrator does not answer at http://127.0.0.1:1/health." for one in said)
    assert all(one.todo for one in said)
