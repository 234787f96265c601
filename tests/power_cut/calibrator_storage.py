"""A calibrator's storage at work, for the recorder: what it has counted, charged and released is said."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from hushmq.broker.contract.messages import Release, decode
from hushmq.calibrator.windows.outgoing import OutgoingRelease
from tests.calibrator.site import Clock, desk, sqlite


def main(root: Path, windows: int) -> None:
    folder = root / "calibrator"
    folder.mkdir()
    said = os.open(root / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(**what: int | str) -> None:
        os.write(said, (json.dumps(what) + "\n").encode())

    clock = Clock()
    for begin in range(0, windows, 4):
        with desk(sqlite(folder), clock=clock, mark_path=folder / "mark") as here:
            if begin == 0:
                here.adopt()
                say(policy=1)
            for number in range(begin, min(begin + 4, windows)):
                here.window(number)
                say(seen=here.seen("d0").streams["motion"].highest)
                here.cohort.close_due()
                for one in here.cohort.unsent():
                    if isinstance(one, OutgoingRelease):
                        say(release=decode(Release, one.payload).entry, payload=one.payload.decode())
                (state,) = here.cohort.ledger_states()
                say(entries=state.entries)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
