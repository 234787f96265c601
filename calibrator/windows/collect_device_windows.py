"""Releases that devices make themselves: collected, checked, and added up for the cohort.

A device counts its true states and draws noise itself; what it publishes was charged in both accounts when the policy
was followed (calibrator/policy/device_tilt.py). Adding up what is public already is post-processing: no debit, no draw,
and the sum is stored and published once, like a release of the calibrator. A release that arrives after its window's
grace is counted as late and never added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import Connection, delete, exists, func, insert, select, update

from hushmq.broker.contract.messages import Release, decode, encode
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.release_times import release_times
from hushmq.broker.contract.topics import COHORT, Topics
from hushmq.calibrator.models.draw_noise import variance
from hushmq.calibrator.store.tables import DEVICES, aggregate, collected, tally
from hushmq.calibrator.windows.closed_windows import mark_closed, next_open_tick
from hushmq.pufferfish.inference.half_width import half_width

FARTHEST = 60.0
"""Noise of more scales than this is drawn once in 10^26 counts: a count beyond it comes from no honest device, and one
device cannot move a sum further."""


def collect_release(
    db: Connection,
    stream: str,
    window: str,
    device: str,
    payload: bytes,
    *,
    policy: StreamPolicy,
    latest: int,
) -> int:
    """Store a device's release; return its ticks if it came too late to be added up, else 0.

    Rejected, with nothing changed, unless it is one that the device may make under the policy.
    """
    message = decode(Release, payload)
    if (message.stream, message.window, message.scope) != (stream, window, device):
        raise Rejected(Reason.WRONG_ADDRESS, "the release is of another stream, window or device")
    _check(message, policy, latest)
    known = db.execute(
        select(collected.c.payload).where(
            collected.c.stream == stream,
            collected.c.window == window,
            collected.c.device == device,
            collected.c.first == message.first,
        )
    ).scalar()
    if known == payload:
        return 0
    if known is not None:
        raise Rejected(Reason.TAMPERED, f"the window from tick {message.first} came before with other counts")
    late = message.first < next_open_tick(db, stream, window, DEVICES)
    newest = _newest(db, stream, window, device)
    if late and newest is not None and message.first < newest:
        return 0  # a device releases one window after the other: this one was added up and deleted
    db.execute(
        insert(collected).values(
            stream=stream, window=window, device=device, first=message.first, payload=payload
        )
    )
    if not late:
        return 0
    _count_late(db, device, stream, message.ticks)
    return message.ticks


def _check(message: Release, policy: StreamPolicy, latest: int) -> None:
    """Rejected unless the release is one that a device may make under the policy."""
    wanted = policy.device_windows[message.window]
    if message.states != policy.states or message.devices != 1:
        raise Rejected(
            Reason.POLICY_MISMATCH, "the release has other states than the policy, or many devices"
        )
    if message.scale < wanted.scale:
        raise Rejected(
            Reason.POLICY_MISMATCH,
            f"noise of scale {message.scale:g} costs more than the {wanted.scale:g} that was charged",
        )
    if message.first % wanted.ticks or message.last != message.first + wanted.ticks - 1:
        raise Rejected(Reason.IMPOSSIBLE_TICK, f"{message.first}…{message.last} is no window of the policy")
    if message.ticks > wanted.ticks:
        raise Rejected(Reason.IMPOSSIBLE_TICK, f"{message.ticks} ticks in a window of {wanted.ticks}")
    if message.last > latest:
        raise Rejected(
            Reason.FUTURE_TICK, f"tick {message.last} is in the future: {latest} is the latest possible"
        )
    _check_counts(message, policy)


def _check_counts(message: Release, policy: StreamPolicy) -> None:
    """Rejected unless the counts are of the policy's states, and noise of the stated scale explains them."""
    if len(message.counts) != len(policy.states):
        raise Rejected(Reason.POLICY_MISMATCH, "the release has another number of states than the policy")
    if len(message.counts) == 2 and sum(message.counts) != message.ticks:
        raise Rejected(Reason.MALFORMED, "the counts of two states do not add up to the ticks")
    farthest = FARTHEST * message.scale
    if not all(-farthest <= count <= message.ticks + farthest for count in message.counts):
        raise Rejected(Reason.MALFORMED, f"a count that noise of scale {message.scale:g} does not explain")


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A sum just stored."""

    window: str
    first: int
    devices: int
    """Devices whose releases it holds; with none of them nothing was stored."""
    unusable: tuple[str, ...] = ()
    """Devices whose stored release does not keep the rules of today: it is in no sum, and stays where it is."""


def aggregate_due(
    db: Connection, stream: str, policy: StreamPolicy, *, through: int, topics: Topics
) -> list[Aggregated]:
    """Add up every window that ended at or before tick `through`, within the caller's transaction."""
    done = []
    for window, wanted in policy.device_windows.items():
        start = next_open_tick(db, stream, window, DEVICES)
        end = (through + 1) // wanted.ticks * wanted.ticks
        if end <= start:
            continue
        rows = db.execute(
            select(collected.c.first, collected.c.device, collected.c.payload)
            .where(
                collected.c.stream == stream,
                collected.c.window == window,
                collected.c.first >= start,
                collected.c.first < end,
            )
            .order_by(collected.c.first, collected.c.device)
        ).all()
        for first, group in groupby(rows, key=lambda row: int(row.first)):
            messages, unusable = _usable([(row.device, row.payload) for row in group], policy)
            if messages:
                number = 1 + (db.execute(select(func.max(aggregate.c.id))).scalar() or 0)
                payload = encode(_sum(messages, policy, number=number))
                topic = topics.release(stream, window, COHORT)
                db.execute(insert(aggregate).values(id=number, topic=topic, payload=payload, sent=False))
            done.append(Aggregated(window, first, len(messages), unusable))
        if rows:
            mark_closed(db, stream, window, DEVICES, through=end - 1)
            _delete_aggregated(db, stream, window, end)
    return done


def _usable(stored: list[tuple[str, bytes]], policy: StreamPolicy) -> tuple[list[Release], tuple[str, ...]]:
    """The releases that may be added up, and the devices of the others.

    They were checked when they came, but perhaps by an older version of hushmq.
    """
    messages, unusable = [], []
    for device, payload in stored:
        try:
            message = decode(Release, payload)
            _check_counts(message, policy)
        except Rejected:
            unusable.append(device)
        else:
            messages.append(message)
    return messages, tuple(unusable)


def _sum(messages: list[Release], policy: StreamPolicy, *, number: int) -> Release:
    """The counts of all devices together, each with its own noise, and the largest loss that a device states."""
    one = max(messages, key=lambda message: message.loss)
    ticks = sum(message.ticks for message in messages)
    counts = tuple(sum(column) for column in zip(*(message.counts for message in messages), strict=True))
    spread = sum(variance(message.scale) for message in messages)
    off = half_width(0.0, spread) / ticks
    return Release(
        stream=one.stream,
        window=one.window,
        scope=COHORT,
        first=one.first,
        last=one.last,
        devices=len(messages),
        ticks=ticks,
        states=policy.states,
        counts=counts,
        frequencies=tuple(count / ticks for count in counts),
        standard_errors=(math.sqrt(spread) / ticks,) * len(counts),
        intervals=tuple((count / ticks - off, count / ticks + off) for count in counts),
        scale=min(message.scale for message in messages),
        tilt=max(message.tilt for message in messages),
        loss=one.loss,
        budget=policy.epsilon.public,
        adversary=policy.adversary,
        theta=one.theta,
        entry=number,
        account=one.account,
        **release_times(one.first, one.last, policy.period_ms),
    )


def _newest(db: Connection, stream: str, window: str, device: str) -> int | None:
    """The first tick of the newest window that a device released; None before it released any."""
    found: int | None = db.execute(
        select(func.max(collected.c.first)).where(
            collected.c.stream == stream, collected.c.window == window, collected.c.device == device
        )
    ).scalar()
    return found


def _delete_aggregated(db: Connection, stream: str, window: str, end: int) -> None:
    """Delete what is added up, but each device's newest: the broker retains that, and sends it again."""
    newer = collected.alias()
    followed = exists().where(
        newer.c.stream == collected.c.stream,
        newer.c.window == collected.c.window,
        newer.c.device == collected.c.device,
        newer.c.first > collected.c.first,
    )
    db.execute(
        delete(collected).where(
            collected.c.stream == stream,
            collected.c.window == window,
            collected.c.first < end,
            followed,
        )
    )


def _count_late(db: Connection, device: str, stream: str, ticks: int) -> None:
    mine = (tally.c.device == device) & (tally.c.stream == stream)
    if db.execute(update(tally).where(mine).values(late=tally.c.late + ticks)).rowcount == 0:
        db.execute(insert(tally).values(device=device, stream=stream, counted=0, late=ticks))
