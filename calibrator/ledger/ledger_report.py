"""The ledger as a privacy officer reads it: who spent what, when, on which assumption, and what is left.

Nothing is remembered: all losses are computed from the entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, func, select

from hushmq.broker.contract.account_share import PricedStream, priced_streams
from hushmq.broker.contract.broken_promise import broken_promise
from hushmq.broker.contract.deceived_losses import DeceivedLosses, deceived_losses
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem, Rejected
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.learning.stream_theta import misfit_of_stream, thetas_of_devices
from hushmq.calibrator.ledger.debits import debit_of
from hushmq.calibrator.ledger.epochs import Epoch, read_epochs
from hushmq.calibrator.ledger.issued_noise import issued_noises
from hushmq.calibrator.ledger.left_out_losses import LeftOutDevice, left_out_devices
from hushmq.calibrator.ledger.live_accounts import EndedLoss, UndecidedLosses, accounts_under
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.policy.follow_policy import decode_apart, decode_stored
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.tick_counts import late_ticks
from hushmq.pufferfish.protocols import Theta

if TYPE_CHECKING:
    from hushmq.calibrator.models.misfit import Misfit


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The public loss of the current epoch after one entry, under the learned Θ."""

    entry: int
    at: str
    loss: float


@dataclass(frozen=True, slots=True)
class DeviceTheta:
    """The learned Θ of one device, and the version of its device-specific setting if it has one."""

    theta: Theta
    version: int | None


@dataclass(frozen=True, slots=True)
class StreamLedger:
    """One stream's entries and accounts."""

    stream: str
    policy: StreamPolicy | None
    theta: Theta | None
    entries: list[Row[Any]]
    """What was charged; entries that begin an epoch are not among them."""
    public: float
    operator: float
    history: list[LossPoint]
    late: int
    undecided: UndecidedLosses
    """The losses so far to the undecided adversary, beside those of the policy's."""
    account: PricedStream | None = None
    """What it shares its accounts with."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The devices that share accounts, by the name of their group."""
    misfit: Misfit | None = None
    hidden: float = 1.0
    """The largest misfit that the theta updates so far would not have shown."""
    devices: Mapping[str, DeviceTheta] = field(default_factory=dict)
    """Devices with a learned Θ."""
    left_out: Mapping[str, LeftOutDevice] = field(default_factory=dict)
    """Devices that no window counts any more."""
    deceived: DeceivedLosses | None = None
    """The most that a device can lose if learning is deceived."""
    epoch: Epoch = field(default_factory=Epoch)
    """The current epoch, to which both accounts belong."""
    ended: Sequence[EndedLoss] = ()
    """The epochs before it, and what their ticks have lost; none without a policy."""

    def broken_promises(self) -> list[str]:
        """For each ended epoch and audience whose promise did not hold, a sentence that says so."""
        if self.policy is None:
            return []
        budgets = self.policy.epsilon
        said = [
            broken_promise(
                audience=audience,
                first=one.epoch.ticks[0],
                last=one.epoch.ticks[1],
                budget=budget,
                loss=loss,
            )
            for one in self.ended
            for audience, loss, budget in (
                ("operator", one.operator, budgets.operator),
                ("public", one.public, budgets.public),
            )
        ]
        return [sentence for sentence in said if sentence is not None]


def stored_policy(db: Connection) -> Policy | None:
    """The policy followed last. One whose streams cannot be joined is read as it was meant: each has its own account.

    It was signed before streams shared accounts, and nothing follows it now. Problem if it breaks another rule.
    """
    row = db.execute(select(store.policy.c.payload)).first()
    found = None if row is None else decode_stored(row.payload)
    if isinstance(found, Rejected) and row is not None:
        found = decode_apart(row.payload)
    if isinstance(found, Rejected):
        raise Problem(f"the policy in the database is no longer valid: {found.detail}; push one that is")
    return found


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


def read_ledger(db: Connection, stream: str) -> StreamLedger:
    """The stream's ledger, priced under the policy followed and the learned Θ."""
    whole, policy = stored_policy(db), stream_policy(db, stream)
    theta = priced = None
    history: list[LossPoint] = []
    spent = operator = 0.0
    undecided = UndecidedLosses(0.0, 0.0)
    entries = read_charges(db, stream)
    ended: Sequence[EndedLoss] = ()
    epoch = read_epochs(db, stream).current
    odd: Mapping[str, LeftOutDevice] = {}
    if whole is not None and policy is not None:
        priced = priced_streams(whole)[stream]
        policy = priced.policy
        accounts = accounts_under(db, whole, stream)
        theta = accounts.theta
        members = (
            {stream: accounts}
            if accounts.joint is None
            else {one.stream: one for one in accounts.joint.members}
        )
        noises = {member: issued_noises(db, member) for member in members}
        everything = [row for member in members for row in read_charges(db, member)]
        for row in sorted(everything, key=lambda row: row.id):
            members[row.stream].public.charge(row.id, debit_of(row, noises[row.stream]))
            if row.stream == stream:
                history.append(LossPoint(row.id, row.at, accounts.public_loss()))
        spent, operator = accounts.public_loss(), accounts.operator_loss(db)
        undecided = accounts.undecided_losses(db)
        ended, epoch = accounts.ended_losses(db), accounts.epochs.current
        odd = left_out_devices(db, accounts)
    return StreamLedger(
        stream=stream,
        policy=policy,
        theta=theta,
        entries=entries,
        public=spent,
        operator=operator,
        history=history,
        late=late_ticks(db, stream),
        undecided=undecided,
        account=priced,
        groups={} if whole is None else {name: one.devices for name, one in whole.groups.items()},
        misfit=None if policy is None else misfit_of_stream(db, stream, model_of(policy)),
        hidden=read_progress(db, stream).undetectable,
        devices={} if policy is None else _devices(db, stream, policy),
        epoch=epoch,
        ended=ended,
        left_out=odd,
        deceived=None if policy is None else deceived_losses(policy),
    )


def read_charges(db: Connection, stream: str) -> list[Row[Any]]:
    """The entries of a stream that charge something."""
    return [row for row in read_entries(db, stream) if row.audience == "public"]


def read_entries(db: Connection, stream: str) -> list[Row[Any]]:
    """All entries of a stream: what was charged, and where an epoch began."""
    return list(
        db.execute(select(store.ledger).where(store.ledger.c.stream == stream).order_by(store.ledger.c.id))
    )


def stream_policy(db: Connection, stream: str) -> StreamPolicy | None:
    policy = stored_policy(db)
    return None if policy is None else policy.streams.get(stream)


def _devices(db: Connection, stream: str, policy: StreamPolicy) -> dict[str, DeviceTheta]:
    found = thetas_of_devices(db, stream, policy)
    rows = db.execute(
        select(store.setting.c.device, func.max(store.setting.c.version))
        .where(store.setting.c.stream == stream, store.setting.c.device.is_not(None))
        .group_by(store.setting.c.device)
    )
    versions = {row[0]: row[1] for row in rows}
    return {device: DeviceTheta(theta, versions.get(device)) for device, theta in sorted(found.items())}
