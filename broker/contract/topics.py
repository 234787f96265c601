"""Every topic of the contract, built and parsed in this one place.

A level is `[a-z0-9_-]{1,64}`, because a space or a dot breaks a NATS connection. All topics of a cohort are below
`hush/1/<cohort>/`; the 1 is the version of this layout and changes with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

LEVEL = re.compile(r"[a-z0-9_-]{1,64}")
ROOT = "hush/1"
SHARDS = 16
COHORT = "cohort"
"""The scope of a release about the whole cohort. No device may have this name: devices publish under their name."""

TopicKind = Literal["policy", "noise", "z", "seen", "status", "release", "ledger"]


def level(name: str) -> str:
    """Return the name if it is a valid topic level; raise ValueError otherwise."""
    if not LEVEL.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid topic level: use 1 to 64 of a-z, 0-9, '_' and '-'")
    return name


def shard(device: str) -> str:
    """Return the shard of a device, one hexadecimal digit: a stable hash, the same on every machine."""
    return f"{blake2b(device.encode(), digest_size=1).digest()[0] % SHARDS:x}"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed topic. Levels that topics of this kind do not have are None."""

    cohort: str
    kind: TopicKind
    device: str | None = None
    stream: str | None = None
    window: str | None = None
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics of one cohort."""

    cohort: str

    def __post_init__(self) -> None:
        level(self.cohort)

    def _below(self, *levels: str) -> str:
        return "/".join((ROOT, self.cohort, *(level(name) for name in levels)))

    @property
    def policy(self) -> str:
        return self._below("policy")

    def noise(self, stream: str, device: str | None = None) -> str:
        return self._below("noise", stream, *([device] if device else []))

    def batch(self, device: str, stream: str) -> str:
        return self._below("z", shard(device), device, stream)

    def seen(self, device: str) -> str:
        return self._below("seen", device)

    def status(self, device: str) -> str:
        return self._below("status", device)

    def release(self, stream: str, window: str, scope: str) -> str:
        return self._below("release", stream, window, scope)

    def ledger(self, stream: str) -> str:
        return self._below("ledger", stream)

    def all(self, kind: TopicKind) -> str:
        """Return the subscription filter for every topic of a kind."""
        return self.policy if kind == "policy" else f"{self._below(kind)}/#"


def parse(topic: str) -> Address | None:
    """Return the address of a topic, or None when it is not a topic of the contract."""
    root, *rest = topic.split("/", 2)
    parts = rest[1].split("/") if len(rest) == 2 and f"{root}/{rest[0]}" == ROOT else []
    if len(parts) < 2 or not all(LEVEL.fullmatch(part) for part in parts):
        return None
    match parts:
        case [cohort, "policy"]:
            return Address(cohort, "policy")
        case [cohort, "noise", stream]:
            return Address(cohort, "noise", stream=stream)
        case [cohort, "noise", stream, device]:
            return Address(cohort, "noise", device=device, stream=stream)
        case [cohort, "z", shard_, device, stream] if shard_ == shard(device):
            return Address(cohort, "z", device=device, stream=stream)
        case [cohort, "seen", device]:
            return Address(cohort, "seen", device=device)
        case [cohort, "status", device]:
            return Address(cohort, "status", device=device)
        case [cohort, "release", stream, window, scope]:
            return Address(cohort, "release", stream=stream, window=window, scope=scope)
        case [cohort, "ledger", stream]:
            return Address(cohort, "ledger", stream=stream)
    return None
