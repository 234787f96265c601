"""An outage of the calibrator: 2,000 devices go on, each sends again what is not seen, and then it comes back.

The broker queues for the calibrator's session what the devices send: a batch for every beat of ten seconds, and
everything again when a batch was not seen within the resend time, which doubles (agent/publish.py). One sender speaks
for all devices. Measured are the time until every tick is counted once, and the calibrator's processor time. The
default is an hour; HUSHMQ_OUTAGE_MINUTES says another number.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from paho.mqtt.client import MQTTMessageInfo

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess, write_private
from hushmq.broker.provision.mosquitto import MosquittoServer, executable
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.evaluation.benchmarks.ingest_speed import STATES as COUNTED_IN
from hushmq.evaluation.benchmarks.ingest_speed import (
    STREAM,
    OpenServer,
    T,
    calibrator_process,
    client,
    policy,
)
from hushmq.evaluation.benchmarks.load_processes import child, receive

DEVICES = 2_000
MINUTES = float(os.environ.get("HUSHMQ_OUTAGE_MINUTES", "60"))
BEAT_S, RESEND_S, LONGEST_S = 10, 60, 3_600
STATES = 10
"""In a batch: so few that an hour of batches is within a minute of ticks, as a setting was issued just now."""
PATIENCE_S = 7_200.0
IN_FLIGHT = 1_000


class OpenMosquitto(MosquittoServer):
    """A broker on which one sender may speak for every device."""

    def write_configuration(self) -> Path:
        file = super().write_configuration()
        write_private(
            self.folder / "acl",
            "".join(f"user {one.name}\ntopic readwrite #\n" for one in self.site.identities),
        )
        return file


def run(*, devices: int = DEVICES, minutes: float = MINUTES) -> Iterator[Row]:
    for name, kind in (("NATS", OpenServer), ("Mosquitto", OpenMosquitto)):
        if kind is OpenMosquitto:
            try:
                executable()
            except Problem as problem:
                yield Row(f"{name}: an outage of the calibrator", None, "", str(problem))
                return
        with tempfile.TemporaryDirectory(prefix="hushmq-outage-") as folder:
            yield from _outage(name, kind, Path(folder), devices, minutes)


def sent_by_one(minutes: float) -> list[int]:
    """The numbers of the batches that a device sends in an outage, in order: new ones, and all that wait again."""
    found: list[int] = []
    again = wait = RESEND_S
    for made in range(1, int(minutes * 60) // BEAT_S + 1):
        second = made * BEAT_S
        found.append(made)
        if second >= again:
            found += range(1, made + 1)
            wait = min(2 * wait, LONGEST_S)
            again = second + wait
    return found


def _outage(
    name: str, kind: type[BrokerProcess], folder: Path, devices: int, minutes: float
) -> Iterator[Row]:
    roles = (("ops", "ops"), ("calibrator", "calibrator"))
    site = Site(T.cohort, tuple(Identity(role, one, "secret") for role, one in roles))  # type: ignore[arg-type]  # both are roles
    ops, key = PrivateKey.generate(), PrivateKey.generate()
    (folder / "password").touch(mode=0o600)
    (folder / "password").write_text("secret")
    key.save(folder / "key")
    numbers = sent_by_one(minutes)
    with kind(site, folder / "broker") as broker:
        sender = client(broker.port, "sender", "ops", in_flight=100)
        sender.publish(T.policy, encode(ops.sign(policy())), qos=1, retain=True).wait_for_publish(10)
        with child(calibrator_process, folder, broker.port, str(ops.public)) as ours:
            process = int(receive(ours))
            os.kill(process, signal.SIGSTOP)
            began = time.monotonic()
            first = int(time.time() * 1000) // policy().streams[STREAM].period_ms - STATES * (
                max(numbers) + 1
            )
            _send(sender.publish, numbers, devices, first)
            queued_s = time.monotonic() - began
            os.kill(process, signal.SIGCONT)
            began, wanted = time.monotonic(), devices * max(numbers) * STATES
            while True:
                ours.send("spent")
                hundreds, spent = receive(ours)
                counted = hundreds * COUNTED_IN
                if counted >= wanted:
                    break
                if time.monotonic() - began > PATIENCE_S:
                    raise RuntimeError(f"{counted} of {wanted} ticks were counted")
                time.sleep(0.2)
            took = time.monotonic() - began
        sender.disconnect()
        sender.loop_stop()
    messages = len(numbers) * devices
    what = f"{name}: {devices:,} devices, {minutes:g} minutes without a calibrator"
    yield Row(f"{what}: ticks", wanted, "ticks", f"{messages:,} messages, with those sent again")
    yield Row(f"{name}: the broker takes them", messages / queued_s, "messages/s")
    yield Row(
        f"{name}: until all are counted", took, "s", f"{spent:.1f} s of the calibrator's processor time"
    )
    yield Row(f"{name}: counted twice or lost", counted - wanted, "ticks", aim="0")


def _send(publish: object, numbers: list[int], devices: int, first: int) -> None:
    states, handed = pack([n % 3 & 1 for n in range(STATES)]), list[MQTTMessageInfo]()
    for number in numbers:
        at = first + (number - 1) * STATES
        after = None if number == 1 else at - 1
        payload = encode(Batch(first=at, after=after, count=STATES, states=states, noise=1))
        for device in range(devices):
            handed.append(publish(T.batch(f"device-{device}", STREAM), payload, qos=1))  # type: ignore[operator]  # paho's
            if len(handed) >= IN_FLIGHT:
                handed.pop(0).wait_for_publish(60)
    for one in handed:
        one.wait_for_publish(60)
