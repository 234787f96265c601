"""A broker that loses what it had acknowledged and not synced: devices send it again, the same bytes, counted once."""

from __future__ import annotations

import shutil
from pathlib import Path

from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import running


def test_what_a_broker_acknowledged_and_lost_is_sent_again(broker: BrokerProcess, tmp_path: Path) -> None:
    """Batches are acknowledged while nobody counts; then the broker's store is as it was before each of them. Every
    tick is counted once, under one payload, and sampled = counted + buffered + dropped.
    """
    with Peer(broker, listening=False) as peer:
        peer.push(policy())
        peer.push(noise())
        broker.stop()
        copies = [tmp_path / "copy-0"]
        shutil.copytree(broker.folder, copies[0])
        broker.start()
        with running(write_config(tmp_path / "device", broker.port)) as agent:
            for number in (1, 2):
                before = agent._publisher.acknowledged
                wait_until(lambda before=before: agent._publisher.acknowledged >= before + 5)  # type: ignore[misc]
                if number == 1:
                    broker.stop()
                    copies.append(tmp_path / "copy-1")
                    shutil.copytree(broker.folder, copies[1])
                    broker.start()
            assert peer.batches == []
            used = agent._outbox.balances["motion"].watermark
            waiting = agent._outbox.page(0, 10_000)
            for copy in reversed(copies):
                broker.kill()
                shutil.rmtree(broker.folder)
                shutil.copytree(copy, broker.folder)
                broker.start()
            peer.listen()
            wait_until(lambda: used in peer.counted["motion"])
            wait_until(lambda: {one.payload for one in waiting} <= set().union(*peer.payloads.values()))
            assert agent._outbox.balances["motion"].dropped == 0
        assert all(len(payloads) == 1 for payloads in peer.payloads.values())
