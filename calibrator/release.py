"""Close a window: charge it, and in the same transaction write the noisy results that may be published.

Everything that leaves the calibrator about a window, its histogram as well as the statistics that Θ is learned
from, is drawn here and paid for here. What follows (debiasing, Θ, noise settings) is post-processing of it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pufferfish.amplification import amplified
from sqlalchemy import Connection, delete, insert, select, update

from broker.messages import Release, StreamPolicy, Theta, encode
from broker.topics import Topics
from calibrator.charge import (
    NANO,
    Debit,
    Spending,
    price_public,
    public_debits,
    scale_for,
    shortest_window,
    spending,
)
from calibrator.noise import noisy, variance
from calibrator.store import batch, closed, ledger, release, setting, statistic
from pufferfish.binary import Box, Noise

LEARNING_SENSITIVITY = 3
"""Flipping one sanitized state moves `ones` by 1 and `changes` by at most 2."""


@dataclass(frozen=True, slots=True)
class Span:
    """One window of a tumbling sequence."""

    stream: str
    window: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Closed:
    """How closing a window ended: charged with a ledger entry, empty, or refused for want of budget."""

    span: Span
    entry: int | None = None
    loss: float | None = None
    refused: str | None = None


@dataclass(slots=True)
class Sums:
    """Exact sums of sanitized states under one noise version."""

    ticks: int = 0
    ones: int = 0
    pairs: int = 0
    changes: int = 0

    def add(self, states: bytes) -> None:
        self.ticks += len(states)
        self.ones += states.count(1)
        self.pairs += len(states) - 1
        self.changes += states.count(b"\x00\x01") + states.count(b"\x01\x00")


def due(db: Connection, stream: str, policy: StreamPolicy, *, through: int) -> list[Span]:
    """Windows that end at or before tick `through` and hold data, oldest first."""
    spans = []
    for name, window in policy.windows.items():
        done = db.execute(
            select(closed.c.through).where(closed.c.stream == stream, closed.c.window == name)
        ).scalar()
        after = -1 if done is None else done
        last_complete = (through + 1) // window.ticks * window.ticks - 1
        rows = db.execute(
            select(batch.c.first, batch.c.last).where(
                batch.c.stream == stream, batch.c.last > after, batch.c.first <= last_complete
            )
        )
        numbers = {
            number
            for row in rows
            for number in range(
                max(row.first, after + 1) // window.ticks, min(row.last, last_complete) // window.ticks + 1
            )
        }
        spans += [Span(stream, name, n * window.ticks, (n + 1) * window.ticks - 1) for n in numbers]
    return sorted(spans, key=lambda span: (span.last, span.first))


def close(db: Connection, span: Span, policy: StreamPolicy, *, theta: Box, topics: Topics) -> Closed:
    """Decide, charge and draw, all within the caller's transaction. Publishing comes after its commit."""
    sums = _sums(db, span)
    if not sums:
        _mark_closed(db, span)
        return Closed(span)
    noises = _noises(db, span.stream, {version for _, version in sums})
    spent = spending(policy, span.window, theta=theta, noises=noises.values())
    least = max(noises.values(), key=lambda noise: amplified(noise, spent.tilt / NANO))
    debits = public_debits(db, span.stream)
    after = price_public([*debits, Debit(span.first, span.last, spent.tilt, least)], theta, policy)
    _mark_closed(db, span)
    if after.epsilon > policy.epsilon.public:
        return Closed(
            span,
            loss=after.epsilon,
            refused=f"the loss at tick {after.tick} would be {after.epsilon:.4f} of {policy.epsilon.public:g}",
        )
    entry = _debit(db, span, spent, least)
    if span.window == shortest_window(policy):
        _write_statistics(db, span, entry, sums, scale_for(LEARNING_SENSITIVITY, spent.learning))
    message = _histogram(span, policy, sums, noises, spent, theta=theta, entry=entry, loss=after.epsilon)
    db.execute(
        insert(release).values(
            entry=entry,
            topic=topics.release(span.stream, span.window, message.scope),
            payload=encode(message),
            sent=False,
        )
    )
    return Closed(span, entry=entry, loss=after.epsilon)


def unsent(db: Connection) -> list[tuple[int, str, bytes]]:
    """Releases that are charged but not known to be published: entry, topic, bytes."""
    rows = db.execute(select(release).where(release.c.sent.is_(False)).order_by(release.c.entry))
    return [(row.entry, row.topic, row.payload) for row in rows]


def mark_sent(db: Connection, entry: int) -> None:
    db.execute(update(release).where(release.c.entry == entry).values(sent=True))


def prune(db: Connection, stream: str, policy: StreamPolicy) -> None:
    """Forget counted states that every window of the policy has closed over."""
    throughs = [
        db.execute(
            select(closed.c.through).where(closed.c.stream == stream, closed.c.window == name)
        ).scalar()
        for name in policy.windows
    ]
    if throughs and None not in throughs:
        db.execute(
            delete(batch).where(
                batch.c.stream == stream, batch.c.last <= min(t for t in throughs if t is not None)
            )
        )


def _sums(db: Connection, span: Span) -> Mapping[tuple[str, int], Sums]:
    """Sums over the window, by device and noise version."""
    rows = db.execute(
        select(batch).where(
            batch.c.stream == span.stream, batch.c.first <= span.last, batch.c.last >= span.first
        )
    )
    sums: dict[tuple[str, int], Sums] = defaultdict(Sums)
    for row in rows:
        first, last = max(row.first, span.first), min(row.last, span.last)
        sums[row.device, row.noise].add(row.states[first - row.first : last - row.first + 1])
    return sums


def _noises(db: Connection, stream: str, versions: set[int]) -> Mapping[int, Noise]:
    rows = db.execute(select(setting).where(setting.c.stream == stream, setting.c.version.in_(versions)))
    return {row.version: Noise(row.rho0, row.rho1) for row in rows}


def _debit(db: Connection, span: Span, spent: Spending, least: Noise) -> int:
    """Write the ledger entry: the one line that spends."""
    result = db.execute(
        insert(ledger).values(
            stream=span.stream,
            window=span.window,
            audience="public",
            first=span.first,
            last=span.last,
            tilt=spent.tilt,
            rho0=least.rho0,
            rho1=least.rho1,
            why="release and statistics" if spent.learning else "release",
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
    )
    key = result.inserted_primary_key
    if key is None:
        raise RuntimeError("the database gave the ledger entry no number")
    return int(key[0])


def _mark_closed(db: Connection, span: Span) -> None:
    mine = (closed.c.stream == span.stream) & (closed.c.window == span.window)
    if db.execute(update(closed).where(mine).values(through=span.last)).rowcount == 0:
        db.execute(insert(closed).values(stream=span.stream, window=span.window, through=span.last))


def _write_statistics(
    db: Connection, span: Span, entry: int, sums: Mapping[tuple[str, int], Sums], scale: float
) -> None:
    for (device, version), one in sums.items():
        ones, changes = noisy([one.ones, one.changes], scale=scale)
        db.execute(
            insert(statistic).values(
                entry=entry,
                device=device,
                noise=version,
                stream=span.stream,
                ticks=one.ticks,
                ones=ones,
                pairs=one.pairs,
                changes=changes,
            )
        )


def _histogram(
    span: Span,
    policy: StreamPolicy,
    sums: Mapping[tuple[str, int], Sums],
    noises: Mapping[int, Noise],
    spent: Spending,
    *,
    theta: Box,
    entry: int,
    loss: float,
) -> Release:
    """The cohort's noisy count and the debiased frequencies.

    Each noise version's states are counted apart, with noise of their own: the counts are of disjoint states,
    so one state still costs 1/scale. The second bin is the rest of a total that is no secret.
    """
    scale = scale_for(1, spent.release)
    versions = sorted({version for _, version in sums})
    ticks = {v: sum(one.ticks for (_, version), one in sums.items() if version == v) for v in versions}
    ones = noisy(
        [sum(one.ones for (_, version), one in sums.items() if version == v) for v in versions], scale=scale
    )
    total = sum(ticks.values())
    # x̂ = Σ (ones − n·ρ0)/s, with variance Σ (n·p(1−p) + noise)/s²
    estimate = spread = 0.0
    for version, count in zip(versions, ones, strict=True):
        noise, n = noises[version], ticks[version]
        s = 1 - noise.rho0 - noise.rho1
        p = min(1.0, max(0.0, count / n))
        estimate += (count - n * noise.rho0) / s
        spread += (n * p * (1 - p) + variance(scale)) / s**2
    frequency, error = estimate / total, math.sqrt(spread) / total
    return Release(
        stream=span.stream,
        window=span.window,
        scope="cohort",
        first=span.first,
        last=span.last,
        devices=len({device for device, _ in sums}),
        ticks=total,
        states=policy.states,
        counts=(total - sum(ones), sum(ones)),
        frequencies=(1 - frequency, frequency),
        standard_errors=(error, error),
        scale=scale,
        tilt=spent.tilt,
        loss=loss,
        budget=policy.epsilon.public,
        adversary=policy.adversary,
        theta=Theta.of(theta),
        entry=entry,
    )
