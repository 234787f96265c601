"""An agent with a stride on a real broker: what it publishes, and that nothing is lost or made twice."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import WIDE, Peer, noise, policy, wait_until, write_config
from tests.agent.running import process

STRIDE = 5


def test_strides_are_counted_once_across_a_kill(nats: BrokerProcess, tmp_path: Path) -> None:
    """One state for every stride of 10 ms, none twice, none left out after a kill -9, and sampled is counted."""
    config, log = write_config(tmp_path, nats.port), tmp_path / "log"
    best = WIDE.chains.optimal_noise(2.0, "informed", stride=STRIDE)
    setting = noise(noise=BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1))
    began = time.time()
    with Peer(nats) as peer:
        peer.push(policy(stride=STRIDE))
        peer.push(setting)
        for last in (False, True):
            before = peer.total()
            with process(config, log=log) as child:
                wait_until(lambda before=before: peer.total() > before + 40)  # type: ignore[misc]
                child.send_signal(signal.SIGTERM if last else signal.SIGKILL)
                child.wait(10)
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.status.streams)
        wait_until(peer.balanced)
        assert peer.no_tick_was_made_twice()
        counted = sorted(peer.counted["motion"])
        assert counted == list(range(counted[0], counted[-1] + 1))
        stride_s = 0.002 * STRIDE
        assert began / stride_s - 1 <= counted[0]
        assert counted[-1] <= time.time() / stride_s
