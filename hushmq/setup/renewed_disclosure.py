"""The disclosure that the console of `hushmq up` offers: written anew every hour, by a process of its own that ends.

Only the calibrator's key seals a disclosure, and the console has no key: so whoever runs both has the command run.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hushmq.broker.provision.broker_process import spawn

EVERY_S = 3600.0
AGAIN_S = 30.0
"""After so long it is tried again where it did not come to be: there is nothing to disclose before a first policy."""


class RenewedDisclosure:
    """Keeps the file new. `turn` is called now and then; `stop` ends what runs."""

    def __init__(
        self, calibrator: Path, out: Path, log: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._command = ["ledger", "disclose", "--config", str(calibrator), "--out", str(out)]
        self._log, self._clock = log, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._next = clock() + AGAIN_S
        """The first releases are waited for."""

    def turn(self) -> None:
        """Start the command when it is time, and see how it ended."""
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return
            self._process = None
            self._next = self._clock() + (EVERY_S if code == 0 else AGAIN_S)
        elif self._clock() >= self._next:
            with self._log.open("ab") as log:
                command = ["nice", "-n", "10", sys.executable, "-P", "-m", "hushmq", *self._command]
                self._process = spawn(command, log=log)

    def stop(self) -> None:
        """End the command if it runs: the file stays as it was."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
