"""The plan of the demo: simulated wearables, their policy, and the configuration files of the processes."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from hushmq.agent.sources.simulated_source import SimulatedChain
from hushmq.broker.contract.policy_message import (
    Assumption,
    Audiences,
    Policy,
    StreamPolicy,
    Threshold,
    Window,
)
from hushmq.broker.contract.signature import PrivateKey
from hushmq.broker.contract.theta_message import BinaryThetaMessage, Interval
from hushmq.broker.provision.access_rights import Identity, Role, Site
from hushmq.broker.provision.broker_process import write_private

STREAM = "motion"
WINDOW = "two-seconds"
PERIOD_MS = 1
WINDOW_TICKS = 2_000
BEAT_MS = 500
GRACE_S = 1.5
THRESHOLD = 75.0
OPS, CALIBRATOR, READER, CONSOLE = "ops", "calibrator", "reader", "console"


@dataclass(frozen=True, slots=True)
class Wearable:
    """A simulated device; its chain differs a little from those of the other devices of the cohort."""

    name: str
    q: float
    r: float
    seed: int
    start_tick: int

    def chain(self) -> SimulatedChain:
        return SimulatedChain.binary(self.q, self.r, self.seed, self.start_tick)


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The cohort, its devices, identities, keys and policy."""

    cohort: str
    wearables: tuple[Wearable, ...]
    site: Site
    ops_key: PrivateKey
    calibrator_key: PrivateKey
    policy: Policy


def make_plan(*, agents: int, epsilon: float, now: float) -> DemoPlan:
    """A plan with wearables whose q and r differ a little, and a policy that starts with a wide Θ."""
    cohort = f"demo-{secrets.token_hex(3)}"
    start_tick = int(now * 1000) // PERIOD_MS
    wearables = tuple(
        Wearable(
            name=f"wearable-{number + 1}",
            q=round(0.28 + 0.02 * ((number % 3) - 1), 3),
            r=round(0.38 + 0.02 * ((number % 4) - 1.5), 3),
            seed=secrets.randbits(32),
            start_tick=start_tick,
        )
        for number in range(agents)
    )
    names: list[tuple[str, Role]] = [
        (OPS, "ops"),
        (CALIBRATOR, "calibrator"),
        (READER, "subscriber"),
        (CONSOLE, "console"),
    ]
    identities = [Identity(role, name, secrets.token_urlsafe(18)) for name, role in names]
    identities += [Identity("device", wearable.name, secrets.token_urlsafe(18)) for wearable in wearables]
    return DemoPlan(
        cohort=cohort,
        wearables=wearables,
        site=Site(cohort, tuple(identities)),
        ops_key=PrivateKey.generate(),
        calibrator_key=PrivateKey.generate(),
        policy=_policy(cohort, epsilon),
    )


def _policy(cohort: str, epsilon: float) -> Policy:
    stream = StreamPolicy(
        states=("still", "moving"),
        period_ms=PERIOD_MS,
        discretiser=Threshold(at=THRESHOLD),
        theta=Assumption(start=_theta(0.12, 0.48, 0.12, 0.48), floor=_theta(0.26, 0.30, 0.35, 0.41)),
        epsilon=Audiences(operator=epsilon, public=epsilon / 2),
        windows={WINDOW: Window(ticks=WINDOW_TICKS)},
    )
    return Policy(version=1, cohort=cohort, streams={STREAM: stream})


def _theta(q_low: float, q_high: float, r_low: float, r_high: float) -> BinaryThetaMessage:
    return BinaryThetaMessage(q=Interval(low=q_low, high=q_high), r=Interval(low=r_low, high=r_high))


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """The broker's address. On the demo's broker each client has an identity; on the user's all share the given one."""

    url: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: Path | None = None
    password_in_clear_text: bool = False
    shared: bool = False


def write_agent(plan: DemoPlan, wearable: Wearable, address: BrokerAddress, folder: Path) -> Path:
    """Writes the configuration file of an agent in its folder, and returns its path."""
    home = folder / wearable.name
    home.mkdir()
    lines: dict[str, object] = {
        "device": wearable.name,
        "cohort": plan.cohort,
        "folder": str(home),
        "broker": _broker(plan, wearable.name, address, home),
        "trust": {
            "ops_keys": [str(plan.ops_key.public)],
            "calibrator_keys": [str(plan.calibrator_key.public)],
            "epsilon_max": plan.policy.streams[STREAM].epsilon.operator,
            "rho_min": 0.001,
        },
        "publish": {"beat_ms": BEAT_MS, "status_ms": 1_000, "resend_ms": 5_000, "linger_ms": 1_500},
        f"streams.{STREAM}.source": {
            "kind": "simulate",
            "q": wearable.q,
            "r": wearable.r,
            "seed": wearable.seed,
            "start_tick": wearable.start_tick,
            "low": THRESHOLD - 15,
            "high": THRESHOLD + 15,
        },
    }
    return _write_toml(home / "agent.toml", lines)


def write_calibrator(plan: DemoPlan, address: BrokerAddress, folder: Path) -> Path:
    """Writes the configuration file of the calibrator and its signing key, and returns the file's path."""
    home = folder / CALIBRATOR
    home.mkdir()
    key_file = home / "signing.key"
    plan.calibrator_key.save(key_file)
    lines: dict[str, object] = {
        "cohort": plan.cohort,
        "database": f"sqlite:///{database(folder)}",
        "grace_s": GRACE_S,
        "seen_every_s": 0.5,
        "collect_s": 0.1,
        "broker": _broker(plan, CALIBRATOR, address, home),
        "roster": {"admit_least": len(plan.wearables)},
        "keys": {"ops_keys": [str(plan.ops_key.public)], "signing_key_file": str(key_file)},
    }
    return _write_toml(home / "calibrator.toml", lines)


def write_console(plan: DemoPlan, address: BrokerAddress, folder: Path, *, upload: bool = True) -> Path:
    """Writes the configuration file of the console, which shows the demo on loopback, and returns its path."""
    home = folder / CONSOLE
    home.mkdir()
    lines: dict[str, object] = {
        "cohort": plan.cohort,
        "database": f"sqlite:///{database(folder)}",
        "users_file": str(home / "users.json"),
        "log_file": str(home / "log.jsonl"),
        "port": 0,
        "grace_s": GRACE_S,
        "broker": _broker(plan, CONSOLE, address, home),
        "keys": {
            "ops_keys": [str(plan.ops_key.public)],
            "calibrator_keys": [str(plan.calibrator_key.public)],
        },
    }
    if upload and not address.shared:
        write_private(home / "ops-password", plan.site.identity(OPS).password + "\n")
        lines["upload"] = {"username": OPS, "password_file": str(home / "ops-password")}
    return _write_toml(home / "console.toml", lines)


def database(folder: Path) -> Path:
    return folder / CALIBRATOR / "ledger.db"


def _broker(plan: DemoPlan, name: str, address: BrokerAddress, home: Path) -> dict[str, object]:
    username, password = address.username, address.password
    if not address.shared:
        identity = plan.site.identity(name)
        username, password = identity.name, identity.password
    section: dict[str, object] = {"urls": [address.url]}
    if username is not None:
        section["username"] = username
    if password is not None:
        write_private(home / "password", password + "\n")
        section["password_file"] = str(home / "password")
    if address.password_in_clear_text:
        section["password_in_clear_text"] = True
    if address.ca is not None:
        section["tls.ca"] = str(address.ca)
    return section


def _write_toml(path: Path, tree: dict[str, object]) -> Path:
    """Writes TOML of two levels, with dotted keys for a third; JSON's strings, numbers and lists are valid TOML."""
    top = [f"{key} = {json.dumps(value)}" for key, value in tree.items() if not isinstance(value, dict)]
    for name, section in tree.items():
        if isinstance(section, dict):
            top += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in section.items())]
    path.write_text("\n".join(top) + "\n")
    return path
