"""The ticks of an absence are filled, each once, in parts that neither block the agent nor are lost by a kill -9."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.agent_config import load
from hushmq.agent.perturb import Mechanism
from hushmq.agent.sources.beat_schedule import LONGEST
from hushmq.agent.storage.outbox import Outbox
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, wait_until, write_config
from tests.agent.running import process, running
from tests.agent.test_faults import CRASH, motion
from tests.agent.transcript import store_settings

PERIOD_MS = 2
BEAT = "beat_ms = 2000"
"""Beats of 1,000 ticks."""


def left_behind(config: Path, ticks: int, **changes: Any) -> int:
    """Leave the folder of an agent that was killed so many ticks ago, and return its watermark."""
    found = load(config, {})
    found.folder.mkdir(parents=True)
    store_settings(config, policy(**changes), noise())
    watermark = time.time_ns() // (PERIOD_MS * 1_000_000) - ticks
    outbox = Outbox(found.folder, max_bytes=10**6, max_age_s=10**6)
    made = Mechanism(noise()).batches("motion", watermark, [0], None)
    outbox.commit(made, periods={"motion": PERIOD_MS}, seen={}, now_ms=time.time_ns() // 1_000_000)
    outbox._db.close()
    return watermark


@pytest.mark.parametrize(("name", "after"), [("commit", False), ("commit", True), ("_save", True)])
def test_killed_while_filling_no_tick_is_made_twice_or_left_out(
    nats: BrokerProcess, tmp_path: Path, name: str, after: bool
) -> None:
    """Killed twice on the way through an absence of several parts: in the end every tick was counted, once."""
    config, log = write_config(tmp_path, nats.port, publish=BEAT), tmp_path / "log"
    watermark = left_behind(config, 3 * LONGEST)
    with Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        for nth in (2, 3):
            code = CRASH.format(
                module="hushmq.agent.storage.outbox", owner="Outbox", name=name, after=after, nth=nth
            )
            with process(config, code=code, log=log) as child:
                assert child.wait(30) == -signal.SIGKILL
        with process(config, log=log) as child:
            wait_until(lambda: peer.total() > 3 * LONGEST, 60)
            wait_until(lambda: 0 <= motion(config, "buffered") < 4_000)
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.status.streams)
        wait_until(peer.balanced)
        assert peer.no_tick_was_made_twice()
        counted = sorted(peer.counted["motion"])
        assert counted == list(range(watermark, counted[-1] + 1))
    assert "ticks_filled" in log.read_text()


def test_a_long_absence_does_not_block_the_agent(tmp_path: Path) -> None:
    """While it is filled the agent answers, and sampled = counted + buffered + dropped, though the outbox overflows."""
    config = write_config(tmp_path, publish=BEAT, sections="[outbox]\nmax_bytes = 100000")
    missed = 40 * LONGEST
    left_behind(config, missed, fill_s=86_400)
    sampled = [0]
    with running(config) as agent:
        while sampled[-1] < missed:
            report = agent.report()
            assert report is not None, "the agent did not answer within a second"
            stream = report.streams["motion"]
            assert stream.counted == 0  # nobody counts: what was sampled waits or was dropped
            sampled.append(stream.sampled)
        assert stream.dropped > 0
    assert len(set(sampled)) > 10


@pytest.mark.parametrize(("fill_s", "filled"), [(3_600, True), (60, False), (0, False)])
def test_an_absence_beyond_the_limit_is_left_as_it_is(tmp_path: Path, fill_s: int, filled: bool) -> None:
    config = write_config(tmp_path, publish="beat_ms = 50")
    watermark = left_behind(config, 50_000, fill_s=fill_s)
    with running(config) as agent:
        wait_until(lambda: agent._outbox.balances["motion"].watermark > watermark + 50_000)
    outbox = Outbox(load(config, {}).folder, max_bytes=10**9, max_age_s=10**6)
    balance = outbox.balances["motion"]
    assert balance.watermark > watermark
    assert (balance.sampled > 50_000) == filled
    assert len(balance.waiting) == (1 if filled else 2)
    outbox.close()


def test_an_absence_is_filled_with_the_setting_that_was_in_force_before(
    nats: BrokerProcess, tmp_path: Path
) -> None:
    """A setting that came while the device was off, or runs, is carried by no tick before it: those are refused."""
    config = write_config(tmp_path, nats.port, publish=BEAT)
    watermark = left_behind(config, 2 * LONGEST)
    with Peer(nats) as peer:
        peer.push(policy())
        since = time.time_ns() // (PERIOD_MS * 1_000_000)
        peer.push(noise(2))
        with running(config):
            wait_until(lambda: peer.batches and peer.batches[-1].noise == 2)
            then = time.time_ns() // (PERIOD_MS * 1_000_000)
            peer.push(noise(3))
            wait_until(lambda: peer.batches[-1].noise == 3)
        firsts = {number: [b.first for b in peer.batches if b.noise == number] for number in (1, 2, 3)}
        assert min(firsts[1]) == watermark
        assert len(firsts[1]) > 2 * LONGEST // 1_000
        assert since <= min(firsts[2]) <= max(firsts[2]) <= min(firsts[3])
        assert then <= min(firsts[3])
        counted = sorted(peer.counted["motion"])
        assert counted == list(range(watermark, counted[-1] + 1))


def test_killed_while_it_catches_up_it_goes_on_with_the_setting_of_before(
    nats: BrokerProcess, tmp_path: Path
) -> None:
    """A setting that came meanwhile was received and not followed: no tick of the absence carries it."""
    config, log = write_config(tmp_path, nats.port, publish=BEAT), tmp_path / "log"
    watermark = left_behind(config, 6 * LONGEST)
    with Peer(nats) as peer:
        peer.push(policy())
        since = time.time_ns() // (PERIOD_MS * 1_000_000)
        peer.push(noise(2))
        code = CRASH.format(
            module="hushmq.agent.accept_settings", owner="Settings", name="_store", after=True, nth=1
        )
        with process(config, code=code, log=log) as child:
            assert child.wait(30) == -signal.SIGKILL
        with running(config):
            wait_until(lambda: peer.batches and peer.batches[-1].noise == 2, 60)
        assert min(batch.first for batch in peer.batches if batch.noise == 2) >= since
        counted = sorted(peer.counted["motion"])
        assert counted == list(range(watermark, counted[-1] + 1))
