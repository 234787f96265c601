"""The site of a replay: the recordings, the broker, and the configuration and policy that its processes read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import secrets
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushmq.__main__ import main as hushmq
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.provision.access_rights import Identity, Site
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.nats import NatsServer

States = NDArray[np.uint8]

DATA = Path("../shared/data/meditation/normal_N1-N11.csv.gz")
COHORT, STREAM, WINDOW = "sleepers", "heart-rate", "stretch"
Epsilons = tuple[float, float]
"""Of operators and of the public."""
ASKED: Epsilons = (4.0, 2.0)
LARGER: Epsilons = (8.0, 5.0)
"""Above the contrast that Θ allows for: then regimes need not be hidden."""
PILOTS = ("n1", "n2", "n3", "n4", "n5")
"""Whose recordings `hushmq plan` is given: the first five."""
GRACE_S = 20.0


@dataclass(frozen=True, eq=False)
class Sleeper:
    """One recording: its rates minus their mean, and its states, 1 at or above the mean."""

    name: str
    rates: NDArray[np.float64]

    @property
    def states(self) -> States:
        return (self.rates >= 0).astype(np.uint8)

    def chain(self) -> tuple[float, float]:
        """Its q and r, from transition counts at lag 1."""
        before, after = self.states[:-1], self.states[1:]
        return float(after[before == 0].mean()), float(1 - after[before == 1].mean())

    def truth(self, first: int, last: int) -> States:
        """The states of the beats first … last, with the recording repeated."""
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
class ReplayPlan:
    """The length, the speed and the windows of the replay."""

    stream: Mapping[str, Any]
    """The stream's policy, as in a policy file."""
    ticks: int = 34_000
    window: int = 2_000

    @property
    def period_ms(self) -> int:
        return int(self.stream["period_ms"])

    @property
    def epsilons(self) -> Epsilons:
        return float(self.stream["epsilon"]["operator"]), float(self.stream["epsilon"]["public"])


Keys = tuple[PrivateKey, PrivateKey]


@contextmanager
def replay_broker(folder: Path, sleepers: Sequence[Sleeper]) -> Iterator[tuple[NatsServer, Keys]]:
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


def write_calibrator(folder: Path, server: NatsServer, keys: Keys) -> Path:
    path = folder / "calibrator.toml"
    path.write_text(
        f'cohort = "{COHORT}"\ndatabase = "sqlite:///{folder / "ledger.db"}"\ngrace_s = {GRACE_S}\n'
        f"seen_every_s = 0.5\n{_address(folder, server, 'calibrator')}"
        f'[keys]\nops_keys = ["{keys[0].public}"]\nsigning_key_file = "{folder / "calibrator.key"}"\n'
        '[roster]\nadmit_least = 1000\n[log]\nform = "json"\n'
    )
    return path


def write_agent(folder: Path, server: NatsServer, keys: Keys, sleeper: Sleeper, plan: ReplayPlan) -> Path:
    recording = folder / f"{sleeper.name}.txt"
    recording.write_text("\n".join(f"{rate:.4f}" for rate in sleeper.rates) + "\n")
    path = folder / f"{sleeper.name}.toml"
    path.write_text(
        f'device = "{sleeper.name}"\ncohort = "{COHORT}"\nfolder = "{folder / sleeper.name}"\n'
        f"{_address(folder, server, sleeper.name)}"
        f'[trust]\nops_keys = ["{keys[0].public}"]\ncalibrator_keys = ["{keys[1].public}"]\n'
        f"epsilon_max = {max(plan.epsilons)}\n"
        "[publish]\nbeat_ms = 500\nstatus_ms = 2000\nresend_ms = 5000\n"
        f'[streams.{STREAM}.source]\nkind = "file"\nfile = "{recording}"\nreplay = true\nrepeat = true\n'
    )
    return path


def planned(
    folder: Path,
    sleepers: Sequence[Sleeper],
    plan_window: int,
    epsilons: Epsilons,
    *,
    per_device: bool,
    period_ms: int,
    pilots: Sequence[str] = PILOTS,
    options: Sequence[str] = (),
) -> tuple[dict[str, Any], list[str]]:
    """The stream's policy as `hushmq plan` writes it from the pilot's recordings, and what it says.

    One beat counts as a second there; the replay's period is shorter, and nothing else of the policy depends on it.
    """
    arguments = []
    for sleeper in sleepers:
        if sleeper.name in pilots:
            recording = folder / f"{sleeper.name}.csv"
            recording.write_text("\n".join(f"{rate:.4f}" for rate in sleeper.rates) + "\n")
            arguments += ["--recording", str(recording)]
    path = folder / f"planned-{'device' if per_device else 'cohort'}.toml"
    said = command_output(
        *("plan", *arguments, "--every", "1s", "--threshold", "0", "--states", "below,above"),
        *("--devices", str(len(sleepers)), "--window", f"{WINDOW}={plan_window}s", "--stream", STREAM),
        *("--epsilon", str(epsilons[0]), "--public", str(epsilons[1]), "--write", str(path)),
        *(("--per-device",) if per_device else ()),
        *options,
    )
    stream = tomllib.loads(path.read_text())["streams"][STREAM] | {"period_ms": period_ms}
    return stream, [line for line in said.splitlines() if str(folder) not in line]


def push_policy(folder: Path, server: NatsServer, plan: ReplayPlan, *, devices: int) -> None:
    """Pushes the policy with `hushmq push` once every device is connected."""
    path = folder / "policy.json"
    path.write_text(json.dumps({"cohort": COHORT, "streams": {STREAM: plan.stream}}))
    answer = command_output(
        *("push", str(path), "--key", str(folder / "ops.key"), "--yes", "--json", "--timeout", "120"),
        *("--broker", f"mqtt://{server.host}:{server.port}", "--username", "ops"),
        *("--password-file", str(folder / "ops.password")),
    )
    applied = [name for name, one in json.loads(answer)["devices"].items() if one["state"] == "applied"]
    if len(applied) > devices:
        raise Problem(f"{len(applied)} devices have applied the policy, there are {devices}")


def command_output(*arguments: str) -> str:
    """The standard output of a hushmq command."""
    out = io.StringIO()
    with redirect_stdout(out):
        hushmq(list(arguments))
    return out.getvalue()
