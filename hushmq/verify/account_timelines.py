"""Both audiences' timelines, rebuilt from entries and settings: by how much each tick's true state is tilted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise

from hushmq.verify.check_reconciled import is_lost
from hushmq.verify.export_file import Export, SignedSetting, StreamTerms, Tree
from hushmq.verify.exported_epochs import ExportedEpoch, epoch_at, epoch_of_version, epochs_of, meanwhile
from hushmq.verify.outward import DOWN, UP, ZERO, Interval
from hushmq.verify.pricings import through_noise, tilts_of_noise
from hushmq.verify.tilt_sequence import LAST_TICK, Run, Tilts, both_ways, covering, largest_tilts, summed

NANO = Decimal(10**9)


def public_runs(
    entries: Sequence[Tree],
    settings: dict[int, SignedSetting],
    device_tilt: Interval,
    device: str | None = None,
    meant_otherwise: Callable[[int], bool] = lambda tick: False,
) -> list[Run]:
    """What readers of releases see: the tilts of a tick are added, then amplified once (docs/theory-accounts.md, A1).

    KeyError with the version of a setting that is missing.
    The noise in between is the least protecting of all that the tick can carry and that existed when it was charged:
    the versions up to the highest that this or an earlier entry names, from the tick on at which they were issued.
    """
    parts, highest = [], 0
    entries = [entry for entry in entries if entry["audience"] == "public"]
    for entry in entries:
        if entry["noise"] not in settings and not is_lost(entry):
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
        through = [through_noise(noise, tilt) for noise in carried]
        if any(is_lost(entry) for entry, _ in active):  # on the true states, which no noise exceeds
            through.append(Tilts(tilt, tilt))
        tilts = largest_tilts(through)
        runs.append(Run(start, stop - 1, both_ways(tilts) if meant_otherwise(start) else tilts))
    return raised(covering(runs), device_tilt)


def operator_runs(
    extents: Iterable[Tree],
    settings: dict[int, SignedSetting],
    device_tilt: Interval,
    device: str | None = None,
    meant_otherwise: Callable[[int], bool] = lambda version: False,
    entries: Iterable[Tree] = (),
) -> list[Run]:
    """What readers of the sanitized stream see: at every tick the least noise that was used there.

    Where the ledger was lost, by as much as entries say that it can have been.
    """
    pieces = []
    for entry in entries:
        if entry["audience"] == "operator":
            tilt = Decimal(entry["tilt"])
            most = Interval(DOWN.divide(tilt, NANO), UP.divide(tilt, NANO))
            pieces.append(Run(entry["first"], entry["last"], Tilts(most, most)))
    for one in extents:
        setting = settings[one["noise"]]
        if setting.device in {None, device}:
            tilts = tilts_of_noise(setting.message["noise"])
            other = meant_otherwise(setting.version)
            pieces.append(Run(one["first"], one["last"], both_ways(tilts) if other else tilts))
    return raised(covering(pieces), device_tilt)


def raised(runs: list[Run], by: Interval) -> list[Run]:
    """The runs with a tilt added at every tick that a message can carry: of what devices release from true states."""
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
    epoch: ExportedEpoch,
    device: str | None = None,
    *,
    through: int | None = None,
    by: str | None = None,
) -> list[Run]:
    """The timeline of a stream's account: the tilts of all of its streams and devices, added (Theorem 22).

    Of all epochs, on the states as they are meant in this one; of a device with device-specific settings and its
    group, or of the largest group; after an entry, by a time.
    KeyError with the version of a setting that is missing.
    """
    timelines = []
    mates: tuple[str | None, ...] = (None,) if device is None else terms.group(device)
    for member in terms.members:
        tree, settings = export.streams[member], export.settings_of(member)
        device_tilt = export.device_tilt(member, by)
        epochs = epochs_of(export, member, through)
        means = meanwhile(epochs, epoch).meaning
        entries = [one for one in tree["entries"] if through is None or one["id"] <= through]
        for mate in mates:
            if audience == "operator":
                other = partial(_differs, means, epoch_of_version, epochs)
                timelines.append(operator_runs(tree["extents"], settings, device_tilt, mate, other, entries))
            else:
                other = partial(_differs, means, epoch_at, epochs)
                timelines.append(public_runs(entries, settings, device_tilt, mate, other))
    return summed(timelines, len(terms.group(None)) if device is None else 1)


def _differs(
    meaning: str,
    epoch_of: Callable[[Sequence[ExportedEpoch], int], ExportedEpoch],
    epochs: Sequence[ExportedEpoch],
    where: int,
) -> bool:
    """Whether states have another meaning in the epoch of a tick, or of a version."""
    return epoch_of(epochs, where).meaning != meaning
