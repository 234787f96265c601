"""The verdict can fail: each condition of success, violated alone, fails its check and no other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from hushmq.demo.audience import AuditorRecord, Flips, Subscriber
from hushmq.demo.demo_plan import DemoPlan
from hushmq.demo.disk_accounts import DeviceAccount, DiskAccounts
from hushmq.demo.verdict import VerdictCheck, judge, loop_closed
from tests.hushmq.demo import played


def verdict(
    plan: DemoPlan,
    record: AuditorRecord,
    accounts: DiskAccounts,
    subscriber: Subscriber | None = None,
    *,
    user_broker: bool = False,
) -> dict[str, VerdictCheck]:
    checks = judge(plan, record, accounts, subscriber or played.Subscriber(), user_broker=user_broker)
    return {check.name: check for check in checks}


@pytest.fixture
def plan() -> DemoPlan:
    return played.plan()


def test_a_demo_that_went_well(plan: DemoPlan) -> None:
    """With nothing wrong every check passes, and the loop counts as turned."""
    record = played.record(plan)
    assert all(check.passed for check in verdict(plan, record, played.accounts(plan)).values())
    assert loop_closed(plan, record, played.Subscriber())


def _first(plan: DemoPlan) -> str:
    return plan.wearables[0].name


def no_tighter(plan: DemoPlan, record: AuditorRecord) -> None:
    del record.settings[2]
    for flips in list(record.flips):
        record.flips[flips[0], 1] = record.flips.pop(flips)
        record.flips[flips[0], 1].update({2: 50, 3: 50})
    for applied in record.applied.values():
        applied.remove(2)


def one_behind(plan: DemoPlan, record: AuditorRecord) -> None:
    record.applied[_first(plan)].remove(2)


def one_never_heard_of(plan: DemoPlan, record: AuditorRecord) -> None:
    del record.applied[_first(plan)]


def raw(plan: DemoPlan, record: AuditorRecord) -> None:
    record.flips[_first(plan), 2] = Flips({0: 500, 1: 500, 2: 0, 3: 0})


def raw_in_one_state(plan: DemoPlan, record: AuditorRecord) -> None:
    record.flips[_first(plan), 2] = Flips({0: 500, 1: 500, 2: 100, 3: 0})


def twice(plan: DemoPlan, record: AuditorRecord) -> None:
    record.perturbed_twice = 1


def unknown_noise(plan: DemoPlan, record: AuditorRecord) -> None:
    record.flips[_first(plan), 7] = Flips({0: 10, 1: 10, 2: 2, 3: 2})


def silence(plan: DemoPlan, record: AuditorRecord) -> None:
    record.received = 0


def overspent(plan: DemoPlan, record: AuditorRecord) -> None:
    record.ledger = played.ledger(public=2.0000001)


def never_charged(plan: DemoPlan, record: AuditorRecord) -> None:
    record.ledger = None


def uncharged(plan: DemoPlan, record: AuditorRecord) -> None:
    record.releases.append(played.release(entry=2))


def no_release(plan: DemoPlan, record: AuditorRecord) -> None:
    record.releases.clear()


def foreign(plan: DemoPlan, record: AuditorRecord) -> None:
    record.unreadable.append("hush/1/demo/z/0/wearable-1/motion")


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (raw, "nothing raw, nothing twice", "0 of 500 flipped, expected 0.200"),
        (raw_in_one_state, "nothing raw, nothing twice", "0 of 500 flipped, expected 0.200"),
        (twice, "nothing raw, nothing twice", "1 ticks appeared with two values"),
        (unknown_noise, "nothing raw, nothing twice", "noise version 7, which nobody pushed"),
        (silence, "nothing raw, nothing twice", "no sanitized state arrived"),
        (no_tighter, "a tighter setting applied by all", "no tighter setting"),
        (one_behind, "a tighter setting applied by all", "wearable-1 has 1"),
        (one_never_heard_of, "a tighter setting applied by all", "wearable-1 has none"),
        (no_release, "released and charged", "0 releases"),
        (uncharged, "released and charged", "uncharged: [2]"),
        (overspent, "ledger within budget", "public 2.000 of 2"),
        (never_charged, "ledger within budget", "nothing was charged"),
        (foreign, "topics as they should be", "unreadable message on hush/1/demo/z/0/wearable-1/motion"),
    ],
)
def test_every_fault_of_what_was_heard(
    plan: DemoPlan, spoil: Callable[[DemoPlan, AuditorRecord], None], check: str, words: str
) -> None:
    """One thing spoilt: its check fails, in words that name it, and the others still pass."""
    record = played.record(plan)
    spoil(plan, record)
    found = verdict(plan, record, played.accounts(plan))
    assert [name for name, each in found.items() if not each.passed] == [check]
    assert words in found[check].detail


@pytest.mark.parametrize(
    "change",
    [{"sampled": 1001}, {"counted": 889}, {"waiting": 99}, {"dropped": 11}, {"counted": 0, "waiting": 990}],
)
def test_one_tick_too_many_or_too_few(plan: DemoPlan, change: dict[str, int]) -> None:
    """sampled = counted + waiting + dropped to the tick, and something was counted, for every device."""
    accounts = played.accounts(plan)
    wrong = replace(accounts.devices[_first(plan)], **change)
    found = verdict(
        plan, played.record(plan), DiskAccounts({**accounts.devices, _first(plan): wrong}, accounts.entries)
    )
    assert [name for name, each in found.items() if not each.passed] == ["every tick accounted for"]
    assert _first(plan) in found["every tick accounted for"].detail


def test_a_device_without_an_outbox(plan: DemoPlan) -> None:
    """A device that left no account is not accounted for."""
    accounts = played.accounts(plan)
    rest = {name: account for name, account in accounts.devices.items() if name != _first(plan)}
    check = verdict(plan, played.record(plan), DiskAccounts(rest, accounts.entries))[
        "every tick accounted for"
    ]
    assert (check.passed, check.detail) == (False, "wearable-1 has no outbox")


def test_a_subscriber_who_sees_too_much_or_nothing(plan: DemoPlan) -> None:
    """The stream in the subscriber's hands is a fault of our own broker's rights; no release at all is one anywhere."""
    nosy = played.Subscriber()
    nosy.elsewhere.append("hush/1/demo/z/0/wearable-1/motion")
    record, accounts = played.record(plan), played.accounts(plan)
    assert not verdict(plan, record, accounts, nosy)["topics as they should be"].passed
    assert verdict(plan, record, accounts, nosy, user_broker=True)["topics as they should be"].passed
    deaf = played.Subscriber()
    deaf.releases = 0
    assert not verdict(plan, record, accounts, deaf, user_broker=True)["released and charged"].passed
    assert not loop_closed(plan, record, deaf)


def test_the_band_is_wide_enough_for_honest_noise_and_no_wider() -> None:
    """At 10,000 states of ρ = 0.2 the band is 0.2 ± 0.024: honest draws stay inside, a ρ of 0.17 does not."""
    plan = played.plan()
    for flipped, passed in ((2000, True), (2230, True), (1770, True), (1700, False), (2300, False)):
        record = played.record(plan)
        record.flips[_first(plan), 2] = Flips({0: 10_000, 1: 10_000, 2: flipped, 3: 2000})
        found = verdict(plan, record, played.accounts(plan))["nothing raw, nothing twice"]
        assert found.passed == passed, flipped


def test_an_empty_book_is_no_balance() -> None:
    """Nothing sampled, nothing counted adds up, and still proves nothing."""
    assert not DeviceAccount(sampled=0, counted=0, waiting=0, dropped=0).balanced
