"""Lock the folder of an agent: two agents in one folder would use a tick twice."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from hushmq.broker.contract.problem import Problem


def lock(folder: Path) -> int:
    """Create the folder if it is missing and lock it while the returned handle is open; raises Problem if locked."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Problem(f"folder: {folder}: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Problem(f"folder: another agent runs in {folder}: give each agent a different folder") from None
    return handle
