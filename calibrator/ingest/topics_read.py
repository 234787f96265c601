"""The topics that a calibrator reads."""

from __future__ import annotations

from hushmq.broker.contract.topics import SHARDS, Topics


def topics_read(topics: Topics, shards: tuple[str, ...]) -> list[str]:
    """The subscriptions of a calibrator that counts the batches of these shards."""
    batches = topics.all("z")
    return [
        topics.policy,
        *([batches] if len(shards) == SHARDS else (f"{batches.removesuffix('#')}{one}/#" for one in shards)),
        *(topics.all(kind) for kind in ("status", "noise", "ledger", "release")),
    ]
