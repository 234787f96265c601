"""What `seen` says of each device: the ticks that are durably counted, and the holes between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlalchemy import Connection

from hushmq.broker.contract.messages import Counted, Seen
from hushmq.broker.contract.tick_runs import TickRuns
from hushmq.calibrator.ingest.counted_rows import read_lines

MOST_HOLES = 512
"""Holes that `seen` lists for a stream. With more, it covers only the ticks before the next one."""

READ_AT_ONCE = 2_000
"""Devices that one statement asks for: databases limit its parameters."""


def seen(db: Connection, device: str) -> Seen:
    """What is durably counted of a device, per stream."""
    return seen_of(db, [device])[device]


def seen_of(db: Connection, devices: Iterable[str]) -> dict[str, Seen]:
    """What is durably counted of each of these devices, per stream."""
    wanted = sorted(set(devices))
    runs: dict[str, dict[str, TickRuns]] = {device: {} for device in wanted}
    for start in range(0, len(wanted), READ_AT_ONCE):
        for (device, stream), line in read_lines(db, wanted[start : start + READ_AT_ONCE]).items():
            runs[device][stream] = line.runs
    return {device: seen_from(streams) for device, streams in runs.items()}


def seen_from(accounted: Mapping[str, TickRuns]) -> Seen:
    """What `seen` says of a device with these accounted runs of its streams."""
    return Seen(streams={stream: _counted(covered) for stream, covered in accounted.items()})


def newest_seen(
    accounted: Mapping[str, Mapping[str, TickRuns] | None], read: Callable[[list[str]], Mapping[str, Seen]]
) -> dict[str, Seen]:
    """What `seen` says of devices with these accounted runs; those that have none here are `read`."""
    unread = [device for device, streams in accounted.items() if streams is None]
    found = dict(read(unread)) if unread else {}
    found |= {device: seen_from(streams) for device, streams in accounted.items() if streams is not None}
    return found


def _counted(runs: TickRuns) -> Counted:
    """What `seen` says of the accounted runs of a stream, of which there is at least one."""
    # Ticks below the first run were never declared: the device has no batch of them, or will declare them when it
    # arrives. Either way they are a hole from tick 0.
    highest = runs.last or 0
    holes = runs.missing(0, highest)
    if len(holes) > MOST_HOLES:
        highest = holes[MOST_HOLES][0] - 1
    return Counted(highest=highest, holes=tuple(holes[:MOST_HOLES]))
