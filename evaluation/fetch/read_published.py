"""Reads published files as the rows of the recordings' CSV files: one function for each publisher's format."""

from __future__ import annotations

import csv
import gzip
from collections import deque
from collections.abc import Iterator, Sequence
from decimal import Decimal

Rows = Iterator[Sequence[object]]

DAY = 1440
"""Minutes: the package filled a missing minute with the one a day before."""
ACTIVE = ("label:FIX_walking", "label:FIX_running", "label:BICYCLING")


def heart_beats(name: str, content: bytes) -> Rows:
    """Time and heart rate of each beat."""
    for line in content.decode().splitlines():
        yield [name, *map(float, line.split())]


def activities(name: str, content: bytes) -> Rows:
    """Lying, sitting, standing or active, minute by minute; -1 where none of them is labelled."""
    subject = name.partition("-")[0]
    for row in csv.DictReader(gzip.decompress(content).decode().splitlines()):
        states = (
            _is_set(row["label:LYING_DOWN"]),
            _is_set(row["label:SITTING"]),
            _is_set(row["label:OR_standing"]),
            any(_is_set(row[label]) for label in ACTIVE),
        )
        yield [subject, row["timestamp"], states.index(True) if True in states else -1]


def occupied_room(name: str, content: bytes) -> Rows:
    """Whether the room is occupied, with its carbon dioxide and light."""
    header, *rows = csv.reader(content.decode().splitlines())
    # Two of the files number their rows in a column without a name.
    titles = [column.lower() for column in header]
    date, occupied, gas, light = (
        titles.index(column) - len(titles) for column in ("date", "occupancy", "co2", "light")
    )
    for row in rows:
        measured = (f"{float(row[column]):.1f}" for column in (gas, light))
        yield [name.removesuffix(".txt"), row[date], row[occupied], *measured]


def household_power(_name: str, content: bytes) -> Rows:
    """Watt, and whether all columns repeat those of a day before: such a minute was filled in."""
    before: deque[list[str]] = deque(maxlen=DAY)
    for _, *values in list(csv.reader(content.decode().splitlines()))[1:]:
        imputed = len(before) == DAY and before[0] == values
        before.append(values)
        yield [round(Decimal(values[0]) * 1000), int(imputed)]


def _is_set(label: str) -> bool:
    return label not in {"", "nan"} and float(label) == 1.0
