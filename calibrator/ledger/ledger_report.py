"""The ledger as a privacy officer reads it: who spent what, when, on which assumption, and what is left.

Nothing is remembered: all losses are computed from the entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, func, select

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import Signed
from hushmq.calibrator.learning.learning_progress import read_progress
from hushmq.calibrator.learning.stream_theta import misfit_of_stream, theta_of_stream, thetas_of_devices
from hushmq.calibrator.ledger.debits import debit_of
from hushmq.calibrator.ledger.issued_noise import IssuedNoise, issued_noises
from hushmq.calibrator.ledger.live_accounts import LiveAccounts, UndecidedLosses
from hushmq.calibrator.ledger.public_account import PublicAccount
from hushmq.calibrator.models.choose_model import model_of
from hushmq.calibrator.models.misfit import Misfit
from hushmq.calibrator.policy.device_tilt import largest_device_tilt
from hushmq.calibrator.store import tables as store
from hushmq.calibrator.store.tick_counts import late_ticks
from hushmq.pufferfish.protocols import Theta


@dataclass(frozen=True, slots=True)
class LossPoint:
    """The public loss after one entry, under the learned Θ."""

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
    public: float
    operator: float
    history: list[LossPoint]
    late: int
    undecided: UndecidedLosses
    """The losses so far to the undecided adversary, beside those of the policy's."""
    misfit: Misfit | None = None
    hidden: float = 1.0
    """The largest misfit that the theta updates so far would not have shown."""
    devices: Mapping[str, DeviceTheta] = field(default_factory=dict)
    """Devices with a learned Θ."""


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


def read_ledger(db: Connection, stream: str) -> StreamLedger:
    """The stream's ledger, priced under the policy followed and the learned Θ."""
    policy = stream_policy(db, stream)
    theta = None
    history: list[LossPoint] = []
    spent = operator = 0.0
    undecided = UndecidedLosses(0.0, 0.0)
    entries = read_entries(db, stream)
    if policy is not None:
        theta = theta_of_stream(db, stream, policy)
        issued, noises = IssuedNoise(stream), issued_noises(db, stream)
        issued.follow(db)
        public = PublicAccount(theta, policy.adversary, largest_device_tilt(db, stream))
        device_thetas = thetas_of_devices(db, stream, policy)
        accounts = LiveAccounts.under(stream, policy, public, device_thetas, issued)
        for row in entries:
            public.charge(row.id, debit_of(row, noises))
            history.append(LossPoint(row.id, row.at, accounts.public_loss()))
        spent, operator = accounts.public_loss(), accounts.operator_loss(db)
        undecided = accounts.undecided_losses(db)
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
        misfit=None if policy is None else misfit_of_stream(db, stream, model_of(policy)),
        hidden=read_progress(db, stream).undetectable,
        devices={} if policy is None else _devices(db, stream, policy),
    )


def read_entries(db: Connection, stream: str) -> list[Row[Any]]:
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
