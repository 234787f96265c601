"""Verify a ledger: everything about it is recomputed from its entries and compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from hushmq.broker.contract.messages import NoiseSetting, Release, decode
from hushmq.broker.contract.policy_message import StreamPolicy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import Signed
from hushmq.calibrator.learning.stream_theta import theta_of_stream, thetas_of_devices
from hushmq.calibrator.ledger.audience_timelines import price_public
from hushmq.calibrator.ledger.debits import debit_of, public_debits
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD, contradiction, digest, read_marks
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.ledger_report import read_entries, stored_policy, stream_policy
from hushmq.calibrator.ledger.live_accounts import read_accounts
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.policy.device_tilt import device_window_tilt, largest_device_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.protocols import Noise

TOLERANCE = 1e-9
"""Two ways of adding up the same losses differ by rounding."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed."""

    stream: str
    name: str
    passed: bool
    detail: str


def verify(db: Connection, stream: str, mark_path: Path | None = None) -> Iterator[Check]:
    """Recompute everything about a stream's ledger from its entries."""
    entries = read_entries(db, stream)
    yield _chain(stream, entries)
    if mark_path is not None:
        yield _marks(db, stream, mark_path)
    yield _once(stream, entries)
    noises = issued_noises(db, stream)
    yield _behind(stream, entries, noises)
    if any(row.noise not in noises for row in entries):
        return  # what follows cannot be computed
    yield from _results(db, stream, entries)
    policy = stream_policy(db, stream)
    if policy is not None:
        yield from _budgets(db, stream, policy)
        yield _settings(db, stream, policy)


def _chain(stream: str, entries: list[Row[Any]]) -> Check:
    before = EMPTY_HEAD
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
        return Check(stream, name, not read_entries(db, stream), f"{path} has no mark of it")
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


def _behind(stream: str, entries: list[Row[Any]], noises: Mapping[int, Noise]) -> Check:
    """The noise that every entry was charged through is the one stored under its version."""
    name = "noise as it was charged through"
    digests = {version: noise.fingerprint for version, noise in noises.items()}
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
    account: PublicAccount | None = None
    noises = issued_noises(db, stream)
    position = 0
    for row in rows:
        entry = by_entry[row.entry]
        try:
            message = decode(Release, row.payload)
        except Rejected as rejection:
            wrong.append(f"entry {row.entry}: {rejection}")
            continue
        stated = (message.entry, message.window, message.first, message.last, message.tilt)
        if stated != (entry.id, entry.window, entry.first, entry.last, entry.tilt):
            wrong.append(f"entry {row.entry}: its result is of another window or tilt")
        if message.scale * entry.tilt < NANO:
            wrong.append(f"entry {row.entry}: noise of scale {message.scale:g} costs more than was charged")
        theta = message.theta.chains
        if account is None or (account.theta, account.adversary) != (theta, message.adversary):
            account, position = PublicAccount(theta, message.adversary, tilt), 0
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
    theta = theta_of_stream(db, stream, policy)
    device_thetas = thetas_of_devices(db, stream, policy)
    accounts = read_accounts(db, stream, policy, theta=theta, device_thetas=device_thetas)
    public = price_public(public_debits(db, stream), theta, policy, accounts.public.device_tilt).epsilon
    if accounts.exposures:
        public = max(public, accounts.public_loss())
    for name, found, budget in (
        ("public", public, policy.epsilon.public),
        ("operator", accounts.operator_loss(db), policy.epsilon.operator),
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
        noise, added = message.noise.noise, device_window_tilt(policy) / NANO
        tau0, tau1 = noise.tilts
        found = message.theta.chains.constant_loss(tau0 + added, tau1 + added, policy.adversary)
        if read_noise(row.noise) != noise or found > policy.epsilon.operator:
            wrong.append(f"version {row.version}")
    name = "settings keep the operator's promise"
    return Check(stream, name, not wrong, ", ".join(wrong) or f"{count} settings under this policy")
