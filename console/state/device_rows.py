"""The table of devices: one row for each, with what is the matter with it, filtered and sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hushmq.broker.contract.messages import StreamStatus
from hushmq.console.state.device_record import DeviceRecord
from hushmq.console.state.live_site import LiveSite
from hushmq.console.state.reasons import reason_in_words
from hushmq.console.store.device_facts import DeviceFacts

FILTERS: dict[str, str] = {
    "all": "All",
    "online": "On line",
    "offline": "Off line",
    "behind": "Behind",
    "refusing": "Refusing",
    "quarantined": "Quarantined",
    "left-out": "Left out",
    "dropping": "Dropping",
    "own": "Device-specific setting",
}
"""What the table can be filtered by, in words."""
TROUBLE = ("quarantined", "refusing", "left-out", "dropping", "behind", "offline")
"""What may be the matter with a device, the gravest first."""


@dataclass(frozen=True, slots=True)
class StreamCell:
    """One stream of a device."""

    stream: str
    noise: int | None
    wanted: int | None
    signal: float | None
    """How much of the state comes through its noise, 0 to 1."""
    stride: int
    """Of how many ticks one is published."""
    sampled: int
    buffered: int
    dropped: int
    counted_to: float | None
    """When its last counted tick was, in seconds since the epoch."""
    own: bool


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device as the table shows it."""

    name: str
    online: bool | None
    marks: tuple[str, ...]
    """Which filters it falls under."""
    why: tuple[str, ...]
    """What is the matter, in words."""
    policy: int | None
    streams: tuple[StreamCell, ...]
    buffered: int
    dropped: int
    late: int
    seen: float | None
    """When it was last heard of, in seconds since the epoch."""

    @property
    def trouble(self) -> str | None:
        """The gravest thing that is the matter."""
        return next((mark for mark in TROUBLE if mark in self.marks), None)

    @property
    def signal(self) -> float | None:
        found = [one.signal for one in self.streams if one.signal is not None]
        return min(found, default=None)


def device_row(site: LiveSite, record: DeviceRecord, facts: DeviceFacts) -> DeviceRow:
    """The row of one device."""
    cells = tuple(_cell(site, record, facts, name, one) for name, one in sorted(record.streams.items()))
    policy = site.public.policy
    held_back = policy is not None and bool(policy.first_devices) and record.name not in policy.first_devices
    late_policy = policy is not None and record.policy not in {None, policy.version} and not held_back
    behind = [
        f"{cell.stream} has noise {cell.noise or 'none'} instead of {cell.wanted}"
        for cell in cells
        if cell.wanted is not None and cell.noise != cell.wanted and not held_back
    ]
    if late_policy and policy is not None:
        behind.insert(0, f"follows policy {record.policy} instead of {policy.version}")
    refusals = [
        f"refuses {'the policy' if what == 'policy' else f'noise of {what}'}: {reason_in_words(one.reason)[0]}"
        for what, one in record.refusals()
    ]
    why = [*refusals, *(behind if record.online is not False else ())]
    if facts.quarantine is not None:
        why.insert(0, f"in quarantine: {reason_in_words(facts.quarantine)[0]}")
    why += [f"left out of {stream}: {words}" for stream, words in facts.left_out.items()]
    if record.dropping:
        why.append("drops ticks: its queue is full or too old")
    marks = {
        "online": record.online is True,
        "offline": record.online is False,
        "behind": bool(behind) and record.online is not False,
        "refusing": bool(refusals),
        "quarantined": facts.quarantine is not None,
        "left-out": bool(facts.left_out),
        "dropping": record.dropping,
        "own": any(cell.own for cell in cells),
    }
    heard = [one for one in (record.heard, *(cell.counted_to for cell in cells)) if one is not None]
    return DeviceRow(
        name=record.name,
        online=record.online,
        marks=tuple(mark for mark, holds in marks.items() if holds),
        why=tuple(why),
        policy=record.policy,
        streams=cells,
        buffered=record.buffered,
        dropped=record.dropped,
        late=facts.late,
        seen=max(heard, default=_counted(site, facts)),
    )


def _counted(site: LiveSite, facts: DeviceFacts) -> float | None:
    found = [_seconds(site, stream, tick) for stream, tick in facts.counted_to.items()]
    return max(found, default=None)


def _seconds(site: LiveSite, stream: str, tick: int) -> float:
    return (tick + 1) * site.public.stride_ms(stream) / 1000


def _cell(
    site: LiveSite, record: DeviceRecord, facts: DeviceFacts, name: str, one: StreamStatus
) -> StreamCell:
    setting = site.setting_of(name, record.name, one.noise)
    counted = facts.counted_to.get(name)
    return StreamCell(
        stream=name,
        noise=one.noise,
        wanted=site.version_for(name, record.name),
        signal=None if setting is None else setting.noise.noise.signal,
        stride=site.public.stride(name),
        sampled=one.sampled,
        buffered=one.buffered,
        dropped=one.dropped,
        counted_to=None if counted is None else _seconds(site, name, counted),
        own=setting is not None and setting.device is not None,
    )


def device_rows(site: LiveSite, facts: Mapping[str, DeviceFacts]) -> list[DeviceRow]:
    """All devices that the broker or the database knows, by name."""
    names = sorted({*site.devices, *facts})
    return [
        device_row(site, site.devices.get(name) or DeviceRecord(name), facts.get(name) or DeviceFacts())
        for name in names
    ]


SORTS: dict[str, Callable[[DeviceRow], tuple[float | str, ...]]] = {
    "name": lambda row: (row.name,),
    "state": lambda row: (TROUBLE.index(row.trouble) if row.trouble else len(TROUBLE), row.name),
    "queue": lambda row: (-row.buffered, row.name),
    "dropped": lambda row: (-row.dropped, row.name),
    "seen": lambda row: (row.seen or 0.0, row.name),
    "signal": lambda row: (row.signal if row.signal is not None else 2.0, row.name),
}
"""What the table can be sorted by: the device in most trouble stands first."""
DESCENDING = frozenset({"queue", "dropped"})
"""What is sorted from the largest on."""


def chosen(rows: Sequence[DeviceRow], *, filter_: str, text: str, sort: str) -> list[DeviceRow]:
    """The rows that fall under a filter and whose name contains a text, sorted."""
    found = [row for row in rows if filter_ in {"all", *row.marks} and text in row.name]
    return sorted(found, key=SORTS[sort])
