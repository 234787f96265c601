"""What every instant so far has lost to each audience, in a few stretches of ticks: the worst of each stretch.

The accounts price a history at its worst tick. Here the same histories are priced once for every stretch, at its ticks
alone, under the Θ of the epoch that they belong to. It is the loss of a device that follows the cohort's settings; what
a device-specific setting adds is bounded for each device (calibrator/ledger/device_bounds.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from hushmq.broker.contract.policy_message import Policy
from hushmq.calibrator.ledger.epochs import LAST_TICK, Epoch
from hushmq.calibrator.ledger.joined_account import joint_price
from hushmq.calibrator.ledger.live_accounts import LiveAccounts, accounts_under
from hushmq.calibrator.ledger.operator_account import epoch_timeline
from hushmq.pufferfish.protocols import Theta
from hushmq.pufferfish.timeline.entry import Entry, Ticks

STRETCHES = 96
"""The most stretches into which a history is cut."""


@dataclass(frozen=True, slots=True)
class InstantLoss:
    """The worst loss at any one instant of a stretch of ticks, both ends included."""

    first: int
    last: int
    public: float
    operator: float


def instant_losses(
    db: Connection, policy: Policy, stream: str, *, stretches: int = STRETCHES
) -> Iterator[InstantLoss]:
    """The losses of all instants that anything published so far is about, the oldest first."""
    accounts = accounts_under(db, policy, stream)
    accounts.follow(db)
    joint = accounts.joint
    members: Sequence[LiveAccounts] = (accounts,) if joint is None else joint.members
    devices = 1 if joint is None else joint.devices
    adversary, stride = accounts.policy.adversary, accounts.policy.stride
    public = [entry for one in members for entry in one.public.held()]
    for epoch, theta, ticks in _epochs(accounts):
        operator = [
            entry for one in members for entry in epoch_timeline(db, one.stream, one.own_epochs, epoch)
        ]
        for first, last in _stretches([*public, *operator], ticks, stretches):
            losses = (
                joint_price(entries, theta, adversary, devices, (first, last), stride=stride).epsilon
                for entries in (public, operator)
            )
            yield InstantLoss(first, last, *losses)


def _epochs(accounts: LiveAccounts) -> Iterator[tuple[Epoch, Theta, Ticks]]:
    """Every epoch with its Θ and its ticks, the oldest first."""
    for one in accounts.epochs.ended:
        yield one.epoch, one.theta, one.ticks
    yield accounts.epochs.current, accounts.theta, accounts.epochs.ticks or (0, LAST_TICK)


def _stretches(entries: Sequence[Entry], ticks: Ticks, most: int) -> Iterator[Ticks]:
    """Equal stretches of those of the ticks that entries with an end are about."""
    bounded = [one for one in entries if one.last < LAST_TICK]
    first = max(ticks[0], min((one.first for one in bounded), default=LAST_TICK))
    last = min(ticks[1], max((one.last for one in bounded), default=-1))
    length = max(1, -(-(last - first + 1) // most))
    for start in range(first, last + 1, length):
        yield start, min(last, start + length - 1)
