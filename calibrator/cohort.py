"""One cohort's state: what arrives goes in, what may be published comes out. The one owner of its database.

Θ is never stored: it is recomputed from the charged statistics whenever it is wanted, so that it cannot disagree
with the evidence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, insert, select
from structlog.typing import FilteringBoundLogger

from broker.messages import Account as AccountMessage
from broker.messages import (
    Batch,
    LedgerState,
    NoiseSetting,
    Policy,
    Seen,
    Status,
    StreamPolicy,
    decode,
)
from broker.messages import Misfit as MisfitMessage
from broker.problem import Problem, Reason, Rejected
from broker.signature import PrivateKey, PublicKey, Signed, verify
from broker.theta import theta_of
from broker.topics import COHORT, Address, Topics, parse
from calibrator import collect, ingest, release, store
from calibrator.account import Account
from calibrator.charge import Holder, largest_device_tilt, operator_loss, tilt_of_devices
from calibrator.config import DevicesSection
from calibrator.kind import AnyTheta
from calibrator.learn import believed, believed_of_devices, last_look, misfit_of_stream, progress
from calibrator.mark import Mark, contradiction, mark_of, read_marks, write_marks
from calibrator.misfit import Band
from calibrator.own import Maker, holders, public_loss
from calibrator.push import Current, current, next_setting, sign_anew, store_setting
from calibrator.quarantine import Quarantine

known_address = lru_cache(maxsize=100_000)(parse)
"""A device uses the same topics again and again."""
QUIET_S = 60.0
"""The same refusal on the same topic is logged once in this time; it is always counted."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as the network brought it."""

    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch that could be read, and where it came from."""

    topic: str
    arrival: ingest.Arrival


@dataclass(frozen=True, slots=True)
class _Look:
    """The last look for due windows: how many of each were over, and the last tick of any that was."""

    over: tuple[int, ...]
    complete: int


class Cohort:
    """Owns the database of one cohort."""

    def __init__(
        self,
        engine: Engine,
        *,
        cohort: str,
        key: PrivateKey,
        ops_keys: Iterable[PublicKey],
        grace_s: float,
        clock: Callable[[], float],
        log: FilteringBoundLogger,
        devices: DevicesSection | None = None,
        mark_path: Path | None = None,
    ) -> None:
        self.topics = Topics(cohort)
        self.rejected: Counter[Reason] = Counter()
        self.stopped: dict[str, str] = {}
        """Streams whose ledger does not reach a high-water mark, and why: nothing of them is charged."""
        self.counted = self.released = self.refused = self.added = 0
        self.statuses: dict[str, Status] = {}
        self._engine = engine
        self._key = key
        self._ops_keys = tuple(ops_keys)
        self._grace_s = grace_s
        self._clock = clock
        self._log = log
        self._limits = devices or DevicesSection()
        self._mark_path = mark_path
        self._accounts: dict[str, Account] = {}
        self._looked: dict[str, _Look] = {}
        self._misfits: dict[str, tuple[tuple[int, int], Band | None]] = {}
        self._own: dict[str, tuple[tuple[int, ...], dict[str, Current]]] = {}
        self._logged: dict[tuple[str, Reason], float] = {}
        self.policy = self._stored_policy()
        with engine.begin() as db:
            self._quarantine = Quarantine(db, self._limits)
            self._check_mark_file(db)
            if anew := sign_anew(db, key):
                log.info("settings_signed_anew", settings=anew, key=key.public.id)

    # -- what arrives --------------------------------------------------------------------------------------

    def take(self, arrived: Iterable[Arrived]) -> set[str]:
        """Count batches and adopt policies in one transaction; return the devices whose `seen` has changed."""
        batches, others = self._sort(arrived)
        touched: set[str] = set()
        if not batches and not others:
            return touched
        now = self._clock()
        with self._engine.begin() as db:
            for item in others:
                with self._rejecting(item.topic):
                    self._take_other(db, item, now)
            if batches:
                group = ingest.Group(db, (one.arrival.device for one in batches))
                possible = self._possible_ticks(now)
                for one in batches:
                    if self._count(db, group, one, possible, now):
                        touched.add(one.arrival.device)
                group.write()
        return touched

    def _sort(self, arrived: Iterable[Arrived]) -> tuple[list[_Batch], list[Arrived]]:
        """Batches that can be read, and everything else."""
        batches, others = [], []
        for item in arrived:
            try:
                batch = self._read(item)
            except Rejected as rejection:
                self._reject(item.topic, rejection)
                continue
            if batch is None:
                others.append(item)
            else:
                batches.append(batch)
        return batches, others

    def _read(self, item: Arrived) -> _Batch | None:
        """The batch in a message; None where it is something else."""
        address = known_address(item.topic)
        if address is None or address.cohort != self.topics.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, "not a topic of this cohort")
        if address.kind != "z" or address.device is None or address.stream is None:
            return None
        if address.device == COHORT:
            raise Rejected(Reason.WRONG_ADDRESS, f"{COHORT} is no name for a device")
        return _Batch(item.topic, ingest.Arrival(address.device, address.stream, decode(Batch, item.payload)))

    def _count(
        self,
        db: Connection,
        group: ingest.Group,
        one: _Batch,
        possible: Mapping[str, ingest.Ticks],
        now: float,
    ) -> bool:
        device, stream = one.arrival.device, one.arrival.stream
        try:
            self._quarantine.admit(device, now)
            self.counted += group.count(one.arrival, possible.get(stream))
        except Rejected as rejection:
            self._reject(one.topic, rejection)
            if self._quarantine.blame(db, device, rejection.reason, now):
                self._log.error("quarantined", device=device, reason=str(rejection.reason))
            return False
        look = self._looked.get(one.arrival.stream)
        if look is not None and one.arrival.batch.first <= look.complete:
            del self._looked[one.arrival.stream]  # it may lie in a window that was empty then
        return True

    def _possible_ticks(self, now: float) -> dict[str, ingest.Ticks]:
        """By stream: the ticks that can be real at this time."""
        skew_ms = self._limits.skew_s * 1000
        return {
            name: ingest.Ticks(
                latest=int(now * 1000 + skew_ms) // stream.period_ms,
                states=len(stream.states),
            )
            for name, stream in (self.policy.streams if self.policy else {}).items()
        }

    def _take_other(self, db: Connection, item: Arrived, now: float) -> None:
        address = parse(item.topic)
        match address.kind if address else None:
            case "release" if address and item.payload:
                self._collect(db, address, item.payload, now)
            case "policy":
                self._adopt(db, item.payload)
            case "noise" if item.payload:
                self._know_again(db, item.payload)
            case "ledger" if address and address.stream and item.payload:
                self._check_broker_mark(db, address.stream, item.payload)
            case "status" if address and address.device and item.payload:
                self._hear_status(address.device, decode(Status, item.payload))
            case "noise" | "ledger" | "status" | "release":
                pass  # somebody has cleared a retained message
            case kind:
                raise Rejected(Reason.WRONG_ADDRESS, f"nothing is read from {kind} topics")

    def _collect(self, db: Connection, address: Address, payload: bytes, now: float) -> None:
        """Keep a release that a device made; our own come back as well, and are no news."""
        stream = (self.policy.streams if self.policy else {}).get(address.stream or "")
        device, window = address.scope or "", address.window or ""
        if stream is None or device == COHORT or window not in stream.device_windows:
            return
        try:
            self._quarantine.admit(device, now)
            latest = self._possible_ticks(now)[address.stream or ""].latest
            late = collect.collect(db, address, payload, stream, latest=latest)
        except Rejected as rejection:
            if self._quarantine.blame(db, device, rejection.reason, now):
                self._log.error("quarantined", device=device, reason=str(rejection.reason))
            raise
        self._looked.pop(address.stream or "", None)
        if late:
            self._log.warning("late_release", stream=address.stream, window=window, device=device, ticks=late)

    def _tick(self, stream: StreamPolicy, offset_s: float = 0.0) -> int:
        return int((self._clock() + offset_s) * 1000) // stream.period_ms

    def _issue_tick(self, stream: StreamPolicy) -> int:
        """The first tick that can carry a setting made now: that of the clock which is furthest behind."""
        return max(0, self._tick(stream, -self._limits.skew_s))

    def _adopt(self, db: Connection, payload: bytes) -> None:
        """Follow a policy signed by ops if it is newer than the one followed."""
        policy = verify(Policy, payload, self._ops_keys)
        if policy.cohort != self.topics.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, f"policy for cohort {policy.cohort}")
        if self.policy is not None and policy.version <= self.policy.version:
            if policy == self.policy:
                return
            raise Rejected(
                Reason.STALE_VERSION, f"policy {policy.version} is not newer than {self.policy.version}"
            )
        for name, stream in policy.streams.items():
            old = self.policy.streams.get(name) if self.policy else None
            if old is not None and old.period_ms != stream.period_ms:
                raise Rejected(
                    Reason.PERIOD_CHANGED,
                    f"{name}: ticks of {old.period_ms} ms are in the ledger and never change: use a new name",
                )
            if old is not None and len(old.states) != len(stream.states):
                raise Rejected(
                    Reason.STATES_CHANGED,
                    f"{name}: {len(old.states)} states are in the ledger, and how many never changes: use a new name",
                )
        db.execute(delete(store.policy))
        db.execute(insert(store.policy).values(version=policy.version, payload=payload))
        # Another calibrator on this database may have followed it already.
        db.execute(delete(store.device_tilt).where(store.device_tilt.c.policy == policy.version))
        for name, stream in policy.streams.items():
            tilt = tilt_of_devices(stream)
            db.execute(insert(store.device_tilt).values(stream=name, policy=policy.version, tilt=tilt))
        self.policy = policy
        self._accounts.clear()
        self._looked.clear()
        self._log.info("policy_adopted", version=policy.version)

    def _stored_policy(self) -> Policy | None:
        with self._engine.begin() as db:
            row = db.execute(select(store.policy.c.payload)).first()
        return None if row is None else Signed[Policy].model_validate_json(row.payload).message

    def _know_again(self, db: Connection, payload: bytes) -> None:
        """Take up a setting of our own that the database has forgotten: its version must stand for nothing else."""
        setting = verify(NoiseSetting, payload, [self._key.public])
        if setting.cohort != self.topics.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, f"setting for cohort {setting.cohort}")
        known = db.execute(
            select(store.setting.c.version).where(
                store.setting.c.stream == setting.stream, store.setting.c.version == setting.version
            )
        ).first()
        if known is None:
            # It may have been in use since any time: issued at tick 0.
            store_setting(db, Current(setting, payload), tick=0)
            self._log.warning("setting_known_again", stream=setting.stream, version=setting.version)

    @contextmanager
    def _rejecting(self, topic: str) -> Iterator[None]:
        """Count and log a refusal, and go on."""
        try:
            yield
        except Rejected as rejection:
            self._reject(topic, rejection)

    def _reject(self, topic: str, rejection: Rejected) -> None:
        self.rejected[rejection.reason] += 1
        now = self._clock()
        if now - self._logged.get((topic, rejection.reason), -QUIET_S) >= QUIET_S:
            if len(self._logged) > 10_000:
                self._logged.clear()
            self._logged[topic, rejection.reason] = now
            self._log.warning("rejected", topic=topic, reason=str(rejection.reason), detail=rejection.detail)

    # -- the high-water mark -------------------------------------------------------------------------------

    def _check_mark_file(self, db: Connection) -> None:
        """Hold the ledger against the marks in the file."""
        for stream, mark in read_marks(self._mark_path).items() if self._mark_path is not None else ():
            self._hold_against(db, stream, mark)

    def _check_broker_mark(self, db: Connection, stream: str, payload: bytes) -> None:
        """Hold the ledger against what we said of it on the broker; only our own seal counts."""
        state = decode(LedgerState, payload)
        if state.head is None or state.seal is None:
            raise Rejected(Reason.BAD_SIGNATURE, "the ledger's head is not sealed")
        mark = Mark(state.entries, state.head)
        if not self._key.public.sealed(mark.text(self.topics.cohort, stream), state.seal):
            raise Rejected(Reason.BAD_SIGNATURE, "the seal is not ours")
        self._hold_against(db, stream, mark)

    def _hold_against(self, db: Connection, stream: str, mark: Mark) -> None:
        why = contradiction(db, stream, mark)
        if why is not None and stream not in self.stopped:
            self.stopped[stream] = why
            self._log.error("ledger_behind", stream=stream, why=why)

    def _write_mark_file(self, db: Connection) -> None:
        if self._mark_path is not None:
            streams = db.execute(select(store.ledger.c.stream).distinct()).scalars().all()
            write_marks(self._mark_path, {stream: mark_of(db, stream) for stream in streams})

    # -- windows -------------------------------------------------------------------------------------------

    def close_due(self) -> list[release.Closed]:
        """Close every window whose grace has passed, each with its debit in a transaction of its own.

        The mark is written after the debits are durable and before anything of them is offered for publishing.
        """
        if self.policy is None:
            return []
        closed = []
        for name, stream in self.policy.streams.items():
            through = self._tick(stream, -self._grace_s) - 1
            ticks = [window.ticks for window in stream.windows.values()]
            ticks += [window.ticks for window in stream.device_windows.values()]
            over = tuple((through + 1) // length for length in ticks)
            look = _Look(
                over, max((n * length - 1 for n, length in zip(over, ticks, strict=True)), default=-1)
            )
            if name in self.stopped or self._looked.get(name) == look:
                continue
            with self._engine.begin() as db:
                spans = release.due(db, name, stream, through=through)
                added = collect.add_due(db, name, stream, through=through, topics=self.topics)
            for sum_ in added:
                self._log.info(
                    "added_up", stream=name, window=sum_.window, first=sum_.first, devices=sum_.devices
                )
            self.added += len(added)
            for span in spans:
                with self._engine.begin() as db:
                    account = self._account(db, name, stream)
                    others = self._holders(db, name, stream, account.theta)
                    one = release.close(db, span, stream, account=account, topics=self.topics, others=others)
                self._tell(one)
                closed.append(one)
            self._looked[name] = look
            if spans:
                with self._engine.begin() as db:
                    release.prune(db, name, stream)
        if any(one.entry is not None for one in closed):
            with self._engine.begin() as db:
                self._write_mark_file(db)
        return closed

    def _tell(self, one: release.Closed) -> None:
        where = {
            "stream": one.span.stream,
            "window": one.span.window,
            "scope": one.span.scope,
            "first": one.span.first,
            "last": one.span.last,
        }
        if one.refused:
            self.refused += 1
            self._log.error("release_refused", **where, why=one.refused)
        elif one.entry is not None:
            self.released += 1
            self._log.info("released", **where, entry=one.entry, loss=one.loss)

    def unsent(self) -> list[tuple[int, str, bytes]]:
        """What waits to be published: a ledger entry or, below 0, the number of a sum that has none; topic; bytes."""
        with self._engine.begin() as db:
            sums = [(-number, topic, payload) for number, topic, payload in collect.unsent(db)]
            return release.unsent(db) + sums

    def mark_sent(self, sent: Iterable[tuple[int, str]]) -> None:
        with self._engine.begin() as db:
            for entry, topic in sent:
                if entry < 0:
                    collect.mark_sent(db, -entry)
                else:
                    release.mark_sent(db, entry, topic)

    # -- Θ, settings, accounts -----------------------------------------------------------------------------

    def _holders(
        self, db: Connection, name: str, stream: StreamPolicy, theta: AnyTheta
    ) -> tuple[Holder, ...]:
        """The devices with settings of their own, and what is believed of each."""
        return holders(db, name, theta=theta, own=believed_of_devices(db, name, stream))

    def _account(self, db: Connection, name: str, stream: StreamPolicy) -> Account:
        """The public account under the Θ believed now: the past is priced anew when Θ has changed."""
        theta = believed(db, name, stream)
        account = self._accounts.get(name)
        if account is None or account.theta != theta:
            account = Account(theta, stream.adversary, largest_device_tilt(db, name))
            self._accounts[name] = account
        account.follow(db, name)
        return account

    def settings(self) -> dict[str, Current]:
        """The setting in force for each stream, a new one where it is due."""
        if self.policy is None:
            return {}
        found = {}
        with self._engine.begin() as db:
            for name, stream in self.policy.streams.items():
                try:
                    found[name] = self._setting(db, name, stream)
                except Problem as problem:
                    self._log.warning("no_setting", stream=name, why=str(problem))
        return found

    def _setting(self, db: Connection, name: str, stream: StreamPolicy) -> Current:
        if self.policy is None:
            raise RuntimeError("settings are made under a policy")
        theta = believed(db, name, stream)
        fresh = next_setting(
            db,
            cohort=self.topics.cohort,
            stream=name,
            policy=stream,
            policy_version=self.policy.version,
            theta=theta,
            key=self._key,
            tick=self._issue_tick(stream),
            others=self._holders(db, name, stream, theta),
        )
        if fresh is not None:
            noise = fresh.message.noise.words
            self._log.info("setting_made", stream=name, version=fresh.message.version, noise=noise)
            return fresh
        kept = current(db, name, self.policy.version)
        if kept is None:
            raise RuntimeError("no setting was made and none is in force")
        return kept

    def own_settings(self) -> dict[str, dict[str, Current]]:
        """By stream and device, the settings of devices that have their own; new ones where they are due.

        What is believed of devices changes at looks alone, so only then are they gone through.
        """
        if self.policy is None:
            return {}
        found = {}
        with self._engine.begin() as db:
            for name, stream in self.policy.streams.items():
                cohorts = current(db, name, self.policy.version)
                now = progress(db, name)
                seen = (
                    self.policy.version,
                    cohorts.message.version if cohorts else 0,
                    last_look(now.windows),
                    now.contradictions,
                )
                known = self._own.get(name)
                if known is None or known[0] != seen:
                    known = seen, self._make_own(db, name, stream)
                    self._own[name] = known
                found[name] = known[1]
        return found

    def _make_own(self, db: Connection, name: str, stream: StreamPolicy) -> dict[str, Current]:
        account = self._account(db, name, stream)
        own = believed_of_devices(db, name, stream)
        if self.policy is None or (not own and not holders(db, name, theta=account.theta, own=own)):
            return {}
        maker = Maker(
            self.topics.cohort,
            name,
            stream,
            self.policy.version,
            self._key,
            self._issue_tick(stream),
            account,
            holders(db, name, theta=account.theta, own=own),
        )
        found, made = maker.settings(db, own)
        for one in made:
            self._log.info(
                "own_setting_made", stream=name, device=one.message.device, version=one.message.version
            )
        return found

    def accounts(self) -> list[LedgerState]:
        """Both audiences' accounts, priced under the Θ believed now."""
        if self.policy is None:
            return []
        with self._engine.begin() as db:
            return [self._state(db, name, stream) for name, stream in self.policy.streams.items()]

    def _state(self, db: Connection, name: str, stream: StreamPolicy) -> LedgerState:
        account = self._account(db, name, stream)
        others = self._holders(db, name, stream, account.theta)
        public = public_loss(account, others, stream)
        operator = operator_loss(db, name, stream, account.theta, others)
        mark = mark_of(db, name)
        stopped = self.stopped.get(name)
        if stopped is None and public > stream.epsilon.public:
            stopped = (
                f"what was released costs {public:.4f} under Θ now believed, of {stream.epsilon.public:g}"
            )
            self._alarm(name, stopped)

        def told(budget: float, loss: float) -> AccountMessage:
            return AccountMessage(budget=budget, loss=loss, left=budget - loss, theta=theta_of(account.theta))

        return LedgerState(
            stream=name,
            adversary=stream.adversary,
            entries=mark.entries,
            operator=told(stream.epsilon.operator, operator),
            public=told(stream.epsilon.public, public),
            late=ingest.late_ticks(db, name),
            stopped=stopped,
            misfit=self._misfit(db, name, stream),
            # A ledger that is behind does not overwrite the mark that tells so.
            head=None if name in self.stopped else mark.head,
            seal=None if name in self.stopped else self._key.seal(mark.text(self.topics.cohort, name)),
        )

    def _misfit(self, db: Connection, name: str, stream: StreamPolicy) -> MisfitMessage | None:
        """What the last look found; between looks it is remembered."""
        now = progress(db, name)
        at = (last_look(now.windows), now.contradictions)
        known = self._misfits.get(name)
        if known is None or known[0] != at:
            found = misfit_of_stream(db, name, stream) if at[0] else None
            known = self._misfits[name] = at, found.worst if found else None
        worst = known[1]
        if worst is None:
            return None
        return MisfitMessage(
            first=worst.first,
            last=worst.last,
            seen=worst.seen,
            fitted=worst.fitted,
            covered=stream.misfit == "cover",
        )

    def _alarm(self, stream: str, why: str) -> None:
        self._log.error("over_budget", stream=stream, why=why)

    # -- devices -------------------------------------------------------------------------------------------

    def _hear_status(self, device: str, status: Status) -> None:
        """Follow the roll-out: a device that refuses what was pushed is told of once."""
        refused = _refusals(status)
        for where, reason in refused - _refusals(self.statuses.get(device)):
            self._log.warning("refused_by_device", device=device, where=where, reason=str(reason))
        self.statuses[device] = status

    def seen(self, device: str) -> Seen:
        return self.seen_of([device])[device]

    def seen_of(self, devices: Iterable[str]) -> dict[str, Seen]:
        with self._engine.begin() as db:
            return ingest.seen_of(db, devices)

    def devices(self) -> set[str]:
        with self._engine.begin() as db:
            return {device for device, _ in ingest.counted_ticks(db)}

    def aside(self) -> dict[str, Reason]:
        """The devices in quarantine and why."""
        return self._quarantine.aside(self._clock())


def _refusals(status: Status | None) -> set[tuple[str, Reason]]:
    if status is None:
        return set()
    found = {("policy", status.refused.reason)} if status.refused else set()
    return found | {(name, one.refused.reason) for name, one in status.streams.items() if one.refused}
