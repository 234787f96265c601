"""The heart-rate recordings N1–N11 as a cohort: real agents, a real broker, the real calibrator, faster than life.

`python -m hushmq.evaluation.replay.replay_recordings` writes every recording to a file, one beat a line, and starts
a NATS server, one agent for each (source `file` with `replay`, one line a tick), and a calibrator, as processes. A
policy is pushed by `hushmq push`. Somebody with ops' rights listens; when the recordings are over, what was
released is held against what the recordings really were, and docs/replay.md and its picture are written. The noise
is real, so no two runs agree.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmq.__main__ import main as hushmq
from hushmq.broker.contract.messages import Batch, LedgerState, NoiseSetting, Release, decode
from hushmq.broker.contract.noise_message import flips_of
from hushmq.broker.contract.packing import unpack
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey, Signed
from hushmq.broker.contract.topics import Topics, parse
from hushmq.broker.mqtt.connection import Connection
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.nats import NatsServer
from hushmq.broker.service.log import logger
from hushmq.demo.demo_processes import Stage
from hushmq.pufferfish.binary.stream_loss import Box, Noise

States = NDArray[np.uint8]

COHORT, STREAM, WINDOW = "sleepers", "heart-rate", "stretch"
DATA = Path("../shared/data/meditation/normal_N1-N11.csv.gz")
START, FLOOR = Box(0.01, 0.45, 0.015, 0.45), Box(0.09, 0.1, 0.1, 0.12)
EPSILON_OPERATOR, EPSILON_PUBLIC = 10.0, 5.0
GRACE_S = 6.0
PATIENCE_S = 60.0
MOST_LINES = 4_000
"""Lines that may go by before a device has its first noise setting."""


@dataclass(frozen=True, eq=False)
class Sleeper:
    """One recording: its rates less their mean, and the states they stand for, 1 at or above the mean."""

    name: str
    rates: NDArray[np.float64]

    @property
    def states(self) -> States:
        return (self.rates >= 0).astype(np.uint8)

    def chain(self) -> tuple[float, float]:
        """Its q and r, counted at lag 1."""
        before, after = self.states[:-1], self.states[1:]
        return float(after[before == 0].mean()), float(1 - after[before == 1].mean())

    def truth(self, first: int, last: int) -> States:
        """The states of the beats first … last, the recording played over and over."""
        return self.states[np.arange(first, last + 1) % len(self.rates)]


def read(data: Path) -> list[Sleeper]:
    """The recordings."""
    if not data.is_file():
        raise Problem(f"--data: {data} is not there: say where the recordings N1–N11 are")
    found: dict[str, list[float]] = {}
    with gzip.open(data, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.setdefault(row["subject"].lower(), []).append(float(row["hr_bpm"]))
    return [Sleeper(name, np.array(rates) - np.mean(rates)) for name, rates in found.items()]


@dataclass(frozen=True, slots=True)
class Plan:
    """How long, how fast, and in which windows."""

    ticks: int = 34_000
    period_ms: int = 3
    window: int = 2_000


@dataclass(slots=True)
class Heard:
    """What came by while the recordings played."""

    first: dict[str, int] = field(default_factory=dict)
    """By device, its first tick: the first line of its recording."""
    last: dict[str, int] = field(default_factory=dict)
    batches: dict[str, list[Batch]] = field(default_factory=dict)
    settings: dict[int, NoiseSetting] = field(default_factory=dict)
    releases: dict[tuple[str, int], Release] = field(default_factory=dict)
    """By scope and first tick."""
    stopped: str | None = None
    """Why the calibrator releases nothing more, if that is so."""


class Listener:
    """Ops' ears on all topics."""

    def __init__(self, server: NatsServer) -> None:
        self.heard = Heard()
        self._lock = threading.Lock()
        topics = Topics(COHORT)
        self._connection = Connection(
            endpoints=[server.endpoint("ops")],
            client_id="ears",
            subscriptions=[topics.all(kind) for kind in ("z", "release", "noise", "ledger")],
            on_message=self._hear,
            keep_session=False,
            log=logger("error"),
        )

    def __enter__(self) -> Listener:
        self._connection.start()
        if not self._connection.wait_connected(10):
            raise Problem(f"the broker does not answer: {self._connection.last_error}")
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.stop()

    def _hear(self, topic: str, payload: bytes, _retained: bool) -> None:
        address = parse(topic)
        heard = self.heard
        with self._lock:
            match address.kind if address else None:
                case "z" if address and address.device:
                    batch = decode(Batch, payload)
                    known = heard.first.get(address.device, batch.first)
                    heard.first[address.device] = min(known, batch.first)
                    heard.last[address.device] = max(heard.last.get(address.device, 0), batch.last)
                    heard.batches.setdefault(address.device, []).append(batch)
                case "noise":
                    setting = decode(Signed[NoiseSetting], payload).message
                    heard.settings[setting.version] = setting
                case "release":
                    release = decode(Release, payload)
                    heard.releases[release.scope, release.first] = release
                case "ledger":
                    heard.stopped = decode(LedgerState, payload).stopped


@dataclass(frozen=True, slots=True)
class Played:
    """Everything a report is made from."""

    plan: Plan
    sleepers: Sequence[Sleeper]
    heard: Heard
    ledger: dict[str, Any]
    """What `hushmq ledger show --json` said of the stream."""
    verified: bool
    lines: dict[str, int] = field(default_factory=dict)
    """By device, the line of its recording at its first tick: those before it went by while it had no noise yet."""

    def __post_init__(self) -> None:
        """Find the lines: where sanitized and true states agree best."""
        for sleeper in self.sleepers:
            self.lines[sleeper.name] = _first_line(sleeper, self.heard.batches[sleeper.name])

    def noise(self, version: int) -> Noise:
        return flips_of(self.heard.settings[version].noise)

    def truth(self, sleeper: Sleeper, first: int, last: int) -> States:
        """The true states of the ticks first … last that the device has sent."""
        start, end = self.heard.first[sleeper.name], self.heard.last[sleeper.name]
        low, high = max(first, start), min(last, end)
        if low > high:
            return np.zeros(0, dtype=np.uint8)
        line = self.lines[sleeper.name] - start
        return sleeper.truth(low + line, high + line)


def _first_line(sleeper: Sleeper, batches: Sequence[Batch]) -> int:
    start = min(batch.first for batch in batches)
    scores = np.zeros(MOST_LINES)
    for batch in batches:
        sent = np.frombuffer(unpack(batch.states, batch.count), dtype=np.uint8)
        true = sleeper.truth(batch.first - start, batch.last - start + MOST_LINES - 1)
        shifted = np.lib.stride_tricks.sliding_window_view(true, batch.count)
        scores += (shifted == sent).sum(axis=1)
    return int(scores.argmax())


def play(sleepers: Sequence[Sleeper], plan: Plan, tell: Callable[[str], None]) -> Played:
    """Start everything, push the policy, wait for the last window, stop everything."""
    with tempfile.TemporaryDirectory() as name, _broker(Path(name), sleepers) as (server, keys):
        folder = Path(name)
        stage = Stage()
        with Listener(server) as ears:
            try:
                config = _write_calibrator(folder, server, keys)
                stage.add(
                    "calibrator", ["calibrator", "run", "--config", str(config)], folder / "calibrator.log"
                )
                for sleeper in sleepers:
                    agent = _write_agent(folder, server, keys, sleeper)
                    stage.add(
                        sleeper.name, ["agent", "run", "--config", str(agent)], folder / f"{sleeper.name}.log"
                    )
                _push(folder, server, plan, devices=len(sleepers))
                _wait_for_the_last_window(stage, ears.heard, plan, len(sleepers), tell)
            finally:
                stage.stop(patience=10.0)
        ledger = json.loads(_said("ledger", "show", "--config", str(config), "--json"))
        verified = json.loads(_said("ledger", "verify", "--config", str(config), "--json"))
        return Played(plan, sleepers, ears.heard, ledger[STREAM], verified["right"])


Keys = tuple[PrivateKey, PrivateKey]


@contextmanager
def _broker(folder: Path, sleepers: Sequence[Sleeper]) -> Iterator[tuple[NatsServer, Keys]]:
    identities = [Identity("ops", "ops", secrets.token_urlsafe(12))]
    identities += [Identity("calibrator", "calibrator", secrets.token_urlsafe(12))]
    identities += [Identity("device", one.name, secrets.token_urlsafe(12)) for one in sleepers]
    site = Site(COHORT, tuple(identities))
    for identity in identities:
        write_private(folder / f"{identity.name}.password", identity.password + "\n")
    keys = PrivateKey.generate(), PrivateKey.generate()
    keys[0].save(folder / "ops.key")
    keys[1].save(folder / "calibrator.key")
    with NatsServer(site, folder / "broker") as server:
        yield server, keys


def _address(folder: Path, server: NatsServer, name: str) -> str:
    return (
        f'[broker]\nurls = ["mqtt://{server.host}:{server.port}"]\nusername = "{name}"\n'
        f'password_file = "{folder / name}.password"\n'
    )


def _write_calibrator(folder: Path, server: NatsServer, keys: Keys) -> Path:
    path = folder / "calibrator.toml"
    path.write_text(
        f'cohort = "{COHORT}"\ndatabase = "sqlite:///{folder / "ledger.db"}"\ngrace_s = {GRACE_S}\n'
        f"seen_every_s = 0.5\n{_address(folder, server, 'calibrator')}"
        f'[keys]\nops_keys = ["{keys[0].public}"]\nsigning_key_file = "{folder / "calibrator.key"}"\n'
        '[log]\nform = "json"\n'
    )
    return path


def _write_agent(folder: Path, server: NatsServer, keys: Keys, sleeper: Sleeper) -> Path:
    recording = folder / f"{sleeper.name}.txt"
    recording.write_text("\n".join(f"{rate:.4f}" for rate in sleeper.rates) + "\n")
    path = folder / f"{sleeper.name}.toml"
    path.write_text(
        f'device = "{sleeper.name}"\ncohort = "{COHORT}"\nfolder = "{folder / sleeper.name}"\n'
        f"{_address(folder, server, sleeper.name)}"
        f'[trust]\nops_keys = ["{keys[0].public}"]\ncalibrator_keys = ["{keys[1].public}"]\n'
        f"epsilon_max = {max(EPSILON_OPERATOR, EPSILON_PUBLIC)}\n"
        "[publish]\nbeat_ms = 500\nstatus_ms = 2000\nresend_ms = 5000\n"
        f'[streams.{STREAM}.source]\nkind = "file"\nfile = "{recording}"\nreplay = true\nrepeat = true\n'
    )
    return path


def _push(folder: Path, server: NatsServer, plan: Plan, *, devices: int) -> None:
    """Push the policy as ops do, once every device is there."""
    path = folder / "policy.json"
    path.write_text(
        json.dumps(
            {
                "cohort": COHORT,
                "streams": {
                    STREAM: {
                        "states": ["below", "above"],
                        "period_ms": plan.period_ms,
                        "discretiser": {"kind": "threshold", "at": 0.0},
                        "theta": {"start": _theta(START), "floor": _theta(FLOOR)},
                        "epsilon": {"operator": EPSILON_OPERATOR, "public": EPSILON_PUBLIC},
                        "windows": {WINDOW: {"ticks": plan.window, "scopes": ["cohort", "device"]}},
                    }
                },
            }
        )
    )
    told = _said(
        *("push", str(path), "--key", str(folder / "ops.key"), "--yes", "--json", "--timeout", "60"),
        *("--broker", f"mqtt://{server.host}:{server.port}", "--username", "ops"),
        *("--password-file", str(folder / "ops.password")),
    )
    applied = [name for name, one in json.loads(told)["devices"].items() if one["state"] == "applied"]
    if len(applied) > devices:
        raise Problem(f"{len(applied)} devices have applied the policy, there are {devices}")


def _theta(box: Box) -> dict[str, dict[str, float]]:
    return {"q": {"low": box.q_low, "high": box.q_high}, "r": {"low": box.r_low, "high": box.r_high}}


def _said(*arguments: str) -> str:
    """What a hushmq command prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        hushmq(list(arguments))
    return out.getvalue()


def _wait_for_the_last_window(
    stage: Stage, heard: Heard, plan: Plan, devices: int, tell: Callable[[str], None]
) -> None:
    """Until so many ticks have played and the window before the last tick is released, or nothing more will be."""
    deadline = time.monotonic() + plan.ticks * plan.period_ms / 1000 + PATIENCE_S
    while time.monotonic() < deadline:
        stage.look_after()
        time.sleep(1.0)
        begun = len(heard.first) == devices and max(heard.first.values())
        played = max(heard.last.values(), default=0) - begun if begun else 0
        released = [first for scope, first in list(heard.releases) if scope == "cohort"]
        tell(
            f"{max(0, played):,} of {plan.ticks:,} ticks, {len(released)} windows, {len(heard.settings)} settings"
        )
        if heard.stopped is not None:
            return
        if begun and released:
            end = (begun + plan.ticks) // plan.window * plan.window
            if max(released) + plan.window >= end:
                return
    raise Problem(f"the last window was not released in time; heard {len(heard.releases)} releases")


def agreement(played: Played, sleeper: Sleeper) -> tuple[float, float]:
    """How often sanitized and true states agree, and how often they should: whether ticks and lines go together."""
    equal = expected = total = 0.0
    for batch in played.heard.batches[sleeper.name]:
        sent = np.frombuffer(unpack(batch.states, batch.count), dtype=np.uint8)
        true = played.truth(sleeper, batch.first, batch.last)
        noise = played.noise(batch.noise)
        equal += float((sent == true).sum())
        expected += float(np.where(true == 1, 1 - noise.rho1, 1 - noise.rho0).sum())
        total += batch.count
    return equal / total, expected / total


def _teller() -> Callable[[str], None]:
    """Tell how far it is: in place on a terminal, else a line every ten seconds."""
    told = -10.0

    def tell(text: str) -> None:
        nonlocal told
        if sys.stderr.isatty():
            print(f"\r{text}  ", end="", file=sys.stderr)
        elif time.monotonic() - told >= 10:
            told = time.monotonic()
            print(text, file=sys.stderr)

    return tell


def main(argv: Sequence[str] | None = None) -> int:
    """Play, and write the page."""
    from hushmq.evaluation.replay.replay_page import write  # noqa: PLC0415  # it reads from this module, and draws

    parser = argparse.ArgumentParser(
        prog="python -m hushmq.evaluation.replay.replay_recordings", description=__doc__
    )
    parser.add_argument("--data", type=Path, default=DATA, help="the recordings")
    parser.add_argument("--ticks", type=int, default=34_000, help="beats to play of each (default 34000)")
    parser.add_argument("--period-ms", type=int, default=3, help="of one beat (default 3)")
    parser.add_argument("--window", type=int, default=2_000, help="beats in a window (default 2000)")
    parser.add_argument("--page", type=Path, default=Path("docs/replay.md"), help="default docs/replay.md")
    args = parser.parse_args(argv)
    try:
        plan = Plan(args.ticks, args.period_ms, args.window)
        played = play(read(args.data), plan, _teller())
    except Problem as problem:
        print(f"replay: {problem}", file=sys.stderr)
        return 2
    write(played, args.page)
    print(f"{args.page}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
