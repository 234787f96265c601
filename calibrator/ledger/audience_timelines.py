"""Both audiences' timelines: by how much every tick's true state is tilted, and what the whole history costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, select, true

from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.calibrator.ledger.debits import Debit, joint_tilt
from hushmq.calibrator.ledger.device_exposure import UNPROVED
from hushmq.calibrator.ledger.epochs import LAST_TICK
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.policy.device_tilt import largest_device_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store.tables import extent, ledger, setting
from hushmq.pufferfish.protocols import Theta, Timeline
from hushmq.pufferfish.timeline.entry import Entry, Price, Ticks

T = TypeVar("T")


def public_timeline(debits: Iterable[Debit]) -> list[Entry]:
    """τ(t) for whoever reads only releases: add the tilts of one tick, then amplify once through its noise."""
    return [
        Entry(first, last, tau, tau)
        for first, last, active in _segments([(debit.first, debit.last, debit) for debit in debits])
        for tau in [_joint_tilt(active)]
    ]


def _joint_tilt(debits: Sequence[Debit]) -> float:
    return joint_tilt(sum(debit.tilt for debit in debits), {debit.noise for debit in debits})


def always(tilt: int) -> list[Entry]:
    """A tilt at every tick there will ever be, in nano-nats."""
    return [Entry(0, LAST_TICK, tilt / NANO, tilt / NANO)] if tilt else []


def operator_timeline(
    db: Connection,
    stream: str,
    device: str | None = None,
    *,
    of_all: bool = False,
    same_meaning: Callable[[int], bool] = lambda _: True,
) -> list[Entry]:
    """τ(t) for whoever reads the sanitized stream: at each tick the least noise that any device used there.

    Device-specific settings count only in the timeline of their device, and in that of a device that had those of all
    (`of_all`). A version whose states have another meaning
    tilts by its larger tilt in both directions (docs/theory-world.md, Theorem 19). Where the ledger was lost, any
    setting of that time may have been used: an entry says by how much it tilts at most.
    """
    mine = true() if of_all else setting.c.device.is_(None) | (setting.c.device == device)
    always_ = always(largest_device_tilt(db, stream))
    rows = db.execute(
        select(extent.c.first, extent.c.last, setting.c.version, setting.c.noise).where(
            extent.c.stream == stream, setting.c.stream == stream, setting.c.version == extent.c.noise, mine
        )
    )
    spans = []
    for row in rows:
        tau0, tau1 = read_noise(row.noise).tilts
        if not same_meaning(row.version):
            tau0 = tau1 = max(tau0, tau1)
        spans.append((row.first, row.last, (tau0, tau1)))
    spans += [(row.first, row.last, (row.tilt / NANO,) * 2) for row in lost_stretches(db, stream)]
    return always_ + [
        Entry(first, last, *(max(taus) for taus in zip(*active, strict=True)))
        for first, last, active in _segments(spans)
    ]


def lost_stretches(db: Connection, stream: str) -> Sequence[Row[Any]]:
    """The entries for what the operator may have read while the ledger that said so was lost."""
    mine = (ledger.c.stream == stream) & (ledger.c.audience == "operator")
    return db.execute(select(ledger).where(mine).order_by(ledger.c.id)).all()


def price_public(
    debits: Iterable[Debit],
    theta: Theta,
    stream: StreamPolicy,
    device_tilt: int = 0,
    ticks: Ticks | None = None,
) -> Price:
    entries = [*always(device_tilt), *public_timeline(debits)]
    return finite_price(theta.timeline(stream.adversary, entries, ticks, stride=stream.stride))


def finite_price(history: Timeline) -> Price:
    """The price of a history; UNPROVED where it is infinite."""
    return finite(history.price())


def finite(found: Price) -> Price:
    """The price; UNPROVED where it is infinite."""
    return found if math.isfinite(found.epsilon) else Price(UNPROVED, found.tick)


def _segments(spans: Sequence[tuple[int, int, T]]) -> Iterable[tuple[int, int, list[T]]]:
    """Cut overlapping spans into disjoint ones, each with all that covers it."""
    cuts = sorted({first for first, _, _ in spans} | {last + 1 for _, last, _ in spans})
    by_start = sorted(spans, key=lambda span: span[0])
    active: list[tuple[int, T]] = []
    position = 0
    for start, stop in pairwise(cuts):
        while position < len(by_start) and by_start[position][0] <= start:
            active.append((by_start[position][1], by_start[position][2]))
            position += 1
        active = [(last, value) for last, value in active if last >= start]
        if active:
            yield start, stop - 1, [value for _, value in active]
