"""The path of somebody who has never seen hushmq: from an installed program to the first release of a simulated device.

Run it as a program to time it as a stranger has it, with all defaults: `make stranger`.
"""

from __future__ import annotations

import argparse
import json
import os
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
    seconds: float = 0.0
    by_hand: list[str] = field(default_factory=list)
    """Files that a person had to write or change: those in the folder that no command has written."""
    release: str = ""


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
        for line in site.stdout:
            if line.startswith("release"):
                found.release = line.strip()
                break
            assert time.monotonic() - began < PATIENCE_S, "nothing was released in time"
        found.seconds = time.monotonic() - began
    finally:
        site.terminate()
        rest, errors = site.communicate(timeout=60)
    assert found.release, f"the site ended: {rest}{errors}"
    assert site.returncode == 0, errors
    return found


def main() -> None:
    """Walk the path with the program given, and print what it took as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="an empty folder")
    parser.add_argument("--hushmq", default=sys.executable + " -m hushmq", help="how to start the program")
    parser.add_argument("--init", default="", help="more options of hushmq init, such as '--port 18883'")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps(asdict(walk(args.hushmq.split(), args.folder, args.init.split())), indent=1))


if __name__ == "__main__":
    main()
