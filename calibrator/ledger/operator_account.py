"""The operator's account of each epoch: what the sanitized stream says about the ticks that carry the epoch's settings.

A device goes over from the settings of one epoch to those of the next when they reach it. So for whoever reads the
stream an epoch has the ticks at which any device used one of its settings. After a contradiction the meaning is the
same: a tick at which some device still used an older setting is one of the older epoch.
"""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from hushmq.calibrator.ledger.audience_timelines import finite_price, lost_stretches, operator_timeline
from hushmq.calibrator.ledger.epochs import LAST_TICK, Epoch, Epochs
from hushmq.calibrator.store.tables import extent
from hushmq.pufferfish.adversary import Adversary
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.timeline.entry import Entry, Ticks


def operator_price(
    db: Connection,
    stream: str,
    epochs: Epochs,
    one: Epoch,
    *,
    theta: Theta,
    adversary: Adversary,
    device: str | None = None,
    of_all: bool = False,
    stride: int = 1,
) -> float:
    """The largest loss at a tick of the epoch; of the device named, which also has device-specific settings.

    Or of a device that had the settings of all.
    """
    entries = epoch_timeline(db, stream, epochs, one, device, of_all=of_all)
    ticks = epoch_ticks(db, stream, epochs, one)
    return finite_price(theta.timeline(adversary, entries, ticks, stride=stride)).epsilon


def epoch_timeline(
    db: Connection,
    stream: str,
    epochs: Epochs,
    one: Epoch,
    device: str | None = None,
    *,
    of_all: bool = False,
) -> list[Entry]:
    """τ(t) of the sanitized stream, over all epochs, for the states as they are meant in this one."""
    return operator_timeline(
        db,
        stream,
        device,
        of_all=of_all,
        same_meaning=lambda version: epochs.of_version(version).meaning == one.meaning,
    )


def epoch_ticks(db: Connection, stream: str, epochs: Epochs, one: Epoch) -> Ticks | None:
    """The ticks at which settings of the epoch were used, or may be used yet; None for all there are."""
    if not epochs.ended:
        return None
    after = [priced.epoch for priced in epochs.ended if priced.number > one.number]
    is_current = one == epochs.current
    upto = LAST_TICK if is_current else (after[0] if after else epochs.current).settings
    mine = (extent.c.stream == stream) & (extent.c.noise > one.settings) & (extent.c.noise <= upto)
    first, last = db.execute(select(func.min(extent.c.first), func.max(extent.c.last)).where(mine)).one()
    older = db.execute(
        select(func.max(extent.c.last)).where(extent.c.stream == stream, extent.c.noise <= one.settings)
    ).scalar()
    for lost in lost_stretches(db, stream):  # any setting of that time may have been used to their end
        number = epochs.at(lost.last).number
        if number == one.number:
            first = lost.first if first is None else min(first, lost.first)
            last = max(last or 0, lost.last)
        elif number < one.number:
            older = max(older or 0, lost.last)
    if epochs.keeps_meaning(one.first) or first is None:
        first = 0 if older is None else older + 1
    return first, LAST_TICK if is_current else max(first - 1, -1 if last is None else last)
