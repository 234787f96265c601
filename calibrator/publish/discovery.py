"""Announces entities to Home Assistant, and removes those that the policy or the site no longer has.

It has a connection of its own: a broker that was configured before this was switched on refuses its subscriptions,
which then disturbs nothing else. What is announced is kept by the broker alone, and read back from there at a start.
A home's own broker, where Home Assistant has one, gets copies of what the entities show as well.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path

from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.discovery_topics import announced_filters
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.mqtt.connection import Connection, Offline
from hushmq.broker.provision import site_description
from hushmq.calibrator.calibrator_config import HOME_BROKER, Config, HomeAssistantSection
from hushmq.calibrator.publish.announced_entities import announced_entities
from hushmq.calibrator.publish.copied_topics import READ_BACK_S, CopiedTopics, copied_filters

TURN_S = 1.0


class Discovery:
    """Owns the connection for discovery. All but `_heard` and `_changed` is called by one thread."""

    def __init__(self, config: Config, section: HomeAssistantSection, log: FilteringBoundLogger) -> None:
        self._section = section
        self._cohort = config.cohort
        self._log = log
        self._site = None if section.site_file is None else _SiteDevices(section.site_file, log)
        self._wanted: dict[str, bytes] = {}
        self._made_of: tuple[Policy | None, frozenset[str]] | None = None
        self._retained: dict[str, bytes] = {}
        """What the broker retains, as far as is known: what came back, or was handed over since."""
        self._lock = threading.Lock()
        self._read_back_at: float | None = None
        self._next = 0.0
        endpoints, filters = config.broker.endpoints(), announced_filters(section.prefix, config.cohort)
        self._copied: CopiedTopics | None = None
        if section.broker is not None:
            endpoints, filters = (
                section.broker.endpoints(HOME_BROKER),
                [*filters, *copied_filters(config.cohort)],
            )
            self._copied = CopiedTopics(config, log)
        self._connection = Connection(
            endpoints=endpoints,
            client_id=f"calibrator-{config.cohort}-{config.name}-discovery",
            subscriptions=filters,
            on_message=self._heard,
            on_change=self._changed,
            keep_session=False,
            subscribe_twice=True,
            window=100,
            log=log,
        )

    def start(self) -> None:
        self._connection.start()
        if self._copied is not None:
            self._copied.start()

    def stop(self) -> None:
        """Leave; what is announced stays."""
        self._connection.stop()
        if self._copied is not None:
            self._copied.stop()

    def update(self, policy: Policy | None, devices: Iterable[str]) -> None:
        """Announce what a policy and these devices have, and remove the rest; at most once a second.

        `devices` are those whose status is known; where the settings name the site's file, those named there count.
        """
        now = time.monotonic()
        with self._lock:
            read_back = self._read_back_at is not None and now >= self._read_back_at
        if now < self._next or not read_back:
            return
        self._next = now + TURN_S
        names = frozenset(devices) if self._site is None else self._site.names()
        if self._made_of != (policy, names):
            self._made_of = (policy, names)
            on = self._section.discovery and policy is not None
            self._wanted = announced_entities(self._section.prefix, policy, names) if on and policy else {}
        copies = {} if self._copied is None or not self._section.discovery else self._copied.newest()
        if copies is not None:
            self._publish(self._wanted | copies)

    def _publish(self, wanted: dict[str, bytes]) -> None:
        # A copy is never removed for want of its original: should both brokers be one, that would be the original.
        ours = f"{self._section.prefix}/"
        with self._lock:
            gone = {t: b"" for t in self._retained if t not in wanted and t.startswith(ours)}
            due = {t: p for t, p in (gone | wanted).items() if self._retained.get(t, b"") != p}
        added = removed = 0
        for topic, payload in due.items():
            try:
                self._connection.publish(topic, payload, retain=True)
            except Offline:
                break  # the rest waits for the next turn
            added, removed = added + bool(payload), removed + (not payload)
            with self._lock:
                if payload:
                    self._retained[topic] = payload
                else:
                    self._retained.pop(topic, None)
        if added or removed:
            self._log.info("entities_announced", announced=added, removed=removed)

    # On the network thread:

    def _heard(self, topic: str, payload: bytes, _retained: bool) -> None:
        with self._lock:
            if payload:
                self._retained[topic] = payload
            else:
                self._retained.pop(topic, None)

    def _changed(self, connected: bool) -> None:
        with self._lock:
            self._read_back_at = time.monotonic() + READ_BACK_S if connected else None
            if not connected:
                self._retained.clear()


class _SiteDevices:
    """The devices that a site's description names, read again whenever it is saved."""

    def __init__(self, file: Path, log: FilteringBoundLogger) -> None:
        self._file, self._log = file, log
        self._saved: tuple[int, int] | None = None
        self._names: frozenset[str] = frozenset()

    def names(self) -> frozenset[str]:
        """The devices; those read last where the file cannot be read now, which is logged once."""
        try:
            found = self._file.stat()
            saved = (found.st_mtime_ns, found.st_ino)
        except OSError:
            saved = (0, 0)
        if saved != self._saved:
            self._saved = saved
            try:
                self._names = frozenset(site_description.read(self._file).devices)
            except Problem as problem:
                self._log.warning("site_file_unreadable", problem=str(problem))
        return self._names
