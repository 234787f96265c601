"""One cohort's state: what arrives goes in, what may be published comes out. The one owner of its database.

Θ is never stored: it is recomputed from the charged statistics whenever it is wanted, so that it cannot disagree
with the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, delete, insert, select
from structlog.typing import FilteringBoundLogger

from broker.messages import Account, Batch, LedgerState, Policy, Seen, StreamPolicy, Theta, decode
from broker.problem import Reason, Rejected
from broker.signature import PrivateKey, PublicKey, Signed, verify
from broker.topics import Topics, parse
from calibrator import ingest, release, store
from calibrator.charge import operator_timeline, price_public, public_debits
from calibrator.learn import learned
from calibrator.push import Current, current, next_setting
from pufferfish.binary import Box
from pufferfish.timeline import price

CLOCK_SKEW_S = 60.0
"""How far a device's clock may be ahead of ours."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as the network brought it."""

    topic: str
    payload: bytes


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
    ) -> None:
        self.topics = Topics(cohort)
        self.rejected: dict[Reason, int] = {}
        self._engine = engine
        self._key = key
        self._ops_keys = tuple(ops_keys)
        self._grace_s = grace_s
        self._clock = clock
        self._log = log
        self.policy = self._stored_policy()

    # -- what arrives --------------------------------------------------------------------------------------

    def take(self, arrived: Iterable[Arrived]) -> set[str]:
        """Count batches and adopt policies in one transaction; return the devices whose `seen` has changed."""
        touched: set[str] = set()
        with self._engine.begin() as db:
            for item in arrived:
                try:
                    device = self._take_one(db, item)
                except Rejected as rejection:
                    self._reject(item.topic, rejection)
                else:
                    touched |= {device} if device else set()
        return touched

    def _take_one(self, db: Connection, item: Arrived) -> str | None:
        address = parse(item.topic)
        if address is None or address.cohort != self.topics.cohort:
            raise Rejected(Reason.WRONG_ADDRESS, "not a topic of this cohort")
        if address.kind == "policy":
            self._adopt(db, item.payload)
            return None
        if address.kind != "z" or address.device is None or address.stream is None:
            raise Rejected(Reason.WRONG_ADDRESS, f"nothing is read from {address.kind} topics")
        batch = decode(Batch, item.payload)
        ingest.count(
            db, ingest.Arrival(address.device, address.stream, batch), latest=self._latest(address.stream)
        )
        return address.device

    def _latest(self, stream: str) -> int:
        if self.policy is None or stream not in self.policy.streams:
            raise Rejected(Reason.POLICY_MISMATCH, f"stream {stream} is not in the policy")
        return self._tick(self.policy.streams[stream], CLOCK_SKEW_S)

    def _tick(self, stream: StreamPolicy, offset_s: float) -> int:
        return int((self._clock() + offset_s) * 1000) // stream.period_ms

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
        db.execute(delete(store.policy))
        db.execute(insert(store.policy).values(version=policy.version, payload=payload))
        self.policy = policy
        self._log.info("policy_adopted", version=policy.version)

    def _stored_policy(self) -> Policy | None:
        with self._engine.begin() as db:
            row = db.execute(select(store.policy.c.payload)).first()
        return None if row is None else Signed[Policy].model_validate_json(row.payload).message

    def _reject(self, topic: str, rejection: Rejected) -> None:
        self.rejected[rejection.reason] = self.rejected.get(rejection.reason, 0) + 1
        self._log.warning("rejected", topic=topic, reason=str(rejection.reason), detail=rejection.detail)

    # -- windows -------------------------------------------------------------------------------------------

    def close_due(self) -> list[release.Closed]:
        """Close every window whose grace has passed, each with its debit in a transaction of its own."""
        if self.policy is None:
            return []
        closed = []
        for name, stream in self.policy.streams.items():
            with self._engine.begin() as db:
                spans = release.due(db, name, stream, through=self._tick(stream, -self._grace_s) - 1)
            for span in spans:
                with self._engine.begin() as db:
                    one = release.close(
                        db, span, stream, theta=self._theta(db, name, stream), topics=self.topics
                    )
                self._tell(one)
                closed.append(one)
            if spans:
                with self._engine.begin() as db:
                    release.prune(db, name, stream)
        return closed

    def _tell(self, one: release.Closed) -> None:
        where = {
            "stream": one.span.stream,
            "window": one.span.window,
            "first": one.span.first,
            "last": one.span.last,
        }
        if one.refused:
            self._log.error("release_refused", **where, why=one.refused)
        elif one.entry is not None:
            self._log.info("released", **where, entry=one.entry, loss=one.loss)

    def unsent(self) -> list[tuple[int, str, bytes]]:
        with self._engine.begin() as db:
            return release.unsent(db)

    def mark_sent(self, entries: Iterable[int]) -> None:
        with self._engine.begin() as db:
            for entry in entries:
                release.mark_sent(db, entry)

    # -- Θ, settings, accounts -----------------------------------------------------------------------------

    def _theta(self, db: Connection, name: str, stream: StreamPolicy) -> Box:
        return learned(db, name, start=stream.theta.start.box, floor=stream.theta.floor.box)

    def settings(self) -> dict[str, Current]:
        """The setting in force for each stream, a new one where it is due."""
        if self.policy is None:
            return {}
        with self._engine.begin() as db:
            return {name: self._setting(db, name, stream) for name, stream in self.policy.streams.items()}

    def _setting(self, db: Connection, name: str, stream: StreamPolicy) -> Current:
        if self.policy is None:
            raise RuntimeError("settings are made under a policy")
        fresh = next_setting(
            db,
            cohort=self.topics.cohort,
            stream=name,
            policy=stream,
            policy_version=self.policy.version,
            theta=self._theta(db, name, stream),
            key=self._key,
        )
        if fresh is not None:
            self._log.info(
                "setting_made",
                stream=name,
                version=fresh.message.version,
                rho0=round(fresh.message.rho0, 6),
                rho1=round(fresh.message.rho1, 6),
            )
            return fresh
        kept = current(db, name, self.policy.version)
        if kept is None:
            raise RuntimeError("no setting was made and none is in force")
        return kept

    def accounts(self) -> list[LedgerState]:
        """Both audiences' accounts, priced under the Θ believed now."""
        if self.policy is None:
            return []
        with self._engine.begin() as db:
            return [self._account(db, name, stream) for name, stream in self.policy.streams.items()]

    def _account(self, db: Connection, name: str, stream: StreamPolicy) -> LedgerState:
        theta = self._theta(db, name, stream)
        debits = public_debits(db, name)
        public = price_public(debits, theta, stream).epsilon
        operator = price(operator_timeline(db, name), theta, stream.adversary).epsilon

        def account(budget: float, loss: float) -> Account:
            return Account(budget=budget, loss=loss, left=budget - loss, theta=Theta.of(theta))

        return LedgerState(
            stream=name,
            adversary=stream.adversary,
            entries=len(debits),
            operator=account(stream.epsilon.operator, operator),
            public=account(stream.epsilon.public, public),
        )

    def seen(self, device: str) -> Seen:
        with self._engine.begin() as db:
            return ingest.seen(db, device)

    def devices(self) -> set[str]:
        with self._engine.begin() as db:
            return {device for device, _ in ingest.counted_ticks(db)}
