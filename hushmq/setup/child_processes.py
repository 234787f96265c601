"""hushmq processes of a command, such as the demo: started, restarted when they end, and stopped in the end."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import spawn

MAX_STARTS = 5
STEADY_S = 60.0
"""A process that ran for so long starts with a clean slate."""
LONGEST_PAUSE_S = 60.0


@dataclass(slots=True)
class ChildProcess:
    """A hushmq process, and the number of its starts."""

    name: str
    command: Sequence[str]
    log: Path
    starts: int = 0
    started: float = 0.0
    ended: float | None = None
    """When it was first found ended, since its last start."""
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            # -P: do not import from the current folder, which may contain one called agent.
            self.process = spawn([sys.executable, "-P", "-m", "hushmq", *self.command], log=log)
        self.starts += 1
        self.started, self.ended = time.monotonic(), None

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_log_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"


@dataclass(slots=True)
class ChildProcesses:
    """The processes of one command; one that ends is restarted, as an init system would."""

    processes: list[ChildProcess] = field(default_factory=list)

    def add(self, name: str, command: Sequence[str], log: Path) -> ChildProcess:
        one = ChildProcess(name, command, log)
        self.processes.append(one)
        one.start()
        return one

    def restart_ended(self) -> list[str]:
        """Restarts the processes that have ended and returns their names; Problem after too many starts."""
        dead = [one for one in self.processes if not one.alive]
        for one in dead:
            if one.starts >= MAX_STARTS:
                raise Problem(f"{one.name} keeps ending: {one.last_log_line()}")
            one.start()
        return [one.name for one in dead]

    def restart_in_time(self) -> list[ChildProcess]:
        """Restarts ended processes after pauses that grow to a minute; returns those newly found ended."""
        found = []
        now = time.monotonic()
        for one in self.processes:
            if one.alive:
                continue
            if one.ended is None:
                one.starts = 1 if now - one.started > STEADY_S else one.starts
                one.ended = now
                found.append(one)
            if now - one.ended >= min(2.0 ** (one.starts - 1), LONGEST_PAUSE_S):
                one.start()
        return found

    def names(self) -> list[str]:
        """The names of all processes, ended ones too."""
        return [one.name for one in self.processes]

    def check_alive(self, name: str) -> None:
        """Problem, with its last words, if the process of this name has ended."""
        for one in self.processes:
            if one.name == name and not one.alive:
                raise Problem(one.last_log_line().removeprefix("hushmq: "))

    def stop(self, names: Sequence[str] | None = None, *, patience: float) -> None:
        """Terminates the processes, and kills those that have not ended after `patience` seconds."""
        leaving = [
            one for one in self.processes if one.process is not None and (names is None or one.name in names)
        ]
        for one in leaving:
            if one.alive and one.process is not None:
                one.process.terminate()
        deadline = time.monotonic() + patience
        for one in leaving:
            if one.process is None:
                continue
            try:
                one.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
        self.processes = [one for one in self.processes if one not in leaving]
