"""What the device says about itself: versions applied or refused and why, and its books."""

from __future__ import annotations

from collections.abc import Iterable

from agent.outbox import Outbox
from agent.settings import Settings
from broker.messages import Status, StreamStatus


def status(settings: Settings, outbox: Outbox, streams: Iterable[str], *, online: bool) -> Status:
    """The status as of the last commit; in ticks, sampled = counted + buffered + dropped."""
    found = {}
    for name in streams:
        book = outbox.books.get(name)
        setting = settings.noise.get(name)
        found[name] = StreamStatus(
            noise=setting.version if setting else None,
            refused=settings.noise_refusals.get(name),
            sampled=book.sampled if book else 0,
            buffered=book.buffered if book else 0,
            dropped=book.dropped if book else 0,
        )
    return Status(
        online=online,
        policy=settings.policy.version if settings.policy else None,
        refused=settings.policy_refusal,
        streams=found,
    )
