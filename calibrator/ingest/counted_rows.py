"""The rows of counted batches: what the database holds about some devices, and what has changed of it.

Statements are built once: SQLAlchemy takes longer to build one than SQLite to run it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from sqlalchemy import (
    BindParameter,
    Connection,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.sql.dml import UpdateBase

from hushmq.broker.contract.tick_runs import Run, TickRuns
from hushmq.calibrator.store.tables import (
    DEVICES,
    LONGEST_BATCH,
    accounted,
    batch,
    closed,
    extent,
    setting,
    tally,
)
from hushmq.calibrator.store.upsert import upsert
from hushmq.calibrator.store.write_rows import Row, write_rows

_MINE: BindParameter[str] = bindparam("mine", expanding=True)
_ACCOUNTED = (
    select(accounted)
    .where(accounted.c.device.in_(_MINE))
    .order_by(accounted.c.device, accounted.c.stream, accounted.c.first)
)
_ISSUED = select(setting.c.stream, setting.c.version, setting.c.issued, setting.c.device).where(
    or_(setting.c.device.is_(None), setting.c.device.in_(_MINE))
)
_ENDS = (
    select(closed.c.stream, func.max(closed.c.through))
    .where(closed.c.scope != DEVICES)
    .group_by(closed.c.stream)
)
_RUN = (
    (accounted.c.device == bindparam("device_"))
    & (accounted.c.stream == bindparam("stream_"))
    & (accounted.c.first == bindparam("first_"))
)
_GONE = delete(accounted).where(_RUN)
_GROWN = update(accounted).where(_RUN).values(last=bindparam("last_"))
_NEW = insert(accounted)
_BATCH = insert(batch)
_HELD = (
    select(batch.c.device, batch.c.first, batch.c.last, batch.c.states)
    .where(
        batch.c.stream == bindparam("stream_"),
        batch.c.device.in_(_MINE),
        batch.c.first > bindparam("after_"),
        batch.c.first <= bindparam("last_"),
        batch.c.last >= bindparam("first_"),
    )
    .order_by(batch.c.device, batch.c.first)
)
HELD_TOGETHER = 200
"""Devices whose held states are read by one statement: it bounds what is in memory at once."""


class CountedStates(NamedTuple):
    """States newly counted in this group."""

    first: int
    last: int
    noise: int
    states: bytes

    def __repr__(self) -> str:
        return f"CountedStates({self.first}, {self.last}, {self.noise})"


@dataclass(slots=True)
class DeviceStream:
    """One stream of one device: its accounted runs, and what this group adds."""

    stored: dict[int, int] = field(default_factory=dict)
    runs: TickRuns = field(default_factory=TickRuns)
    pieces: list[CountedStates] = field(default_factory=list)
    counted: int = 0
    late: int = 0


Lines = Mapping[tuple[str, str], DeviceStream]
"""By device and stream."""


def read_lines(db: Connection, devices: Iterable[str]) -> dict[tuple[str, str], DeviceStream]:
    """The accounted runs of every stream of these devices."""
    lines: dict[tuple[str, str], DeviceStream] = {}
    for device, stream, first, last in db.execute(_ACCOUNTED, {"mine": list(devices)}):
        line = lines.get((device, stream))
        if line is None:
            line = lines[device, stream] = DeviceStream()
        line.stored[first] = last
        line.runs.add(first, last)
    return lines


def read_held(
    db: Connection, stream: str, wanted: Mapping[str, Run]
) -> dict[str, list[tuple[int, int, bytes]]]:
    """By device the states held of these ticks of a stream, in order: first and last tick of a row, and its states."""
    found: dict[str, list[tuple[int, int, bytes]]] = {device: [] for device in wanted}
    devices = sorted(wanted)
    for start in range(0, len(devices), HELD_TOGETHER):
        some = devices[start : start + HELD_TOGETHER]
        low, high = min(wanted[one][0] for one in some), max(wanted[one][1] for one in some)
        asked = {"stream_": stream, "mine": some, "after_": low - LONGEST_BATCH, "first_": low, "last_": high}
        for device, first, last, states in db.execute(_HELD, asked):
            if first <= wanted[device][1] and last >= wanted[device][0]:
                found[device].append((first, last, states))
    return found


def read_issued(db: Connection, devices: Iterable[str]) -> dict[str, dict[int, tuple[int, str | None]]]:
    """By stream and noise version, the first tick that can carry it and whose it is: one device's, or None."""
    issued: dict[str, dict[int, tuple[int, str | None]]] = {}
    for stream, version, tick, device in db.execute(_ISSUED, {"mine": list(devices)}):
        issued.setdefault(stream, {})[version] = tick, device
    return issued


def read_open_from(db: Connection) -> dict[str, int]:
    """By stream, the first tick that no closed window covers."""
    return {stream: through + 1 for stream, through in db.execute(_ENDS)}


def write_accounted(db: Connection, lines: Lines) -> None:
    """Write the runs that have changed."""
    gone: list[Row] = []
    grown: list[Row] = []
    new: list[Row] = []
    for (device, stream), line in lines.items():
        runs = dict(line.runs)
        if runs == line.stored:
            continue
        gone += [(device, stream, first) for first in line.stored if first not in runs]
        for first, last in runs.items():
            if first not in line.stored:
                new.append((device, stream, first, last))
            elif line.stored[first] != last:
                grown.append((last, device, stream, first))
    write_rows(db, _GONE, ("device_", "stream_", "first_"), gone)
    write_rows(db, _GROWN, ("last_", "device_", "stream_", "first_"), grown)
    write_rows(db, _NEW, ("device", "stream", "first", "last"), new)


def write_states(db: Connection, lines: Lines, pieces: list[tuple[str, str, CountedStates]]) -> None:
    """Write newly counted states of devices and streams, and add them to the totals and to the ticks of their noise."""
    rows: list[Row] = [
        (device, stream, one.first, one.last, one.noise, one.states) for device, stream, one in pieces
    ]
    write_rows(db, _BATCH, ("device", "stream", "first", "last", "noise", "states"), rows)
    totals: list[Row] = [
        (device, stream, line.counted, line.late) for (device, stream), line in lines.items() if line.counted
    ]
    write_rows(db, _added_tally(db.dialect.name), ("device", "stream", "counted", "late"), totals)
    used: dict[tuple[str, int], Run] = {}
    for _, stream, one in pieces:
        low, high = used.get((stream, one.noise), (one.first, one.last))
        used[stream, one.noise] = min(low, one.first), max(high, one.last)
    stretched: list[Row] = [(*key, *run) for key, run in used.items()]
    write_rows(db, _stretched_extent(db.dialect.name), ("stream", "noise", "first", "last"), stretched)


@lru_cache(maxsize=2)
def _added_tally(dialect: str) -> UpdateBase:
    """Add to the totals of a device, or begin them."""
    new = upsert(dialect, tally)
    more = {"counted": tally.c.counted + new.excluded.counted, "late": tally.c.late + new.excluded.late}
    return new.on_conflict_do_update(index_elements=[tally.c.device, tally.c.stream], set_=more)


@lru_cache(maxsize=2)
def _stretched_extent(dialect: str) -> UpdateBase:
    """Stretch the ticks of a noise version to these, or begin them."""
    new = upsert(dialect, extent)
    # SQLite's min and max of two arguments are PostgreSQL's least and greatest.
    least, greatest = (func.min, func.max) if dialect == "sqlite" else (func.least, func.greatest)
    wider = {
        "first": least(extent.c.first, new.excluded.first),
        "last": greatest(extent.c.last, new.excluded.last),
    }
    return new.on_conflict_do_update(index_elements=[extent.c.stream, extent.c.noise], set_=wider)
