"""Faults around a device, on both brokers. After each, sampled = counted + buffered + dropped."""

from __future__ import annotations

import io
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hushmq.agent.agent_config import load
from hushmq.agent.sources.tick import Clock
from hushmq.agent.status_socket import read_report
from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import Audiences
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision.access_rights import Identity, Rights, rights
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from tests.agent.peer import (
    CALIBRATOR,
    DEVICE,
    NARROW,
    OPS,
    Peer,
    noise,
    policy,
    sign,
    wait_until,
    write_config,
)
from tests.agent.running import nursery, process, running
from tests.agent.steps import STAGES, ending, recording


def report(config: Path) -> dict[str, Any]:
    return read_report(load(config, {}).folder) or {"streams": {"motion": {}}}


def motion(config: Path, name: str) -> int:
    found: int = report(config)["streams"]["motion"].get(name, 0)
    return found


def more_counted(peer: Peer, ticks: int = 100) -> None:
    target = peer.total() + ticks
    wait_until(lambda: peer.total() > target, 40)


def balanced_at_the_end(peer: Peer) -> tuple[int, int, int]:
    """Check that the last status is offline and balanced; return (sampled, buffered, dropped)."""
    wait_until(lambda: peer.status is not None and not peer.status.online and peer.status.streams)
    wait_until(peer.balanced)
    assert peer.no_tick_was_made_twice()
    assert peer.status is not None
    said = peer.status.streams["motion"]
    return said.sampled, said.buffered, said.dropped


@contextmanager
def settled(server: BrokerProcess, *, listening: bool = True) -> Iterator[Peer]:
    """A peer that has pushed a policy and noise for it."""
    with Peer(server, listening=listening) as peer:
        peer.push(policy())
        peer.push(noise())
        yield peer


def test_broker_killed_and_restarted(broker: BrokerProcess, tmp_path: Path) -> None:
    """Ticks sampled meanwhile wait and arrive; none is dropped."""
    config = write_config(tmp_path, broker.port)
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
            broker.kill()
            wait_until(lambda: motion(config, "buffered") > 200)
            broker.start()
            more_counted(peer, 400)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


def test_broker_unreachable_longer_than_the_outbox_holds(broker: BrokerProcess, tmp_path: Path) -> None:
    """The oldest batches are dropped, and every dropped tick is counted as such."""
    config = write_config(
        tmp_path, broker.port, publish="beat_ms = 20", sections="[outbox]\nmax_bytes = 1024"
    )
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
            broker.kill()
            sent = motion(config, "buffered")  # ticks that may have reached the broker and be counted
            wait_until(lambda: motion(config, "dropped") > sent + 100)
            broker.start()
            more_counted(peer)
        _, _, dropped = balanced_at_the_end(peer)
        assert dropped > 100


CRASH = """
import os, signal
signal.alarm(30)
from {module} import {owner}
def sabotage():
    real, calls = {owner}.{name}, 0
    def wrapped(*arguments, **named):
        nonlocal calls
        calls += 1
        if calls == {nth} and not {after}:
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(*arguments, **named)
        if calls == {nth}:
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    {owner}.{name} = wrapped
sabotage()
"""

EFFECTS = """
agent/storage/outbox.py Outbox._transaction before execute
agent/storage/outbox.py Outbox._add before execute
agent/storage/outbox.py Outbox._forget after execute
agent/storage/outbox.py Outbox._save after execute
agent/storage/outbox.py Outbox._transaction after execute
for us, Path.write_bytes before write
agent/storage/outbox_mark.py replace_durably after fsync
for us, Path.replace before replace
for us, Client._sock_send before send
for us, Client._sock_send after send
""".strip().splitlines()
"""Steps that must be among those found; otherwise the observation is broken."""

PARTS = {"nats": 0, "mosquitto": 1}
"""Effects are tried with both brokers, every other step with one of them (HUSHMQ_EVERY_STEP: with both)."""


@pytest.mark.timeout(600)
def test_killed_at_each_step_between_sample_and_acknowledgement(
    broker: BrokerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Processes run one after another, each killed at the next step; no tick is used twice or unaccounted for."""
    part = PARTS[request.node.callspec.params["broker"]]
    every = bool(os.environ.get("HUSHMQ_EVERY_STEP"))
    config, log = write_config(tmp_path, broker.port, publish="beat_ms = 50"), tmp_path / "log"
    with settled(broker) as peer:
        with nursery(config, log) as live:
            assert live(recording(tmp_path / "steps")) == -signal.SIGKILL, log.read_text()
            steps = sorted((tmp_path / "steps").read_text().splitlines())
            assert set(EFFECTS) <= set(steps)
            assert {step.split(" ")[-1] for step in steps} >= set(STAGES.split())
            for number, step in enumerate(steps):
                if every or step in EFFECTS or number % len(PARTS) == part:
                    assert live(ending(step)) == -signal.SIGKILL, f"{step} was never reached"
        with process(config, log=log) as child:
            more_counted(peer)
            wait_until(lambda: 0 < motion(config, "buffered") < 500, 60)  # absences were filled: much to send
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


class Proxy:
    """A TCP proxy that can start to discard everything on its connections, without closing them."""

    def __init__(self, port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._target = port
        self._era = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        self._era += 1

    def close(self) -> None:
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink, self._era), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, era: int) -> None:
        try:
            while chunk := source.recv(65_536):
                if era == self._era:
                    sink.sendall(chunk)
            if era == self._era:
                sink.shutdown(socket.SHUT_WR)
        except OSError:
            return


def test_half_open_connection_that_swallows_bytes(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device notices missing acknowledgements, reconnects and sends the lost batches again."""
    monkeypatch.setattr("hushmq.broker.mqtt.link.ACKNOWLEDGE_TIMEOUT", 0.7)
    proxy = Proxy(broker.port)
    config = write_config(tmp_path, proxy.port)
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
            proxy.swallow()
            wait_until(lambda: motion(config, "buffered") > 200)
            more_counted(peer, 300)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)
    proxy.close()


def test_publishes_that_the_broker_denies(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to publish nothing is delivered, whether the broker acknowledges it all the same (NATS, MQTT
    3.1.1) or refuses it (Mosquitto, MQTT 5): all batches wait, and arrive later.
    """

    def mute(cohort: str, identity: Identity, prefix: str) -> Rights:
        found = rights(cohort, identity, prefix)
        kept = tuple(topic for topic in found.publish if "/z/" not in topic)
        return Rights(kept, found.subscribe) if identity.role == "device" else found

    broker.stop()
    with monkeypatch.context() as patch:
        patch.setattr("hushmq.broker.provision.access_rights.rights", mute)
        broker.start()
    config = write_config(tmp_path, broker.port)
    with settled(broker) as peer:
        with running(config):
            wait_until(lambda: report(config).get("batches_sent", 0) > 10)
            wait_until(
                lambda: (report(config)["batches_acknowledged"] > 10) == isinstance(broker, NatsServer)
            )
            assert peer.total() == 0
            assert motion(config, "counted") == 0
            broker.stop()
            broker.start()
            more_counted(peer)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)
        assert len(peer.payloads) > 10


def test_broker_that_forgets_acknowledged_messages(broker: BrokerProcess, tmp_path: Path) -> None:
    """A broker without subscribers acknowledges and discards batches; without `seen` the device sends them again."""
    config = write_config(tmp_path, broker.port)
    with settled(broker, listening=False) as peer:
        with running(config):
            wait_until(lambda: report(config).get("batches_acknowledged", 0) > 10)
            peer.listen()
            wait_until(lambda: motion(config, "counted") > 200)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


def test_duplicate_identity(broker: BrokerProcess, tmp_path: Path) -> None:
    """Another client with the same credentials and client id disconnects the device repeatedly; nothing is lost."""
    config = write_config(tmp_path, broker.port)
    thrown_off: list[bool] = []
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
            twin = Connection(
                endpoints=[broker.endpoint(DEVICE)],
                client_id=f"test-{DEVICE}",
                on_change=thrown_off.append,
                log=logger("error", "json", io.StringIO()),
            )
            twin.start()
            wait_until(lambda: thrown_off.count(False) >= 2)
            twin.stop()
            more_counted(peer)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


def test_disk_full(broker: BrokerProcess, tmp_path: Path) -> None:
    """Ticks that are not stored are neither sent nor counted as sampled; with free space the device continues."""
    config = write_config(tmp_path, broker.port)
    with settled(broker) as peer, process(config, log=tmp_path / "log") as child:
        more_counted(peer)
        log_of_outbox = load(config, {}).folder / "outbox.db-wal"
        free = resource.prlimit(child.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (log_of_outbox.stat().st_size, free[1]))
        wait_until(lambda: report(config).get("ticks_not_stored", 0) > 100)
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, free)
        more_counted(peer)
        child.send_signal(signal.SIGTERM)
        assert child.wait(5) == 0
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


def test_outbox_corrupt(broker: BrokerProcess, tmp_path: Path) -> None:
    """A corrupt outbox is renamed and reported; no tick is used twice; its ticks are dropped, or were counted."""
    config, log = write_config(tmp_path, broker.port), tmp_path / "log"
    # A short reservation, so that the test does not wait until it has passed.
    code = (
        "from hushmq.agent.storage.outbox import Outbox\nOutbox.__init__.__kwdefaults__['reserve_ms'] = 200"
    )
    with settled(broker) as peer:
        with process(config, code=code, log=log) as child:
            more_counted(peer)
            broker.stop()
            sent = motion(config, "buffered")  # ticks that may have reached the broker and be counted
            wait_until(lambda: motion(config, "buffered") > sent + 100)
            child.kill()
            child.wait()
        folder = load(config, {}).folder
        (folder / "outbox.db-wal").unlink()
        (folder / "outbox.db").write_bytes(b"rubbish" * 10_000)
        broker.start()
        with process(config, code=code, log=log) as child:
            more_counted(peer)
            assert list(folder.glob("outbox.corrupt-*.db"))
            assert "outbox_corrupt" in log.read_text()
            wait_until(lambda: 0 < motion(config, "buffered") < 500, 60)  # absences were filled: much to send
            child.send_signal(signal.SIGTERM)
            assert child.wait(5) == 0
        _, buffered, dropped = balanced_at_the_end(peer)
        assert buffered == 0
        assert dropped >= 100


def test_poisoned_stale_unsigned_and_weaker_settings(broker: BrokerProcess, tmp_path: Path) -> None:
    """Each is refused with its reason in `status`; sampling continues with the last valid setting."""
    config = write_config(tmp_path, broker.port)
    bad = [
        (b"\x00poison", "malformed"),
        (sign(noise(1, theta=NARROW)), "stale-version"),
        (sign(noise(9), OPS), "unknown-key"),
        (sign(noise(9)).replace(b'"version":9', b'"version":8'), "bad-signature"),
        (sign(noise(9, epsilon=2.1)), "loss-above-epsilon"),
        (sign(noise(9, policy=5)), "policy-mismatch"),
        (encode(noise(9)), "malformed"),
    ]
    bad_policies = [
        (b"{}", "malformed"),
        (encode(policy(2)), "malformed"),
        (sign(policy(2), CALIBRATOR), "unknown-key"),
        (sign(policy(1, epsilon=Audiences(operator=3.0, public=1.0))), "stale-version"),
        (sign(policy(2, epsilon=Audiences(operator=4.1, public=1.0))), "epsilon-above-cap"),
        (sign(policy(2, period_ms=4)), "period-changed"),
    ]
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
            for payload, reason in bad:
                peer.push(payload, peer.topics.noise("motion"))

                def refused(reason: str = reason) -> bool:
                    said = peer.status.streams["motion"].refused if peer.status else None
                    return said is not None and said.reason == reason

                wait_until(refused)
            for payload, reason in bad_policies:
                peer.push(payload, by="ops")

                def told_of_policy(reason: str = reason) -> bool:
                    said = peer.status.refused if peer.status else None
                    return said is not None and said.reason == reason

                wait_until(told_of_policy)
            more_counted(peer)
            assert {batch.noise for batch in peer.batches} == {1}
            peer.push(policy())
            peer.push(noise(10, theta=NARROW))
            wait_until(lambda: peer.batches[-1].noise == 10)
        balanced_at_the_end(peer)
        assert peer.status is not None
        assert (peer.status.refused, peer.status.streams["motion"].refused) == (None, None)


def test_clock_jumps_both_ways(broker: BrokerProcess, tmp_path: Path) -> None:
    """Set back: used ticks are not used again, and it is logged. Set forward by more than is filled: a gap."""
    offset = [0]
    clock = Clock(wall=lambda: time.time_ns() + offset[0], steady=time.monotonic_ns)
    log = io.StringIO()
    config = write_config(tmp_path, broker.port)
    with settled(broker) as peer:
        with running(config, clock=clock, log=log):
            more_counted(peer)
            offset[0] = -3_000_000_000
            wait_until(lambda: "clock_set_back" in log.getvalue())
            wait_until(lambda: motion(config, "buffered") == 0)
            highest = max(peer.counted["motion"])
            time.sleep(0.3)
            assert max(peer.counted["motion"]) == highest
            more_counted(peer)
            highest = max(peer.counted["motion"])
            offset[0] = 4_200_000_000_000
            wait_until(lambda: "clock_set_forward" in log.getvalue())
            more_counted(peer)
        jumped = [tick for tick in peer.counted["motion"] if highest + 2_000 < tick < highest + 2_000_000]
        assert jumped == []
        balanced_at_the_end(peer)


def test_a_device_without_broker_samples_with_its_last_valid_settings(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Restarted while the broker is down, the device samples; the batches arrive when the broker is back."""
    config = write_config(tmp_path, broker.port)
    with settled(broker) as peer:
        with running(config):
            more_counted(peer)
        broker.stop()
        with running(config):
            wait_until(lambda: motion(config, "buffered") > 100)
            broker.start()
            more_counted(peer, 200)
        _, buffered, dropped = balanced_at_the_end(peer)
        assert (buffered, dropped) == (0, 0)


def test_several_brokers_are_tried_in_turn(nats: BrokerProcess, tmp_path: Path) -> None:
    """If the first address does not answer, the device connects to the second within seconds."""
    config = write_config(tmp_path, nats.port)
    text = config.read_text()
    config.write_text(text.replace("urls = [", 'urls = ["mqtt://127.0.0.1:1", '))
    assert load(config, {}).broker.endpoints()[0] == Endpoint("127.0.0.1", 1, DEVICE, f"{DEVICE}-secret")
    with settled(nats) as peer:
        with running(config):
            more_counted(peer)
        balanced_at_the_end(peer)
