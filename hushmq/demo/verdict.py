"""Whether the loop really closed: a list of checks, each of which can fail."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import flips_of
from hushmq.demo.audience import Reader, Record
from hushmq.demo.demo_plan import Plan
from hushmq.demo.disk_accounts import Books

SIGMAS = 6.0
"""A true noise level leaves this band once in about 500 million checks."""


@dataclass(frozen=True, slots=True)
class Check:
    """One condition of success."""

    name: str
    passed: bool
    detail: str


def judge(plan: Plan, record: Record, books: Books, reader: Reader, *, own_broker: bool) -> list[Check]:
    """All checks, in the order in which a sample goes round."""
    return [
        _accounted(plan, books),
        _sanitized(record),
        _tightened(plan, record),
        _released(record, books, reader),
        _within_budget(record),
        _nothing_else(record, reader, own_broker=own_broker),
    ]


def turned(plan: Plan, record: Record, reader: Reader) -> bool:
    """Whether a sample has gone all the way round already: what the verdict will ask for can only get better."""
    return _tightened(plan, record).passed and bool(record.releases) and reader.releases > 0


def _accounted(plan: Plan, books: Books) -> Check:
    """Whether sampled = counted + waiting + dropped, for every device."""
    wrong = []
    for wearable in plan.wearables:
        book = books.devices.get(wearable.name)
        if book is None:
            wrong.append(f"{wearable.name} has no outbox")
        elif not book.balanced:
            wrong.append(
                f"{wearable.name}: {book.sampled} sampled, {book.counted} counted, {book.waiting} waiting, "
                f"{book.dropped} dropped"
            )
    total = sum(book.sampled for book in books.devices.values())
    return Check("every tick accounted for", not wrong, "; ".join(wrong) or f"{total:,} ticks, none missing")


def _sanitized(record: Record) -> Check:
    """Every stream is flipped as often as its setting says, and no tick was ever perturbed twice."""
    wrong = []
    for (device, version), flips in record.flips.items():
        setting = record.settings.get(version)
        if setting is None:
            wrong.append(f"{device} used noise version {version}, which nobody pushed")
            continue
        noise = flips_of(setting.noise)
        for state, rho in ((0, noise.rho0), (1, noise.rho1)):
            shown, flipped = flips[state], flips[state + 2]
            if abs(flipped - shown * rho) > SIGMAS * math.sqrt(shown * rho * (1 - rho)) + 1:
                wrong.append(
                    f"{device} under version {version}: {flipped} of {shown} flipped, expected {rho:.3f}"
                )
    if record.perturbed_twice:
        wrong.append(f"{record.perturbed_twice} ticks appeared with two values")
    if not record.received:
        wrong.append("no sanitized state arrived")
    return Check(
        "nothing raw, nothing twice", not wrong, "; ".join(wrong) or f"{record.received:,} states compared"
    )


def _signal(setting: NoiseSetting) -> float:
    noise = flips_of(setting.noise)
    return 1 - noise.rho0 - noise.rho1


def _tightened(plan: Plan, record: Record) -> Check:
    """Every agent has applied some setting with less noise than the first."""
    if not record.settings:
        return Check("a tighter setting applied by all", False, "no setting was pushed")
    first = record.settings[min(record.settings)]
    tighter = {version for version, one in record.settings.items() if _signal(one) > _signal(first)}
    behind = []
    for wearable in plan.wearables:
        applied = record.applied.get(wearable.name, set())
        if not applied & tighter:
            behind.append(f"{wearable.name} has {max(applied, default='none')}")
    last = record.settings[max(version for version, one in record.settings.items() if one.device is None)]
    own = len({one.device for one in record.settings.values()} - {None})
    detail = f"signal 1−ρ0−ρ1 from {_signal(first):.3f} to {_signal(last):.3f}" + (
        f"; settings of their own: {own}" if own else ""
    )
    return Check(
        "a tighter setting applied by all",
        bool(tighter) and not behind,
        "; ".join(behind)
        if behind and tighter
        else detail
        if tighter
        else "no tighter setting was worth pushing yet",
    )


def _released(record: Record, books: Books, reader: Reader) -> Check:
    uncharged = [release.entry for release in record.releases if release.entry not in books.entries]
    passed = bool(record.releases) and not uncharged and reader.releases > 0
    detail = (
        f"{len(record.releases)} releases, {len(books.entries)} ledger entries, "
        f"{reader.releases} read by the subscriber"
    )
    return Check("released and charged", passed, f"uncharged: {uncharged}" if uncharged else detail)


def _within_budget(record: Record) -> Check:
    ledger = record.ledger
    if ledger is None or not ledger.entries:
        return Check("ledger within budget", False, "nothing was charged")
    accounts = {"operator": ledger.operator, "public": ledger.public}
    passed = all(account.loss <= account.budget for account in accounts.values())
    return Check(
        "ledger within budget",
        passed,
        ", ".join(f"{name} {account.loss:.3f} of {account.budget:g}" for name, account in accounts.items()),
    )


def _nothing_else(record: Record, reader: Reader, *, own_broker: bool) -> Check:
    """Every message is of the contract; the subscriber, who asked for the stream too, got releases only."""
    wrong = [f"unreadable message on {topic}" for topic in sorted(set(record.unreadable))]
    if own_broker:
        detail = "every message of the contract; access rules not checked on your own broker"
    else:
        wrong += [f"the subscriber received {topic}" for topic in sorted(set(reader.elsewhere))]
        detail = "every message of the contract; the subscriber was kept out of the stream"
    return Check("topics as they should be", not wrong, "; ".join(wrong) or detail)
