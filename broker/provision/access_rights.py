"""Who may do what: one description that every broker's configuration is made from.

A device writes only its own topics; a subscriber reads releases and nothing else; only ops write the policy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import COHORT, ROOT, Topics, level, shard

Role = Literal["ops", "calibrator", "device", "subscriber"]
ROLES: tuple[Role, ...] = ("ops", "calibrator", "device", "subscriber")

LARGEST_PACKET = 1_048_576
"""Bytes. Our messages are a quarter of it at most."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Someone the broker lets in. A device's identity bears the device's name."""

    role: Role
    name: str
    password: str = field(repr=False)

    def __post_init__(self) -> None:
        level(self.name)
        if self.role == "device" and self.name == COHORT:
            raise Problem(f"site: no device may be called {COHORT!r}: it could publish the cohort's releases")


@dataclass(frozen=True, slots=True)
class ServerTls:
    """How the broker proves who it is; with `identities`, how everybody else does: by certificate, not password.

    `identities` is the folder of <name>.pem and <name>.key, signed by `ca`; `revoked` lists those called back.
    """

    certificate: Path
    key: Path
    ca: Path
    identities: Path | None = None
    revoked: Path | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """MQTT topic filters that an identity may publish to and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """One cohort and everyone who may connect."""

    cohort: str
    identities: tuple[Identity, ...]

    def __post_init__(self) -> None:
        level(self.cohort)
        names = [identity.name for identity in self.identities]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise Problem(f"site: {', '.join(twice)} named twice; every identity has a name of its own")

    def identity(self, name: str) -> Identity:
        for identity in self.identities:
            if identity.name == name:
                return identity
        known = ", ".join(identity.name for identity in self.identities)
        raise Problem(f"site: nobody is called {name!r}; there are {known}")


def rights(cohort: str, identity: Identity) -> Rights:
    """What the identity may do, as topic filters."""
    topics, name = Topics(cohort), identity.name
    below = f"{ROOT}/{cohort}"
    match identity.role:
        case "ops":
            return Rights(publish=(topics.policy,), subscribe=(f"{below}/#",))
        case "calibrator":
            writes = (topics.all("noise"), topics.all("seen"), topics.all("release"), topics.all("ledger"))
            return Rights(
                publish=writes, subscribe=(topics.policy, topics.all("z"), topics.all("status"), *writes)
            )
        case "device":
            return Rights(
                publish=(
                    f"{below}/z/{shard(name)}/{name}/#",
                    topics.status(name),
                    f"{below}/release/+/+/{name}",
                ),
                subscribe=(topics.policy, f"{below}/noise/+", f"{below}/noise/+/{name}", topics.seen(name)),
            )
        case "subscriber":
            return Rights(publish=(), subscribe=(topics.all("release"),))
