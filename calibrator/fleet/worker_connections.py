"""A worker's connections to brokers: one to each cluster that it needs, whatever the number of cohorts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from structlog.typing import FilteringBoundLogger

from hushmq.broker.mqtt.connection import Connection
from hushmq.calibrator.fleet_config import FleetConfig

IN_FLIGHT = 500
"""Messages published and not acknowledged, of all cohorts."""


class WorkerConnections:
    """Owns the connections. `on_message` and `on_change` are called on their network threads."""

    def __init__(
        self,
        config: FleetConfig,
        on_message: Callable[[str, bytes, bool], None],
        on_change: Callable[[str, bool], None],
        log: FilteringBoundLogger,
    ) -> None:
        self._config, self._on_message, self._on_change, self._log = config, on_message, on_change, log
        self._open: dict[str, Connection] = {}

    def to(self, cluster: str) -> Connection:
        """The connection to a cluster."""
        if cluster not in self._open:
            section = self._config.broker_of(cluster)
            self._open[cluster] = Connection(
                endpoints=section.endpoints(f"clusters.{cluster}" if cluster else "broker"),
                client_id=f"worker-{self._config.name}",
                on_message=self._on_message,
                on_change=partial(self._on_change, cluster),
                # Devices send again what was not seen, so that a broker need keep nothing for a worker that is away,
                # whose cohorts others serve by then.
                keep_session=False,
                qos=0,
                window=IN_FLIGHT,
                subscribe_twice=True,
                log=self._log,
            )
            self._open[cluster].start()
        return self._open[cluster]

    @property
    def connected(self) -> dict[str, bool]:
        """By cluster whether its broker has accepted the worker."""
        return {cluster: one.connected for cluster, one in self._open.items()}

    @property
    def alive(self) -> bool:
        """Whether all network threads make progress."""
        return all(one.alive for one in self._open.values())

    def stop(self) -> None:
        """Send what is pending, and disconnect."""
        for connection in self._open.values():
            connection.stop()
