"""Runs one daemon after another: after a reload with the new settings, and when storage that was away is back.

While the storage is away nothing is connected to the broker, which keeps what devices send; what had been received and
not counted is handed to the next daemon. That one starts from what is stored, as after a crash: what the last one held
in memory may be ahead of what was written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import Config, MetricsSection
from hushmq.calibrator.daemon import Daemon
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.health_server import HealthServer
from hushmq.calibrator.ingest.inbox import Inbox
from hushmq.calibrator.store.storage_away import StorageAway

SHORTEST_S, LONGEST_S = 1.0, 30.0
"""How long to wait before the storage is tried again; twice as long after each failure."""


class Settings(Protocol):
    """The settings of a calibrator or of a worker, as far as they matter here."""

    @property
    def metrics(self) -> MetricsSection: ...


C = TypeVar("C", bound=Settings)
C_co = TypeVar("C_co", bound=Settings, covariant=True)


class Running(Protocol[C_co]):
    """A daemon: of one cohort (calibrator/daemon.py) or of a fleet (calibrator/fleet/worker.py)."""

    def run(self) -> C_co | None:
        """Work until asked to stop; after a reload return the new settings. Raises StorageAway."""

    def stop(self) -> None: ...

    def ask_reload(self) -> None: ...


class Start(Protocol[C]):
    """Makes a daemon; StorageAway where that is not possible now."""

    def __call__(
        self, config: C, *, log: FilteringBoundLogger, reopening: bool, on_working: Callable[[], None]
    ) -> Running[C]: ...


class StartDaemon:
    """Makes the daemons of one cohort; each after an outage takes what the last had received and not counted."""

    def __init__(self, load: Callable[[], Config]) -> None:
        self._load = load
        self._last: tuple[Config, Inbox] | None = None

    def __call__(
        self, config: Config, *, log: FilteringBoundLogger, reopening: bool, on_working: Callable[[], None]
    ) -> Daemon:
        kept = self._last[1] if self._last is not None and self._last[0] is config else None
        daemon = Daemon(
            config, log=log, reload=self._load, inbox=kept, reopening=reopening, on_working=on_working
        )
        self._last = config, daemon.inbox
        return daemon


class Calibrator(Generic[C]):
    """Owns the daemon that runs. `stop` and `ask_reload` may be called from a signal handler."""

    def __init__(
        self,
        config: C,
        *,
        start: Start[C],
        load: Callable[[], C],
        logger_of: Callable[[C], FilteringBoundLogger],
        systemd: Systemd | None = None,
    ) -> None:
        self._config, self._start, self._load, self._logger_of = config, start, load, logger_of
        self._systemd = systemd or Systemd()
        self._stopped = threading.Event()
        self._reload_asked = False
        self._daemon: Running[C] | None = None
        self._away: str | None = None
        """What the storage said when it went away; None while it is there."""
        self._pause_s = SHORTEST_S

    def run(self) -> None:
        """Work until asked to stop; Problem where no waiting helps."""
        while not self._stopped.is_set():
            log = self._logger_of(self._config)
            try:
                self._daemon = self._start(
                    self._config, log=log, reopening=self._away is not None, on_working=self._back
                )
                if self._stopped.is_set():
                    self._daemon.stop()
                following = self._daemon.run()
            except StorageAway as away:
                self._wait(str(away), log)
                continue
            finally:
                self._daemon = None
            if following is None:
                return
            self._config = following

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()
        if self._daemon is not None:
            self._daemon.stop()

    def ask_reload(self) -> None:
        """Read the settings again; if they are wrong, say so and go on as before."""
        self._reload_asked = True
        if self._daemon is not None:
            self._daemon.ask_reload()

    def _back(self) -> None:
        """The daemon has written again."""
        if self._away is not None:
            log = self._logger_of(self._config)
            log.info("storage_back")
            self._systemd.notify("STATUS=running")
        self._away, self._pause_s = None, SHORTEST_S
        self._reload_asked = False

    def _wait(self, why: str, log: FilteringBoundLogger) -> None:
        """Say once what is away; feed the watchdog, and answer `/health`, until it is tried again."""
        if self._away is None:  # what it says next, while it starts again, is the same outage
            log.error("storage_away", why=why)
            self._systemd.notify(f"STATUS=waiting: {why}")
        self._away = why
        metrics = self._config.metrics
        server = None if metrics.port is None else HealthServer(metrics.host, metrics.port)
        left = self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_S)
        try:
            if server is not None:
                server.show(HealthReport.waiting_for(why))
            while left > 0 and not self._stopped.wait(min(left, SHORTEST_S)):
                left -= SHORTEST_S
                # Before the first start is complete, systemd waits for it no longer than this.
                self._systemd.notify("EXTEND_TIMEOUT_USEC=120000000")
                self._systemd.feed(healthy=True)
        finally:
            if server is not None:
                server.stop()
        if self._reload_asked:
            self._reload_asked = False
            try:
                self._config = self._load()
            except Problem as problem:
                log.warning("settings_refused", problem=str(problem))
