"""A disk that is really full, under a device, a broker and a calibrator: said, waited for, and nothing lost but what
is counted as such.
"""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from hushmq.broker.provision.access_rights import Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import running
from tests.brokers import require_mosquitto
from tests.calibrator.test_storage_away import watched
from tests.small_disk import small_disk

PATIENCE_S = 90.0


@pytest.mark.slow
def test_the_disk_of_a_calibrator_is_full(broker: BrokerProcess, tmp_path: Path) -> None:
    """Nothing that is not written is seen; with room again it goes on by itself, and all is counted."""
    with small_disk(tmp_path / "small", 4) as disk, watched(disk.folder, broker) as here:
        here.survives(disk.fill, disk.make_room, "full")


@pytest.mark.slow
def test_the_disk_of_a_device_is_full(nats: BrokerProcess, tmp_path: Path) -> None:
    """What cannot be stored is not sent; with room again it goes on, and no tick is used twice."""
    log = io.StringIO()
    with small_disk(tmp_path / "small", 2) as disk, Peer(nats) as peer:
        config = write_config(disk.folder, nats.port)
        peer.push(policy())
        peer.push(noise())
        with running(config, log=log) as agent:
            wait_until(lambda: peer.total() > 100, PATIENCE_S)
            disk.fill()
            wait_until(lambda: "outbox_disk_full" in log.getvalue(), PATIENCE_S)
            before = peer.total()
            disk.make_room()
            wait_until(lambda: peer.total() > before + 200, PATIENCE_S)
            report = agent.report()
            assert report is not None
            assert report.ticks_not_stored > 0
        assert peer.no_tick_was_made_twice()
    lost = [json.loads(line) for line in log.getvalue().splitlines() if "outbox_disk_full" in line]
    assert sum(one["ticks_not_stored"] for one in lost) >= report.ticks_not_stored


@pytest.mark.slow
@pytest.mark.parametrize("kind", [NatsServer, MosquittoServer])
def test_the_disk_of_a_broker_is_full(site: Site, tmp_path: Path, kind: type[BrokerProcess]) -> None:
    """Whatever it acknowledges or loses meanwhile, with room again everything that was sampled is counted.

    NATS stores nothing more until it is started again.
    """
    if kind is MosquittoServer:
        require_mosquitto()
    with small_disk(tmp_path / "small", 24) as disk:
        config = tmp_path / "device"
        with kind(site, disk.folder / "broker") as broker, Peer(broker) as peer:
            path = write_config(config, broker.port)
            peer.push(policy())
            peer.push(noise())
            with running(path) as agent:
                wait_until(lambda: peer.total() > 100, PATIENCE_S)
                disk.fill()
                made = agent._outbox.balances["motion"].watermark
                wait_until(lambda: agent._outbox.balances["motion"].watermark > made + 1000, PATIENCE_S)
                wanted = agent._outbox.balances["motion"].watermark
                disk.make_room()
                if kind is NatsServer:
                    broker.stop()
                    broker.start()
                wait_until(lambda: max(peer.counted["motion"]) > wanted, PATIENCE_S)
            assert peer.no_tick_was_made_twice()
            counted = sorted(peer.counted["motion"])
            assert counted == list(range(counted[0], counted[-1] + 1))
