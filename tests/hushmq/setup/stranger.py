"""The path of somebody who has never seen hushmq: from an installed program to the first release of a simulated device,
to a second device that joins with a bundle as one elsewhere does, and to a picture of the releases.

Run it as a program to time it as a stranger has it, with all defaults: `make stranger`.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

PATIENCE_S = 300.0


@dataclass(slots=True)
class Walk:
    """The commands that were typed, how long it took, and what was edited by hand."""

    commands: list[str] = field(default_factory=list)
    to_release: int = 0
    """How many of them came before the first release."""
    seconds: float = 0.0
    """From the first command to the first release."""
    by_hand: list[str] = field(default_factory=list)
    """Files that a person had to write: those that were there before the first command. No later one is."""
    release: str = ""
    enrolled_seconds: float = 0.0
    """From `device add` to the first tick that was counted of the device with a bundle."""
    picture: str = ""


def walk(
    hushmq: Sequence[str],
    folder: Path,
    init: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Walk:
    """Walk the path in an empty folder; raise AssertionError where a command fails or nothing is released."""
    found, began = Walk(), time.monotonic()
    env = {**os.environ, **(environment or {})}

    def type_in(*words: str) -> subprocess.Popen[str]:
        found.commands.append(" ".join(("hushmq", *words)))
        return subprocess.Popen(
            [*hushmq, *words], cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def done(process: subprocess.Popen[str]) -> None:
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, f"{found.commands[-1]}: {out}{err}"

    before = set(folder.rglob("*"))
    done(type_in("init", "home", "--yes", *init))
    site = type_in("up", "home")
    assert site.stdout is not None
    try:
        done(type_in("device", "add", "home", "wearable-1", "--source", "simulate", "--here"))
        found.by_hand = sorted(str(path) for path in before)
        found.to_release = len(found.commands)
        for line in site.stdout:
            if line.startswith("release"):
                found.release = line.strip()
                break
            assert time.monotonic() - began < PATIENCE_S, "nothing was released in time"
        found.seconds = time.monotonic() - began
        began_again = time.monotonic()
        done(type_in("device", "add", "home", "ring", "--source", "simulate", "--out", "ring.bundle"))
        device = type_in("agent", "enroll", "ring.bundle", "--run")
        try:
            while not _is_counted(folder / "home", "ring"):
                assert device.poll() is None, device.communicate()
                assert time.monotonic() - began_again < PATIENCE_S, "nothing was counted in time"
                time.sleep(0.2)
            found.enrolled_seconds = time.monotonic() - began_again
        finally:
            device.terminate()
            device.communicate(timeout=60)
        found.picture = str(folder / "releases.svg")
        done(type_in("releases", "plot", "home", "--output", found.picture))
        done(type_in("device", "forget", "home", "ring", "--yes"))
        assert not _is_counted(folder / "home", "ring")
    finally:
        site.terminate()
        rest, errors = site.communicate(timeout=60)
    assert found.release, f"the site ended: {rest}{errors}"
    assert site.returncode == 0, errors
    return found


def _is_counted(site: Path, device: str) -> bool:
    """Whether the calibrator holds ticks of a device."""
    with sqlite3.connect(f"file:{site}/calibrator/ledger.db?mode=ro", uri=True) as db:
        return bool(db.execute("SELECT count(*) FROM tally WHERE device = ?", [device]).fetchone()[0])


def main() -> None:
    """Walk the path with the program given, and print what it took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("--hushmq", default=sys.executable + " -m hushmq", help="how to start the program")
    parser.add_argument("--init", default="", help="more options of hushmq init, such as '--port 18883'")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asdict(walk(args.hushmq.split(), args.folder.resolve(), args.init.split())), indent=1))


if __name__ == "__main__":
    main()
