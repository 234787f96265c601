"""The agent with a real broker and a counting peer."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from broker.process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import process, running


def test_every_sample_is_counted_or_accounted_for(broker: BrokerProcess, tmp_path: Path) -> None:
    """With everything working, what was sampled is counted, nothing waits and nothing is dropped."""
    with Peer(broker) as peer:
        peer.push(policy())
        peer.push(noise())
        with running(write_config(tmp_path, broker.port)):
            wait_until(lambda: peer.total() > 200)
        wait_until(lambda: peer.status is not None and not peer.status.online)
        assert peer.balanced()
        assert peer.status is not None
        assert peer.status.streams["motion"].buffered == peer.status.streams["motion"].dropped == 0


def test_nothing_is_published_without_a_valid_setting(broker: BrokerProcess, tmp_path: Path) -> None:
    """A policy alone does not make the device speak: no noise setting, no batch."""
    with Peer(broker) as peer:
        peer.push(policy())
        with running(write_config(tmp_path, broker.port)):
            wait_until(lambda: peer.status is not None and peer.status.policy == 1)
            time.sleep(0.3)
            assert peer.total() == 0
            peer.push(noise())
            wait_until(lambda: peer.total() > 0)


def test_sigterm_ends_the_process_with_a_true_last_status(broker: BrokerProcess, tmp_path: Path) -> None:
    """SIGTERM: exit code 0 within five seconds, and the retained status says offline with true counters."""
    with Peer(broker) as peer, process(write_config(tmp_path, broker.port), log=tmp_path / "log") as child:
        peer.push(policy())
        peer.push(noise())
        wait_until(lambda: peer.total() > 100)
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0
        wait_until(lambda: peer.status is not None and not peer.status.online)
        assert peer.balanced()
        assert peer.status is not None
        assert peer.status.streams["motion"].sampled == peer.total()
