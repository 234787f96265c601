"""The agent's speed and size: acknowledged throughput, memory, CPU time at 2 Hz, start-up time, fsyncs.

From a sample to a batch: sanitize.py.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from hushmq.agent.publish import Publisher
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Batch, NoiseSetting, encode
from hushmq.broker.contract.noise_message import BinaryNoiseMessage
from hushmq.broker.contract.packing import pack
from hushmq.broker.contract.policy_message import Assumption, Audiences, Policy, StreamPolicy, Threshold
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import theta_message
from hushmq.broker.contract.topics import Topics
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.evaluation.benchmarks.benchmark_row import Row
from hushmq.pufferfish.binary.binary_theta import BinaryTheta
from hushmq.pufferfish.binary.stream_loss import optimal_noise

TOPICS = Topics("bench")
DEVICE = "device"
OPS, CALIBRATOR = PrivateKey(b"o" * 32), PrivateKey(b"c" * 32)
THETA = BinaryTheta(0.05, 0.5, 0.05, 0.5)
QUIET = logger("error", "json", open(os.devnull, "w"))  # noqa: SIM115  # lives as long as the benchmark


def run() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hushmq-bench-") as folder:
        path = Path(folder)
        with NatsServer(_site(), path / "nats") as broker:
            yield from _throughput(broker, path / "throughput")
            yield from _start(broker, path / "start")
            yield from _at_two_hertz(broker, path / "idle")
            yield from _memory(path / "full")
            yield from _forced_writes(path / "forced")


def _site() -> Site:
    return Site(
        "bench",
        (
            Identity("ops", "ops", "o"),
            Identity("calibrator", "calibrator", "c"),
            Identity("device", DEVICE, "d"),
        ),
    )


def _policy(period_ms: int) -> Policy:
    stream = StreamPolicy(
        states=("low", "high"),
        period_ms=period_ms,
        discretiser=Threshold(at=75.0, hysteresis=2.0),
        theta=Assumption(start=theta_message(THETA), floor=theta_message(THETA)),
        epsilon=Audiences(operator=2.0, public=1.0),
        windows={},
    )
    return Policy(version=1, cohort="bench", streams={"motion": stream})


def _noise() -> NoiseSetting:
    best = optimal_noise(THETA, 2.0)
    return NoiseSetting(
        version=1,
        policy=1,
        cohort="bench",
        stream="motion",
        theta=theta_message(THETA),
        noise=BinaryNoiseMessage(rho0=best.rho0, rho1=best.rho1),
    )


def _best(
    call: Callable[[], object], times: int = 5, clock: Callable[[], float] = time.perf_counter
) -> float:
    """The shortest of several runs, in wall-clock seconds."""
    found = []
    for _ in range(times):
        began = clock()
        call()
        found.append(clock() - began)
    return min(found)


def _payloads(count: int) -> list[bytes]:
    states = pack([0, 1] * 50)
    return [encode(Batch(first=100 * n, after=None, count=100, states=states, noise=1)) for n in range(count)]


def _throughput(broker: BrokerProcess, folder: Path) -> list[Row]:
    """Acknowledged QoS 1 messages from the outbox, against bare paho with the same payloads and window."""
    count, window = 4_000, 20
    payloads = _payloads(count)
    folder.mkdir()
    outbox = Outbox(folder, max_bytes=10**9, max_age_s=10**9)
    made = [MadeBatch("motion", 100 * n, 100 * n + 99, payload) for n, payload in enumerate(payloads)]
    outbox.commit(made, periods={"motion": 2}, seen={}, now_ms=0)
    posted: SimpleQueue[Callable[[], None]] = SimpleQueue()
    connection = Connection(endpoints=[broker.endpoint(DEVICE)], client_id="bench", log=QUIET)
    connection.start()
    if not connection.wait_connected(10):
        raise RuntimeError("the broker of the benchmark does not answer")

    def ours() -> None:
        publisher = Publisher(
            outbox, connection, TOPICS, device=DEVICE, window=window, resend_s=1e6, post=posted.put
        )
        while publisher.acknowledged < count:
            publisher.pump(0.0)
            posted.get()()
            while not posted.empty():
                posted.get()()

    def bare() -> None:
        client = Client(CallbackAPIVersion.VERSION2, client_id="bare")
        client.username_pw_set(DEVICE, "d")
        client.max_inflight_messages_set(window)
        left, done, up = count, threading.Event(), threading.Event()

        def acknowledged(*_: object) -> None:
            nonlocal left
            left -= 1
            if not left:
                done.set()

        client.on_publish = acknowledged
        client.on_connect = lambda *_: up.set()
        client.connect(broker.host, broker.port)
        client.loop_start()
        up.wait(10)
        began = time.perf_counter()
        for payload in payloads:
            client.publish(TOPICS.batch(DEVICE, "motion"), payload, qos=1)
        done.wait(60)
        took.append(time.perf_counter() - began)
        client.disconnect()
        client.loop_stop()

    took: list[float] = []
    own: list[float] = []
    for _ in range(4):  # in turn, so that whatever else the machine does hits both
        own.append(_best(ours, 1))
        bare()
    mine, theirs = count / min(own), count / min(took)
    connection.stop()
    outbox.close()
    return [
        Row(
            "acknowledged batches of 100 samples, window 20",
            mine,
            "messages/s",
            f"bare paho, {theirs:,.0f}/s",
            mine / theirs,
            "≥ 0.6×",
        )
    ]


def _write_config(folder: Path, port: int, *, beat_ms: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "password").touch(mode=0o600)
    (folder / "password").write_text("d")
    path = folder / "agent.toml"
    path.write_text(f"""device = "{DEVICE}"
cohort = "bench"
folder = "{folder / "state"}"
[broker]
urls = ["mqtt://127.0.0.1:{port}"]
username = "{DEVICE}"
password_file = "{folder / "password"}"
[trust]
ops_keys = ["{OPS.public}"]
calibrator_keys = ["{CALIBRATOR.public}"]
epsilon_max = 4.0
[publish]
beat_ms = {beat_ms}
[streams.motion.source]
kind = "simulate"
q = 0.25
r = 0.35
seed = 7
low = 60.0
high = 90.0
""")
    return path


@contextmanager
def _agent(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "hushmq", "agent", "run", "--config", str(config)], stderr=subprocess.DEVNULL
    )
    try:
        yield child
    finally:
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(30)
        finally:
            child.kill()


class _Listener:
    """Acts as ops and as the calibrator: pushes settings, and records when batches arrive."""

    def __init__(self, broker: BrokerProcess, period_ms: int) -> None:
        self.arrived = threading.Event()
        self._ops = Connection(endpoints=[broker.endpoint("ops")], client_id="ops", log=QUIET)
        self._calibrator = Connection(
            endpoints=[broker.endpoint("calibrator")],
            client_id="calibrator",
            subscriptions=[TOPICS.all("z")],
            on_message=lambda *_: self.arrived.set(),
            log=QUIET,
        )
        for connection in (self._ops, self._calibrator):
            connection.start()
            connection.wait_connected(10)
        self._ops.publish(TOPICS.policy, encode(OPS.sign(_policy(period_ms))), retain=True)
        self._calibrator.publish(TOPICS.noise("motion"), encode(CALIBRATOR.sign(_noise())), retain=True)

    def stop(self) -> None:
        self._ops.stop()
        self._calibrator.stop()


def _start(broker: BrokerProcess, folder: Path) -> list[Row]:
    """From starting the process to its first batch at a subscriber, with a beat of 100 ms and ticks of 2 ms."""
    listener = _Listener(broker, 2)
    found, busy = [], []
    for _ in range(3):
        listener.arrived.clear()
        began = time.perf_counter()
        with _agent(_write_config(folder, broker.port, beat_ms=100)) as child:
            listener.arrived.wait(20)
            found.append(time.perf_counter() - began)
            busy.append(_cpu_s(child.pid))
    listener.stop()
    imports = (
        "import cryptography.hazmat.primitives.asymmetric.ed25519, paho.mqtt.client, pydantic.main, structlog"
    )
    bare = _best(lambda: subprocess.run([sys.executable, "-c", imports], check=True), 3)
    return [
        Row(
            "start to first publish",
            min(found),
            "s",
            f"importing the four libraries, {bare:.2f} s; the agent needs {min(busy):.2f} s of CPU",
            min(found) / bare,
            "≤ 1 s",
        )
    ]


def _at_two_hertz(broker: BrokerProcess, folder: Path) -> list[Row]:
    """CPU of an agent at 2 Hz with a beat of ten seconds, over 20 seconds after its start."""
    listener = _Listener(broker, 500)
    with _agent(_write_config(folder, broker.port, beat_ms=10_000)) as child:
        listener.arrived.wait(30)
        before, began = _cpu_s(child.pid), time.perf_counter()
        time.sleep(20)
        share = (_cpu_s(child.pid) - before) / (time.perf_counter() - began)
        resident, private = _memory_mb(child.pid)
    listener.stop()
    bare = subprocess.run(
        [sys.executable, "-c", "print(open('/proc/self/status').read())"],
        check=True,
        capture_output=True,
        text=True,
    )
    interpreter = int(bare.stdout.split("VmRSS:")[1].split()[0]) / 1024
    return [
        Row("CPU at 2 Hz", 100 * share, "% of a core", aim="≤ 0.5%"),
        Row(
            "resident memory at 2 Hz",
            resident,
            "MB",
            f"{private:.1f} MB private; a bare interpreter has {interpreter:.1f} MB",
            resident / interpreter,
            "≤ 48 MB",
        ),
    ]


FULL = """
import json, sys, threading, time
from pathlib import Path
from hushmq.agent.agent_config import load
from hushmq.agent.daemon import AgentDaemon
from hushmq.agent.sources.tick import Clock
from hushmq.broker.service.log import logger

config = load(Path(sys.argv[1]), {})
(config.folder / "settings").mkdir(exist_ok=True)
(config.folder / "settings" / "policy.json").write_text(sys.argv[2])
(config.folder / "settings" / "noise-motion.json").write_text(sys.argv[3])
began = time.time_ns()
fast = Clock(wall=lambda: began + 50 * (time.time_ns() - began), steady=lambda: 50 * time.monotonic_ns())
agent = AgentDaemon(config, log=logger("error"), clock=fast)
thread = threading.Thread(target=agent.run)
thread.start()
before = agent._outbox.balances["motion"].sampled

def sampled():
    return agent._outbox.balances["motion"].sampled - before

def resident():
    return int(open("/proc/self/status").read().split("VmRSS:")[1].split()[0]) / 1024

found = []
for target in (10**5, 10**6):
    while sampled() < target:
        time.sleep(0.01)
    found.append(resident())
print(json.dumps({"resident": found, "bytes": agent._outbox.bytes}))
agent.stop()
thread.join()
"""


def _memory(folder: Path) -> list[Row]:
    """Resident memory with an outbox full to its 64 MB and no broker, after 10⁵ and after 10⁶ samples.

    The worst kind of full: every batch is one tick between two gaps, so that there are as many as can be.
    """
    config = _write_config(folder, 1, beat_ms=100)
    (folder / "state").mkdir()
    outbox = Outbox(folder / "state", max_bytes=64 << 20, max_age_s=10**9)
    tick = 10**11
    while outbox.balances.get("motion") is None or not outbox.balances["motion"].dropped:
        made = []
        for _ in range(10_000):
            tick += 2
            batch = Batch(first=tick, after=tick - 2, count=1, states=pack([1]), noise=1)
            made.append(MadeBatch("motion", tick, tick, encode(batch)))
        outbox.commit(made, periods={"motion": 2}, seen={}, now_ms=time.time_ns() // 1_000_000)
    batches = outbox.balances["motion"].buffered
    outbox.close()
    settings = [encode(OPS.sign(_policy(2))).decode(), encode(CALIBRATOR.sign(_noise())).decode()]
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(config), *settings], check=True, capture_output=True, text=True
    )
    said = json.loads(done.stdout)
    early, late = said["resident"]
    return [
        Row(
            "resident memory, full outbox, 10⁶ samples",
            late,
            "MB",
            f"after 10⁵: {early:.1f} MB; {batches:,} batches waited",
            late / early,
            "≤ 48 MB, flat",
        )
    ]


HOUR = """
import sys
from pathlib import Path
from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Counted

outbox = Outbox(Path(sys.argv[1]), max_bytes=64 << 20, max_age_s=10**9)
for beat in range(360):
    seen = {"motion": Counted(highest=20 * beat - 1)} if beat else {}
    made = [MadeBatch("motion", 20 * beat, 20 * beat + 19, bytes(120))]
    outbox.commit(made, periods={"motion": 500}, seen=seen, now_ms=10_000 * beat)
outbox.close()
"""


def _forced_writes(folder: Path) -> list[Row]:
    """The number of fsyncs of an hour at 2 Hz with a beat of ten seconds, counted by strace if it is installed."""
    if shutil.which("strace") is None:
        return []
    folder.mkdir()
    count = folder / "calls"
    traced = [
        "strace",
        "-f",
        "-o",
        str(count),
        "-e",
        "trace=fsync,fdatasync",
        sys.executable,
        "-c",
        HOUR,
        str(folder),
    ]
    subprocess.run(traced, check=True)
    total = sum("sync(" in line for line in count.read_text().splitlines())
    return [Row("forced writes per hour at 2 Hz", total, "fsyncs", "one per sample, 7,200", total / 7200)]


def _cpu_s(pid: int) -> float:
    """The CPU time of all threads of a process in seconds, with nanosecond resolution."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def _memory_mb(pid: int) -> tuple[float, float]:
    """Resident and private memory in megabytes."""
    said = Path(f"/proc/{pid}/status").read_text()
    resident, private = (int(said.split(f"{name}:")[1].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
    return resident, private
