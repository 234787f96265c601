"""The second step of closing a window: decide what it may spend, and write that into the ledger.

A device may carry the noise of any setting ever issued to it, whatever version a batch claims: so the least noise
decides what the window may spend and what its entry costs. Which noise that is depends on the tilt, and the tilts of
entries over the same ticks add: so the entry names the one of the cohort's that protects least for the sums that it
makes. If none does for all of its ticks, the window is not charged. Devices with device-specific settings are checked
one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from hushmq.calibrator.ledger.debits import Debit, joint_tilt
from hushmq.calibrator.ledger.epochs import LAST_TICK
from hushmq.calibrator.ledger.high_water_mark import append_entry
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.live_accounts import LiveAccounts
from hushmq.calibrator.ledger.public_account import ProposedDebit
from hushmq.calibrator.ledger.window_spending import Spending
from hushmq.calibrator.policy.account_shares import least_share
from hushmq.calibrator.policy.window_span import Span
from hushmq.pufferfish.protocols import Noise
from hushmq.pufferfish.timeline.entry import Entry

LESSENED = 10
"""How often the share of a window is lessened after an epoch has ended, before the window is refused."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A ledger entry just written: what it spends, and the public account with it, to be followed after the commit."""

    entry: int
    spent: Spending
    loss: float
    proposed: ProposedDebit


@dataclass(frozen=True, slots=True)
class ChargeRefused:
    """Why a window was not charged, and the loss it would have caused where that is the reason."""

    reason: str
    loss: float | None = None


def charge_window(db: Connection, span: Span, accounts: LiveAccounts) -> Charge | ChargeRefused:
    """Debit the window within the caller's transaction, or say why the public budget does not allow it."""
    policy, epoch = accounts.policy, accounts.epochs.current
    if span.first < epoch.first:
        return ChargeRefused(f"it begins before tick {epoch.first}, where epoch {epoch.number} began")
    method = policy.windows[span.window].method
    for theta in (accounts.theta, *(one.theta for one in accounts.counted)):
        reason = theta.method_error(method, policy.adversary)
        if reason is not None:  # Θ has widened since the policy was accepted
            return ChargeRefused(reason)
    noises = issued_noises(db, span.stream, of_cohort=True, by=span.last)
    if not noises:
        return ChargeRefused(f"no noise was issued that tick {span.last} can carry")
    if least_share(db, span.stream, span.first) < policy.tilt_share:
        return ChargeRefused("it began under a policy that left the stream a smaller share of its account")
    whole = accounts.spending(span.window, span.scope, noises.values())
    if not whole.release:
        return ChargeRefused(f"ε of {policy.epsilon.public:g} leaves less than a nano-nat for it")
    planned = accounts.planned_tilt(noises.values()) if accounts.epochs.ended else 0
    charge = _debit(db, span, whole, noises, accounts, planned=planned)
    # A setting that changed within the window leaves a little less than its share, an epoch that has just ended much
    # less: what was released in it tells of the first ticks after it.
    for _ in range(LESSENED if accounts.epochs.ended else 1):
        if isinstance(charge, Charge):
            break
        whole, planned = whole.lessened(), planned * 3 // 4
        charge = _debit(db, span, whole, noises, accounts, planned=planned)
    return charge


def _debit(
    db: Connection,
    span: Span,
    spent: Spending,
    noises: Mapping[int, Noise],
    accounts: LiveAccounts,
    *,
    planned: int,
) -> Charge | ChargeRefused:
    """Write the entry if the public budget allows it for the cohort, for every device, and for ended epochs.

    The loss of an ended epoch that is within the budget stays there. One beyond it is reported as what it is. Where
    there are ended epochs, the same share must be possible in all later windows, whose tilt on every tick is
    `planned`: else those next to an ended epoch would leave nothing for the ones after them.
    """
    version = accounts.public.least_protecting(noises, span.first, span.last, spent.tilt)
    if version is None:
        return ChargeRefused(
            "no noise is the least protecting at all of its ticks, beside what was charged before"
        )
    proposed = accounts.public.propose(Debit(span.first, span.last, spent.tilt, noises[version]))
    budget = accounts.policy.epsilon.public
    later: Entry | None = None
    if planned:
        tau = joint_tilt(planned, noises.values())
        later = Entry(span.last + 1, LAST_TICK, tau, tau)
    after, *ended_after = accounts.prices_if(proposed, later)
    if after.epsilon > budget:
        reason = f"the loss at tick {after.tick} would be {after.epsilon:.4f} of {budget:g}"
        return ChargeRefused(reason, after.epsilon)
    for before, ended in zip(accounts.ended_prices(), ended_after, strict=True):
        if before.epsilon <= budget < ended.epsilon:
            reason = f"the loss at tick {ended.tick}, of an ended epoch, would be {ended.epsilon:.4f} of {budget:g}"
            return ChargeRefused(reason, ended.epsilon)
    for device, loss in accounts.exposed_losses(proposed):
        if loss > budget:
            return ChargeRefused(f"the loss of {device} would be {loss:.4f} of {budget:g}", loss)
    entry = _write_entry(db, span, spent, version=version, noise=noises[version])
    stated = after if later is None else accounts.prices_if(proposed)[0]
    return Charge(entry, spent, stated.epsilon, proposed)


def _write_entry(db: Connection, span: Span, spent: Spending, *, version: int, noise: Noise) -> int:
    """Append the ledger entry and return its id: the one statement that spends."""
    fields = {
        "stream": span.stream,
        "window": span.window,
        "scope": span.scope,
        "audience": "public",
        "first": span.first,
        "last": span.last,
        "tilt": spent.tilt,
        "noise": version,
        "noise_digest": noise.fingerprint,
        "why": "release and statistics" if spent.learning else "release",
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return append_entry(db, fields)
