"""The next policy's version: above the highest that anyone follows, whatever the broker retains."""

from __future__ import annotations

from hushmq.broker.commands.rollout import LEAP, Received
from hushmq.broker.contract.messages import Refusal, Status
from hushmq.broker.contract.problem import Reason


def test_a_device_knows_a_newer_policy_than_the_broker() -> None:
    """The broker came back with policy 1; a device follows 7 and another one has refused 8."""
    received = Received(policy_version=1)
    assert received.highest_version == 1
    received.statuses["a"] = Status(online=True, policy=7)
    received.statuses["b"] = Status(online=None, policy=1)
    assert received.highest_version == 7
    received.statuses["c"] = Status(online=False, refused=Refusal(version=8, reason=Reason.STALE_VERSION))
    assert received.highest_version == 8


def test_a_device_cannot_use_up_the_versions() -> None:
    """A version far ahead of policy and settings is not believed: the next push would have no number left."""
    received = Received(policy_version=3, statuses={"bad": Status(online=True, policy=2**53 - 1)})
    assert received.highest_version == 3
    received.statuses["good"] = Status(online=True, policy=3 + LEAP)
    assert received.highest_version == 3 + LEAP
