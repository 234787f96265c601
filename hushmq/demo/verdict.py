"""The verdict of the demo: the checks that every part of the loop worked."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hushmq.broker.contract.messages import NoiseSetting
from hushmq.broker.contract.noise_message import binary_noise_of
from hushmq.demo.audience import AuditorRecord, Subscriber
from hushmq.demo.demo_plan import DemoPlan
from hushmq.demo.disk_accounts import DiskAccounts

SIGMAS = 6.0
"""Correct noise lies outside this many standard deviations once in about 500 million checks."""


@dataclass(frozen=True, slots=True)
class VerdictCheck:
    """One condition of success."""

    name: str
    passed: bool
    detail: str


def judge(
    plan: DemoPlan,
    record: AuditorRecord,
    accounts: DiskAccounts,
    subscriber: Subscriber,
    *,
    user_broker: bool,
) -> list[VerdictCheck]:
    """All checks, in the order in which a sample passes the loop."""
    return [
        _accounted(plan, accounts),
        _sanitized(record),
        _tightened(plan, record),
        _released(record, accounts, subscriber),
        _within_budget(record),
        _nothing_else(record, subscriber, user_broker=user_broker),
    ]


def loop_closed(plan: DemoPlan, record: AuditorRecord, subscriber: Subscriber) -> bool:
    """Whether the loop has closed already: a tighter setting applied by all, and a release read by the subscriber."""
    return _tightened(plan, record).passed and bool(record.releases) and subscriber.releases > 0


def _accounted(plan: DemoPlan, accounts: DiskAccounts) -> VerdictCheck:
    """Whether sampled = counted + waiting + dropped for every device."""
    wrong = []
    for wearable in plan.wearables:
        account = accounts.devices.get(wearable.name)
        if account is None:
            wrong.append(f"{wearable.name} has no outbox")
        elif not account.balanced:
            wrong.append(
                f"{wearable.name}: {account.sampled} sampled, {account.counted} counted, {account.waiting} waiting, "
                f"{account.dropped} dropped"
            )
    total = sum(account.sampled for account in accounts.devices.values())
    return VerdictCheck(
        "every tick accounted for", not wrong, "; ".join(wrong) or f"{total:,} ticks, none missing"
    )


def _sanitized(record: AuditorRecord) -> VerdictCheck:
    """Whether every stream is flipped as often as its setting says, and no tick was perturbed twice."""
    wrong = []
    for (device, version), flips in record.flips.items():
        setting = record.settings.get(version)
        if setting is None:
            wrong.append(f"{device} used noise version {version}, which nobody pushed")
            continue
        noise = binary_noise_of(setting.noise)
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
    return VerdictCheck(
        "nothing raw, nothing twice", not wrong, "; ".join(wrong) or f"{record.received:,} states compared"
    )


def _signal(setting: NoiseSetting) -> float:
    noise = binary_noise_of(setting.noise)
    return 1 - noise.rho0 - noise.rho1


def _tightened(plan: DemoPlan, record: AuditorRecord) -> VerdictCheck:
    """Whether every agent has applied a setting with less noise than the first."""
    if not record.settings:
        return VerdictCheck("a tighter setting applied by all", False, "no setting was pushed")
    first = record.settings[min(record.settings)]
    tighter = {version for version, one in record.settings.items() if _signal(one) > _signal(first)}
    behind = []
    for wearable in plan.wearables:
        applied = record.applied.get(wearable.name, set())
        if not applied & tighter:
            behind.append(f"{wearable.name} has {max(applied, default='none')}")
    last = record.settings[max(version for version, one in record.settings.items() if one.device is None)]
    specific = len({one.device for one in record.settings.values()} - {None})
    detail = f"signal 1−ρ0−ρ1 from {_signal(first):.3f} to {_signal(last):.3f}" + (
        f"; device-specific settings: {specific}" if specific else ""
    )
    return VerdictCheck(
        "a tighter setting applied by all",
        bool(tighter) and not behind,
        "; ".join(behind)
        if behind and tighter
        else detail
        if tighter
        else "no tighter setting was worth pushing yet",
    )


def _released(record: AuditorRecord, accounts: DiskAccounts, subscriber: Subscriber) -> VerdictCheck:
    uncharged = [release.entry for release in record.releases if release.entry not in accounts.entries]
    passed = bool(record.releases) and not uncharged and subscriber.releases > 0
    detail = (
        f"{len(record.releases)} releases, {len(accounts.entries)} ledger entries, "
        f"{subscriber.releases} read by the subscriber"
    )
    return VerdictCheck("released and charged", passed, f"uncharged: {uncharged}" if uncharged else detail)


def _within_budget(record: AuditorRecord) -> VerdictCheck:
    ledger = record.ledger
    if ledger is None or not ledger.entries:
        return VerdictCheck("ledger within budget", False, "nothing was charged")
    accounts = {"operator": ledger.operator, "public": ledger.public}
    passed = all(account.loss <= account.budget for account in accounts.values())
    return VerdictCheck(
        "ledger within budget",
        passed,
        ", ".join(f"{name} {account.loss:.3f} of {account.budget:g}" for name, account in accounts.items()),
    )


def _nothing_else(record: AuditorRecord, subscriber: Subscriber, *, user_broker: bool) -> VerdictCheck:
    """Whether every message conforms to the contract, and the subscriber received releases only."""
    wrong = [f"unreadable message on {topic}" for topic in sorted(set(record.unreadable))]
    if user_broker:
        detail = "every message of the contract; access rules not checked on your own broker"
    else:
        wrong += [f"the subscriber received {topic}" for topic in sorted(set(subscriber.elsewhere))]
        detail = "every message of the contract; the subscriber was kept out of the stream"
    return VerdictCheck("topics as they should be", not wrong, "; ".join(wrong) or detail)
