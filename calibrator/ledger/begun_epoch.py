"""What is said when an epoch has begun: which, why, and where the promise did not hold in the one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection
from structlog.typing import FilteringBoundLogger

from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.calibrator.ledger.epochs import Epoch
from hushmq.calibrator.ledger.live_accounts import EndedLoss, LiveAccounts, accounts_under
from hushmq.pufferfish.protocols import Theta


@dataclass(frozen=True, slots=True)
class BegunEpoch:
    """An epoch that has just begun, and what the ticks of the one before it have lost."""

    stream: str
    epoch: Epoch
    lost: EndedLoss
    policy: StreamPolicy

    def report(self, log: FilteringBoundLogger) -> None:
        """Log that it began, and for each audience whose promise did not hold up to when and by how much."""
        log.warning(
            "epoch_began",
            stream=self.stream,
            epoch=self.epoch.number,
            reason=self.epoch.reason,
            first=self.epoch.first,
        )
        budgets = self.policy.epsilon
        for audience, loss, budget in (
            ("operator", self.lost.operator, budgets.operator),
            ("public", self.lost.public, budgets.public),
        ):
            if loss > budget:
                first, last = self.lost.epoch.ticks
                log.error(
                    "promise_broken",
                    stream=self.stream,
                    epoch=self.lost.epoch.number,
                    first=first,
                    last=last,
                    audience=audience,
                    budget=budget,
                    loss=loss,
                )


def begun_epoch(db: Connection, stream: str, policy: Policy, epoch: Epoch) -> BegunEpoch:
    """The epoch as it is reported, under the policy that is followed from now on."""
    accounts = accounts_now(db, stream, policy)
    return BegunEpoch(stream, epoch, accounts.ended_losses(db)[-1], accounts.policy)


def accounts_now(db: Connection, stream: str, policy: Policy) -> LiveAccounts:
    """The accounts as the database has them in this transaction, with nothing remembered."""
    accounts = accounts_under(db, policy, stream)
    accounts.follow(db)
    return accounts


def over_budget(db: Connection, accounts: LiveAccounts) -> bool:
    """Whether the ticks of the current epoch have lost more than either audience's budget."""
    budgets = accounts.policy.epsilon
    return accounts.public_loss() > budgets.public or accounts.operator_loss(db) > budgets.operator


def widened(before: LiveAccounts, now: Theta, devices: Mapping[str, Theta]) -> bool:
    """Whether the cohort's Θ, or that of a device, has chains that it did not have."""
    held = before.device_thetas
    return not before.theta.contains(now) or any(
        not theta.contains(devices.get(device, now)) for device, theta in held.items()
    )
