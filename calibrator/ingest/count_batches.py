"""Count each (device, stream, tick) once, durably.

A batch covers the ticks first … last, and through `after` it declares the gap before it. Whatever part of it is
not yet accounted for is counted; the rest has been counted before and is ignored. So identical bytes may come
any number of times, in any order. A tick that comes again with another state was tampered with: refused.

A group of batches is one transaction: what the database holds about their devices is read once, the batches are
counted in memory, and what has changed is written once. The states behind ticks that come again are read together,
too: after an outage most of what arrives comes again, and a question to the database for each of these batches takes
ten times as long as counting it.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from sqlalchemy import Connection

from hushmq.broker.contract.messages import Batch
from hushmq.broker.contract.packing import bits_for, unpack
from hushmq.broker.contract.problem import Reason, Rejected
from hushmq.broker.contract.tick_runs import Run, TickRuns
from hushmq.calibrator.ingest.counted_rows import (
    CountedStates,
    DeviceStream,
    read_held,
    read_issued,
    read_lines,
    read_open_from,
    write_accounted,
    write_states,
)


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


class BatchGroup:
    """Counts the batches of some devices within the caller's transaction."""

    def __init__(self, db: Connection, devices: Iterable[str], batches: Sequence[DeviceBatch] = ()) -> None:
        """Read what the database holds of these devices; `batches` are those that will be counted, if known."""
        self._db = db
        mine = sorted(set(devices))
        self._lines = read_lines(db, mine)
        self._held: dict[tuple[str, str], _Held] = {}
        self._read_held(batches)
        self._issued = read_issued(db, mine)
        self._open_from = read_open_from(db)

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
        write_accounted(self._db, self._lines)
        pieces = [
            (device, stream, piece)
            for (device, stream), line in self._lines.items()
            for piece in _joined(line.pieces)
        ]
        if pieces:
            write_states(self._db, self._lines, pieces)

    def accounted(self, devices: Collection[str]) -> dict[str, dict[str, TickRuns]]:
        """By device and stream, the ticks that are counted or known to be gaps once this is committed."""
        found: dict[str, dict[str, TickRuns]] = {device: {} for device in devices}
        for (device, stream), line in self._lines.items():
            if device in found and len(line.runs):
                found[device][stream] = line.runs
        return found

    def _line(self, device: str, stream: str) -> DeviceStream:
        key = device, stream
        if key not in self._lines:
            self._lines[key] = DeviceStream()
        return self._lines[key]

    def _check_repeated(self, sent: DeviceBatch, line: DeviceStream, states: bytes) -> None:
        """Rejected if a tick that is still held came with another state."""
        message, key = sent.batch, (sent.device, sent.stream)
        if key not in self._held or not self._held[key].covers(message):
            self._read_held([sent])
        held = self._held[key].within(message) if key in self._held else ()
        new = ((piece.first, piece.last, piece.states) for piece in line.pieces)
        for first, last, known in itertools.chain(held, new):
            low, high = max(first, message.first), min(last, message.last)
            if low <= high and (
                states[low - message.first : high - message.first + 1]
                != known[low - first : high - first + 1]
            ):
                raise Rejected(Reason.TAMPERED, f"a tick from {low} to {high} came before with another state")

    def _read_held(self, batches: Iterable[DeviceBatch]) -> None:
        """Read the states behind those of the batches that come again, in part at least."""
        wanted: dict[str, dict[str, Run]] = {}
        for one in batches:
            first, last = one.batch.first, one.batch.last
            line = self._lines.get((one.device, one.stream))
            if line is not None and any(a <= last and b >= first for a, b in line.stored.items()):
                mine = wanted.setdefault(one.stream, {})
                low, high = mine.get(one.device, (first, last))
                mine[one.device] = min(low, first), max(high, last)
        for stream, runs in wanted.items():
            for device, rows in read_held(self._db, stream, runs).items():
                self._held[device, stream] = _Held(*runs[device], rows)


@dataclass(frozen=True, slots=True)
class _Held:
    """The rows of one device and stream that hold states of the ticks first … last, in order."""

    first: int
    last: int
    rows: list[tuple[int, int, bytes]] = field(repr=False)

    def covers(self, message: Batch) -> bool:
        """Whether the rows are all that hold a tick of this batch."""
        return self.first <= message.first and message.last <= self.last

    def within(self, message: Batch) -> Iterator[tuple[int, int, bytes]]:
        """The rows that hold a tick of this batch."""
        for at in range(bisect_left(self.rows, message.first, key=itemgetter(1)), len(self.rows)):
            if self.rows[at][0] > message.last:
                return
            yield self.rows[at]


def _joined(pieces: list[CountedStates]) -> list[CountedStates]:
    """The pieces in order, those that follow each other under the same noise as one: fewer rows to write and read."""
    if len(pieces) < 2:
        return pieces
    found: list[CountedStates] = []
    held: list[CountedStates] = []
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if held and (
            piece.first != held[-1].last + 1
            or piece.noise != held[-1].noise
            or piece.last - held[0].first >= LONGEST_ROW
        ):
            found.append(_one(held))
            held = []
        held.append(piece)
    return [*found, _one(held)]


def _one(pieces: list[CountedStates]) -> CountedStates:
    states = b"".join([piece.states for piece in pieces])
    return CountedStates(pieces[0].first, pieces[-1].last, pieces[0].noise, states)
