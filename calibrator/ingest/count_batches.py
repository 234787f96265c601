"""Count each (device, stream, tick) once, durably.

A batch covers the ticks first … last, and through `after` it declares the gap before it. Whatever part of it is
not yet accounted for is counted; the rest has been counted before and is ignored. So identical bytes may come
any number of times, in any order. A tick that comes again with another state was tampered with: refused.

A group of batches is one transaction: what the database holds about their devices is read once, the batches are
counted in memory, and what has changed is written once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update

from hushmq.broker.contract.messages import Batch
from hushmq.broker.contract.packing import bits_for, unpack
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.tick_runs import Run, TickRuns
from hushmq.calibrator.store.tables import DEVICES, accounted, batch, closed, extent, setting, tally


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """A batch, the device that sent it and its stream."""

    device: str
    stream: str
    batch: Batch


@dataclass(frozen=True, slots=True)
class Ticks:
    """The ticks that can be real: none after `latest`, by the clock that is furthest ahead."""

    latest: int
    states: int = 2
    """How many states the stream has."""


LONGEST_ROW = 4096
"""Ticks in a row that batches are joined into; one batch may be longer."""


@dataclass(frozen=True, slots=True)
class CountedStates:
    """States newly counted in this group."""

    first: int
    last: int
    noise: int
    states: bytes = field(repr=False)


@dataclass(slots=True)
class DeviceStream:
    """One stream of one device: its accounted runs, and what this group adds."""

    stored: dict[int, int] = field(default_factory=dict)
    runs: TickRuns = field(default_factory=TickRuns)
    pieces: list[CountedStates] = field(default_factory=list)
    counted: int = 0
    late: int = 0


class BatchGroup:
    """Counts the batches of some devices within the caller's transaction."""

    def __init__(self, db: Connection, devices: Iterable[str]) -> None:
        self._db = db
        self._lines: dict[tuple[str, str], DeviceStream] = {}
        mine = sorted(set(devices))
        rows = db.execute(
            select(accounted)
            .where(accounted.c.device.in_(mine))
            .order_by(accounted.c.device, accounted.c.stream, accounted.c.first)
        )
        for device, stream, first, last in rows:
            line = self._line(device, stream)
            line.stored[first] = last
            line.runs.add(first, last)
        self._issued: dict[str, dict[int, tuple[int, str | None]]] = {}
        for stream, version, tick, device in db.execute(
            select(setting.c.stream, setting.c.version, setting.c.issued, setting.c.device).where(
                or_(setting.c.device.is_(None), setting.c.device.in_(mine))
            )
        ):
            self._issued.setdefault(stream, {})[version] = tick, device
        ends = db.execute(
            select(closed.c.stream, func.max(closed.c.through))
            .where(closed.c.scope != DEVICES)
            .group_by(closed.c.stream)
        )
        self._open_from: dict[str, int] = {row[0]: row[1] + 1 for row in ends}
        """By stream, the first tick that no closed window covers."""

    def count(self, sent: DeviceBatch, ticks: Ticks | None) -> int:
        """Count what is new in a batch and return how many ticks that was, or raise Rejected: nothing has changed.

        `ticks` are those possible for its stream; None where the policy has no such stream.
        """
        message = sent.batch
        first, last = message.first, message.last
        if ticks is None:
            raise Rejected(Reason.POLICY_MISMATCH, f"stream {sent.stream} is not in the policy")
        if last > ticks.latest:
            raise Rejected(
                Reason.FUTURE_TICK, f"tick {last} is in the future: {ticks.latest} is the latest possible"
            )
        issued, only_for = self._issued.get(sent.stream, {}).get(message.noise, (None, None))
        if issued is None or only_for not in {None, sent.device}:
            raise Rejected(
                Reason.POLICY_MISMATCH, f"noise version {message.noise} was never issued for {sent.stream}"
            )
        if first < issued:
            raise Rejected(
                Reason.IMPOSSIBLE_TICK,
                f"tick {first} carries noise version {message.noise}, which no tick before {issued} can",
            )
        states = unpack(message.states, message.count, message.bits)
        bits = message.bits
        if bits != bits_for(ticks.states) or (ticks.states < 1 << bits and max(states) >= ticks.states):
            raise Rejected(Reason.MALFORMED, f"states: not all are of the {ticks.states} of {sent.stream}")
        line = self._line(sent.device, sent.stream)
        fresh = line.runs.missing(first, last)
        if fresh != [(first, last)]:
            self._check_repeated(sent, line, states)
        open_from = self._open_from.get(sent.stream, 0)
        for low, high in fresh:
            line.pieces.append(
                CountedStates(low, high, message.noise, states[low - first : high - first + 1])
            )
            line.counted += high - low + 1
            if low < open_from:
                line.late += min(high, open_from - 1) - low + 1
        if fresh:
            line.runs.add(first, last)
        if message.after is not None and message.after + 1 < first:
            line.runs.add(message.after + 1, first - 1)
        return sum(high - low + 1 for low, high in fresh)

    def write(self) -> None:
        """Write what has changed."""
        self._write_accounted()
        new = [
            {
                "device": device,
                "stream": stream,
                "first": piece.first,
                "last": piece.last,
                "noise": piece.noise,
                "states": piece.states,
            }
            for (device, stream), line in self._lines.items()
            for piece in _joined(line.pieces)
        ]
        if new:
            self._db.execute(insert(batch), new)
            self._write_tallies()
            self._write_extents()

    def _line(self, device: str, stream: str) -> DeviceStream:
        key = device, stream
        if key not in self._lines:
            self._lines[key] = DeviceStream()
        return self._lines[key]

    def _check_repeated(self, sent: DeviceBatch, line: DeviceStream, states: bytes) -> None:
        """Rejected if a tick that is still held came with another state."""
        message = sent.batch
        held = [(piece.first, piece.last, piece.states) for piece in line.pieces]
        held += [
            (row.first, row.last, row.states)
            for row in self._db.execute(
                select(batch.c.first, batch.c.last, batch.c.states).where(
                    batch.c.device == sent.device,
                    batch.c.stream == sent.stream,
                    batch.c.first <= message.last,
                    batch.c.last >= message.first,
                )
            )
        ]
        for first, last, known in held:
            low, high = max(first, message.first), min(last, message.last)
            if low <= high and (
                states[low - message.first : high - message.first + 1]
                != known[low - first : high - first + 1]
            ):
                raise Rejected(Reason.TAMPERED, f"a tick from {low} to {high} came before with another state")

    def _write_accounted(self) -> None:
        gone, grown, new = [], [], []
        for (device, stream), line in self._lines.items():
            runs = dict(line.runs)
            if runs == line.stored:
                continue
            key = {"device_": device, "stream_": stream}
            gone += [key | {"first_": first} for first in line.stored if first not in runs]
            for first, last in runs.items():
                if first not in line.stored:
                    new.append({"device": device, "stream": stream, "first": first, "last": last})
                elif line.stored[first] != last:
                    grown.append(key | {"first_": first, "last_": last})
        mine = (
            (accounted.c.device == bindparam("device_"))
            & (accounted.c.stream == bindparam("stream_"))
            & (accounted.c.first == bindparam("first_"))
        )
        if gone:
            self._db.execute(delete(accounted).where(mine), gone)
        if grown:
            self._db.execute(update(accounted).where(mine).values(last=bindparam("last_")), grown)
        if new:
            self._db.execute(insert(accounted), new)

    def _write_tallies(self) -> None:
        changed = {key: line for key, line in self._lines.items() if line.counted}
        known = {
            (device, stream)
            for device, stream in self._db.execute(
                select(tally.c.device, tally.c.stream).where(tally.c.device.in_({key[0] for key in changed}))
            )
        }
        mine = (tally.c.device == bindparam("device_")) & (tally.c.stream == bindparam("stream_"))
        rows = [
            {"device_": key[0], "stream_": key[1], "counted_": line.counted, "late_": line.late}
            for key, line in changed.items()
            if key in known
        ]
        if rows:
            more = {
                "counted": tally.c.counted + bindparam("counted_"),
                "late": tally.c.late + bindparam("late_"),
            }
            self._db.execute(update(tally).where(mine).values(**more), rows)
        fresh = [
            {"device": key[0], "stream": key[1], "counted": line.counted, "late": line.late}
            for key, line in changed.items()
            if key not in known
        ]
        if fresh:
            self._db.execute(insert(tally), fresh)

    def _write_extents(self) -> None:
        used: dict[tuple[str, int], Run] = {}
        for (_, stream), line in self._lines.items():
            for piece in line.pieces:
                low, high = used.get((stream, piece.noise), (piece.first, piece.last))
                used[stream, piece.noise] = min(low, piece.first), max(high, piece.last)
        for (stream, noise), (first, last) in used.items():
            mine = (extent.c.stream == stream) & (extent.c.noise == noise)
            row = self._db.execute(select(extent.c.first, extent.c.last).where(mine)).first()
            if row is None:
                self._db.execute(insert(extent).values(stream=stream, noise=noise, first=first, last=last))
            elif first < row.first or last > row.last:
                stretched = {"first": min(first, row.first), "last": max(last, row.last)}
                self._db.execute(update(extent).where(mine).values(**stretched))


def _joined(pieces: list[CountedStates]) -> Iterator[CountedStates]:
    """The pieces in order, those that follow each other under the same noise as one: fewer rows to write and read."""
    held: list[CountedStates] = []
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if held and (
            piece.first != held[-1].last + 1
            or piece.noise != held[-1].noise
            or piece.last - held[0].first >= LONGEST_ROW
        ):
            yield _one(held)
            held = []
        held.append(piece)
    if held:
        yield _one(held)


def _one(pieces: list[CountedStates]) -> CountedStates:
    states = b"".join(piece.states for piece in pieces)
    return CountedStates(pieces[0].first, pieces[-1].last, pieces[0].noise, states)
