"""What every instant so far has lost to each audience, in a few stretches of ticks: the worst of each stretch.

The accounts price a history at its worst tick. Here the same histories are priced once for every stretch, at its ticks
alone, under the Θ of the epoch that they belong to. Where devices used device-specific settings, the bound that the
account has for each of them counts as well (calibrator/ledger/device_bounds.py); in an account that several streams
share, a device that had the settings of all is priced instead. As in the accounts, devices that are left out of windows
are not among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select

from hushmq.broker.contract.policy_message import Policy
from hushmq.calibrator.ledger.device_exposure import DeviceExposure
from hushmq.calibrator.ledger.epochs import LAST_TICK, Epoch
from hushmq.calibrator.ledger.joined_account import joint_price
from hushmq.calibrator.ledger.live_accounts import LiveAccounts, accounts_under
from hushmq.calibrator.ledger.operator_account import epoch_timeline, operator_price
from hushmq.calibrator.store.tables import extent, setting
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
    public = [
        entry
        for one in members
        for entry in (one.public.held() if joint is None else one.true_tilts_behind_all())
    ]
    own = [] if joint is not None else _own_settings(db, accounts)
    for epoch, theta, ticks in _epochs(accounts):
        operator = [
            entry
            for one in members
            for entry in epoch_timeline(db, one.stream, one.own_epochs, epoch, of_all=joint is not None)
        ]
        spans = [*public, *operator, *(Entry(one.first, one.last, 0.0, 0.0) for one in own)]
        for first, last in _stretches(spans, ticks, stretches):
            losses = (
                joint_price(entries, theta, adversary, devices, (first, last), stride=stride).epsilon
                for entries in (public, operator)
            )
            there = [one for one in own if one.first <= last and first <= one.last]
            yield InstantLoss(
                first,
                last,
                max(next(losses), *(one.public for one in there), 0.0),
                max(next(losses), *(one.operator for one in there), 0.0),
            )


def _own_settings(db: Connection, accounts: LiveAccounts) -> list[InstantLoss]:
    """Where devices used device-specific settings, and what the account bounds the loss of each of them by."""
    bounds = {one.device: _bounds(db, accounts, one) for one in accounts.counted}
    mine = (extent.c.stream == accounts.stream) & (setting.c.stream == accounts.stream)
    rows = db.execute(
        select(extent.c.first, extent.c.last, setting.c.device).where(
            mine, setting.c.version == extent.c.noise, setting.c.device.is_not(None)
        )
    )
    return [InstantLoss(row.first, row.last, *bounds[row.device]) for row in rows if row.device in bounds]


def _bounds(db: Connection, accounts: LiveAccounts, one: DeviceExposure) -> tuple[float, float]:
    """The public and the operator loss of a device with device-specific settings, at most."""
    tilt = accounts.public.largest_true_tilt(one.device_noises)
    operator = accounts.bounds.operator_loss(one)
    if (
        operator > accounts.policy.epsilon.operator
    ):  # only then is the device's exact timeline worth its price
        exact = operator_price(
            db,
            accounts.stream,
            accounts.epochs,
            accounts.epochs.current,
            theta=one.theta,
            adversary=accounts.policy.adversary,
            device=one.device,
            stride=accounts.policy.stride,
        )
        operator = min(operator, exact)
    return accounts.bounds.public_loss(one, tilt), operator


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
