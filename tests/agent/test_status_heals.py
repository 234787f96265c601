"""The retained status of a device heals: whatever the broker has lost, holds older or holds as garbage."""

from __future__ import annotations

import shutil
from pathlib import Path

from hushmq.broker.contract.messages import Status, decode, encode
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import DEVICE, Peer, noise, policy, wait_until, write_config
from tests.agent.running import running
from tests.calibrator.running import Client
from tests.calibrator.site import TOPICS

PATIENCE_S = 60.0


def retained(broker: BrokerProcess) -> Status | None:
    """What somebody who comes now is told first; None where that is nothing or garbage."""
    topic = TOPICS.status(DEVICE)
    with Client(broker, "ops", topic) as newcomer:
        wait_until(lambda: newcomer.heard.get(topic), PATIENCE_S)
        try:
            return decode(Status, newcomer.heard[topic][0])
        except Rejected:
            return None


def healed(broker: BrokerProcess) -> bool:
    found = retained(broker)
    return found is not None and found.online is True and found.policy == 1


def test_a_status_that_is_older_missing_or_garbage_is_replaced(broker: BrokerProcess, tmp_path: Path) -> None:
    """The device publishes it at its reconnect, and again when its next one is due."""
    with Peer(broker) as peer:
        peer.push(policy())
        peer.push(noise())
        with running(write_config(tmp_path, broker.port)):
            wait_until(lambda: healed(broker), PATIENCE_S)
            for spoilt in (b"garbage", encode(Status(online=False))):
                with Client(broker, DEVICE) as other:
                    other.say(TOPICS.status(DEVICE), spoilt, retain=True)
                wait_until(lambda: healed(broker), PATIENCE_S)
            broker.kill()
            shutil.rmtree(broker.folder)
            broker.start()
            wait_until(lambda: healed(broker), PATIENCE_S)
