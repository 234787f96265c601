"""What a disk holds after a power cut at any moment of a process, from a record of its writes and syncs.

A file holds what it held at its last sync; of what was written since, nothing, everything, or any part of it. A new
name lasts once the file or its folder was synced, a rename or deletion once the folder was. `said` is no file of the
process: what it writes there is what it has said to others by then.
"""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

HERE = Path(__file__).parent
HEAD = struct.Struct("<cIIIq")
SAID = "said"
SECTOR = 512
Loss = Literal["all", "some", "none"]
"""What of the unsynced is lost."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a process did to a file: W write, T truncate, S sync, C create, R rename, U unlink."""

    kind: str
    path: str
    other: str
    offset: int
    data: bytes = field(repr=False)


@dataclass(slots=True)
class File:
    """A file's content at its last sync, and what was done to it since."""

    synced: bytes = b""
    since: list[Action] = field(default_factory=list)

    def content(self, loss: Loss, rng: random.Random) -> bytes:
        """What the disk may hold of it."""
        found = bytearray(self.synced)
        for action in self.since if loss != "all" else ():
            if action.kind == "T":
                if loss == "none" or rng.random() < 0.5:
                    del found[action.offset :]
                    found.extend(bytes(action.offset - len(found)))
                continue
            for start in range(0, len(action.data), SECTOR):
                if loss == "none" or rng.random() < 0.5:
                    part, at = action.data[start : start + SECTOR], action.offset + start
                    found.extend(bytes(max(0, at - len(found))))
                    found[at : at + len(part)] = part
        return bytes(found)


@dataclass(slots=True)
class Disk:
    """The files below a folder, as the process sees them and as the disk knows their names."""

    root: Path
    names: dict[str, File] = field(default_factory=dict)
    durable: dict[str, File] = field(default_factory=dict)
    said: bytes = b""

    def apply(self, action: Action) -> None:
        path = action.path
        if Path(path).name == SAID:
            self.said += action.data
        elif action.kind == "S":
            if path in self.names:
                one = self.names[path]
                one.synced, one.since = one.content("none", random.Random()), []
                self.durable.setdefault(path, one)
            else:
                self._sync_folder(path)
        elif action.kind == "R":
            self.names[action.other] = self.names.pop(path, File())
        elif action.kind == "U":
            self.names.pop(path, None)
        elif action.kind == "C":
            self.names[path] = File()
        else:
            self.names.setdefault(path, File()).since.append(action)

    def _sync_folder(self, folder: str) -> None:
        inside = [name for name in self.durable if str(Path(name).parent) == folder]
        for name in inside:
            del self.durable[name]
        self.durable.update(
            {name: one for name, one in self.names.items() if str(Path(name).parent) == folder}
        )

    def after_a_cut(self, to: Path, loss: Loss, rng: random.Random) -> None:
        """Write what is left into an empty folder. Memory that processes share through a file is gone."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        names = self.names if loss == "none" or (loss == "some" and rng.random() < 0.5) else self.durable
        for name, one in names.items():
            path = to / Path(name).relative_to(self.root)
            if not name.endswith("-shm"):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(one.content(loss, rng))


def build(folder: Path) -> Path | None:
    """The recorder, compiled; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "record_writes.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(HERE / "record_writes.c"), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return library


def record(library: Path, module: str, root: Path, *arguments: str) -> list[Action]:
    """Run a module with the recorder, and return what it did below `root`."""
    root.mkdir()
    to = root.with_name(f"{root.name}.record")
    environment = os.environ | {
        "LD_PRELOAD": str(library),
        "HUSHMQ_RECORD_BELOW": str(root.resolve()),
        "HUSHMQ_RECORD_TO": str(to),
    }
    command = [sys.executable, "-m", module, str(root.resolve()), *arguments]
    subprocess.run(command, check=True, env=environment, timeout=900)
    return list(_read(to.read_bytes()))


def _read(log: bytes) -> Iterator[Action]:
    at = 0
    while at < len(log):
        kind, path, other, size, offset = HEAD.unpack_from(log, at)
        at += HEAD.size
        parts = []
        for length in (path, other, size):
            parts.append(log[at : at + length])
            at += length
        yield Action(kind.decode(), parts[0].decode(), parts[1].decode(), offset, parts[2])


def cuts(actions: list[Action], root: Path, to: Path, seed: int = 0) -> Iterator[tuple[str, Path, list[str]]]:
    """After every action and with each kind of loss: its name, the folder as it is then, and what was said by then.

    Moments that differ from the one before in nothing are passed over.
    """
    disk, rng = Disk(root.resolve()), random.Random(seed)
    for number, action in enumerate(actions):
        disk.apply(action)
        if action.path.endswith("-shm"):
            continue
        kinds: tuple[Loss, ...] = ("all", "some", "none")
        if action.kind in {"W", "T"} and Path(action.path).name != SAID:
            kinds = ("some", "none")  # what is synced has not changed
        for loss in kinds:
            disk.after_a_cut(to, loss, rng)
            moment = f"action {number} ({action.kind} {Path(action.path).name}), {loss} of the unsynced lost"
            yield moment, to, disk.said.decode().splitlines()
