"""Only the newest policy that ops have signed is followed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.ingest.inbox import Arrived
from hushmq.calibrator.store.tables import superseded_policy
from tests.calibrator.site import (
    OPS,
    STRANGER,
    STREAM,
    TOPICS,
    desk,
    policy,
    signed,
    sqlite,
    stream_policy,
)
from tests.calibrator.test_more_states import stream_policy as four_states


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (signed(policy(2), STRANGER), Reason.UNKNOWN_KEY),
        (signed(policy(2)).replace(b'"public":1.0', b'"public":9.0'), Reason.BAD_SIGNATURE),
        (signed(policy(1, learning=0.4)), Reason.STALE_VERSION),
        (signed(policy(2, cohort="other")), Reason.WRONG_ADDRESS),
        (b"{}", Reason.MALFORMED),
        (b"\xff", Reason.MALFORMED),
    ],
)
def test_a_policy_that_is_not_ops_newest_is_refused(tmp_path: Path, payload: bytes, reason: Reason) -> None:
    """Unsigned, altered, stale, for another cohort, unreadable: refused with its reason, nothing changes."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([Arrived(TOPICS.policy, payload)])
        assert here.cohort.rejected == {reason: 1}
        assert here.cohort.policy == policy()
    with desk(sqlite(tmp_path)) as again:
        assert again.cohort.policy == policy()


def test_the_policy_followed_again_is_no_news(tmp_path: Path) -> None:
    """The retained policy comes with every reconnect; the same one is neither refused nor adopted anew."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.receive([Arrived(TOPICS.policy, signed(policy()))])
        assert here.cohort.rejected == {}
        assert here.log.getvalue().count("policy_adopted") == 1


def test_keys_are_rotated_by_trusting_two(tmp_path: Path) -> None:
    """A policy signed by either of two trusted keys is followed; the version still has to rise."""
    with desk(sqlite(tmp_path), ops=(OPS, STRANGER)) as here:
        here.adopt()
        here.cohort.receive([Arrived(TOPICS.policy, signed(policy(2), STRANGER))])
        assert here.cohort.policy == policy(2)


def test_a_stream_that_comes_back_has_as_many_states_as_before(tmp_path: Path) -> None:
    """Its settings and learned Θ are kept when a policy drops it: another number of states would not fit them."""
    other = Policy(version=2, cohort="test", streams={"other": stream_policy()})
    again = Policy(version=3, cohort="test", streams={STREAM: four_states()})
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.calibrate()
        for message in (other, again):
            here.cohort.receive([Arrived(TOPICS.policy, signed(message))])
        assert here.cohort.rejected == {Reason.STATES_CHANGED: 1}
        here.cohort.receive([Arrived(TOPICS.policy, signed(policy(4)))])
        assert here.cohort.policy == policy(4)


@pytest.mark.parametrize("change", [{"period_ms": 2000}, {"stride": 2}])
def test_a_stream_that_comes_back_has_the_period_of_before(tmp_path: Path, change: dict[str, int]) -> None:
    """Its ledger counts in ticks of that period, or in such strides, whatever policies were in between."""
    others = [
        Policy(version=version, cohort="test", streams={"other": stream_policy()}) for version in (2, 3)
    ]
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        for message in (*others, policy(4, **change)):
            here.cohort.receive([Arrived(TOPICS.policy, signed(message))])
        assert here.cohort.rejected == {Reason.PERIOD_CHANGED: 1}
        assert here.cohort.policy == others[1]
        here.cohort.receive([Arrived(TOPICS.policy, signed(policy(5)))])
        assert here.cohort.policy == policy(5)


def test_superseded_policies_are_kept(tmp_path: Path) -> None:
    """What was promised under an old policy can be checked: its signed bytes, and until when it was followed."""
    with desk(sqlite(tmp_path)) as here:
        for version in (1, 2, 5):
            here.cohort.receive([Arrived(TOPICS.policy, signed(policy(version)))])
        with here.engine.begin() as db:
            rows = db.execute(select(superseded_policy).order_by(superseded_policy.c.version)).all()
    assert [(row.version, row.payload) for row in rows] == [(n, signed(policy(n))) for n in (1, 2)]
    times = [datetime.fromisoformat(row.until) for row in rows]
    assert times == sorted(times)
    assert all(one.tzinfo is not None for one in times)
