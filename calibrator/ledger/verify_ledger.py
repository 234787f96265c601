"""Verify a ledger: everything about it is recomputed from its entries and compared with what is stored."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Row, select

from hushmq.broker.contract.account_share import account_loss, priced_streams
from hushmq.broker.contract.messages import NoiseSetting, Release, decode
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Rejected
from hushmq.broker.contract.signature import PublicKey, Signed
from hushmq.calibrator.ledger.archived_releases import Archive, all_releases, archived_in_words
from hushmq.calibrator.ledger.audience_timelines import always, public_timeline
from hushmq.calibrator.ledger.debits import UNPERTURBED, debit_of, public_debits
from hushmq.calibrator.ledger.entry_numbers import skipped_numbers
from hushmq.calibrator.ledger.epochs import AUDIENCE, read_epochs, seal
from hushmq.calibrator.ledger.high_water_mark import EMPTY_HEAD, contradiction, digest, read_marks
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.joined_account import joint_price
from hushmq.calibrator.ledger.ledger_report import read_charges, read_entries, stored_policy
from hushmq.calibrator.ledger.live_accounts import accounts_under
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.ledger.reconcile_ledger import signed_stretch, statement_digest
from hushmq.calibrator.models.choose_model import read_noise
from hushmq.calibrator.policy.device_tilt import device_window_tilt, largest_device_tilt
from hushmq.calibrator.policy.nano_nats import NANO
from hushmq.calibrator.store import tables as store
from hushmq.pufferfish.protocols import Noise, Theta

TOLERANCE = 1e-9
"""Two ways of adding up the same losses differ by rounding."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed."""

    stream: str
    name: str
    passed: bool
    detail: str


def verify(
    db: Connection,
    stream: str,
    mark_path: Path | None = None,
    ops_keys: Iterable[PublicKey] | None = None,
    progress: Callable[[float], None] = lambda _: None,
    archived: Archive | None = None,
) -> Iterator[Check]:
    """Recompute everything about a stream's ledger from its entries; signatures where the keys are given.

    `progress` is told the share of results that are priced again, which takes longest, in steps of a hundredth.
    Results in an archive are priced with those in the database where it is given; its files must have been found right.
    """
    entries = read_entries(db, stream)
    yield _chain(stream, entries)
    if mark_path is not None:
        yield _marks(db, stream, mark_path, ops_keys or ())
    yield from _epochs(db, stream, [row for row in entries if row.audience == AUDIENCE])
    yield from _reconciled(db, stream, [row for row in entries if row.noise == UNPERTURBED], ops_keys)
    entries = [row for row in entries if row.audience == "public" and row.noise != UNPERTURBED]
    yield _once(stream, entries)
    noises = issued_noises(db, stream)
    yield _behind(stream, entries, noises)
    if any(row.noise not in noises for row in entries):
        return  # what follows cannot be computed
    yield from _results(db, stream, entries, progress, archived)
    policy = stored_policy(db)
    if policy is not None and stream in policy.streams:
        yield from _budgets(db, stream, policy)
        yield _settings(db, stream, policy)


def check_archive(archived: Archive, *, cohort: str | None = None, key: PublicKey | None = None) -> Check:
    """Whether all files of an archive are there, as they were written; sealed, where the key is given."""
    wrong = archived.faults(cohort=cohort, key=key)
    found = archived_in_words(archived.records) or "there is nothing in it"
    return Check("archive", "files as they were written", not wrong, "; ".join(wrong[:3]) or found)


def _chain(stream: str, entries: list[Row[Any]]) -> Check:
    before = EMPTY_HEAD
    for number, row in enumerate(entries, start=1):
        if row.digest != digest(before, row._asdict()):
            return Check(
                stream, "entries as they were written", False, f"entry {row.id}, number {number}, was changed"
            )
        before = row.digest
    return Check(stream, "entries as they were written", True, f"{len(entries)} entries, head {before[:12]}")


def _marks(db: Connection, stream: str, path: Path, ops_keys: Iterable[PublicKey]) -> Check:
    name = "reaches the high-water mark"
    mark = read_marks(path).get(stream)
    if mark is None:
        return Check(stream, name, not read_entries(db, stream), f"{path} has no mark of it")
    why = contradiction(db, stream, mark, ops_keys)
    return Check(stream, name, why is None, why or f"{mark.entries} entries were marked")


def _epochs(db: Connection, stream: str, entries: list[Row[Any]]) -> Iterator[Check]:
    """Every epoch after the first is the one that an entry of the ledger began, and every such entry has its epoch."""
    name = "epochs as they began"
    rows = db.execute(
        select(store.epoch).where(store.epoch.c.stream == stream).order_by(store.epoch.c.number)
    ).all()
    seals = {row.id: row.noise_digest for row in entries}
    wrong = [
        f"epoch {row.number}"
        for before, row in pairwise(rows)
        if row.number != before.number + 1
        or row.first < before.first
        or seals.pop(row.entry, None) != seal(before._asdict(), row._asdict())
    ]
    wrong += [f"entry {entry} began an epoch that is not there" for entry in seals]
    if len(rows) > 1 or wrong:
        yield Check(stream, name, not wrong, ", ".join(wrong[:3]) or f"{len(rows)} epochs")


def _reconciled(
    db: Connection, stream: str, entries: list[Row[Any]], ops_keys: Iterable[PublicKey] | None
) -> Iterator[Check]:
    """What was charged for entries that were lost is what ops signed, for both audiences."""
    charges = [row for row in entries if row.audience != AUDIENCE]
    skipped = skipped_numbers(db, stream)
    wrong = []
    for one in skipped:
        try:
            lost = signed_stretch(one.payload, stream, ops_keys)
        except Rejected as rejected:
            wrong.append(f"entry {one.entry}: {rejected}")
            continue
        mine = [row for row in charges if row.noise_digest == statement_digest(one.payload)]
        charges = [row for row in charges if row not in mine]
        found = [(row.audience, row.tilt) for row in mine]
        if (
            not mine
            or mine[0].id != one.entry
            or (one.after, one.entries) != (lost.after, max(lost.entries, lost.after))
            or found != [("public", lost.public), ("operator", lost.operator)]
            or any(row.first > lost.first or row.last < lost.last for row in mine)
        ):
            wrong.append(f"entry {one.entry} does not charge what ops signed")
    wrong += [f"entry {row.id} charges what nobody signed" for row in charges]
    if skipped or wrong:
        yield Check(
            stream,
            "lost entries charged as signed",
            not wrong,
            ", ".join(wrong[:3]) or f"{len(skipped)} times",
        )


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


def _results(
    db: Connection,
    stream: str,
    entries: list[Row[Any]],
    progress: Callable[[float], None],
    archived: Archive | None,
) -> Iterator[Check]:
    """Every stored result is of its entry, there once, carries noise its entry paid for, and states the loss it had."""
    by_entry = {row.id: row for row in entries}
    rows = (row for row in all_releases(db, archived) if row.entry in by_entry)
    topics: set[str] = set()
    results = at = priced = 0
    wrong, losses = [], []
    account: _Account | None = None
    began = [row.entry for row in _beginnings(db) if row.stream == stream]
    step = max(1, len(entries) // 100)
    for row in rows:
        results += 1
        entry = by_entry[row.entry]
        if row.entry != at:
            at = row.entry
            topics.clear()
            priced += 1
            if priced % step == 0:
                progress(priced / len(entries))
        if row.topic in topics:
            wrong.append(f"entry {row.entry}: {row.topic} has two results")
        topics.add(row.topic)
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
        epoch = bisect_right(began, row.entry)
        if account is None or not account.is_of(message, epoch):
            account = _Account(db, message, epoch, row.entry)
        found = account.loss_at(row.entry)
        if abs(found - message.loss) > TOLERANCE * (1 + found):
            losses.append(f"entry {row.entry}: the loss is {found:.6f}, it says {message.loss:.6f}")
        if message.loss > message.budget:
            losses.append(
                f"entry {row.entry}: released at a loss of {message.loss:.6f} of {message.budget:g}"
            )
    yield Check(
        stream, "results are what was charged", not wrong, "; ".join(wrong[:3]) or f"{results} results"
    )
    yield Check(
        stream, "losses as stated, within budget then", not losses, "; ".join(losses[:3]) or "recomputed"
    )


class _Account:
    """The account of the streams that a release names, under its Θ, entry by entry."""

    def __init__(self, db: Connection, message: Release, epoch: int, entry: int) -> None:
        self._stands_on = message.theta, message.adversary, message.account, epoch
        self._theta: Theta = message.theta.chains
        self._adversary = message.adversary
        self._devices = 1 if message.account is None else message.account.devices
        streams = (message.stream,) if message.account is None else message.account.streams
        epochs = {one: read_epochs(db, one, by_entry=entry) for one in streams}
        self._ticks = max((one.ticks for one in epochs.values() if one.ticks is not None), default=None)
        self._public = {
            one: PublicAccount(
                self._theta,
                message.adversary,
                largest_device_tilt(db, one),
                epochs[one],
                stride=message.stride,
            )
            for one in streams
        }
        noises = {one: issued_noises(db, one) for one in streams}
        rows = sorted((row for one in streams for row in read_charges(db, one)), key=lambda row: row.id)
        self._debits = deque((row.id, row.stream, debit_of(row, noises[row.stream])) for row in rows)

    def is_of(self, message: Release, epoch: int) -> bool:
        return self._stands_on == (message.theta, message.adversary, message.account, epoch)

    def loss_at(self, entry: int) -> float:
        """The loss after this entry, which is not before the one asked for last."""
        while self._debits and self._debits[0][0] <= entry:
            number, stream, debit = self._debits.popleft()
            self._public[stream].charge(number, debit)
        if len(self._public) == self._devices == 1:
            (only,) = self._public.values()
            return only.price().epsilon
        entries = [entry for one in self._public.values() for entry in one.held()]
        return joint_price(entries, self._theta, self._adversary, self._devices, self._ticks).epsilon


def _beginnings(db: Connection) -> list[Row[Any]]:
    """Of every epoch after the first, its stream and the entry that began it, in order."""
    mine = select(store.epoch.c.stream, store.epoch.c.entry).where(store.epoch.c.entry.is_not(None))
    return list(db.execute(mine.order_by(store.epoch.c.entry)))


def _budgets(db: Connection, stream: str, policy: Policy) -> Iterator[Check]:
    accounts = accounts_under(db, policy, stream)
    accounts.follow(db)
    budgets = accounts.policy.epsilon
    joint = accounts.joint
    entries = [
        entry
        for one in ((accounts,) if joint is None else joint.members)
        for entry in (*always(one.public.device_tilt), *public_timeline(public_debits(db, one.stream)))
    ]
    devices = 1 if joint is None else joint.devices
    ticks = accounts.epochs.ticks
    own = accounts.policy
    public = joint_price(entries, accounts.theta, own.adversary, devices, ticks, stride=own.stride).epsilon
    if accounts.exposures or joint is not None:
        public = max(public, accounts.public_loss())
    for name, found, budget in (
        ("public", public, budgets.public),
        ("operator", accounts.operator_loss(db), budgets.operator),
    ):
        yield Check(stream, f"{name} within budget now", found <= budget, f"{found:.4f} of {budget:g}")
    for one in accounts.ended_losses(db):
        losses = f"operator {one.operator:.4f}, public {one.public:.4f}"
        kept = one.operator <= budgets.operator and one.public <= budgets.public
        words = "the promise was kept" if kept else "the promise did NOT hold"
        first, last = one.epoch.ticks
        # What an epoch has lost is a fact about the past: the ledger that states it is right.
        yield Check(
            stream, f"epoch {one.epoch.number} stated", True, f"ticks {first} to {last}: {words}: {losses}"
        )


def _settings(db: Connection, stream: str, current: Policy) -> Check:
    """Every noise setting under the policy followed keeps its promise for the Θ it names, by its share."""
    wrong, count = [], 0
    policy = priced_streams(current)[stream].policy
    for row in db.execute(select(store.setting).where(store.setting.c.stream == stream)):
        message = Signed[NoiseSetting].model_validate_json(row.payload).message
        if message.policy != current.version:
            continue
        count += 1
        noise, added = message.noise.noise, device_window_tilt(policy) / NANO
        tau0, tau1 = noise.tilts
        found = account_loss(message.theta.chains, tau0 + added, tau1 + added, policy)
        if read_noise(row.noise) != noise or found > policy.epsilon.operator:
            wrong.append(f"version {row.version}")
    name = "settings keep the operator's promise"
    return Check(stream, name, not wrong, ", ".join(wrong) or f"{count} settings under this policy")
