"""Compose the `status` message for the site, and the report for people on the device."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from hushmq.agent.accept_settings import Settings
from hushmq.agent.agent_config import Config
from hushmq.agent.device_report import Report, StreamReport
from hushmq.agent.publish import Publisher
from hushmq.agent.storage.outbox import Outbox
from hushmq.agent.stream import Stream
from hushmq.broker.contract.messages import Status, StreamStatus
from hushmq.broker.mqtt.connection import Connection

NO_POLICY = "no policy names the stream yet"


def status(settings: Settings, outbox: Outbox, streams: Iterable[str], *, online: bool | None) -> Status:
    """The status as of the last commit; in ticks, sampled = counted + buffered + dropped."""
    found = {}
    for name in streams:
        balance = outbox.balances.get(name)
        setting = settings.noise.get(name)
        found[name] = StreamStatus(
            noise=setting.version if setting else None,
            refused=settings.noise_refusals.get(name),
            sampled=balance.sampled if balance else 0,
            buffered=balance.buffered if balance else 0,
            dropped=balance.dropped if balance else 0,
        )
    return Status(
        online=online,
        policy=settings.policy.version if settings.policy else None,
        refused=settings.policy_refusal,
        streams=found,
    )


def report(
    config: Config,
    settings: Settings,
    outbox: Outbox,
    connection: Connection,
    publisher: Publisher,
    streams: Mapping[str, Stream],
    *,
    ticks_not_stored: int,
    clock_set: Mapping[str, int],
) -> Report:
    """The content of `status`, and what must not leave the device."""
    current = status(settings, outbox, config.streams, online=True)
    found = {}
    for name, each in current.streams.items():
        stream, balance = streams.get(name), outbox.balances.get(name)
        found[name] = StreamReport(
            noise=each.noise,
            refused=each.refused.reason if each.refused else None,
            sampled=each.sampled,
            counted=each.sampled - each.buffered - each.dropped,
            buffered=each.buffered,
            dropped=each.dropped,
            watermark=balance.watermark if balance else None,
            source_trouble=stream.source.trouble if stream else NO_POLICY,
            silent_s=stream.source.silent_s if stream else None,
            values_refused=stream.values_refused if stream else 0,
            clock_set=clock_set[name],
            ticks_watched=stream.watch.ticks if stream else 0,
            outside_theta=stream.watch.trouble if stream else None,
            repeated_readings=stream.repeated_readings if stream else None,
        )
    return Report(
        device=config.device,
        cohort=config.cohort,
        pid=os.getpid(),
        connected=connection.connected,
        broker_error=connection.last_error,
        policy=current.policy,
        policy_refused=current.refused.reason if current.refused else None,
        outbox_bytes=outbox.bytes,
        outbox_set_aside=str(outbox.set_aside) if outbox.set_aside else None,
        batches_sent=publisher.sent,
        batches_acknowledged=publisher.acknowledged,
        ticks_not_stored=ticks_not_stored,
        streams=found,
    )
