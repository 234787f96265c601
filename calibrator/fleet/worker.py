"""A worker: one loop that claims cohorts and serves them, each with what calibrator/serve_cohort.py does at a turn.

Network threads fill the inboxes of the cohorts; this thread does everything else, on one session with the database
(calibrator/fleet/worker_session.py). Where the session is lost, so are all claims: `run` ends with StorageAway, and the
next worker begins from what is stored.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version

from sqlalchemy.exc import SQLAlchemyError
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.problem import Problem
from hushmq.broker.service.systemd import Systemd
from hushmq.calibrator.calibrator_config import ALL_SHARDS
from hushmq.calibrator.cohort import Cohort
from hushmq.calibrator.fleet.cohort_claims import Claims, Peer, next_move, pool_of
from hushmq.calibrator.fleet.cohort_tables import upgrade_cohort
from hushmq.calibrator.fleet.fleet_report import FleetReport
from hushmq.calibrator.fleet.worker_connections import WorkerConnections
from hushmq.calibrator.fleet.worker_outlet import WorkerOutlet
from hushmq.calibrator.fleet.worker_session import WorkerSession
from hushmq.calibrator.fleet_config import FleetConfig
from hushmq.calibrator.health_report import HealthReport
from hushmq.calibrator.health_server import HealthServer
from hushmq.calibrator.ingest.inbox import MANY, Arrived, Inbox
from hushmq.calibrator.ingest.topics_read import topics_read
from hushmq.calibrator.serve_cohort import ServedCohort
from hushmq.calibrator.store.storage_away import StorageAway, passes
from hushmq.calibrator.work_loop import WorkLoop

SURVEY_S = 1.0
"""How often a worker looks who claims what."""
TAKEN_TOGETHER = 8
"""Cohorts claimed before those that are served have their turn again."""
GIVEN_TOGETHER = 32
"""Cohorts given up at one survey: others need time to take them."""
FAILED_S = 60.0
"""How long a cohort that cannot be served here is left to others, and one taken beyond the share is kept."""
IDLE_S = 0.05
"""How long the loop sleeps when no cohort is due."""
TURN_S = 1.0
"""How often a cohort has a turn when nothing arrives."""
REPORT_S = 1.0
COHORT_REPORT_S = 15.0
"""How old the report of a cohort may be: making one asks the database."""


@dataclass(slots=True)
class Held:
    """A cohort that is served."""

    served: ServedCohort
    outlet: WorkerOutlet
    next_turn: float = 0.0
    """When it has a turn although nothing has arrived."""
    counted_next: float = 0.0
    """When what has arrived is counted, however little it is."""
    report: HealthReport | None = None
    reported_at: float = field(default=0.0)


class Worker(WorkLoop[FleetConfig]):
    """Owns the session, the connections and the loop."""

    def __init__(
        self,
        config: FleetConfig,
        *,
        log: FilteringBoundLogger,
        clock: Callable[[], float] = time.time,
        reload: Callable[[], FleetConfig] | None = None,
        reopening: bool = False,
        on_working: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the session; StorageAway where that is not possible now. `on_working` is called after each round."""
        super().__init__(reload=reload, log=log)
        self._config, self._clock = config, clock
        self._on_working = on_working
        peer = Peer(config.name, pool_of(config.cohorts), version("hushmq"))
        self._session = WorkerSession(config.database, peer, claim_s=config.claim_s, reopening=reopening)
        self._held: dict[str, Held] = {}
        self._failed: dict[str, tuple[str, float]] = {}
        """Cohorts that could not be served here: why, and when they are tried again."""
        self._free_since: dict[str, float] = {}
        self._keep_until = 0.0
        """Until then nothing is given up: nobody else took it."""
        self._survey_next = self._report_next = 0.0
        self._claims: Claims | None = None
        self._connections = WorkerConnections(config, self._receive, self._changed, log)
        self._systemd = Systemd()
        metrics = config.metrics
        self._server = None if metrics.port is None else HealthServer(metrics.host, metrics.port)

    @property
    def metrics_port(self) -> int | None:
        return self._server.port if self._server else None

    def run(self) -> FleetConfig | None:
        """Work until asked to stop, publish what is stored and give all claims up; after a reload: the new settings.

        Raises StorageAway when the session is lost.
        """
        try:
            self._systemd.notify("READY=1")
            while not self._stopping:
                if not self._round():
                    time.sleep(IDLE_S)
                self._on_working()
                self._reload_if_asked()
            self._systemd.notify("RELOADING=1" if self._successor else "STOPPING=1")
            for cohort in list(self._held):
                self._give_up(cohort, last=True)
        except SQLAlchemyError as error:
            if not passes(error):
                raise
            raise StorageAway(f"database: {error.args[0] if error.args else type(error).__name__}") from None
        finally:
            self._session.close()
            self._connections.stop()
            if self._server is not None:
                self._server.stop()
        return self._successor

    def _round(self) -> bool:
        """Claim and give up what is due, and serve every cohort that is due; whether anything was done."""
        worked = self._balance()
        for cohort, held in list(self._held.items()):
            if self._is_due(held):
                self._guarded(cohort, partial(self._turn, held))
                worked = True
        self._report()
        self._systemd.feed(healthy=self._connections.alive)
        return worked

    def _is_due(self, held: Held) -> bool:
        now, waiting = time.monotonic(), len(held.served.inbox)
        return (
            held.served.busy
            or now >= held.next_turn
            or waiting >= MANY
            or (waiting > 0 and now >= held.counted_next)
        )

    def _turn(self, held: Held) -> None:
        now = time.monotonic()
        held.next_turn, held.counted_next = now + TURN_S, now + self._config.collect_s
        held.served.turn(held.outlet)

    def _guarded(self, cohort: str, work: Callable[[], None]) -> bool:
        """Do something for a cohort; where that fails for a reason of its own, leave it to others for a while.

        What concerns the session or the storage is raised. An error's text may hold data: its class is shown.
        """
        try:
            work()
        except StorageAway:
            raise
        except SQLAlchemyError as error:
            if passes(error):
                raise
            self._fail(cohort, type(error).__name__)
        except Problem as problem:
            self._fail(cohort, str(problem))
        except Exception as error:  # noqa: BLE001  # one cohort never stops the others
            self._fail(cohort, type(error).__name__)
        else:
            return True
        return False

    def _fail(self, cohort: str, why: str) -> None:
        if self._failed.get(cohort, ("", 0.0))[0] != why:
            self._log.error("cohort_failed", cohort=cohort, why=why)
        self._failed[cohort] = why, time.monotonic() + FAILED_S
        self._forget(cohort)

    # Claims:

    def _balance(self) -> bool:
        """Look who claims what, if that is due; claim a few cohorts, or give some up."""
        now = time.monotonic()
        if now < self._survey_next:
            return False
        self._survey_next = now + SURVEY_S
        self._claims = claims = self._session.survey()
        free = {cohort for cohort, claimant in claims.claimants.items() if claimant is None}
        self._free_since = {cohort: self._free_since.get(cohort, now) for cohort in free}
        for cohort in self._held.keys() - claims.claimants.keys():
            self._forget(cohort)  # its tables were dropped
        allowed = [one for one in claims.claimants if self._config.may_serve(one) and self._may_try(one, now)]
        move = next_move(claims, allowed, {cohort: now - since for cohort, since in self._free_since.items()})
        if move.release and now >= self._keep_until:
            for cohort in move.release[:GIVEN_TOGETHER]:
                self._give_up(cohort)
        wanted = (*move.claim, *move.beyond)[:TAKEN_TOGETHER]
        if wanted:
            taken = self._session.claim(wanted)
            for cohort in taken:
                self._guarded(cohort, partial(self._take_up, cohort))
            if set(taken) & set(move.beyond):
                self._keep_until = now + FAILED_S
            self._survey_next = 0.0  # there may be more
        return bool(wanted or move.release)

    def _may_try(self, cohort: str, now: float) -> bool:
        return cohort not in self._failed or now >= self._failed[cohort][1]

    def _take_up(self, cohort: str) -> None:
        """Begin to serve a cohort that is claimed, from what is stored."""
        config = self._config
        engine = self._session.engine_of(cohort)
        upgrade_cohort(engine, config.database, cohort, self._log)
        log = self._log.bind(cohort=cohort)
        one = Cohort(
            engine,
            cohort=cohort,
            key=config.signing_key(cohort),
            ops_keys=config.keys.trusted,
            grace_s=config.grace_s,
            clock=self._clock,
            log=log,
            devices=config.devices,
            roster=config.roster,
            mark_path=config.mark_path(cohort),
        )
        served = ServedCohort(one, Inbox(log), grace_s=config.grace_s, seen_every_s=config.seen_every_s)
        served.begin()
        cluster = config.cluster_of(cohort) or ""
        filters = tuple(topics_read(one.topics, ALL_SHARDS))
        held = Held(served, WorkerOutlet(self._connections.to(cluster), self._session, filters))
        self._held[cohort] = held
        held.outlet.connection.subscribe(filters)
        self._failed.pop(cohort, None)
        self._log.info("cohort_claimed", cohort=cohort, cohorts=len(self._held))

    def _give_up(self, cohort: str, *, last: bool = False) -> None:
        """Publish what is stored and let another worker have the cohort."""
        held = self._held.get(cohort)
        if held is not None:
            self._guarded(cohort, lambda: held.served.turn(held.outlet, last=True))
        if not last:
            self._log.info("cohort_given_up", cohort=cohort, cohorts=len(self._held) - 1)
        self._forget(cohort)

    def _forget(self, cohort: str) -> None:
        held = self._held.pop(cohort, None)
        if held is not None:
            held.outlet.connection.unsubscribe(held.outlet.filters)
        self._session.release(cohort)

    # On a network thread:

    def _receive(self, topic: str, payload: bytes, _retained: bool) -> None:
        held = self._held.get(cohort_in(topic))
        if held is not None:
            held.served.inbox.put(Arrived(topic, payload))

    def _changed(self, cluster: str, connected: bool) -> None:
        self._log.info("connected" if connected else "disconnected", cluster=cluster or None)
        if connected:
            for held in list(self._held.values()):
                held.served.reconnected()

    # Reports:

    def _report(self) -> None:
        now = time.monotonic()
        if self._server is None or now < self._report_next:
            return
        self._report_next = now + REPORT_S
        oldest = sorted(self._held.items(), key=lambda item: item[1].reported_at)
        for cohort, held in oldest[: 1 + round(len(oldest) * REPORT_S / COHORT_REPORT_S)]:
            self._guarded(cohort, partial(self._renew_report, held))
        self._server.show(
            FleetReport(
                worker=self._config.name,
                connected=self._connections.connected,
                claims=self._claims,
                cohorts={name: held.report for name, held in self._held.items() if held.report is not None},
                failed={name: why for name, (why, _) in self._failed.items()},
                unclaimed={name: now - since for name, since in self._free_since.items()},
            )
        )

    def _renew_report(self, held: Held) -> None:
        held.report = held.served.report(connected=held.outlet.connected)
        held.reported_at = time.monotonic()


def cohort_in(topic: str) -> str:
    """The level of a topic that names its cohort; "" where there is none."""
    parts = topic.split("/", 3)
    return parts[2] if len(parts) == 4 else ""
