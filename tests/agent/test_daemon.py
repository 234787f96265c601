"""The agent with a real broker and a peer that counts its batches."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from hushmq.broker.contract.messages import Status
from hushmq.broker.contract.policy_message import Audiences
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.agent.peer import Peer, noise, policy, stream_policy, wait_until, write_config
from tests.agent.running import process, running
from tests.broker.scripted import Proxy


def test_every_sample_is_counted_or_accounted_for(broker: BrokerProcess, tmp_path: Path) -> None:
    """Without faults, all sampled ticks are counted, none waits and none is dropped."""
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
    """With a policy but without a noise setting, no batch is published."""
    with Peer(broker) as peer:
        peer.push(policy())
        with running(write_config(tmp_path, broker.port)):
            wait_until(lambda: peer.status is not None and peer.status.policy == 1)
            time.sleep(0.3)
            assert peer.total() == 0
            peer.push(noise())
            wait_until(lambda: peer.total() > 0)


def test_sigterm_ends_the_process_with_a_true_last_status(broker: BrokerProcess, tmp_path: Path) -> None:
    """After SIGTERM the exit code is 0 within five seconds, and the retained status is offline with true counters."""
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


def test_sigterm_ends_the_process_in_time_whatever_the_brokers_do(
    broker: BrokerProcess, gateway: BrokerProcess, tmp_path: Path
) -> None:
    """With brokers that discard everything without closing, the exit code is still 0 within five seconds."""
    password = tmp_path / "gateway-password"
    password.touch(mode=0o600)
    password.write_text("home-secret")
    with Proxy(broker.endpoint("wearable-1")) as proxy, Proxy(gateway.endpoint("home")) as near:
        sources = "".join(
            f"""[streams.{name}.source]
kind = "mqtt"
url = "mqtt://127.0.0.1:{near.port}"
topic = "{name}"
username = "home"
password_file = "{password}"
"""
            for name in ("sound", "light", "door")
        )
        config = write_config(
            tmp_path, proxy.port, publish="beat_ms = 50\nlinger_ms = 2500", sections=sources
        )
        everything = policy().model_copy(
            update={
                "streams": dict.fromkeys(
                    ("motion", "sound", "light", "door"), stream_policy(independent=True)
                )
            }
        )
        with Peer(broker) as peer, process(config, log=tmp_path / "log") as child:
            peer.push(everything)
            peer.push(noise())
            wait_until(lambda: peer.total() > 100)
            proxy.silent = near.silent = True
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0


def test_the_last_will_reports_a_killed_device_as_offline(broker: BrokerProcess, tmp_path: Path) -> None:
    """After kill -9 the retained status is offline, with nothing else."""
    with Peer(broker) as peer, process(write_config(tmp_path, broker.port), log=tmp_path / "log") as child:
        wait_until(lambda: peer.status is not None and peer.status.online)
        child.kill()
        wait_until(lambda: peer.status == Status(online=False))


def test_an_agent_that_hides_its_presence_works_and_leaves_no_trace_of_its_end(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Killed, started and stopped: everything is counted, the absence is filled, and no status says that it ended."""
    config = write_config(tmp_path, broker.port, publish='beat_ms = 50\npresence = "hidden"')
    with Peer(broker) as peer:
        peer.push(policy())
        peer.push(noise())
        with process(config, log=tmp_path / "log") as child:
            wait_until(lambda: peer.total() > 100 and peer.statuses)
            child.kill()
        with process(config, log=tmp_path / "log") as child:
            more, statuses = peer.total() + 200, len(peer.statuses)
            wait_until(lambda: peer.total() > more and len(peer.statuses) > statuses)
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        assert peer.no_tick_was_made_twice()
        counted = sorted(peer.counted["motion"])
        assert counted == list(range(counted[0], counted[-1] + 1))
        assert {status.online for status in peer.statuses} == {None}


def test_an_outbox_damaged_while_running_is_renamed_and_the_agent_continues(
    nats: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The damage is found at the next read or commit; waiting ticks are dropped and counted, no tick is used twice."""
    config = write_config(tmp_path, nats.port)
    with Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        with running(config) as agent:
            # So that the test does not wait until the reservation has passed.
            agent._outbox._mark._reserve_ms = 100
            wait_until(lambda: peer.total() > 100)
            nats.stop()
            wait_until(lambda: agent._outbox.balances["motion"].buffered > 300)
            outbox, commit = agent._outbox, agent._outbox.commit

            def damage_then_commit(*args: Any, **options: Any) -> None:
                """Overwrite every page but the first on the agent's own thread, with nothing left in log or cache."""
                monkeypatch.setattr(outbox, "commit", commit)
                outbox._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                with (tmp_path / "state" / "outbox.db").open("r+b") as file:
                    for place in range(4096, file.seek(0, 2), 4096):
                        file.seek(place)
                        file.write(b"\xaa" * 1024)
                outbox._db.execute("PRAGMA shrink_memory")
                commit(*args, **options)

            monkeypatch.setattr(outbox, "commit", damage_then_commit)
            nats.start()
            wait_until(lambda: list((tmp_path / "state").glob("outbox.corrupt-*.db")))
            before = peer.total()
            wait_until(lambda: peer.total() > before + 100)
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())
        assert peer.no_tick_was_made_twice()


def test_a_new_policy_keeps_the_source_where_the_period_stays(nats: BrokerProcess, tmp_path: Path) -> None:
    """A recording continues where it was: a policy with another ε does not restart it."""
    config = write_config(tmp_path, nats.port)
    with Peer(nats) as peer:
        peer.push(policy())
        peer.push(noise())
        with running(config) as agent:
            wait_until(lambda: peer.total() > 50)
            source = agent._streams.running["motion"].source
            peer.push(policy(2, epsilon=Audiences(operator=3.0, public=1.0)))
            peer.push(noise(2, policy=2))
            wait_until(lambda: peer.batches[-1].noise == 2)
            assert agent._streams.running["motion"].source is source
        wait_until(lambda: peer.status is not None and not peer.status.online and peer.balanced())
