"""The topics on which entities are announced to Home Assistant: `<prefix>/<component>/hushmq-<cohort>/<name>/config`.

The prefix is Home Assistant's (`homeassistant` unless it is told otherwise). The third level is ours alone, so that a
calibrator needs no right to write what other programs announce.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Literal

from hushmq.broker.contract.topics import ROOT, level

DEFAULT_PREFIX = "homeassistant"
Component = Literal["sensor", "binary_sensor"]
COMPONENTS: tuple[Component, ...] = ("sensor", "binary_sensor")


def discovery_prefix(prefix: str) -> str:
    """Return the prefix if entities may be announced below it; raise ValueError otherwise."""
    if level(prefix) == ROOT.split("/", 1)[0]:
        raise ValueError(
            f"{prefix!r} is where our own messages are: write another one, or {DEFAULT_PREFIX!r}"
        )
    return prefix


def announced_filters(prefix: str, cohort: str) -> list[str]:
    """Return the filters that cover everything a cohort's calibrator may announce."""
    return [f"{prefix}/{component}/hushmq-{level(cohort)}/+/config" for component in COMPONENTS]


def announced_topic(prefix: str, cohort: str, component: Component, *names: str) -> str:
    """Return the topic of the entity with these names.

    Names may contain every character that would separate them, so that a digest tells `a-b`, `c` from `a`, `b-c`.
    """
    digest = blake2b("/".join(names).encode(), digest_size=8).hexdigest()
    return f"{prefix}/{component}/hushmq-{level(cohort)}/{'-'.join(names)}-{digest}/config"
