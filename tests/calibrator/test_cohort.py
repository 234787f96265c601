"""What arrives is judged before it counts; what is said about it is durable."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import select

from broker.problem import Reason
from calibrator import store
from calibrator.cohort import Arrived
from tests.calibrator.site import (
    OPS,
    START,
    STRANGER,
    TOPICS,
    batch,
    desk,
    from_device,
    policy,
    signed,
    sqlite,
)


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
        here.cohort.take([Arrived(TOPICS.policy, payload)])
        assert here.cohort.rejected == {reason: 1}
        assert here.cohort.policy == policy()
    with desk(sqlite(tmp_path)) as again:
        assert again.cohort.policy == policy()


def test_the_policy_followed_again_is_no_news(tmp_path: Path) -> None:
    """The retained policy comes with every reconnect; the same one is neither refused nor adopted anew."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.take([Arrived(TOPICS.policy, signed(policy()))])
        assert here.cohort.rejected == {}
        assert here.log.getvalue().count("policy_adopted") == 1


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("elsewhere", b"", Reason.WRONG_ADDRESS),
        ("hush/1/other/z/0/d/motion", b"", Reason.WRONG_ADDRESS),
        (TOPICS.seen("d"), b"", Reason.WRONG_ADDRESS),
        (TOPICS.batch("d", "motion"), b"[]", Reason.MALFORMED),
        (TOPICS.batch("d", "motion"), batch(START, [1]).replace(b'"v":1', b'"v":2'), Reason.UNKNOWN_VERSION),
        (TOPICS.batch("d", "unknown"), batch(START, [1]), Reason.POLICY_MISMATCH),
        (TOPICS.batch("d", "motion"), batch(START, [1], noise=9), Reason.POLICY_MISMATCH),
        (TOPICS.batch("d", "motion"), batch(START + 10_000, [1]), Reason.FUTURE_TICK),
    ],
)
def test_one_bad_message_spoils_no_other(tmp_path: Path, topic: str, payload: bytes, reason: Reason) -> None:
    """A refused message in the middle of a group is counted by its reason; the others count as ever."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        good = [from_device("e", START, [0, 1]), from_device("f", START, [1])]
        assert here.cohort.take([good[0], Arrived(topic, payload), good[1]]) == {"e", "f"}
        assert here.cohort.rejected == {reason: 1}
        assert here.seen("e").streams["motion"].highest == START + 1


def test_seen_tells_only_what_is_durable_and_again_after_a_restart(tmp_path: Path) -> None:
    """What `seen` says is what another process finds in the database."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort.take([from_device("d", START - 30, [0, 1, 1])])
        said = here.seen("d")
        with desk(sqlite(tmp_path)) as other:
            assert other.seen("d") == said
            assert other.cohort.devices() == {"d"}
    assert said.streams["motion"].highest == START - 28


def test_a_group_that_cannot_be_committed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting is all or nothing: an error in the middle of a group takes the whole group back."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        broken = from_device("e", START, [1])
        object.__setattr__(broken, "payload", None)
        with pytest.raises(TypeError):
            here.cohort.take([from_device("d", START, [1]), broken])
        assert here.cohort.devices() == set()
        with here.engine.begin() as db:
            assert db.execute(select(store.batch)).all() == []


def test_no_raw_or_sanitized_state_is_logged(tmp_path: Path) -> None:
    """Rejections and releases are logged without the states they are about."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        marker = b'{"v":1,"first":1,"after":null,"count":8,"bits":1,"states":"SECRETSTATES","noise":1}'
        here.cohort.take([Arrived(TOPICS.batch("d", "motion"), marker)])
        assert here.cohort.rejected == {Reason.MALFORMED: 1}
        assert "SECRET" not in here.log.getvalue()


def test_keys_are_rotated_by_trusting_two(tmp_path: Path) -> None:
    """A policy signed by either of two trusted keys is followed; the version still has to rise."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.cohort._ops_keys = (OPS.public, STRANGER.public)
        here.cohort.take([Arrived(TOPICS.policy, signed(policy(2), STRANGER))])
        assert here.cohort.policy == policy(2)
