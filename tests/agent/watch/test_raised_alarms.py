"""Raised alarms on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.agent.watch.raised_alarms import FILE, RaisedAlarms
from hushmq.broker.contract.policy_message import Assumption, Audiences, Threshold
from hushmq.broker.contract.problem import Problem
from tests.agent.peer import NARROW, WIDE, stream_policy


def test_an_alarm_survives_until_ops_change_theta_or_the_meaning(tmp_path: Path) -> None:
    policy = stream_policy()
    RaisedAlarms(tmp_path).add("motion", policy, 7200)
    found = RaisedAlarms(tmp_path)
    assert found.stop_from("motion", policy) == 7200
    assert found.stop_from("sound", policy) is None
    # Neither a budget nor the action is another meaning.
    assert found.stop_from(
        "motion", stream_policy(epsilon=Audiences(operator=1.0, public=1.0), outside_theta="stop")
    )
    for other in (
        stream_policy(discretiser=Threshold(at=80.0)),
        stream_policy(theta=Assumption(start=NARROW, floor=NARROW)),
        stream_policy(theta=Assumption(start=WIDE, floor=WIDE)),
        stream_policy(source="ring-4"),
        stream_policy(epoch=2),
    ):
        assert found.stop_from("motion", other) is None


def test_the_file_holds_one_bit_and_an_hour_a_stream(tmp_path: Path) -> None:
    alarms = RaisedAlarms(tmp_path)
    assert not (tmp_path / FILE).exists()
    alarms.add("motion", stream_policy(), 7200)
    written = (tmp_path / FILE).read_bytes()
    alarms.add("motion", stream_policy(), 7200)
    assert (tmp_path / FILE).read_bytes() == written
    assert b"high" not in written
    assert len(written) == len('{"motion": {"digest": "", "stop_from": 7200}}') + 64


def test_an_alarm_that_an_older_version_stored_holds(tmp_path: Path) -> None:
    """It stored no tick: its stop has begun."""
    RaisedAlarms(tmp_path).add("motion", stream_policy(), 7200)
    digest = json.loads((tmp_path / FILE).read_bytes())["motion"]["digest"]
    (tmp_path / FILE).write_text(json.dumps({"motion": digest}))
    assert RaisedAlarms(tmp_path).stop_from("motion", stream_policy()) == 0


def test_an_alarm_that_cannot_be_stored_holds_and_is_stored_later(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    folder.mkdir()
    alarms = RaisedAlarms(folder)
    folder.rename(tmp_path / "gone")
    alarms.add("motion", stream_policy(), 7200)
    assert alarms.save_error
    assert alarms.stop_from("motion", stream_policy()) == 7200
    (tmp_path / "gone").rename(folder)
    alarms.add("motion", stream_policy(), 7200)
    assert alarms.save_error is None
    assert RaisedAlarms(folder).stop_from("motion", stream_policy()) == 7200


@pytest.mark.parametrize("content", [b"", b"[]", b'{"motion"', b'{"motion": {}}', b'{"motion": 3}'])
def test_a_file_that_cannot_be_read_lets_nothing_be_published(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(Problem, match=r"alarms\.json cannot be read, .* then delete the file"):
        RaisedAlarms(tmp_path)
