"""Runs agents for tests, in this process or as a separate process."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hushmq.agent.agent_config import load
from hushmq.agent.daemon import AgentDaemon
from hushmq.agent.sources.tick import Clock
from hushmq.broker.service.log import logger


@contextmanager
def running(
    config: Path, *, clock: Clock | None = None, log: io.StringIO | None = None
) -> Iterator[AgentDaemon]:
    """Run an agent on a separate thread, and stop it at the end; an exception it raises fails the test."""
    agent = AgentDaemon(load(config, {}), log=logger("debug", "json", log or io.StringIO()), clock=clock)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            agent.run()
        except BaseException as error:
            raised.append(error)
            raise

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join(10)
    assert not thread.is_alive()
    assert not raised


@contextmanager
def process(config: Path, *, code: str = "", log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Run `hushmq agent run` as a process, which executes `code` first; kill it at the end if it still runs."""
    script = f"{code}\nimport sys\nfrom hushmq.__main__ import main\nsys.exit(main(sys.argv[1:]))"
    with (log or Path(os.devnull)).open("ab") as output:
        child = subprocess.Popen(
            [sys.executable, "-c", script, "agent", "run", "--config", str(config)],
            stderr=output,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield child
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGKILL)
        child.wait(10)


NURSERY = """
import json, os, sys
import hushmq.agent.daemon
from hushmq.__main__ import main
for line in sys.stdin:
    code, arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        exec(code, {})
        os._exit(main(arguments))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@contextmanager
def nursery(config: Path, log: Path) -> Iterator[Callable[[str], int]]:
    """Forks agent processes from one that has imported everything: `live(code)` returns the exit code of one."""
    with log.open("ab") as output:
        parent = subprocess.Popen(
            [sys.executable, "-c", NURSERY],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            bufsize=1,
        )
    assert parent.stdin is not None
    assert parent.stdout is not None
    stdin, stdout = parent.stdin, parent.stdout

    def live(code: str) -> int:
        stdin.write(json.dumps([code, ["agent", "run", "--config", str(config)]]) + "\n")
        return int(stdout.readline())

    with parent:
        yield live
