"""Identities and their access rights, from which the configuration of every broker is generated.

A device writes only topics with its name; a subscriber reads releases and nothing else; ops write the policy, and clear
the status of a device that is forgotten. A
console writes nothing and does not read the noisy stream: it shows none of it. Home Assistant reads releases, the
status of devices, and what is announced to it, which only the calibrator writes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hushmq.broker.contract.discovery_topics import DEFAULT_PREFIX, announced_filters
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.topics import COHORT, ROOT, TopicKind, Topics, level, shard

Role = Literal["ops", "calibrator", "device", "subscriber", "console", "home-assistant"]
ROLES: tuple[Role, ...] = ("ops", "calibrator", "device", "subscriber", "console", "home-assistant")

LARGEST_PACKET = 1_048_576
"""The largest MQTT packet that brokers accept, in bytes; messages of the contract take at most a quarter of it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that the broker accepts. The identity of a device has the device's name."""

    role: Role
    name: str
    password: str = field(repr=False)
    cohort: str | None = None
    """The cohort whose topics it uses; None: all of the site's."""

    def __post_init__(self) -> None:
        level(self.name)
        if self.role == "device" and self.name == COHORT:
            raise Problem(
                f"site: no device may have the name {COHORT!r}: it could publish the cohort's releases"
            )


@dataclass(frozen=True, slots=True)
class ServerTls:
    """The broker's certificate; with `identities`, clients authenticate by certificate instead of password.

    `identities` is the folder of <name>.pem and <name>.key, signed by `ca`; `revoked` is the revocation list.
    """

    certificate: Path
    key: Path
    ca: Path
    identities: Path | None = None
    revoked: Path | None = None


@dataclass(frozen=True, slots=True)
class Rights:
    """The MQTT topic filters that an identity may publish to and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """One cohort or several, and all identities that may connect."""

    cohort: str
    identities: tuple[Identity, ...]
    discovery_prefix: str = DEFAULT_PREFIX
    """Home Assistant's: what entities are announced below."""
    other_cohorts: tuple[str, ...] = ()
    """More cohorts, for a fleet of workers."""

    def __post_init__(self) -> None:
        for cohort in self.cohorts:
            level(cohort)
        named = Counter(identity.name for identity in self.identities)
        twice = sorted(name for name, count in named.items() if count > 1)
        if twice:
            raise Problem(f"site: {', '.join(twice)} is named twice; identities must have different names")

    @property
    def cohorts(self) -> tuple[str, ...]:
        return (self.cohort, *self.other_cohorts)

    def rights(self, identity: Identity) -> Rights:
        """What an identity may publish and subscribe to, in its cohort or in all."""
        cohorts = self.cohorts if identity.cohort is None else (identity.cohort,)
        found = [rights(cohort, identity, self.discovery_prefix) for cohort in cohorts]
        return Rights(
            publish=tuple(dict.fromkeys(name for one in found for name in one.publish)),
            subscribe=tuple(dict.fromkeys(name for one in found for name in one.subscribe)),
        )

    def identity(self, name: str) -> Identity:
        for identity in self.identities:
            if identity.name == name:
                return identity
        known = ", ".join(identity.name for identity in self.identities)
        raise Problem(f"site: there is no identity {name!r}; there are {known}")


def rights(cohort: str, identity: Identity, prefix: str = DEFAULT_PREFIX) -> Rights:
    """Return what the identity may publish and subscribe to; `prefix` is Home Assistant's discovery prefix."""
    topics, name = Topics(cohort), identity.name
    below = f"{ROOT}/{cohort}"
    match identity.role:
        case "ops":
            # They clear the status of a device that is forgotten.
            return Rights(publish=(topics.policy, f"{below}/status/+"), subscribe=(f"{below}/#",))
        case "calibrator":
            writes = (topics.all("noise"), topics.all("seen"), topics.all("release"), topics.all("ledger"))
            # It puts the newest policy back, signed by ops, where a broker has lost it.
            announced = announced_filters(prefix, cohort)
            return Rights(
                publish=(topics.policy, *writes, *announced),
                subscribe=(topics.policy, topics.all("z"), topics.all("status"), *writes, *announced),
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
        case "console":
            shown: tuple[TopicKind, ...] = ("noise", "status", "release", "ledger")
            return Rights(publish=(), subscribe=(topics.policy, *map(topics.all, shown)))
        case "home-assistant":
            # Home Assistant tells there that it has started.
            birth = f"{prefix}/status"
            return Rights(
                publish=(birth,), subscribe=(topics.all("release"), topics.all("status"), f"{prefix}/#")
            )
