"""What arrives is judged before it counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from hushmq.broker.contract.problem import Reason
from hushmq.calibrator.ingest.inbox import Arrived
from tests.calibrator.site import (
    START,
    TOPICS,
    batch,
    desk,
    from_device,
    sqlite,
)


@pytest.mark.slow
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
        assert here.cohort.receive([good[0], Arrived(topic, payload), good[1]]).devices == {"e", "f"}
        assert here.cohort.rejected == {reason: 1}
        assert here.seen("e").streams["motion"].highest == START + 1


def test_no_raw_or_sanitized_state_is_logged(tmp_path: Path) -> None:
    """Rejections and releases are logged without the states they are about."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        marker = b'{"v":1,"first":1,"after":null,"count":8,"bits":1,"states":"SECRETSTATES","noise":1}'
        here.cohort.receive([Arrived(TOPICS.batch("d", "motion"), marker)])
        assert here.cohort.rejected == {Reason.MALFORMED: 1}
        assert "SECRET" not in here.log.getvalue()
