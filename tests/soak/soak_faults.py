"""The faults of the soak. Each is made, lasts some seconds at most, and leaves everything running."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator

import psycopg

from hushmq.broker.contract.messages import Batch, encode
from hushmq.broker.contract.packing import pack
from hushmq.broker.mqtt.connection import Connection, Offline
from tests.calibrator.running import Client
from tests.calibrator.site import OPS, TOPICS
from tests.mutations import mutated
from tests.soak.soak_site import APART, BAD, TWIN, SoakSite, policy

LASTS_S = 4.0
"""How long something stands still, is locked or away."""


SOCKETS = shutil.ignore_patterns("*.sock")


class Memory:
    """What was kept of broker, database and a device, to come back later."""

    def __init__(self, site: SoakSite) -> None:
        self.broker = site.folder / "kept-broker"
        self.database = site.calibrator_toml.parent / "kept.db"
        self.database_kept = False
        self.image = site.folder / "kept-device"
        self.image_of: str | None = None
        self.aged: set[str] = set()
        """Devices that have lost what they had sampled."""
        self.restored = 0
        """How often the database came back older."""
        self.reconciled = 0


class Faults:
    """All kinds, drawn in turn: each kind once before any comes again."""

    def __init__(self, site: SoakSite) -> None:
        self._site, self.memory = site, Memory(site)
        self.kinds: dict[str, Callable[[], None]] = {
            "device killed": self._device_killed,
            "device stands still": self._device_stands_still,
            "outbox locked": self._outbox_locked,
            "outbox damaged": self._outbox_damaged,
            "device folder comes back older": self._device_comes_back_older,
            "device runs twice": self._twin,
            "bad device": self._bad_device,
            "calibrator killed": self._calibrator_killed,
            "calibrator stands still": self._calibrator_stands_still,
            "calibrator runs twice": self._calibrator_twice,
            "database away": self._database_away,
            "database locked": self._database_locked,
            "database comes back older": self._database_comes_back_older,
            "broker killed": self._broker_killed,
            "broker stands still": self._broker_stands_still,
            "broker comes back older": self._broker_comes_back_older,
            "retained garbage": self._retained_garbage,
            "new policy": site.push,
        }
        self._drawn = self._draw()

    def _draw(self) -> Iterator[str]:
        while True:
            kinds = list(self.kinds)
            self._site.rng.shuffle(kinds)
            yield from kinds

    def next(self) -> str:
        """Make the next fault; returns its kind."""
        kind = next(self._drawn)
        self.kinds[kind]()
        return kind

    def _some_device(self) -> str:
        return self._site.rng.choice([name for name in self._site.names if name not in APART])

    def _device_killed(self) -> None:
        names = {self._some_device() for _ in range(5)}
        for name in names:
            self._site.kill_device(name)
        time.sleep(self._site.rng.random() * LASTS_S)
        for name in names:
            self._site.start_device(name)

    def _device_stands_still(self) -> None:
        config = self._site.configs[self._some_device()]
        self._site.nursery.send(config, signal.SIGSTOP)
        time.sleep(LASTS_S)
        self._site.nursery.send(config, signal.SIGCONT)

    def _outbox_locked(self) -> None:
        path = self._site.configs[self._some_device()].parent / "state" / "outbox.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=120)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(LASTS_S)
            other.execute("ROLLBACK")

    def _outbox_damaged(self) -> None:
        name = self._some_device()
        self._site.kill_device(name)
        path = self._site.configs[name].parent / "state" / "outbox.db"
        with path.open("r+b") as file:
            file.seek(100)
            file.write(self._site.rng.randbytes(4000))
        self.memory.aged.add(name)
        self._site.start_device(name)

    def _device_comes_back_older(self) -> None:
        """Keep an image of a device first; then, where its `seen` is known to the broker, put it back."""
        memory, site = self.memory, self._site
        if memory.image_of is None:
            memory.image_of = self._some_device()
            site.kill_device(memory.image_of)
            shutil.copytree(site.configs[memory.image_of].parent / "state", memory.image, ignore=SOCKETS)
            site.start_device(memory.image_of)
            return
        name = memory.image_of
        site.kill_device(name)
        began, deadline = time.monotonic(), time.monotonic() + 180
        # The calibrator says `seen` again when it is connected: so it is there, and the broker has it.
        site.end_calibrator(signal.SIGTERM)
        site.start_calibrator()
        while site.observer.seen_at.get(name, 0.0) < began:
            if (
                time.monotonic() > deadline
            ):  # nothing prevents a tick from being used again then (docs/faults.md)
                site.start_device(name)
                return
            time.sleep(0.5)
        state = site.configs[name].parent / "state"
        shutil.rmtree(state)
        shutil.move(memory.image, state)
        memory.aged.add(name)
        memory.image_of = None
        site.start_device(name)

    def _twin(self) -> None:
        """A copy of a device's folder runs beside it, as a cloned card would."""
        site = self._site
        copy = site.folder / "twin"
        shutil.rmtree(copy, ignore_errors=True)
        site.kill_device(TWIN)
        shutil.copytree(site.configs[TWIN].parent, copy, ignore=SOCKETS)
        site.start_device(TWIN)
        site.nursery.start(copy / "agent.toml")
        time.sleep(LASTS_S)
        site.nursery.end(copy / "agent.toml")

    def _bad_device(self) -> None:
        """Somebody with a device's credentials sends hundreds of changed messages on all of its topics."""
        site, rng = self._site, self._site.rng
        tick = int(time.time() * 5)
        right = encode(Batch(first=tick, after=None, count=20, states=pack([0, 1] * 10), noise=1))
        topics = [
            TOPICS.batch(BAD, "motion"),
            TOPICS.batch(BAD, "activity"),
            TOPICS.batch(BAD, "unknown"),
            TOPICS.status(BAD),
            TOPICS.release("motion", "own", BAD),
        ]
        other = site.connected(BAD)
        for _ in range(500):
            _say(other, rng.choice(topics), mutated(right, rng))
        other.stop()

    def _calibrator_killed(self) -> None:
        self._site.end_calibrator()
        time.sleep(self._site.rng.random() * LASTS_S)
        self._site.start_calibrator()

    def _calibrator_stands_still(self) -> None:
        self._site.calibrator.send_signal(signal.SIGSTOP)
        time.sleep(LASTS_S)
        self._site.calibrator.send_signal(signal.SIGCONT)

    def _calibrator_twice(self) -> None:
        self._site.start_calibrator()
        time.sleep(2 * LASTS_S)
        self._site.end_calibrator()

    def _database_away(self) -> None:
        site = self._site
        if site.postgres is not None:
            site.postgres.stop()
            time.sleep(LASTS_S)
            site.postgres.start()
            return
        folder, away = site.calibrator_toml.parent, site.calibrator_toml.parent / "away"
        away.mkdir(exist_ok=True)
        site.calibrator.send_signal(signal.SIGSTOP)  # so that it does not write between two of the moves
        for source, target in ((folder, away), (away, folder)):
            for suffix in ("-wal", "-shm", ""):
                if (part := source / f"ledger.db{suffix}").exists():
                    part.rename(target / part.name)
            site.calibrator.send_signal(signal.SIGCONT)
            time.sleep(LASTS_S)

    def _database_locked(self) -> None:
        """SQLite locked by another process; in PostgreSQL a table that nobody gets at, so that all is slow."""
        site = self._site
        if site.postgres is not None:
            url = site.postgres.url(site.database).replace("+psycopg", "")
            with psycopg.connect(url) as db:
                db.execute("LOCK TABLE tally IN ACCESS EXCLUSIVE MODE")
                time.sleep(LASTS_S)
            return
        path = site.calibrator_toml.parent / "ledger.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=120)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(2 * LASTS_S)
            other.execute("ROLLBACK")

    def _database_comes_back_older(self) -> None:
        """Keep a backup first; then put it back, and ops sign what it lacks."""
        site, memory = self._site, self.memory
        site.end_calibrator()
        if not memory.database_kept:
            site.keep_database(memory.database)
            memory.database_kept = True
            site.start_calibrator()
            return
        site.restore_database(memory.database)
        memory.database_kept = False
        memory.restored += 1
        site.start_calibrator()
        time.sleep(LASTS_S)
        config, key = str(site.calibrator_toml), str(site.ops_key)
        answer = site.hushmq("ledger", "reconcile", "--config", config, "--key", key, "--yes", "--json")
        memory.reconciled += answer.returncode == 0
        if answer.returncode and "nothing is to be charged" not in answer.stderr:
            site.crashed.append(f"reconcile: {answer.stderr.strip()[-300:]}")

    def _broker_killed(self) -> None:
        self._site.broker.kill()
        time.sleep(self._site.rng.random() * LASTS_S)
        self._site.broker.start(60)

    def _broker_stands_still(self) -> None:
        pid = self._site.broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        time.sleep(LASTS_S)
        os.kill(pid, signal.SIGCONT)

    def _broker_comes_back_older(self) -> None:
        """Keep its store first; then put it back."""
        broker, kept = self._site.broker, self.memory.broker
        broker.kill()
        if kept.exists():
            shutil.rmtree(broker.folder)
            shutil.move(kept, broker.folder)
        else:
            shutil.copytree(broker.folder, kept)
        broker.start(60)

    def _retained_garbage(self) -> None:
        """Garbage, nothing, and an older policy on retained topics of every kind."""
        site, rng = self._site, self._site.rng
        device = self._some_device()
        topics = [
            *(TOPICS.noise(stream) for stream in ("motion", "activity")),
            TOPICS.seen(device),
            *(TOPICS.ledger(stream) for stream in ("motion", "activity")),
            TOPICS.release("motion", "all", "cohort"),
        ]
        other = site.connected("observer")
        for topic in topics:
            _say(other, topic, rng.choice([b"garbage", b""]), retain=True)
        other.stop()
        with contextlib.suppress(AssertionError, Offline), Client(site.broker, "ops") as ops:
            ops.say(TOPICS.policy, rng.choice([b"garbage", b"", encode(OPS.sign(policy(1)))]), retain=True)


def _say(connection: Connection, topic: str, payload: bytes, *, retain: bool = False) -> None:
    for _ in range(200):
        try:
            connection.publish(topic, payload, retain=retain)
        except Offline:
            time.sleep(0.01)
        else:
            return
