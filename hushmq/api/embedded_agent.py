"""An agent inside a program of one's own: the program offers values, the agent perturbs, stores and publishes them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hushmq.agent.agent_config import Config as AgentConfig
from hushmq.agent.agent_config import load
from hushmq.agent.daemon import AgentDaemon
from hushmq.agent.device_report import Report
from hushmq.agent.log_failure import log_failure
from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.log import logger
from hushmq.broker.service.systemd import Systemd

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

__all__ = ["Agent", "AgentConfig", "AgentStopped", "Report", "load_agent_config"]

POLL_S = 0.05
"""How often `wait_ready` asks."""


class AgentStopped(Exception):
    """Raised when an agent is used that does not run: not started yet, stopped, or ended by a failure."""


def load_agent_config(path: Path | str, *, environment: Mapping[str, str] | None = None) -> AgentConfig:
    """The settings of a device's TOML file, with the overrides `HUSHMQ_AGENT__…` of the environment.

    Passwords, keys and certificates are read as well. Raises Problem, which names the setting that is wrong.
    """
    try:
        return load(Path(path), os.environ if environment is None else environment)
    except Problem as problem:
        raise Problem(str(problem).removeprefix("--config: ")) from None


class Agent:
    """One device, on a thread of its own, as a context manager or between `start` and `stop`.

        with Agent(load_agent_config("agent.toml")) as agent:
            agent.offer("presence", 1.0)

    A stream that takes offered values has `kind = "offer"` as its source in the configuration; other sources work too.
    The agent publishes nothing before a policy and a noise setting have come that the configuration trusts. A raw value
    stays in memory: it reaches no log, exception, file or topic. A core file of your program would hold it.
    """

    def __init__(self, config: AgentConfig, *, log: FilteringBoundLogger | None = None) -> None:
        """Nothing is opened before `start`. The log goes to standard error as `config.log` says, or to `log`."""
        self._config = config
        self._log = log if log is not None else logger(config.log.level, config.log.form)
        self._daemon: AgentDaemon | None = None
        self._thread: threading.Thread | None = None
        self._failure: str | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the agent works: started, neither stopped nor failed."""
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        """Open the agent's folder, connect in the background and begin to sample; no effect while it runs.

        Raises Problem when the configuration cannot work, for example because another agent uses the folder.
        """
        if self.running:
            return
        self._failure = None
        # Readiness and watchdog are those of the program, which alone knows whether it is well.
        self._daemon = AgentDaemon(self._config, log=self._log, systemd=Systemd({}))
        self._thread = threading.Thread(
            target=self._run, args=(self._daemon,), name="hushmq-agent", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Sample what has elapsed, send it and disconnect, within five seconds; what could not be sent is stored."""
        if self._daemon is not None and self._thread is not None:
            self._daemon.stop()
            self._thread.join()
        self._daemon = self._thread = None

    def offer(self, stream: str, value: float | str) -> None:
        """Set the stream's value as of now: it stands for this tick and the next ones, until another is offered.

        Numbers, labels and truth values are taken, from any thread; one counts until the next, however long that
        takes, because a gap would tell when values came. A value offered before the stream has its settings is
        discarded: see `wait_ready`.
        Raises Problem if the stream takes no offered values, and AgentStopped.
        """
        self._started().offer(value, stream)

    def report(self) -> Report:
        """The state of the device, as `hushmq agent status` shows it: connection, versions in force, ticks by stream.

        Raises AgentStopped, and TimeoutError if the agent does not answer within a second.
        """
        found = self._started().report()
        if found is None:
            self._started()
            raise TimeoutError("the agent did not answer within a second")
        return found

    def wait_ready(self, *, timeout: float) -> bool:
        """Wait until every stream has a policy and a noise setting; False when `timeout` seconds are over before.

        Raises AgentStopped.
        """
        deadline = time.monotonic() + timeout
        while not all(stream.noise is not None for stream in self.report().streams.values()):
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def _started(self) -> AgentDaemon:
        if self._daemon is None or not self.running:
            raise AgentStopped(
                self._failure or "the agent does not run: call start, or use it in a with block"
            )
        return self._daemon

    def _run(self, daemon: AgentDaemon) -> None:
        try:
            daemon.run()
        except Exception as error:  # noqa: BLE001  # its text may hold a value: it must not reach a traceback
            log_failure(self._log, error)
            self._failure = f"the agent failed: {type(error).__name__}, see its log"
