"""A device's storage at work, recorded: beats are stored and sent, counted ones forgotten, the file reopened."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from hushmq.agent.storage.outbox import MadeBatch, Outbox
from hushmq.broker.contract.messages import Counted

STREAM = "motion"
PERIOD_MS = 1000


def payload_of(first: int) -> bytes:
    return f"payload of {first} ".encode() * 12


def opened(folder: Path) -> Outbox:
    return Outbox(folder, max_bytes=10**6, max_age_s=10**9, reserve_ms=5_000)


def main(root: Path, beats: int) -> None:
    folder = root / "device"
    folder.mkdir()
    said = os.open(root / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    outbox = opened(folder)
    for beat in range(beats):
        first = 100 + 3 * beat
        counted = 100 + 3 * (beat - 6) + 2
        seen = {STREAM: Counted(highest=counted, holes=())} if beat % 5 == 4 and beat > 6 else {}
        if seen:  # it has heard so before it forgets
            os.write(said, (json.dumps({"counted": counted}) + "\n").encode())
        made = MadeBatch(STREAM, first, first + 2, payload_of(first))
        outbox.commit([made], periods={STREAM: PERIOD_MS}, seen=seen, now_ms=beat)
        os.write(said, (json.dumps({"first": first, "last": first + 2}) + "\n").encode())
        if beat % 20 == 13:
            outbox._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        if beat % 20 == 19:
            outbox.close()
            outbox = opened(folder)
    outbox.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
