"""`hushmq calibrator run` as a process, with real brokers."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from hushmq.broker.contract.policy_message import Assumption, Window
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import ROOT, shard
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from tests.calibrator.conftest import Databases
from tests.calibrator.running import Client, process, write_config
from tests.calibrator.settings.test_device_rounds import DEVICES, regions
from tests.calibrator.settings.test_device_settings import POLICY, believe
from tests.calibrator.site import (
    STRANGER,
    STREAM,
    TOPICS,
    batch,
    desk,
    policy,
    signed,
    sqlite,
    states,
    wait_until,
)

EVERYTHING = f"{ROOT}/test/#"
QUICK = {"period_ms": 10, "windows": {"short": Window(ticks=100)}}
"""Windows of one second."""


def tick() -> int:
    return time.time_ns() // 10_000_000


def begun_window() -> int:
    """The first tick of a window that began a moment ago: a batch of its first ticks lies in one window."""
    wait_until(lambda: 10 <= tick() % 100 < 30)
    return tick() // 100 * 100


def send(broker: BrokerProcess, device: str, first: int, count: int = 10) -> bytes:
    """One batch of a device, as the device would send it."""
    payload = batch(first, states(count, seed=first))
    with Client(broker, device) as client:
        client.say(TOPICS.batch(device, STREAM), payload)
    return payload


def test_from_batch_to_release(broker: BrokerProcess, tmp_path: Path) -> None:
    """Policy in, setting out; batch in, seen out; window over, release and ledger out; SIGTERM ends it well."""
    with Client(broker, "ops", EVERYTHING) as ops, process(write_config(tmp_path, broker)) as child:
        ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
        ops.wait_for_setting()
        first = begun_window()
        for device in ("wearable-1", "wearable-2"):
            send(broker, device, first)
        wait_until(lambda: all(ops.seen(f"wearable-{n}") for n in (1, 2)))
        assert ops.seen("wearable-1").streams[STREAM].highest == first + 9
        wait_until(ops.releases)
        assert ops.releases()[0].first <= first <= ops.releases()[0].last
        wait_until(lambda: (one := ops.ledger()) is not None and one.entries >= 1)
        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0


def test_windows_close_under_very_slow_chains(broker: BrokerProcess, tmp_path: Path) -> None:
    """People who are at home for a day, at one sample a second: the loop goes on from window to window, informed."""
    slow = Assumption(
        start=theta_message(BinaryTheta(1e-5, 0.45, 1e-5, 0.45)),
        floor=theta_message(BinaryTheta(0.01, 0.02, 0.01, 0.02)),
    )
    wanted = policy(**QUICK, theta=slow, adversary="informed")
    with Client(broker, "ops", EVERYTHING) as ops, process(write_config(tmp_path, broker)):
        ops.say(TOPICS.policy, signed(wanted), retain=True)
        ops.wait_for_setting()
        for count in (1, 2, 3):
            send(broker, "wearable-1", begun_window())
            wait_until(lambda count=count: len(ops.releases()) >= count)
        wait_until(lambda: (one := ops.ledger()) is not None and one.entries >= 3 and one.public.loss > 0.0)


def test_batches_are_counted_in_the_middle_of_a_round(broker: BrokerProcess, tmp_path: Path) -> None:
    """Own settings of many devices are half made: a batch is counted and `seen`, what is made is published. Killed with
    -9 there and started again, the calibrator makes the others.
    """
    wanted = policy(period_ms=10, theta=POLICY.streams[STREAM].theta)
    config = write_config(tmp_path, broker)
    with desk(sqlite(tmp_path)) as here:
        here.adopt(wanted)
        believe(here, regions())
    half_way = """
import hushmq.calibrator.settings.device_rounds as r
step, made = r.DeviceRound._step, []
def until_two_are_made(self, db, maker):
    one = step(self, db, maker) if len(made) < 2 else None
    made.extend([one] if one else [])
    return one
r.DeviceRound._step = until_two_are_made
"""
    with Client(broker, "ops", EVERYTHING) as ops:

        def own() -> dict[str, bytes]:
            prefix = TOPICS.noise(STREAM) + "/"
            return {topic: heard[-1] for topic, heard in ops.heard.items() if topic.startswith(prefix)}

        with process(config, code=half_way) as child:
            wait_until(lambda: len(own()) == 2)
            send(broker, "wearable-1", begun_window())
            wait_until(lambda: ops.seen("wearable-1"))
            first = own()
            assert len(first) == 2
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        with process(config):
            wait_until(lambda: len(own()) == DEVICES)
            assert {topic: own()[topic] for topic in first} == first
            wait_until(ops.ledger)


def test_kill_9_between_charge_and_publication(broker: BrokerProcess, tmp_path: Path) -> None:
    """Killed when the release is charged and not yet handed over: after the restart the stored bytes appear.

    The first process cannot publish releases at all; it is killed when the debit is durable.
    """
    config = write_config(tmp_path, broker)
    deaf = "import hushmq.calibrator.cohort as c; c.Cohort.unsent = lambda self: []"
    with Client(broker, "ops", EVERYTHING) as ops:
        with process(config, code=deaf) as child:
            ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
            ops.wait_for_setting()
            send(broker, "wearable-1", begun_window())
            wait_until(lambda: (one := ops.ledger()) is not None and one.entries >= 1)
            child.send_signal(signal.SIGKILL)
            child.wait(10)
        assert ops.releases() == []
        stored = stored_releases(tmp_path)
        with process(config):
            wait_until(ops.releases)
        with process(config):
            wait_until(lambda: ops.seen("wearable-1"))
        heard = {payload for topic, all_ in ops.heard.items() if "/release/" in topic for payload in all_}
        assert heard == stored


def stored_releases(folder: Path) -> set[bytes]:
    import sqlite3

    db = sqlite3.connect(folder / "ledger.db")
    try:
        return {payload for (payload,) in db.execute("SELECT payload FROM release")}
    finally:
        db.close()


def test_seen_is_told_again_after_a_restart(broker: BrokerProcess, tmp_path: Path) -> None:
    """A device that missed `seen`, because the broker lost it, hears it again when the calibrator restarts."""
    config = write_config(tmp_path, broker)
    with Client(broker, "ops", EVERYTHING) as ops:
        with process(config):
            ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
            ops.wait_for_setting()
            send(broker, "wearable-1", begun_window())
            wait_until(lambda: ops.seen("wearable-1"))
        told = len(ops.heard[TOPICS.seen("wearable-1")])
        with process(config):
            wait_until(lambda: len(ops.heard[TOPICS.seen("wearable-1")]) > told)


def test_a_stranger_cannot_change_the_policy(nats: BrokerProcess, tmp_path: Path) -> None:
    """A policy signed by an unknown key makes no setting; the true one afterwards does."""
    with Client(nats, "ops", EVERYTHING) as ops, process(write_config(tmp_path, nats)):
        ops.say(TOPICS.policy, signed(policy(7, **QUICK), STRANGER), retain=True)
        wait_until(lambda: "unknown-key" in (tmp_path / "log").read_text())
        assert ops.setting() is None
        ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
        ops.wait_for_setting()


def test_it_waits_for_a_broker_that_comes_later(nats: BrokerProcess, tmp_path: Path) -> None:
    """Started before the broker, it connects when the broker comes up, and goes on after the broker was killed."""
    config = write_config(tmp_path, nats)
    nats.kill()
    with process(config):
        wait_until(lambda: "broker_unusable" in (tmp_path / "log").read_text())
        nats.start()
        with Client(nats, "ops", EVERYTHING) as ops:
            ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
            ops.wait_for_setting()
            nats.kill()
            nats.start()
            send(nats, "wearable-1", begun_window())
            wait_until(lambda: ops.seen("wearable-1"))


def test_two_calibrators_share_a_cohort(
    nats: BrokerProcess, tmp_path: Path, postgres_databases: Databases
) -> None:
    """On one PostgreSQL, each with half of the shards: every device is seen, every window charged and released once."""
    url = postgres_databases.fresh()
    low, high = '"0", "1", "2", "3", "4", "5", "6", "7"', '"8", "9", "a", "b", "c", "d", "e", "f"'
    configs = [
        write_config(tmp_path / name, nats, database=url, top=f'name = "{name}"\nshards = [{shards}]')
        for name, shards in (("one", low), ("two", high))
    ]
    devices = [f"wearable-{n}" for n in (1, 2, 3)]
    assert {shard(device) in "01234567" for device in devices} == {True, False}
    with Client(nats, "ops", EVERYTHING) as ops, process(configs[0]), process(configs[1]):
        ops.say(TOPICS.policy, signed(policy(**QUICK)), retain=True)
        ops.wait_for_setting()
        first = tick() // 100 * 100 - 50
        for device in devices:
            send(nats, device, first)
        wait_until(lambda: all(ops.seen(device) for device in devices))
        wait_until(ops.releases)
        send(nats, devices[0], first + 300)
        wait_until(lambda: len({one.entry for one in ops.releases()}) >= 2)
        found = ops.releases()
        assert len({(one.first, one.entry) for one in found}) == len({one.first for one in found})
