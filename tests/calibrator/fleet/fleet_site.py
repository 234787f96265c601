"""A fleet for tests: many cohorts at one broker and in one database, workers as processes, devices that send again."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

from hushmq.__main__ import main
from hushmq.broker.contract.messages import Counted, Release, Seen, decode
from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.topics import ROOT, Topics
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import BrokerProcess
from hushmq.calibrator.commands import run_command  # noqa: F401  # imported once, for every worker
from hushmq.calibrator.fleet import worker  # noqa: F401  # as above
from hushmq.calibrator.fleet.fleet_survey import survey
from hushmq.calibrator.store.cohort_schema import cohort_url
from tests.calibrator.site import CALIBRATOR, OPS, STREAM, batch, policy, signed, states, wait_until

PERIOD_MS, WINDOW = 10, 1000
"""Windows of ten seconds."""
TICKS = 100
"""Ticks in a batch."""


def tick() -> int:
    return time.time_ns() // (PERIOD_MS * 1_000_000)


def fleet_site(cohorts: int) -> Site:
    """A site with cohorts c0, c1, …, each with two devices, and workers."""
    names = tuple(f"c{n}" for n in range(cohorts))
    return Site(
        cohort=names[0],
        other_cohorts=names[1:],
        identities=(
            Identity("ops", "ops", "ops-secret"),
            *(Identity("calibrator", f"worker-{n}", "worker-secret") for n in range(4)),
            *(
                Identity("device", f"{cohort}-{n}", "device-secret", cohort)
                for cohort in names
                for n in range(2)
            ),
        ),
    )


@dataclass
class Device:
    """Sends batches and keeps each until it is seen."""

    cohort: str
    name: str
    broker: BrokerProcess
    waiting: dict[int, bytes] = field(default_factory=dict)
    sent: list[int] = field(default_factory=list)
    _last: int | None = None
    _again: float = 0.0

    @contextmanager
    def connected(self) -> Iterator[None]:
        self._connection = Connection(
            endpoints=[self.broker.endpoint(self.name)],
            client_id=self.name,
            subscriptions=[Topics(self.cohort).seen(self.name)],
            on_message=lambda _topic, payload, _retained: self._seen(payload),
            keep_session=False,
        )
        self._connection.start()
        assert self._connection.wait_connected(20), self._connection.last_error
        try:
            yield
        finally:
            self._connection.stop()

    def send(self, first: int) -> None:
        """Make a batch of the ticks from `first` on, and send it; now and then all that was not seen."""
        payload = batch(first, states(TICKS, seed=first), after=self._last)
        self.waiting[first] = payload
        self._last = first + TICKS - 1
        self.sent.append(first)
        self._publish(payload)
        self.send_again()

    def send_again(self) -> None:
        """Send all that was not seen, at most every two seconds."""
        if time.monotonic() >= self._again:
            self._again = time.monotonic() + 2.0
            for payload in list(self.waiting.values()):
                self._publish(payload)

    def _publish(self, payload: bytes) -> None:
        with suppress(Offline):
            self._connection.publish(Topics(self.cohort).batch(self.name, STREAM), payload)

    def _seen(self, payload: bytes) -> None:
        counted = decode(Seen, payload).streams.get(STREAM)
        for first in list(self.waiting):
            if counted is not None and counts(counted, first, first + TICKS - 1):
                self.waiting.pop(first, None)


def counts(counted: Counted, first: int, last: int) -> bool:
    """Whether a batch is counted."""
    return last <= counted.highest and not any(low <= last and first <= high for low, high in counted.holes)


class Fleet:
    """Where workers find their settings, and what they wrote."""

    def __init__(
        self,
        folder: Path,
        broker: BrokerProcess,
        database: str,
        cohorts: int,
        top: str = "",
        clusters: Mapping[str, tuple[str, BrokerProcess]] | None = None,
    ) -> None:
        """`clusters`: by name a pattern of cohorts and their broker, where there is not one broker for all."""
        self.folder, self.broker, self.database = folder, broker, database
        self._clusters = clusters or {}
        self.cohorts = [f"c{n}" for n in range(cohorts)]
        self._top = top
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "keys").mkdir(exist_ok=True)
        for cohort in self.cohorts:
            CALIBRATOR.save(folder / "keys" / f"{cohort}.key")

    def config(self, number: int, cohorts: str = '"*"') -> Path:
        """The settings file of a worker."""
        folder = self.folder / f"worker-{number}"
        folder.mkdir(exist_ok=True)
        password = folder / "password"
        password.touch(mode=0o600)
        password.write_text("worker-secret\n")
        path = folder / "fleet.toml"
        path.write_text(f"""
cohorts = {cohorts}
name = "worker-{number}"
database = "{self.database}"
mark_folder = "{self.folder / "marks"}"
claim_s = 3
grace_s = 0.2
seen_every_s = 0.1
collect_s = 0.03
{self._top}
{self._reached(f'username = "worker-{number}"' + chr(10) + f'password_file = "{password}"')}
[keys]
ops_keys = ["{OPS.public}"]
signing_key_file = "{self.folder}/keys/{{cohort}}.key"
""")
        return path

    def _reached(self, credentials: str) -> str:
        """The sections about brokers."""
        if not self._clusters:
            return f'[broker]\nurls = ["mqtt://127.0.0.1:{self.broker.port}"]\n{credentials}'
        return "\n".join(
            f'[clusters.{name}]\ncohorts = ["{pattern}"]\nurls = ["mqtt://127.0.0.1:{broker.port}"]\n{credentials}'
            for name, (pattern, broker) in self._clusters.items()
        )

    @contextmanager
    def worker(
        self, number: int, cohorts: str = '"*"', begin: Callable[[], None] = lambda: None
    ) -> Iterator[BaseProcess]:
        """A worker as a process, a fork of this one so that it need not import anything; killed at the end.

        `begin` is called in it first.
        """
        config = self.config(number, cohorts)
        child = get_context("fork").Process(
            target=_work, args=(config, config.parent / "log", begin), daemon=True
        )
        child.start()
        try:
            yield child
        finally:
            child.kill()
            child.join(10)

    def said(self, number: int, name: str) -> list[dict[str, str]]:
        """What a worker logged under a name."""
        log = self.folder / f"worker-{number}" / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [one for one in map(json.loads, lines) if one["event"] == name]

    def claimants(self) -> dict[str, str]:
        """Which worker claims each cohort, as the database says."""
        claims = survey(self.database)
        return {
            cohort: claims.peers[claimant].name
            for cohort, claimant in claims.claimants.items()
            if claimant is not None and claimant in claims.peers
        }

    def url(self, cohort: str) -> str:
        return cohort_url(self.database, cohort)


class Ops:
    """Pushes policies and hears everything."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.heard: dict[str, list[bytes]] = {}
        self._connection = Connection(
            endpoints=[broker.endpoint("ops")],
            client_id="ops",
            subscriptions=[f"{ROOT}/{cohort}/#" for cohort in broker.site.cohorts],
            on_message=lambda topic, payload, _retained: self.heard.setdefault(topic, []).append(payload),
            keep_session=False,
        )

    def __enter__(self) -> Ops:
        self._connection.start()
        assert self._connection.wait_connected(20), self._connection.last_error
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.stop()

    def push(self, cohort: str, ticks: int = WINDOW) -> None:
        """A policy with windows of so many ticks."""
        message = policy(cohort=cohort, period_ms=PERIOD_MS, windows={"short": Window(ticks=ticks)})
        self._connection.publish(Topics(cohort).policy, signed(message), retain=True)

    def has_setting(self, cohort: str) -> bool:
        return Topics(cohort).noise(STREAM) in self.heard

    def payloads(self, cohort: str) -> set[bytes]:
        """The bytes of every release that was published."""
        return set(self.heard.get(Topics(cohort).release(STREAM, "short", "cohort"), []))

    def releases(self, cohort: str) -> list[Release]:
        return [decode(Release, payload) for payload in self.payloads(cohort)]


def _work(config: Path, log: Path, begin: Callable[[], None]) -> None:
    """`hushmq calibrator run`, in a process of its own."""
    begin()
    signal.setitimer(signal.ITIMER_REAL, 0)  # not the test's time limit
    sys.stderr = log.open("a", buffering=1)
    sys.exit(main(["calibrator", "run", "--config", str(config)]))


def tell(child: BaseProcess, number: signal.Signals) -> None:
    """Send a signal to a worker; after SIGSTOP it has stopped."""
    assert child.pid is not None
    os.kill(child.pid, number)
    if number is signal.SIGSTOP:
        wait_until(lambda: _state(child) == "T")


def _state(child: BaseProcess) -> str:
    return Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
