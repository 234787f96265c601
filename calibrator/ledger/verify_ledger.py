"""The ledger as a privacy officer reads it: who spent what, when, on which assumption, and what is left.

Nothing here is remembered: losses are recomputed from the entries, as `verify` recomputes everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, func, select

from hushmq.broker.contract.messages import NoiseSetting, Policy, Release, StreamPolicy, decode
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.calibrator.ingest.count_batches import late_ticks
from hushmq.calibrator.learning.learn_window import believed, believed_of_devices, misfit_of_stream, progress
from hushmq.calibrator.ledger.audience_timelines import (
    NANO,
    Holder,
    debit_of,
    issued_noises,
    largest_device_tilt,
    operator_loss,
    price_public,
    public_debits,
    tilt_of_devices,
)
from hushmq.calibrator.ledger.high_water_mark import NOTHING, contradiction, digest, read_marks
from hushmq.calibrator.ledger.issued_noise import holders
from hushmq.calibrator.ledger.public_account import Account
from hushmq.calibrator.models.binary.binary_misfit import Misfit
from hushmq.calibrator.models.chain_model import (
    AnyNoise,
    AnyTheta,
    fingerprint,
    known_loss,
    of_wire,
    read,
    tilts,
)
from hushmq.calibrator.settings.device_settings import public_loss
from hushmq.calibrator.store import tables as store

TOLERANCE = 1e-9
"""Two ways of adding up the same losses differ by rounding."""


@dataclass(frozen=True, slots=True)
class Point:
    """The loss after one entry, under the Θ believed now."""

    entry: int
    at: str
    loss: float


@dataclass(frozen=True, slots=True)
class Own:
    """What is believed of one device, and the version of its own noise setting if it has one."""

    theta: AnyTheta
    version: int | None


@dataclass(frozen=True, slots=True)
class Book:
    """One stream's accounts."""

    stream: str
    policy: StreamPolicy | None
    theta: AnyTheta | None
    entries: list[Row[Any]]
    public: float
    operator: float
    history: list[Point]
    late: int
    misfit: Misfit | None = None
    hidden: float = 1.0
    """How much of a misfit the looks so far would not have shown."""
    devices: Mapping[str, Own] = field(default_factory=dict)
    """Devices of which something is believed."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed."""

    stream: str
    name: str
    passed: bool
    detail: str


def stored_policy(db: Connection) -> Policy | None:
    row = db.execute(select(store.policy.c.payload)).first()
    return None if row is None else Signed[Policy].model_validate_json(row.payload).message


def streams(db: Connection, only: str | None = None) -> list[str]:
    """The streams of the ledger and of the policy, or the one asked for; Problem if there is no such stream."""
    policy = stored_policy(db)
    found = set(db.execute(select(store.ledger.c.stream).distinct()).scalars())
    found |= set(policy.streams if policy else ())
    if only is not None and only not in found:
        raise Problem(
            f"--stream: {only!r} is not in the ledger; there are {', '.join(sorted(found)) or 'none'}"
        )
    return [only] if only is not None else sorted(found)


def read_book(db: Connection, stream: str) -> Book:
    """The stream's accounts, priced under the policy followed and the Θ believed now."""
    policy = _stream_policy(db, stream)
    theta = None
    history: list[Point] = []
    operator = 0.0
    entries = _entries(db, stream)
    if policy is not None:
        theta = believed(db, stream, policy)
        account = Account(theta, policy.adversary, largest_device_tilt(db, stream))
        others = _holders(db, stream, policy, theta)
        noises = issued_noises(db, stream)
        for row in entries:
            account.charge(row.id, debit_of(row, noises))
            history.append(Point(row.id, row.at, public_loss(account, others, policy)))
        operator = operator_loss(db, stream, policy, theta, others)
    return Book(
        stream=stream,
        policy=policy,
        theta=theta,
        entries=entries,
        public=history[-1].loss if history else 0.0,
        operator=operator,
        history=history,
        late=late_ticks(db, stream),
        misfit=None if policy is None else misfit_of_stream(db, stream, policy),
        hidden=progress(db, stream).hidden,
        devices={} if policy is None else _devices(db, stream, policy),
    )


def verify(db: Connection, stream: str, mark_path: Path | None = None) -> Iterator[Check]:
    """Recompute everything about a stream's ledger from its entries."""
    entries = _entries(db, stream)
    yield _chain(stream, entries)
    if mark_path is not None:
        yield _marks(db, stream, mark_path)
    yield _once(stream, entries)
    noises = issued_noises(db, stream)
    yield _behind(stream, entries, noises)
    if any(row.noise not in noises for row in entries):
        return  # what follows cannot be computed
    yield from _results(db, stream, entries)
    policy = _stream_policy(db, stream)
    if policy is not None:
        yield from _budgets(db, stream, policy)
        yield _settings(db, stream, policy)


def _entries(db: Connection, stream: str) -> list[Row[Any]]:
    return list(
        db.execute(select(store.ledger).where(store.ledger.c.stream == stream).order_by(store.ledger.c.id))
    )


def _stream_policy(db: Connection, stream: str) -> StreamPolicy | None:
    policy = stored_policy(db)
    return None if policy is None else policy.streams.get(stream)


def _devices(db: Connection, stream: str, policy: StreamPolicy) -> dict[str, Own]:
    found = believed_of_devices(db, stream, policy)
    rows = db.execute(
        select(store.setting.c.device, func.max(store.setting.c.version))
        .where(store.setting.c.stream == stream, store.setting.c.device.is_not(None))
        .group_by(store.setting.c.device)
    )
    versions = {row[0]: row[1] for row in rows}
    return {device: Own(theta, versions.get(device)) for device, theta in sorted(found.items())}


def _holders(db: Connection, stream: str, policy: StreamPolicy, theta: AnyTheta) -> tuple[Holder, ...]:
    return holders(db, stream, theta=theta, own=believed_of_devices(db, stream, policy))


def _chain(stream: str, entries: list[Row[Any]]) -> Check:
    before = NOTHING
    for number, row in enumerate(entries, start=1):
        if row.digest != digest(before, row._asdict()):
            return Check(
                stream, "entries as they were written", False, f"entry {row.id}, number {number}, was changed"
            )
        before = row.digest
    return Check(stream, "entries as they were written", True, f"{len(entries)} entries, head {before[:12]}")


def _marks(db: Connection, stream: str, path: Path) -> Check:
    name = "reaches the high-water mark"
    mark = read_marks(path).get(stream)
    if mark is None:
        return Check(stream, name, not _entries(db, stream), f"{path} knows nothing of it")
    why = contradiction(db, stream, mark)
    return Check(stream, name, why is None, why or f"{mark.entries} entries were marked")


def _once(stream: str, entries: list[Row[Any]]) -> Check:
    seen: set[tuple[str, str, int]] = set()
    for row in entries:
        key = (row.window, row.scope, row.first)
        if key in seen or row.first > row.last or row.tilt < 0:
            return Check(stream, "every window charged once", False, f"entry {row.id} repeats one before it")
        seen.add(key)
    return Check(stream, "every window charged once", True, f"{len(entries)} windows")


def _behind(stream: str, entries: list[Row[Any]], noises: Mapping[int, AnyNoise]) -> Check:
    """The noise that every entry was charged through is the one stored under its version."""
    name = "noise as it was charged through"
    digests = {version: fingerprint(noise) for version, noise in noises.items()}
    wrong = [f"entry {row.id}" for row in entries if digests.get(row.noise) != row.noise_digest]
    return Check(stream, name, not wrong, ", ".join(wrong[:3]) or f"{len(noises)} settings")


def _results(db: Connection, stream: str, entries: list[Row[Any]]) -> Iterator[Check]:
    """Every stored result is of its entry, carries noise its entry paid for, and states the loss it had."""
    rows = db.execute(
        select(store.release)
        .join(store.ledger, store.ledger.c.id == store.release.c.entry)
        .where(store.ledger.c.stream == stream)
        .order_by(store.release.c.entry)
    ).all()
    by_entry = {row.id: row for row in entries}
    wrong, losses = [], []
    tilt = largest_device_tilt(db, stream)
    account: Account | None = None
    noises = issued_noises(db, stream)
    position = 0
    for row in rows:
        entry = by_entry[row.entry]
        try:
            message = decode(Release, row.payload)
        except Rejected as rejection:
            wrong.append(f"entry {row.entry}: {rejection}")
            continue
        told = (message.entry, message.window, message.first, message.last, message.tilt)
        if told != (entry.id, entry.window, entry.first, entry.last, entry.tilt):
            wrong.append(f"entry {row.entry}: its result speaks of another window or tilt")
        if message.scale * entry.tilt < NANO:
            wrong.append(f"entry {row.entry}: noise of scale {message.scale:g} costs more than was charged")
        theta = message.theta.chains
        if account is None or (account.theta, account.adversary) != (theta, message.adversary):
            account, position = Account(theta, message.adversary, tilt), 0
        while position < len(entries) and entries[position].id <= row.entry:
            account.charge(entries[position].id, debit_of(entries[position], noises))
            position += 1
        found = account.price().epsilon
        if abs(found - message.loss) > TOLERANCE * (1 + found):
            losses.append(f"entry {row.entry}: the loss is {found:.6f}, it says {message.loss:.6f}")
        if message.loss > message.budget:
            losses.append(
                f"entry {row.entry}: released at a loss of {message.loss:.6f} of {message.budget:g}"
            )
    yield Check(
        stream, "results are what was charged", not wrong, "; ".join(wrong[:3]) or f"{len(rows)} results"
    )
    yield Check(
        stream, "losses as stated, within budget then", not losses, "; ".join(losses[:3]) or "recomputed"
    )


def _budgets(db: Connection, stream: str, policy: StreamPolicy) -> Iterator[Check]:
    theta = believed(db, stream, policy)
    tilt = largest_device_tilt(db, stream)
    others = _holders(db, stream, policy, theta)
    debits = public_debits(db, stream)
    public = price_public(debits, theta, policy, tilt).epsilon
    if others:
        account = Account(theta, policy.adversary, tilt)
        account.follow(db, stream)
        public = max(public, public_loss(account, others, policy))
    operator = operator_loss(db, stream, policy, theta, others)
    for name, found, budget in (
        ("public", public, policy.epsilon.public),
        ("operator", operator, policy.epsilon.operator),
    ):
        yield Check(stream, f"{name} within budget now", found <= budget, f"{found:.4f} of {budget:g}")


def _settings(db: Connection, stream: str, policy: StreamPolicy) -> Check:
    """Every noise setting under the policy followed keeps its promise for the Θ it names."""
    wrong, count = [], 0
    current = stored_policy(db)
    for row in db.execute(select(store.setting).where(store.setting.c.stream == stream)):
        message = Signed[NoiseSetting].model_validate_json(row.payload).message
        if current is None or message.policy != current.version:
            continue
        count += 1
        noise, own = of_wire(message.noise), tilt_of_devices(policy) / NANO
        tau0, tau1 = tilts(noise)
        found = known_loss(message.theta.chains, tau0 + own, tau1 + own, policy.adversary)
        if read(row.noise) != noise or found > policy.epsilon.operator:
            wrong.append(f"version {row.version}")
    name = "settings keep the operator's promise"
    return Check(stream, name, not wrong, ", ".join(wrong) or f"{count} settings under this policy")
