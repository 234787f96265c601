"""The epochs of a stream: which ticks, settings and Θ belong to each (docs/theory-world.md, W3).

The streams of an account begin theirs together; the account's are those of the stream whose newest began last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hushmq.verify.export_file import Export, StreamTerms, Tree
from hushmq.verify.tilt_sequence import LAST_TICK, Ticks


@dataclass(frozen=True, slots=True)
class ExportedEpoch:
    """One epoch as it began. Settings of versions above `settings` were issued in it or later."""

    number: int = 1
    first: int = 0
    reason: str = "first"
    policy: int = 0
    meaning: str = ""
    settings: int = 0
    entry: int = 0
    """The entry that began it: 0 for the first."""
    ended: str = ""
    """The Θ that the epoch before it ended with, as JSON."""

    @property
    def ended_theta(self) -> Tree:
        """The same in the form in which messages have it."""
        tree: Tree = json.loads(self.ended)
        if "q" in tree:
            return {name: {"low": tree[name][0], "high": tree[name][1]} for name in ("q", "r")}
        return tree


def epochs_of(export: Export, stream: str, through: int | None = None) -> list[ExportedEpoch]:
    """The epochs of a stream, one at least, or those that had begun by an entry of its ledger."""
    found = [
        ExportedEpoch(
            row["number"],
            row["first"],
            row["reason"],
            row["policy"],
            row["meaning"],
            row["settings"],
            row["entry"] or 0,
            row["ended_theta"] or "",
        )
        for row in export.streams[stream].get("epochs", [])
        if through is None or (row["entry"] or 0) <= through
    ]
    return found or [ExportedEpoch()]


def account_epochs(export: Export, terms: StreamTerms, through: int | None = None) -> list[ExportedEpoch]:
    """The epochs of a stream's account."""
    mine = [epochs_of(export, member, through) for member in (terms.name, *terms.members)]
    return max(mine, key=lambda epochs: epochs[-1].first)


def meanwhile(epochs: Sequence[ExportedEpoch], one: ExportedEpoch) -> ExportedEpoch:
    """The epoch that a stream was in when this one of its account began."""
    return one if one in epochs else epoch_at(epochs, one.first)


def epoch_at(epochs: Sequence[ExportedEpoch], tick: int) -> ExportedEpoch:
    """The epoch that a tick is in."""
    return next((one for one in reversed(epochs) if one.first <= tick), epochs[0])


def epoch_of_version(epochs: Sequence[ExportedEpoch], version: int) -> ExportedEpoch:
    """The epoch in which a setting was issued."""
    return next((one for one in reversed(epochs) if one.settings < version), epochs[0])


def public_ticks(epochs: Sequence[ExportedEpoch], one: ExportedEpoch) -> Ticks | None:
    """The ticks of an epoch for readers of releases: up to where the next begins. None for all there are."""
    if len(epochs) == 1:
        return None
    after = epochs[epochs.index(one) + 1 :]
    return one.first, after[0].first - 1 if after else LAST_TICK


def operator_ticks(
    export: Export, terms: StreamTerms, epochs: Sequence[ExportedEpoch], one: ExportedEpoch
) -> Ticks | None:
    """The ticks of an epoch for readers of the sanitized streams: where its settings were used, or may be used yet.

    While the meaning stays, a tick at which a device still used an older setting is one of the older epoch. After a
    change of meaning it is one of both: there are two states at it.
    """
    if len(epochs) == 1:
        return None
    firsts, lasts, kept = [], [], True
    for member in terms.members:
        mine = epochs_of(export, member)
        if len(mine) == 1:
            continue
        here = meanwhile(mine, one)
        place = mine.index(here)
        upto = mine[place + 1].settings if place + 1 < len(mine) else LAST_TICK
        extents = export.streams[member]["extents"]
        used = [extent for extent in extents if here.settings < extent["noise"] <= upto]
        older = max((extent["last"] for extent in extents if extent["noise"] <= here.settings), default=-1)
        for lost in export.streams[member]["entries"]:
            if lost["audience"] == "operator":  # any setting of that time may have been used to its end
                number = epoch_at(mine, lost["last"]).number
                if number == here.number:
                    used.append(lost)
                elif number < here.number:
                    older = max(older, lost["last"])
        same = place == 0 or mine[place - 1].meaning == here.meaning
        kept = kept and same
        firsts.append(older + 1 if same or not used else min(extent["first"] for extent in used))
        lasts += [extent["last"] for extent in used]
    first = (max if kept else min)(firsts)
    return first, LAST_TICK if one == epochs[-1] else max(first - 1, *lasts, -1)
