"""Both audiences' timelines, rebuilt from entries and settings: by how much each tick's true state is tilted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from hushmq.verify.export_file import Export, SignedSetting, StreamTerms, Tree
from hushmq.verify.outward import DOWN, UP, ZERO, Interval
from hushmq.verify.pricings import through_noise, tilts_of_noise
from hushmq.verify.tilt_sequence import Run, Tilts, covering, largest_tilts, summed

NANO = Decimal(10**9)
LAST_TICK = 2**53 - 1
"""The largest tick a message can carry: what devices release themselves is paid for at every tick up to it."""


def public_runs(
    entries: Sequence[Tree],
    settings: dict[int, SignedSetting],
    device_tilt: Interval,
    device: str | None = None,
) -> list[Run]:
    """What readers of releases see: the tilts of a tick are added, then amplified once (docs/theory-accounts.md, A1).

    KeyError with the version of a setting that is missing.
    The noise in between is the least protecting of all that the tick can carry and that existed when it was charged:
    the versions up to the highest that this or an earlier entry names, from the tick on at which they were issued.
    """
    parts, highest = [], 0
    entries = [entry for entry in entries if entry["audience"] == "public"]
    for entry in entries:
        if entry["noise"] not in settings:
            raise KeyError(entry["noise"])
        highest = max(highest, entry["noise"])
        parts.append((entry, highest))
    usable = [one for one in settings.values() if one.device is None or one.device == device]
    edges = {entry["first"] for entry in entries} | {entry["last"] + 1 for entry in entries}
    edges |= {one.issued for one in usable}
    ordered = sorted(edges)
    runs = []
    active: list[tuple[Tree, int]] = []
    coming = sorted(parts, key=lambda part: part[0]["first"])
    position = 0
    for start, stop in pairwise(ordered):
        while position < len(coming) and coming[position][0]["first"] <= start:
            active.append(coming[position])
            position += 1
        active = [part for part in active if part[0]["last"] >= start]
        if not active:
            continue
        total = Decimal(sum(entry["tilt"] for entry, _ in active))
        tilt = Interval(DOWN.divide(total, NANO), UP.divide(total, NANO))
        named = {entry["noise"] for entry, _ in active}
        known = max(highest for _, highest in active)
        carried = [
            one.message["noise"]
            for one in usable
            if one.version in named or (one.version <= known and one.issued <= start)
        ]
        tilts = largest_tilts(through_noise(noise, tilt) for noise in carried)
        runs.append(Run(start, stop - 1, tilts))
    return raised(covering(runs), device_tilt)


def operator_runs(
    extents: Iterable[Tree],
    settings: dict[int, SignedSetting],
    device_tilt: Interval,
    device: str | None = None,
) -> list[Run]:
    """What readers of the sanitized stream see: at every tick the least noise that was used there."""
    pieces = [
        Run(one["first"], one["last"], tilts_of_noise(settings[one["noise"]].message["noise"]))
        for one in extents
        if settings[one["noise"]].device in {None, device}
    ]
    return raised(covering(pieces), device_tilt)


def raised(runs: list[Run], by: Interval) -> list[Run]:
    """The runs with a tilt added at every tick there will ever be: of what devices release from true states."""
    if by == ZERO:
        return runs
    found, tick = [], 0
    for run in runs:
        if run.first > tick:
            found.append(Run(tick, run.first - 1, Tilts(by, by)))
        found.append(Run(run.first, run.last, Tilts(run.tilts.towards0 + by, run.tilts.towards1 + by)))
        tick = run.last + 1
    return [*found, Run(tick, LAST_TICK, Tilts(by, by))] if tick <= LAST_TICK else found


def account_runs(
    export: Export,
    terms: StreamTerms,
    audience: str,
    device: str | None = None,
    *,
    through: int | None = None,
    by: str | None = None,
) -> list[Run]:
    """The timeline of a stream's account: the tilts of all of its streams and devices, added (Theorem 22).

    Of a device with device-specific settings and its group, or of the largest group; after an entry, by a time.
    KeyError with the version of a setting that is missing.
    """
    timelines = []
    mates: tuple[str | None, ...] = (None,) if device is None else terms.group(device)
    for member in terms.members:
        tree, settings = export.streams[member], export.settings_of(member)
        device_tilt = export.device_tilt(member, by)
        for mate in mates:
            if audience == "operator":
                timelines.append(operator_runs(tree["extents"], settings, device_tilt, mate))
            else:
                entries = [one for one in tree["entries"] if through is None or one["id"] <= through]
                timelines.append(public_runs(entries, settings, device_tilt, mate))
    return summed(timelines, len(terms.group(None)) if device is None else 1)
