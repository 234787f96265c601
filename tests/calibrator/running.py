"""The calibrator as the process a site runs, and the others at the same broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hushmq.broker.contract.messages import LedgerState, NoiseSetting, Release, Seen, decode
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.broker_process import BrokerProcess
from tests.calibrator.site import CALIBRATOR, OPS, STREAM, TOPICS, sqlite, wait_until


def write_config(
    folder: Path, broker: BrokerProcess, *, database: str | None = None, top: str = "", sections: str = ""
) -> Path:
    """The calibrator's file, its key and its password."""
    folder.mkdir(parents=True, exist_ok=True)
    key, password = folder / "signing.key", folder / "password"
    if not key.exists():
        CALIBRATOR.save(key)
        password.touch(mode=0o600)
        password.write_text("calibrator-secret\n")
    path = folder / "calibrator.toml"
    path.write_text(f"""
cohort = "test"
database = "{database or sqlite(folder)}"
grace_s = 0.2
seen_every_s = 0.1
collect_s = 0.03
{top}
[broker]
urls = ["mqtt://127.0.0.1:{broker.port}"]
username = "calibrator"
password_file = "{password}"
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{key}"
{sections}
""")
    return path


@contextmanager
def process(
    config: Path, *, code: str = "", log: Path | None = None, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """`hushmq calibrator run` as a process; `code` runs in it first. Killed at the end if it still runs."""
    script = f"{code}\nimport sys\nfrom hushmq.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    with (log or config.parent / "log").open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-c", script, "calibrator", "run", "--config", str(config)],
            stderr=output,
            stdin=subprocess.DEVNULL,
            env=os.environ | (environment or {}),
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
        child.wait(10)


class Client:
    """Someone at the broker: hears topics, says things."""

    def __init__(self, broker: BrokerProcess, name: str, *filters: str) -> None:
        self.heard: dict[str, list[bytes]] = defaultdict(list)
        self._lock = threading.Lock()
        self._connection = Connection(
            endpoints=[broker.endpoint(name)],
            client_id=f"{name}-{os.urandom(4).hex()}",
            subscriptions=filters,
            on_message=self._hear,
            keep_session=False,
        )

    def __enter__(self) -> Client:
        self._connection.start()
        assert self._connection.wait_connected(10), self._connection.last_error
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.stop()

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        with self._lock:
            self.heard[topic].append(payload)

    def say(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish and wait until the broker has it."""
        done = threading.Event()
        self._connection.wait_connected(10)
        self._connection.publish(topic, payload, retain=retain, on_acknowledged=done.set)
        assert done.wait(10)

    def releases(self) -> list[Release]:
        with self._lock:
            return [
                decode(Release, payload)
                for topic, payloads in self.heard.items()
                if topic.startswith(TOPICS.all("release")[:-1])
                for payload in payloads
            ]

    def seen(self, device: str) -> Seen | None:
        heard = self.heard.get(TOPICS.seen(device))
        return decode(Seen, heard[-1]) if heard and heard[-1] else None

    def setting(self, stream: str = STREAM) -> NoiseSetting | None:
        heard = self.heard.get(TOPICS.noise(stream))
        return decode(Signed[NoiseSetting], heard[-1]).message if heard else None

    def ledger(self, stream: str = STREAM) -> LedgerState | None:
        heard = self.heard.get(TOPICS.ledger(stream))
        return decode(LedgerState, heard[-1]) if heard else None

    def ledger_state(self, stream: str = STREAM) -> LedgerState | None:
        """The newest message on the ledger's topic that is one."""
        for payload in reversed(self.heard.get(TOPICS.ledger(stream), [])):
            try:
                return decode(LedgerState, payload)
            except Rejected:
                continue
        return None

    def wait_for_setting(self, version: int = 1) -> None:
        wait_until(lambda: (one := self.setting()) is not None and one.version >= version)
