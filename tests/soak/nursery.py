"""Many agents as processes of their own, forked from one that has imported everything: a start costs little."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

SCRIPT = """
import json, os, select, signal
import hushmq.agent.agent_commands, hushmq.agent.daemon
from hushmq.__main__ import main
from hushmq.broker.provision.broker_process import die_with_parent
dies, rest = die_with_parent(), b""
def say(*what):
    os.write(1, json.dumps(what).encode() + b"\\n")
while True:
    if select.select([0], [], [], 0.2)[0]:
        read = os.read(0, 65536)
        if not read:
            break
        *lines, rest = (rest + read).split(b"\\n")
        for line in lines:
            config, log = json.loads(line)
            pid = os.fork()
            if pid == 0:
                dies()
                os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), 2)
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os._exit(main(["agent", "run", "--config", config]))
            say("started", config, pid)
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            say("ended", ended[0], os.waitstatus_to_exitcode(ended[1]))
    except ChildProcessError:
        pass
"""


class Nursery:
    """Starts agents by their configuration files, and knows how each of them ended."""

    def __init__(self, folder: Path) -> None:
        self._log = (folder / "nursery.log").open("ab")
        self._parent = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log
        )
        self._changed = threading.Condition()
        self._running: dict[Path, int] = {}
        self.ended: list[tuple[Path, int]] = []
        """Configuration and exit code of every agent that has ended."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._parent.stdout is not None
        for line in self._parent.stdout:
            event, *rest = json.loads(line)
            with self._changed:
                if event == "started":
                    self._running[Path(rest[0])] = rest[1]
                else:
                    config = next(one for one, pid in self._running.items() if pid == rest[0])
                    del self._running[config]
                    self.ended.append((config, rest[1]))
                self._changed.notify_all()

    def start(self, config: Path) -> None:
        """Start an agent, and wait until it is a process."""
        assert self._parent.stdin is not None
        self._parent.stdin.write(json.dumps([str(config), str(config.parent / "log")]).encode() + b"\n")
        self._parent.stdin.flush()
        with self._changed:
            assert self._changed.wait_for(lambda: config in self._running, 300), "no agent was started"

    def send(self, config: Path, number: int) -> None:
        """Send a signal to an agent."""
        with self._changed:
            os.kill(self._running[config], number)

    def end(self, config: Path, number: int = signal.SIGKILL) -> int:
        """End an agent with a signal; returns its exit code."""
        self.send(config, number)
        with self._changed:
            assert self._changed.wait_for(lambda: config not in self._running, 300), "an agent did not end"
            return next(code for one, code in reversed(self.ended) if one == config)

    @property
    def running(self) -> set[Path]:
        with self._changed:
            return set(self._running)

    def close(self) -> None:
        """End every agent with the parent."""
        self._parent.kill()
        self._parent.wait()
        self._log.close()
