"""The processes of the demo: started, started again when they die, and stopped within two seconds."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import spawn

MOST_STARTS = 5
PATIENCE_S = 2.0
"""How long a process may take to stop in good order before it is killed."""


@dataclass(slots=True)
class Player:
    """One hushmq process, and how often it had to be started."""

    name: str
    command: Sequence[str]
    log: Path
    starts: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            # -P: what lies in the folder where the demo was started, such as one called agent, is none of ours.
            self.process = spawn([sys.executable, "-P", "-m", "hushmq", *self.command], log=log)
        self.starts += 1

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return lines[-1] if lines else "it said nothing"


@dataclass(slots=True)
class Stage:
    """All players. A player that dies is started again, as an init system would."""

    players: list[Player] = field(default_factory=list)

    def add(self, name: str, command: Sequence[str], log: Path) -> Player:
        player = Player(name, command, log)
        self.players.append(player)
        player.start()
        return player

    def look_after(self) -> list[str]:
        """Start again whoever has died; return their names."""
        dead = [player for player in self.players if not player.alive]
        for player in dead:
            if player.starts >= MOST_STARTS:
                raise Problem(f"{player.name} keeps ending: {player.last_words()}")
            player.start()
        return [player.name for player in dead]

    def stop(self, names: Sequence[str] | None = None, *, patience: float = PATIENCE_S) -> None:
        """Ask the players to stop, all at once, and kill whoever has not when patience ends."""
        leaving = [
            one for one in self.players if one.process is not None and (names is None or one.name in names)
        ]
        for player in leaving:
            if player.alive and player.process is not None:
                player.process.terminate()
        deadline = time.monotonic() + patience
        for player in leaving:
            if player.process is None:
                continue
            try:
                player.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                player.process.kill()
                player.process.wait()
        self.players = [player for player in self.players if player not in leaving]
