"""Many cohorts on a few workers with real brokers and PostgreSQL, all as processes here, and their verdict."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.topics import ROOT, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.fleet_survey import survey
from hushmq.calibrator.fleet.verify_cohorts import verify_cohort
from hushmq.calibrator.fleet_config import load_fleet
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.cohort_schema import cohort_url
from hushmq.calibrator.store.open_database import open_to_read, reading
from hushmq.calibrator.store.tick_counts import counted_ticks
from tests.calibrator import postgres
from tests.calibrator.fleet import cut_off
from tests.calibrator.fleet.fleet_brokers import GATEWAY, SECRET, NatsNodes, OneMosquitto, fleet_of
from tests.calibrator.fleet.played_devices import PERIOD_MS, PlayedDevices
from tests.calibrator.site import CALIBRATOR, OPS, policy, signed

MOST_WORKERS = 8
QUANTILES = {"p50_s": 0.5, "p99_s": 0.99}


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """How large it is, and how fast."""

    cohorts: int = 200
    devices: int = 20
    """Of each cohort."""
    workers: int = 3
    beat_s: float = 40.0
    """Seconds between two batches of a device."""
    claim_s: float = 10.0
    grace_s: float = 45.0
    collect_s: float = 5.0
    window_s: int = 60
    broker: str = "nats"
    apart: bool = False
    """Whether the last worker has a network namespace of its own."""


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far, or 0 if it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def resident_mb(pid: int) -> float:
    """Resident megabytes of a process, or 0 if it is gone."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return 0.0


class BigFleet:
    """Everything that runs; what `stack` holds ends with it."""

    def __init__(self, plan: FleetPlan, folder: Path, stack: ExitStack) -> None:
        self.plan, self.folder, self._stack = plan, folder, stack
        self.cohorts = [f"c{n}" for n in range(plan.cohorts)]
        if plan.apart:
            stack.enter_context(cut_off.namespace())
        self.server = stack.enter_context(postgres.running("*" if plan.apart else "127.0.0.1"))
        self._name = self.server.database()
        self.database = self.server.url(self._name)
        kind = NatsNodes if plan.broker == "nats" else OneMosquitto
        self.brokers = kind(folder, fleet_of(self.cohorts, MOST_WORKERS))
        stack.callback(self.brokers.stop)
        self.brokers.start_all()
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        stack.callback(self._kill_workers)
        self.heard: dict[str, dict[str, bytes]] = {}
        """By cohort and window, the payload of its release."""
        self.two_payloads: list[str] = []
        self.devices: list[PlayedDevices] = []
        (folder / "keys").mkdir()
        (folder / "marks").mkdir()
        for cohort in self.cohorts:
            CALIBRATOR.save(folder / "keys" / f"{cohort}.key")

    def create(self) -> None:
        """The first cohort as `hushmq fleet add` makes it, the others as copies of its empty tables; their policies."""
        create_cohort(self.database, "c0")
        dump = subprocess.run(
            [
                *(postgres.executable("pg_dump"), "-h", "127.0.0.1", "-p", str(self.server.port)),
                *("-U", self.server.user, "-n", "cohort_c0", "--no-owner", "--inserts", self._name),
            ],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        dump = "\n".join(line for line in dump.splitlines() if not line.startswith("\\"))
        with psycopg.connect(self.database.replace("+psycopg", ""), autocommit=True) as db:
            for cohort in self.cohorts[1:]:
                db.execute(dump.replace("cohort_c0", f"cohort_{cohort}"))
        self._ops = self._connected(
            Connection(
                endpoints=self.brokers.endpoints(GATEWAY),
                client_id="ops",
                subscriptions=[f"{ROOT}/+/release/#"],
                on_message=self._hear,
                keep_session=False,
                window=400,
            )
        )
        windows = {"short": Window(ticks=self.plan.window_s * 1000 // PERIOD_MS)}
        for cohort in self.cohorts:
            payload = signed(policy(cohort=cohort, period_ms=PERIOD_MS, windows=windows))
            while True:
                try:
                    self._ops.publish(Topics(cohort).policy, payload, retain=True)
                    break
                except Offline:
                    time.sleep(0.05)
        self.devices = [
            PlayedDevices(self.brokers, self.cohorts[part::2], self.plan.devices, self.plan.beat_s, part)
            for part in range(2)
            if self.cohorts[part::2]
        ]
        for one in self.devices:
            self._connected(one.connection)

    def start(self) -> float:
        """Start all workers; the seconds until each serves some cohorts, and every cohort has a setting."""
        began = time.monotonic()
        for number in range(self.plan.workers):
            self.start_worker(number, apart=self.plan.apart and number == self.plan.workers - 1)
        self.until(lambda: self.shared_by(self.plan.workers), "claims", 600)
        self.until(lambda: all(one.ready for one in self.devices), "settings", 300)
        return time.monotonic() - began

    def start_worker(self, number: int, *, apart: bool = False) -> None:
        """A worker as `hushmq calibrator run` starts it; `apart`: in the network namespace."""
        config = self._worker_settings(number, apart=apart)
        command = [sys.executable, "-m", "hushmq", "calibrator", "run", "--config", str(config)]
        with (config.parent / "log").open("ab") as log:
            self.workers[number] = subprocess.Popen(
                [*(cut_off.INSIDE if apart else ()), *command], stderr=log, stdin=subprocess.DEVNULL
            )

    def _worker_settings(self, number: int, *, apart: bool) -> Path:
        folder = self.folder / f"worker-{number}"
        folder.mkdir(exist_ok=True)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text(f"{SECRET}\n")
        host, database = (cut_off.HERE, cut_off.DATABASE_HERE) if apart else ("127.0.0.1", "127.0.0.1")
        urls = [f"mqtt://{host}:{port}" for port in self.brokers.ports]
        (folder / "fleet.toml").write_text(f"""
cohorts = "*"
name = "worker-{number}"
database = "{self.database.replace("127.0.0.1", database)}"
mark_folder = "{self.folder / "marks"}"
claim_s = {self.plan.claim_s}
grace_s = {self.plan.grace_s}
collect_s = {self.plan.collect_s}
[roster]
admit_least = 1000
[broker]
urls = {json.dumps(urls)}
username = "worker-{number}"
password_file = "{password}"
password_in_clear_text = true
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{self.folder}/keys/{{cohort}}.key"
[log]
form = "json"
""")
        return folder / "fleet.toml"

    def _kill_workers(self) -> None:
        for child in self.workers.values():
            child.kill()
            child.wait()

    def _connected(self, connection: Connection) -> Connection:
        connection.start()
        self._stack.callback(connection.stop)
        if not connection.wait_connected(120):
            raise TimeoutError(str(connection.last_error))
        return connection

    def claimed(self) -> dict[str, str]:
        """Which worker has claimed each cohort."""
        try:
            found = survey(self.database)
        except Exception:  # noqa: BLE001  # the database is away
            return {}
        return {
            cohort: found.peers[claimant].name
            for cohort, claimant in found.claimants.items()
            if claimant is not None and claimant in found.peers
        }

    def all_claimed(self, *, without: int | None = None) -> bool:
        """Whether every cohort is claimed, by other workers than `without`."""
        found = self.claimed()
        return len(found) == len(self.cohorts) and f"worker-{without}" not in found.values()

    def shared_by(self, workers: int) -> bool:
        """Whether every cohort is claimed, and so many workers have some."""
        found = self.claimed()
        return len(found) == len(self.cohorts) and len(set(found.values())) == workers

    def balanced(self, workers: int) -> bool:
        """Whether so many workers have their shares."""
        load = Counter(self.claimed().values())
        return (
            load.total() == len(self.cohorts)
            and len(load) == workers
            and max(load.values()) <= -(-len(self.cohorts) // workers)
        )

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        """Every window of a cohort has one payload."""
        key = f"{topic} {decode(Release, payload).first}"
        before = self.heard.setdefault(topic.split("/")[2], {}).setdefault(key, payload)
        if before != payload:
            self.two_payloads.append(key)

    def play(self, seconds: float) -> None:
        """Let the devices send for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            began = time.monotonic()
            for one in self.devices:
                one.beat()
            time.sleep(max(0.02, 0.25 - (time.monotonic() - began)))

    def until(self, condition: Callable[[], bool], what: str, timeout: float = 240.0) -> float:
        """Play until a condition holds; the seconds that it took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout:
                raise TimeoutError(what)
            self.play(0.1)
        return time.monotonic() - began

    def drain(self, timeout: float = 240.0) -> float:
        """Send nothing new until all is seen; the seconds that it took."""
        began = time.monotonic()
        while any(one.waiting for one in self.devices):
            if time.monotonic() - began > timeout:
                raise TimeoutError(f"{sum(one.waiting for one in self.devices)} batches are not seen")
            for one in self.devices:
                one.send_again(soon=True)
            time.sleep(0.2)
        return time.monotonic() - began

    def latencies(self) -> dict[str, float]:
        """From sample to `seen`, of what was seen since the last time."""
        taken = sorted(seconds for one in self.devices for seconds in one.latencies)
        for one in self.devices:
            one.latencies.clear()
        found = {name: round(taken[int(len(taken) * share)], 2) for name, share in QUANTILES.items() if taken}
        return found | {"batches_seen": len(taken)}

    def check(self) -> list[str]:
        """What is wrong with any cohort: the identity, one payload and one debit for each window, the ledger.

        Nothing may be waiting. Devices drop nothing, so that what was sampled must be counted.
        """
        config = load_fleet(self.folder / "worker-0" / "fleet.toml")
        wrong = [f"two payloads: {key}" for key in self.two_payloads]
        for cohort in self.cohorts:
            url = cohort_url(self.database, cohort)
            with reading(open_to_read(url)) as db:
                counted = {device: count for (device, _), count in counted_ticks(db).items()}
                debits = Counter(
                    (row.window, row.scope, row.first)
                    for row in db.execute(select(store.ledger).where(store.ledger.c.tilt > 0))
                )
                payloads = set(db.execute(select(store.release.c.payload)).scalars())
            sampled = {
                name: one.sampled[name]
                for one in self.devices
                for name, of in one.names.items()
                if of == cohort
            }
            if counted != {name: count for name, count in sampled.items() if count}:
                wrong.append(f"{cohort}: {sum(sampled.values())} sampled, {sum(counted.values())} counted")
            if any(count > 1 for count in debits.values()):
                wrong.append(f"{cohort}: a window was charged twice")
            if not set(self.heard.get(cohort, {}).values()) <= payloads:
                wrong.append(f"{cohort}: a payload that is not stored")
            settings = config.settings_of(cohort).model_copy(update={"database": url})
            wrong += [f"{cohort}: {found}" for found in verify_cohort(settings)]
        return wrong
