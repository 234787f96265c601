"""What all pages share: settings, users, sessions, the live site, the database, the log, and the templates."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.console.access.login_limits import LoginLimits
from hushmq.console.access.sessions import Session, Sessions
from hushmq.console.access.users_file import User, UsersFile
from hushmq.console.activity.activity_log import ActivityLog, LogKind
from hushmq.console.background.jobs import Jobs
from hushmq.console.background.upload_job import StagedPolicy
from hushmq.console.console_config import ConsoleConfig
from hushmq.console.pages.render import Renderer
from hushmq.console.state.changes import Changes
from hushmq.console.state.device_decisions import decided
from hushmq.console.state.forecasts import Forecasts
from hushmq.console.state.live_site import LiveSite
from hushmq.console.state.proposal import Proposal
from hushmq.console.store.device_facts import DeviceFacts, read_closed, read_decisions, read_device_facts
from hushmq.console.store.read_only_database import ReadOnlyDatabase

IS_USER = "is a user with the role"
FACTS_S = 1.0
"""What the database says about devices is read again after so many seconds at the earliest."""


@dataclass(slots=True)
class Facts:
    """What the database said last, and why it does not answer if it does not."""

    at: float = float("-inf")
    devices: Mapping[str, DeviceFacts] = field(default_factory=dict)
    closed: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class ConsoleContext:
    """One console."""

    config: ConsoleConfig
    log: Any
    users: UsersFile = field(init=False)
    sessions: Sessions = field(default_factory=Sessions)
    limits: LoginLimits = field(default_factory=LoginLimits)
    changes: Changes = field(default_factory=Changes)
    renderer: Renderer = field(default_factory=Renderer)
    activity: ActivityLog = field(init=False)
    site: LiveSite = field(init=False)
    database: ReadOnlyDatabase = field(init=False)
    facts: Facts = field(default_factory=Facts)
    jobs: Jobs = field(init=False)
    forecasts: Forecasts = field(init=False)
    staged: StagedPolicy | None = None
    """A signed policy that waits to be published."""
    proposal: Proposal | None = None
    """A policy that waits to be signed."""
    rolled_out: Policy | None = None
    """The policy that was published from here last."""
    health: Mapping[str, object] | None = None
    """What the calibrator's /health answered last; None where it is not asked."""

    _evidence: dict[str, Any] = field(default_factory=dict)
    _decided: Mapping[str, Mapping[str, str]] | None = None
    """What the calibrator had decided about devices when it was read last."""
    _noted: Mapping[str, User] | None = None
    """The users that the log has."""

    def __post_init__(self) -> None:
        self.users = UsersFile(self.config.users_file)
        self.users.users()
        self.activity = ActivityLog(self.config.log_file)
        self.database = ReadOnlyDatabase(self.config.database)
        self.jobs = Jobs(lambda: self.changes.note("job"))
        self.forecasts = Forecasts(lambda: self.changes.note("forecast"))
        keys = self.config.keys
        self.site = LiveSite(
            self.config.cohort, keys.ops, keys.calibrators, self.changes, self.record, self.activity.of_device
        )

    @property
    def evidence(self) -> Mapping[str, Any]:
        """By stream, and by `losses of` a stream, what the evidence job said; of the one before until it has."""
        job = self.jobs.last.get("evidence")
        for one in job.said if job is not None else ():
            if "stream" in one:
                self._evidence[one["stream"]] = one
            elif "losses_of" in one:
                self._evidence[f"losses of {one['losses_of']}"] = one
        return self._evidence

    def record(self, kind: LogKind, subject: str, words: str, *, who: str = "site") -> None:
        """Append an entry to the log, with where the ledger stands; not again what the last one stated."""
        if self.activity.states(kind, subject, words):
            return
        for stream, state in self.site.ledgers.items():
            if state.head is not None:
                self.activity.ledger_moved(stream, state.entries, state.head)
        self.activity.add(who, kind, subject, words)
        self.changes.note("log")

    def note_access(self) -> None:
        """Log which keys are trusted and who the users are, wherever that has changed; since the last run as well."""
        for name, keys in (("ops", self.config.keys.ops), ("calibrator", self.config.keys.calibrators)):
            trusted = ", ".join(sorted(key.id for key in keys)) or "none"
            self.record(
                "key", f"trusted of {name}", f"keys of {name} that are trusted: {trusted}", who="console"
            )
        self.note_users()

    def note_users(self) -> None:
        """Log changes of the users file: who, which role, another password."""
        users = self.users.users()
        if users is self._noted:
            return
        self._noted = users
        for one in users.values():
            self.record("user", one.name, f"{IS_USER} {one.role}", who="console")
            mark = blake2b(one.password.encode(), digest_size=4).hexdigest()
            self.record("user", f"password of {one.name}", f"set, fingerprint {mark}", who="console")
        for name, words in self.activity.stated("user").items():
            if words.startswith(IS_USER) and name not in users:
                self.record("user", name, "is no user any more", who="console")

    async def note_devices(self) -> None:
        """Log what the calibrator decided about devices: quarantine, and being left out of windows."""
        with suppress(Problem):  # the first page says that the database does not answer
            now = await self.database.read(lambda db: read_decisions(db, time.time()))
            for device, words in decided(self._decided, now):
                self.record("device", device, words)
                self.changes.note(f"device:{device}")
            self._decided = now

    def viewed(self, session: Session, what: str) -> None:
        """Log who viewed what."""
        self.record("view", what, f"viewed {what}", who=session.name)

    async def fresh_facts(self) -> Facts:
        """What the database says about devices and windows, at most a second old."""
        now = time.monotonic()
        if now - self.facts.at > FACTS_S:
            try:
                devices, closed = await self.database.read(
                    lambda db: (read_device_facts(db, time.time()), read_closed(db))
                )
                self.facts = Facts(now, devices, closed)
            except Problem as problem:
                self.facts = Facts(now, error=str(problem))
        return self.facts

    def close(self) -> None:
        self.database.close()
        self.activity.close()
