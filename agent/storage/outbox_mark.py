"""A second copy of what must survive the outbox: per stream the watermark, the counters, what was waiting.

After each commit of the outbox one of two files is written, in turn, so that a killed process leaves a whole
one; they are not forced to the disk, which spares a flash card. A third file is, whenever the watermark passes
what that file has reserved: after a power cut the reserved watermark, never below the true one, still keeps every
used tick from being used again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from zlib import crc32

RESERVE_MS = 300_000
"""How far ahead, in time, a forced copy reserves ticks."""


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
    """The files: `mark.0` and `mark.1` written in turn, `mark` forced to the disk."""

    def __init__(self, folder: Path, *, reserve_ms: int = RESERVE_MS) -> None:
        self._paths = (folder / "mark.0", folder / "mark.1", folder / "mark")
        self._reserve_ms = reserve_ms
        self._turn = 0
        self._reserved: dict[str, int] = {}

    def release(self) -> None:
        """Reserve nothing ahead from now on: no tick will be used any more."""
        self._reserve_ms = 0
        self._reserved = {}

    def read(self) -> dict[str, StreamMark]:
        """The newest whole copy; empty when there is none."""
        copies = [copy for path in self._paths if (copy := _read(path)) is not None]
        self._turn, streams = max(copies, key=lambda copy: copy[0], default=(0, {}))
        return streams

    def reserve(self, stream: str, period_ms: int, watermark: int) -> int:
        """The tick up to which the next copy reserves ticks for a stream; unchanged while it suffices."""
        if watermark > self._reserved.get(stream, -1):
            return watermark + self._reserve_ms // period_ms
        return self._reserved[stream]

    def write(self, streams: Mapping[str, StreamMark]) -> None:
        """Write a copy; force it to the disk when a reservation has moved."""
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
    """Give a file new content so that a crash at any moment leaves the old or the new, whole."""
    fresh = path.with_name(f"{path.name}.new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
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
    return int(turn), {
        name: StreamMark(**{**mark, "waiting": tuple((first, last) for first, last in mark["waiting"])})
        for name, mark in streams.items()
    }
