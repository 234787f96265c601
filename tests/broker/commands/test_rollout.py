"""What is read from a cohort's topics: all that is retained, versions, and a policy that nobody applied."""

from __future__ import annotations

import threading

import pytest

from hushmq.broker.commands.rollout import LEAP, Progress, Received, Watcher, nobody_applied
from hushmq.broker.contract.messages import Refusal, Status, encode
from hushmq.broker.contract.problem import Reason
from hushmq.broker.provision.nats import NatsServer
from tests.calibrator.running import Client
from tests.calibrator.site import TOPICS, policy, wait_until


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


def test_statuses_that_never_pause_are_not_waited_for(nats: NatsServer) -> None:
    """Only retained messages are: on a large site some device reports in every second, and push would never begin."""
    done = threading.Event()
    status = encode(Status(online=True, policy=1))

    def report() -> None:
        with Client(nats, "wearable-1") as client:
            while not done.wait(0.2):
                client.say(TOPICS.status("wearable-1"), status, retain=True)

    reports = threading.Thread(target=report)
    watcher = Watcher([nats.endpoint("ops")], "test")
    reports.start()
    ending = threading.Timer(20, done.set)
    ending.start()
    try:
        watcher.open()
        assert not done.is_set()
        wait_until(lambda: "wearable-1" in watcher.received.statuses)
    finally:
        done.set()
        ending.cancel()
        reports.join()
        watcher.close()


REFUSED = Progress("refused", "epsilon-above-cap")


@pytest.mark.parametrize(
    ("found", "reported"),
    [
        ({"a": REFUSED, "b": Progress("offline")}, True),
        ({"a": REFUSED, "b": Progress("silent")}, True),
        ({"a": REFUSED, "b": Progress("applied")}, False),
        ({"a": REFUSED, "b": Progress("waiting for noise")}, False),
        ({"a": Progress("silent"), "b": Progress("offline")}, False),
        ({"c": Progress("refused", "motion: loss-above-epsilon")}, False),
        ({}, False),
    ],
)
def test_a_policy_that_nobody_applied(found: dict[str, Progress], reported: bool) -> None:
    """It is reported where a device refused it and none has it, with what the device follows meanwhile."""
    statuses = {
        "a": Status(online=True, policy=2),
        "b": Status(online=False, policy=3),
        "c": Status(online=True, policy=3),
    }
    advice = nobody_applied(policy(3), found, Received(statuses=statuses))
    assert (advice is not None) is reported
    if advice is not None:
        assert "no device has applied policy 3 (epsilon-above-cap)" in advice
        assert "goes on with policy 2" in advice
        assert advice.endswith("No noise was issued for policy 3: it costs nothing")
