"""A site for the soak: a broker, a database, a calibrator and devices, each a process of its own that can be broken."""

from __future__ import annotations

import io
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from psycopg import sql

from hushmq.broker.contract.messages import encode
from hushmq.broker.contract.policy_message import DeviceWindow, Policy, Window
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.mosquitto import MosquittoServer
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from tests.agent.activity import CHAIN, STATES
from tests.agent.activity import activity_policy as four_states
from tests.calibrator import postgres
from tests.calibrator.running import Client
from tests.calibrator.site import CALIBRATOR, OPS, TOPICS, stream_policy
from tests.calibrator.site import sqlite as sqlite_url
from tests.soak.nursery import Nursery
from tests.soak.observer import Observer

PERIOD_MS = 200
QUIET = logger("error", "json", io.StringIO())
TWIN, BAD = "d0", "d1"
"""The device whose folder is copied, and the one whose credentials somebody else has."""
APART = {TWIN, BAD}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is run, and for how long."""

    broker: Literal["nats", "mosquitto"]
    database: Literal["sqlite", "postgres"]
    devices: int = 50
    seconds: float = 1200.0
    every_s: float = 10.0
    """A fault so often."""
    seed: int = 0

    @property
    def name(self) -> str:
        brokers = {"nats": "NATS", "mosquitto": "Mosquitto"}
        return f"{brokers[self.broker]} and {'SQLite' if self.database == 'sqlite' else 'PostgreSQL'}"


def policy(version: int) -> Policy:
    """Two streams: windows of the cohort, of each device and made on devices; two states and four."""
    motion = stream_policy(
        period_ms=PERIOD_MS,
        independent=True,
        windows={"all": Window(ticks=150, scopes=("cohort", "device"))},
        device_windows={"own": DeviceWindow(ticks=150, scale=60.0)},
        fill_s=600,
    )
    activity = four_states(
        period_ms=PERIOD_MS, independent=True, windows={"all": Window(ticks=300)}, fill_s=600
    )
    return Policy(
        version=version, cohort="test", streams={"motion": motion, "activity": activity.streams["motion"]}
    )


class SoakSite:
    """Everything that runs. `close` ends it all."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.rng = random.Random(plan.seed)
        self._opened = ExitStack()
        self.names = [f"d{n}" for n in range(plan.devices)]
        identities = [Identity("ops", "ops", "ops-secret"), Identity("calibrator", "calibrator", "c-secret")]
        identities += [Identity("calibrator", "observer", "observer-secret")]
        identities += [Identity("device", name, f"{name}-secret") for name in self.names]
        server = NatsServer if plan.broker == "nats" else MosquittoServer
        self.broker: BrokerProcess = server(Site("test", tuple(identities)), folder / "broker")
        self.broker.start(60)
        self._opened.callback(self.broker.stop)
        self.postgres: postgres.Postgres | None = None
        if plan.database == "postgres":
            self.postgres = self._opened.enter_context(postgres.running())
            self.database = self.postgres.database()
        self.calibrator_toml = self._write_calibrator()
        self.ops_key = folder / "ops.key"
        OPS.save(self.ops_key)
        self.version = 0
        self.push()
        self.calibrators: list[subprocess.Popen[bytes]] = []
        self.crashed: list[str] = []
        """What ended without having been asked to."""
        self.start_calibrator()
        self._opened.callback(self._kill_calibrators)
        self.observer = Observer(self.broker)
        self.observer.connection.start()
        self._opened.callback(self.observer.connection.stop)
        self.nursery = Nursery(folder)
        self._opened.callback(self.nursery.close)
        self.asked: set[Path] = set()
        """Agents that are down because the soak ended them."""
        self.configs = {name: self._write_device(name) for name in self.names}
        for config in self.configs.values():
            self.nursery.start(config)

    def close(self) -> None:
        self._opened.close()

    def _write_calibrator(self) -> Path:
        folder = self.folder / "calibrator"
        folder.mkdir()
        CALIBRATOR.save(folder / "signing.key")
        (folder / "password").touch(mode=0o600)
        (folder / "password").write_text("c-secret\n")
        url = sqlite_url(folder) if self.postgres is None else self.postgres.url(self.database)
        (folder / "calibrator.toml").write_text(f"""
cohort = "test"
database = "{url}"
mark_file = "ledger.mark"
grace_s = 3
seen_every_s = 1
collect_s = 0.2
[broker]
urls = ["mqtt://127.0.0.1:{self.broker.port}"]
username = "calibrator"
password_file = "password"
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "signing.key"
[devices]
quarantine_s = 30
[roster]
admit_least = 1000
[log]
form = "json"
""")
        return folder / "calibrator.toml"

    def _write_device(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        (folder / "password").touch(mode=0o600)
        (folder / "password").write_text(f"{name}-secret\n")
        rows = ", ".join(f"[{', '.join(map(str, row))}]" for row in CHAIN)
        values = ", ".join(f'"{state}"' for state in STATES)
        seed = int(name[1:])
        (folder / "agent.toml").write_text(f"""
device = "{name}"
cohort = "test"
folder = "state"
[broker]
urls = ["mqtt://127.0.0.1:{self.broker.port}"]
username = "{name}"
password_file = "password"
[trust]
ops_keys = ["{OPS.public}"]
calibrator_keys = ["{CALIBRATOR.public}"]
epsilon_max = 8.0
[publish]
beat_ms = 2000
status_ms = 4000
resend_ms = 10000
[log]
form = "json"
[streams.motion.source]
kind = "simulate"
q = 0.28
r = 0.32
seed = {seed}
low = 60.0
high = 90.0
[streams.activity.source]
kind = "simulate-states"
transition = [{rows}]
values = [{values}]
seed = {seed}
""")
        return folder / "agent.toml"

    def push(self) -> None:
        """Ops sign the next policy."""
        self.version += 1
        with Client(self.broker, "ops") as ops:
            ops.say(TOPICS.policy, encode(OPS.sign(policy(self.version))), retain=True)

    def start_calibrator(self) -> subprocess.Popen[bytes]:
        with (self.calibrator_toml.parent / "log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "hushmq", "calibrator", "run", "--config", str(self.calibrator_toml)],
                stderr=log,
                stdin=subprocess.DEVNULL,
            )
        self.calibrators.append(child)
        return child

    @property
    def calibrator(self) -> subprocess.Popen[bytes]:
        return self.calibrators[0]

    def end_calibrator(self, number: int = signal.SIGKILL) -> None:
        child = self.calibrators.pop(0)
        if child.poll() is not None:
            self.crashed.append(f"the calibrator ended with exit code {child.returncode}")
        child.send_signal(number)
        child.wait(300)
        # One that was asked while it still started has no handler yet.
        if number == signal.SIGTERM and child.returncode not in {0, -signal.SIGTERM}:
            self.crashed.append(f"the calibrator ended with exit code {child.returncode} when asked to stop")

    def _kill_calibrators(self) -> None:
        for child in self.calibrators:
            child.kill()
            child.wait()

    def watch_over(self) -> None:
        """Take note of whoever has ended without having been asked to."""
        for name, config in self.configs.items():
            if config not in self.nursery.running and config not in self.asked:
                self.crashed.append(f"{name} ended")
                self.nursery.start(config)
        if self.calibrators and self.calibrator.poll() is not None:
            self.end_calibrator()
            self.start_calibrator()
        if self.broker.pid is None:
            self.crashed.append("the broker ended")
            self.broker.start(60)

    def kill_device(self, name: str) -> None:
        self.asked.add(self.configs[name])
        self.nursery.end(self.configs[name])

    def start_device(self, name: str) -> None:
        self.nursery.start(self.configs[name])
        self.asked.discard(self.configs[name])

    def connected(self, name: str) -> Connection:
        """A further client with the credentials of an identity."""
        found = Connection(
            endpoints=[self.broker.endpoint(name)], client_id=f"other-{name}", keep_session=False, log=QUIET
        )
        found.start()
        found.wait_connected(20)
        return found

    def keep_database(self, path: Path) -> None:
        """A backup while the calibrator is down."""
        if self.postgres is None:
            with sqlite3.connect(path.parent / "ledger.db") as source, sqlite3.connect(path) as target:
                source.backup(target)
        else:
            self._copy_database(self.database, "kept")

    def restore_database(self, path: Path) -> None:
        """Put the backup in the place of the database, while the calibrator is down."""
        if self.postgres is None:
            for suffix in ("-wal", "-shm"):
                (path.parent / f"ledger.db{suffix}").unlink(missing_ok=True)
            shutil.copy(path, path.parent / "ledger.db")
        else:
            self._copy_database("kept", self.database)

    def _copy_database(self, source: str, target: str) -> None:
        assert self.postgres is not None
        names = sql.Identifier(target), sql.Identifier(source)
        with self.postgres.connect() as db:
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ANY(%s)",
                ([source, target],),
            )
            db.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(names[0]))
            db.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))

    def hushmq(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of hushmq, with what it says."""
        return subprocess.run(
            [sys.executable, "-m", "hushmq", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            stdin=subprocess.DEVNULL,
        )
