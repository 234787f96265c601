"""`make fleet`: many cohorts on a few workers, a NATS cluster of three and PostgreSQL, and one fault after another.

Everything runs as processes of this machine. Devices are played by connections that send batches, keep each until it
is seen, and send it again. After every fault all must be claimed again; at the end, for every cohort: what was sent is
counted once, every window has one payload, and the ledger verifies. What was measured is printed as JSON lines.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import select

from hushmq.broker.contract.messages import Release, Seen, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.topics import ROOT, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.mqtt.endpoint import Endpoint
from hushmq.broker.provision import nats
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import free_port
from hushmq.calibrator.fleet.cohort_tables import create_cohort
from hushmq.calibrator.fleet.fleet_survey import survey
from hushmq.calibrator.fleet.verify_cohorts import verify_cohort
from hushmq.calibrator.fleet_config import load_fleet
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.cohort_schema import cohort_url
from hushmq.calibrator.store.open_database import open_to_read, reading
from hushmq.calibrator.store.tick_counts import counted_ticks
from tests.calibrator import postgres
from tests.calibrator.site import CALIBRATOR, OPS, STREAM, batch, policy, signed, states

PERIOD_MS = 100
EVERYWHERE = "0.0.0.0"  # noqa: S104  # for the worker in a network namespace
SECRET = "secret"  # noqa: S105  # of brokers on this machine, for an hour
HERE, DATABASE_HERE = "10.231.7.1", "10.231.8.1"
"""Addresses of this machine for the worker in a network namespace: of brokers, and of the database."""


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def tick() -> int:
    return time.time_ns() // (PERIOD_MS * 1_000_000)


def cpu_s(pid: int) -> float:
    """Processor seconds of a process so far, or 0 if it is gone."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def wait_for(condition: Callable[[], bool], what: str, timeout: float) -> float:
    """Wait for a condition; the seconds that it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > timeout:
            raise TimeoutError(what)
        time.sleep(0.1)
    return time.monotonic() - began


class Nodes:
    """A cluster of three."""

    def __init__(self, folder: Path, site: Site) -> None:
        self.ports = [free_port("127.0.0.1") for _ in range(3)]
        routes = [free_port("127.0.0.1") for _ in range(3)]
        self._children: list[subprocess.Popen[bytes]] = []
        self._files: list[Path] = []
        for number, port in enumerate(self.ports):
            cluster = nats.Cluster(
                f"n{number}",
                "127.0.0.1",
                routes[number],
                tuple(f"127.0.0.1:{one}" for one in routes),
                "secret",
            )
            text = nats.configuration(
                site,
                host=EVERYWHERE,
                port=port,
                store=folder / f"n{number}",
                cluster=cluster,
            )
            tree = json.loads(text)
            tree["authorization"]["users"].append(
                {"user": "gateway", "password": "secret", "allowed_connection_types": ["MQTT"]}
            )
            self._files.append(folder / f"n{number}.conf")
            self._files[-1].write_text(json.dumps(tree))

    def start(self, number: int) -> None:
        log = self._files[number].with_suffix(".log").open("ab")
        child = subprocess.Popen(
            [nats.executable(), "-c", self._files[number]], stderr=log, stdin=subprocess.DEVNULL
        )
        self._children[number:number] = [child]

    def kill(self, number: int) -> None:
        child = self._children.pop(number)
        child.kill()
        child.wait()

    def stop(self) -> None:
        for child in self._children:
            child.kill()
            child.wait()

    def endpoints(self, user: str) -> list[Endpoint]:
        return [
            Endpoint.parse(f"mqtt://127.0.0.1:{port}", username=user, password=SECRET) for port in self.ports
        ]


class Devices:
    """All devices of some cohorts on one connection."""

    def __init__(self, nodes: Nodes, cohorts: list[str], devices: int, beat_s: float, number: int) -> None:
        self.names = [(cohort, f"{cohort}-{n}") for cohort in cohorts for n in range(devices)]
        self._beat_s = beat_s
        self._ticks = round(beat_s * 1000 / PERIOD_MS)
        self.sent: Counter[str] = Counter()
        self._next: dict[str, int] = {}
        self._last: dict[str, int] = {}
        self._waiting: dict[str, dict[int, tuple[float, float, bytes]]] = {name: {} for _, name in self.names}
        self.latencies: list[float] = []
        self._lock = threading.Lock()
        self.connection = Connection(
            endpoints=[*nodes.endpoints("gateway")[number % 3 :], *nodes.endpoints("gateway")[: number % 3]],
            client_id=f"gateway-{number}",
            subscriptions=[f"{ROOT}/{cohort}/seen/#" for cohort in cohorts],
            on_message=self._seen,
            keep_session=False,
            window=400,
            qos=0,
        )

    def begin(self) -> None:
        """From now on the devices have states; each begins at another moment of the first beat."""
        start = tick()
        for number, (_, name) in enumerate(self.names):
            self._next[name] = start + number * self._ticks // len(self.names)

    def beat(self) -> None:
        """Send what is due, and again what was not seen for long."""
        now, at = time.monotonic(), tick()
        for cohort, name in self.names:
            first = self._next[name]
            if first + self._ticks <= at:
                payload = batch(first, states(self._ticks, seed=first), after=self._last.get(name))
                with self._lock:
                    self._waiting[name][first] = now, now, payload
                self._last[name], self._next[name] = first + self._ticks - 1, first + self._ticks
                self.sent[name] += self._ticks
                self._publish(cohort, name, payload)
        self.send_again(5.0)

    def send_again(self, after_s: float) -> None:
        now = time.monotonic()
        for cohort, name in self.names:
            for first, (made, sent, payload) in list(self._waiting[name].items()):
                if now - sent > after_s:
                    with self._lock:
                        if first in self._waiting[name]:
                            self._waiting[name][first] = made, now, payload
                    self._publish(cohort, name, payload)

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    def _publish(self, cohort: str, name: str, payload: bytes) -> None:
        with contextlib.suppress(Offline):
            self.connection.publish(Topics(cohort).batch(name, STREAM), payload)

    def _seen(self, topic: str, payload: bytes, _retained: bool) -> None:
        name, now = topic.rsplit("/", 1)[1], time.monotonic()
        counted = decode(Seen, payload).streams.get(STREAM)
        if counted is None or name not in self._waiting:
            return
        with self._lock:
            for first in list(self._waiting[name]):
                inside = any(low <= first <= high for low, high in counted.holes)
                if first + self._ticks - 1 <= counted.highest and not inside:
                    made, _, _ = self._waiting[name].pop(first)
                    self.latencies.append(now - made)


class Run:
    """The whole fleet."""

    def __init__(
        self, args: argparse.Namespace, folder: Path, server: postgres.Postgres, stack: ExitStack
    ) -> None:
        self.args, self.folder, self.server = args, folder, server
        self.cohorts = [f"c{n}" for n in range(args.cohorts)]
        site = Site(
            cohort=self.cohorts[0],
            other_cohorts=tuple(self.cohorts[1:]),
            identities=tuple(Identity("calibrator", f"worker-{n}", "secret") for n in range(8)),
        )
        self.nodes = Nodes(folder, site)
        stack.callback(self.nodes.stop)
        for number in range(3):
            self.nodes.start(number)
        self.name = server.database()
        self.database = server.url(self.name)
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.heard: dict[str, dict[str, bytes]] = {}
        self.two_payloads: list[str] = []
        self.devices: list[Devices] = []
        (folder / "keys").mkdir()
        (folder / "marks").mkdir()
        for cohort in self.cohorts:
            CALIBRATOR.save(folder / "keys" / f"{cohort}.key")

    def create(self) -> None:
        """The first cohort as `hushmq fleet add` makes it, the others as copies of its empty tables."""
        create_cohort(self.database, "c0")
        dump = subprocess.run(
            [
                *(postgres.executable("pg_dump"), "-h", "127.0.0.1", "-p", str(self.server.port)),
                *("-U", self.server.user, "-n", "cohort_c0", "--no-owner", "--inserts", self.name),
            ],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        dump = "\n".join(line for line in dump.splitlines() if not line.startswith("\\"))
        with psycopg.connect(self.database.replace("+psycopg", ""), autocommit=True) as db:
            for cohort in self.cohorts[1:]:
                db.execute(dump.replace("cohort_c0", f"cohort_{cohort}"))

    def start_worker(self, number: int, *, apart: bool = False) -> None:
        """A worker as `hushmq calibrator run` starts it; `apart`: in a network namespace of its own."""
        folder = self.folder / f"worker-{number}"
        folder.mkdir(exist_ok=True)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text("secret\n")
        host, database = (HERE, DATABASE_HERE) if apart else ("127.0.0.1", "127.0.0.1")
        urls = [f"mqtt://{host}:{port}" for port in self.nodes.ports]
        config = folder / "fleet.toml"
        config.write_text(f"""
cohorts = "*"
name = "worker-{number}"
database = "{self.database.replace("127.0.0.1", database)}"
mark_folder = "{self.folder / "marks"}"
claim_s = {self.args.claim_s}
grace_s = {self.args.grace_s}
collect_s = {self.args.collect_s}
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
""")
        command = [sys.executable, "-m", "hushmq", "calibrator", "run", "--config", str(config)]
        with (folder / "log").open("ab") as log:
            self.workers[number] = subprocess.Popen(
                [*(("ip", "netns", "exec", "hushfleet") if apart else ()), *command],
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def claimed(self) -> dict[str, str]:
        try:
            found = survey(self.database)
        except Exception:  # noqa: BLE001  # the database is away
            return {}
        return {
            cohort: found.peers[claimant].name
            for cohort, claimant in found.claimants.items()
            if claimant is not None and claimant in found.peers
        }

    def all_claimed(self, *names: str) -> bool:
        found = self.claimed()
        return len(found) == len(self.cohorts) and (not names or set(found.values()) == set(names))

    def balanced(self, workers: int) -> bool:
        load = Counter(self.claimed().values())
        return (
            load.total() == len(self.cohorts)
            and len(load) == workers
            and max(load.values()) <= -(-len(self.cohorts) // workers)
        )

    def hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        """Every window of a cohort has one payload."""
        release = decode(Release, payload)
        key = f"{topic} {release.first}"
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
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout:
                raise TimeoutError(what)
            self.play(0.2)
        return time.monotonic() - began

    def check(self) -> bool:
        """The identity, one payload for each window, and the ledger, of every cohort."""
        config = load_fleet(self.folder / "worker-0" / "fleet.toml")
        sent = {name: one.sent[name] for one in self.devices for _, name in one.names}
        wrong: dict[str, str] = {}
        windows = 0
        for cohort in self.cohorts:
            with reading(open_to_read(cohort_url(self.database, cohort))) as db:
                counted = {device: count for (device, _), count in counted_ticks(db).items()}
                mine = {name: count for name, count in sent.items() if name.rsplit("-", 1)[0] == cohort}
                charged = Counter(
                    (row.window, row.scope, row.first)
                    for row in db.execute(select(store.ledger).where(store.ledger.c.tilt > 0))
                )
                payloads = set(db.execute(select(store.release.c.payload)).scalars())
            windows += len(charged)
            if counted != mine:
                wrong[cohort] = "the identity"
            if charged and max(charged.values()) > 1:
                wrong[cohort] = "a window charged twice"
            if not set(self.heard.get(cohort, {}).values()) <= payloads:
                wrong[cohort] = "a payload that is not stored"
            if found := verify_cohort(
                config.settings_of(cohort).model_copy(update={"database": cohort_url(self.database, cohort)})
            ):
                wrong[cohort] = found[0]
        say(
            checked=len(self.cohorts),
            ticks=sum(sent.values()),
            windows=windows,
            releases_heard=sum(map(len, self.heard.values())),
            two_payloads=len(self.two_payloads),
            wrong=wrong,
        )
        return not wrong and not self.two_payloads


@contextmanager
def namespace() -> Iterator[None]:
    """A network namespace with an address for brokers and another for the database."""

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    ip("netns", "add", "hushfleet")
    try:
        ip("link", "add", "hushfleet0", "type", "veth", "peer", "name", "eth0", "netns", "hushfleet")
        ip("addr", "add", f"{HERE}/24", "dev", "hushfleet0")
        ip("addr", "add", f"{DATABASE_HERE}/24", "dev", "hushfleet0")
        ip("link", "set", "hushfleet0", "up")
        for words in (
            ("addr", "add", "10.231.7.2/24", "dev", "eth0"),
            ("addr", "add", "10.231.8.2/24", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            ip("-n", "hushfleet", *words)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", "hushfleet"], check=False)
        subprocess.run(["ip", "link", "del", "hushfleet0"], check=False, capture_output=True)


def cut(*, off: bool) -> None:
    """Drop everything between the worker in the namespace and the database, or let it through again."""
    route = ["ip", "-n", "hushfleet", "route", "add" if off else "del", "blackhole", f"{DATABASE_HERE}/32"]
    subprocess.run(route, check=True)


def faults(run: Run, names: list[str]) -> None:
    """One fault after another, each under load, each ending with all cohorts claimed."""
    args = run.args

    def report(name: str, **what: object) -> None:
        taken = [latency for one in run.devices for latency in one.latencies]
        for one in run.devices:
            one.latencies.clear()
        taken.sort()
        say(
            fault=name,
            **what,
            p50_s=round(taken[len(taken) // 2], 2) if taken else None,
            p99_s=round(taken[len(taken) * 99 // 100], 2) if taken else None,
            seen=len(taken),
        )

    run.play(args.play_s)
    report("none")
    if "kill" in names:
        run.workers[0].kill()
        run.workers.pop(0).wait()
        took = run.until(lambda: run.all_claimed() and "worker-0" not in run.claimed().values(), "takeover")
        run.play(args.play_s)
        report("kill -9 of a worker", claimed_after_s=round(took, 2))
        run.start_worker(0)
        report(
            "worker started again",
            balanced_after_s=round(run.until(lambda: run.balanced(len(run.workers)), "balance"), 1),
        )
    if "stop" in names:
        os.kill(run.workers[1].pid, signal.SIGSTOP)
        took = run.until(lambda: run.all_claimed() and "worker-1" not in run.claimed().values(), "takeover")
        run.play(max(0.0, 30.0 - took))
        os.kill(run.workers[1].pid, signal.SIGCONT)
        again = run.until(lambda: run.balanced(len(run.workers)), "balance")
        run.play(args.play_s)
        report("SIGSTOP for 30 s", claimed_after_s=round(took, 2), balanced_after_s=round(again, 1))
    if "node" in names:
        run.nodes.kill(0)
        run.play(args.play_s)
        run.nodes.start(0)
        run.play(args.play_s)
        report("kill -9 of a NATS node")
    if "database" in names:
        run.server.stop()
        run.play(5.0)
        run.server.start()
        took = run.until(run.all_claimed, "claims")
        run.play(args.play_s)
        report("PostgreSQL ended at once, started after 5 s", claimed_after_s=round(took, 2))
    if "cut" in names:
        cut(off=True)
        took = run.until(
            lambda: run.all_claimed() and f"worker-{args.workers - 1}" not in run.claimed().values(),
            "takeover",
        )
        run.play(max(5.0, 20.0 - took))
        cut(off=False)
        again = run.until(lambda: run.balanced(len(run.workers)), "balance")
        report(
            "a worker cut off from the database",
            claimed_after_s=round(took, 2),
            balanced_after_s=round(again, 1),
        )
    if "disk" in names:
        filler = run.folder / "marks" / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\0" * 4096)
                file.flush()
        run.play(15.0)
        filler.unlink()
        took = run.until(run.all_claimed, "claims")
        run.play(args.play_s)
        report("the marks' disk full", claimed_after_s=round(took, 2))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=200)
    parser.add_argument("--devices", type=int, default=20, help="of each cohort")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--beat-s", type=float, default=20.0, help="seconds between two batches of a device")
    parser.add_argument(
        "--play-s", type=float, default=30.0, help="seconds of load between two steps of a fault"
    )
    parser.add_argument("--claim-s", type=float, default=10.0)
    parser.add_argument("--grace-s", type=float, default=20.0)
    parser.add_argument("--collect-s", type=float, default=2.0)
    parser.add_argument("--window-s", type=int, default=60)
    parser.add_argument("--faults", default="kill,stop,node,database,cut,disk")
    args = parser.parse_args()
    names = args.faults.split(",") if args.faults else []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hushmq-fleet-")))
        apart = "cut" in names
        if apart:
            stack.enter_context(namespace())
        server = stack.enter_context(postgres.running("*" if apart else "127.0.0.1"))
        run = Run(args, folder, server, stack)
        if "disk" in names:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder / "marks"], check=True)
            stack.callback(subprocess.run, ["umount", "-l", folder / "marks"], check=False)
        began = time.monotonic()
        run.create()
        say(created=args.cohorts, seconds=round(time.monotonic() - began, 1))
        ops = Connection(
            endpoints=run.nodes.endpoints("gateway"),
            client_id="ops",
            subscriptions=[f"{ROOT}/+/release/#"],
            on_message=run.hear,
            keep_session=False,
            window=400,
        )
        run.devices = [
            Devices(run.nodes, run.cohorts[part::2], args.devices, args.beat_s, part) for part in range(2)
        ]
        for connection in (ops, *(one.connection for one in run.devices)):
            connection.start()
            stack.callback(connection.stop)
            if not connection.wait_connected(120):
                raise TimeoutError(str(connection.last_error))
        wanted = {
            "period_ms": PERIOD_MS,
            "windows": {"short": Window(ticks=args.window_s * 1000 // PERIOD_MS)},
        }
        for cohort in run.cohorts:
            while True:
                try:
                    ops.publish(Topics(cohort).policy, signed(policy(cohort=cohort, **wanted)), retain=True)
                    break
                except Offline:
                    time.sleep(0.05)
        for number in range(args.workers):
            run.start_worker(number, apart=apart and number == args.workers - 1)
        stack.callback(lambda: [child.kill() for child in run.workers.values()])
        took = wait_for(lambda: run.balanced(args.workers), "claims", 600)
        say(workers=args.workers, balanced_after_s=round(took, 1), load=dict(Counter(run.claimed().values())))
        for one in run.devices:
            one.connection.wait_connected(60)
            one.begin()
        faults(run, names)
        took = run.until(
            lambda: sum(one.waiting for one in run.devices) < len(run.cohorts) * args.devices, "seen"
        )
        before = {number: cpu_s(child.pid) for number, child in run.workers.items()}

        def all_seen() -> bool:
            for one in run.devices:
                one.send_again(5.0)
            time.sleep(0.3)
            return not any(one.waiting for one in run.devices)

        say(drained_after_s=round(wait_for(all_seen, "the last seen", 300), 1), worker_cpu_s=before)
        for child in run.workers.values():
            child.send_signal(signal.SIGTERM)
        codes = [child.wait(120) for child in run.workers.values()]
        say(exit_codes=codes)
        return 0 if run.check() and not any(codes) else 1


if __name__ == "__main__":
    sys.exit(main())
