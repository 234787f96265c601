"""The mark: a second copy of what must survive a corrupt outbox (watermark, counters and waiting ticks by stream).

After each commit of the outbox one of two files is written, in turn, so that a killed process leaves one intact; they
are not synced, which spares a flash card. A third file is synced whenever the watermark passes the ticks that this
file has reserved: after a power cut the reserved watermark, never below the true one, prevents that a tick is used
twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

from hushmq.broker.contract.problem import Problem

RESERVE_MS = 300_000
"""How far ahead, in milliseconds, a synced copy reserves ticks."""


@dataclass(frozen=True, slots=True)
class StreamMark:
    """One stream as of its last commit."""

    period_ms: int
    watermark: int
    reserved: int
    sampled: int
    dropped: int
    buffered: int
    waiting: tuple[tuple[int, int], ...]
    """The newest runs of the buffered ticks."""


class Mark:
    """The files: `mark.0` and `mark.1` written in turn, `mark` synced."""

    def __init__(self, folder: Path, *, reserve_ms: int = RESERVE_MS) -> None:
        self._paths = (folder / "mark.0", folder / "mark.1", folder / "mark")
        self._reserve_ms = reserve_ms
        self._turn = 0
        self._reserved: dict[str, int] = {}

    def release(self) -> None:
        """Stop reserving ticks ahead, because none will be used any more."""
        self._reserve_ms = 0
        self._reserved = {}

    def read(self) -> dict[str, StreamMark]:
        """The newest intact copy; empty if there is none."""
        copies = [copy for path in self._paths if (copy := _read(path)) is not None]
        self._turn, streams = max(copies, key=lambda copy: copy[0], default=(0, {}))
        return streams

    def reserve(self, stream: str, period_ms: int, watermark: int) -> int:
        """The tick up to which the next copy reserves ticks for a stream; unchanged while above the watermark."""
        if watermark > self._reserved.get(stream, -1):
            return watermark + self._reserve_ms // period_ms
        return self._reserved[stream]

    def write(self, streams: Mapping[str, StreamMark]) -> None:
        """Write a copy, and sync it if a reservation has changed."""
        self._turn += 1
        body = json.dumps(
            {name: asdict(mark) for name, mark in streams.items()}, separators=(",", ":")
        ).encode()
        copy = b"%d %08x\n%s\n" % (self._turn, crc32(b"%d %s" % (self._turn, body)), body)
        self._paths[self._turn % 2].write_bytes(copy)
        reserved = {name: mark.reserved for name, mark in streams.items()}
        if reserved != self._reserved:
            replace_durably(self._paths[2], copy)
            self._reserved = reserved


def replace_durably(path: Path, content: bytes) -> None:
    """Replace a file's content atomically and durably: a crash leaves the old or the new content, complete."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    move_durably(fresh, path)


def move_durably(fresh: Path, path: Path) -> None:
    """Move a file over another one of the same folder, durably."""
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path) -> tuple[int, dict[str, StreamMark]] | None:
    try:
        head, body, _ = path.read_bytes().split(b"\n", 2)
        turn, check = head.split()
        if int(check, 16) != crc32(b"%s %s" % (turn, body)):
            return None
        streams = json.loads(body)
    except (OSError, ValueError):
        return None
    return int(turn), {name: _stream_mark(path, mark) for name, mark in streams.items()}


def _stream_mark(path: Path, found: Mapping[str, Any]) -> StreamMark:
    """A whole copy with other fields is no damage: to pass over it could use ticks again. So it is a Problem."""
    try:
        return StreamMark(**{**found, "waiting": tuple((first, last) for first, last in found["waiting"])})
    except (KeyError, TypeError, ValueError):
        raise Problem(
            f"folder: {path} was written by another version of hushmq: install that version"
        ) from None
